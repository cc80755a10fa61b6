"""What is wrong with a partition, and how far its followers are behind."""

from __future__ import annotations

from collections.abc import Collection
from typing import cast

import pytest

from barnabas.cli.cluster.cluster_health import _unreplicated, follower_lags
from barnabas.cli.topics.partition_problems import AT_MINIMUM, UNAVAILABLE, UNDER_MINIMUM, UNDER_REPLICATED, problems_of
from barnabas.clients.admin import Admin, ClusterDescription, PartitionInfo, TopicDescription
from barnabas.clients.errors import ClientTimeout
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.rpc.connection_states import Node

FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)


@pytest.mark.parametrize(
    ("leader", "isr", "adding", "problems"),
    [
        (1, (1, 2, 3), (), ()),
        (1, (1, 2), (), (UNDER_REPLICATED, AT_MINIMUM)),
        (1, (1, 2), (3,), (AT_MINIMUM,)),
        (1, (1,), (), (UNDER_MINIMUM, UNDER_REPLICATED)),
        (-1, (1,), (), (UNAVAILABLE, UNDER_MINIMUM, UNDER_REPLICATED)),
        (7, (1, 2, 3), (), (UNAVAILABLE,)),
    ],
)
def test_what_is_wrong_with_a_partition(
    leader: int, isr: tuple[int, ...], adding: tuple[int, ...], problems: tuple[str, ...]
) -> None:
    partition = PartitionInfo("orders", 0, leader, 7, (1, 2, 3), isr, ())
    assert problems_of(partition, {1, 2, 3}, 2, adding) == problems


class Brokers:
    """Stands for the admin client. ends: log end offsets by broker; a broker without an entry does not answer."""

    def __init__(self, ends: dict[int, dict[TopicPartition, int]]) -> None:
        self.ends = ends
        self.asked: list[int] = []

    def replica_end_offsets(self, broker_id: int, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        self.asked.append(broker_id)
        if broker_id not in self.ends:
            raise ClientTimeout("no answer")
        return {place: end for place, end in self.ends[broker_id].items() if place in partitions}


def test_lag_is_what_the_leader_had_first() -> None:
    brokers = Brokers({1: {FIRST: 100, SECOND: 7}, 2: {FIRST: 60, SECOND: 5}})
    partitions = [
        PartitionInfo("orders", 0, 1, 0, (1, 2, 3, 4), (1,), ()),
        PartitionInfo("orders", 1, 2, 0, (2, 1), (2, 1), ()),
    ]
    lags = follower_lags(cast(Admin, brokers), partitions, {1, 2, 3})
    assert lags.by_partition == {FIRST: {2: 40}, SECOND: {1: 0}}
    assert lags.unreachable == {3}, "4 is not registered, which is told elsewhere"
    assert brokers.asked == [1, 2, 1, 2, 3], "leaders before followers"


def test_internal_topics_with_one_replica_are_named() -> None:
    def topic(name: str, *replicas: tuple[int, ...]) -> TopicDescription:
        partitions = tuple(
            PartitionInfo(name, number, each[0], 0, each, each, ()) for number, each in enumerate(replicas)
        )
        return TopicDescription(name, b"", name.startswith("__"), partitions)

    topics = {
        each.name: each
        for each in (
            topic("__consumer_offsets", (1,), (2,), (1, 2)),
            topic("__transaction_state", (1, 2)),
            topic("orders", (1,)),
        )
    }
    nodes = tuple(Node(number, "h", 9092) for number in (1, 2))
    assert _unreplicated(ClusterDescription("c", 1, nodes), topics) == {"__consumer_offsets": 2}
    assert _unreplicated(ClusterDescription("c", 1, nodes[:1]), topics) == {}, "one broker cannot have a second replica"
