"""The leaders that answers name (KIP-951), merged into a client's view of the cluster."""

from __future__ import annotations

import pytest

from barnabas.clients.metadata.cluster import LeaderHints, merge_leaders
from barnabas.clients.metadata.cluster_metadata import ClusterMetadata, MetadataConfig
from barnabas.protocol.messages.fetch import FetchResponse
from barnabas.protocol.messages.produce import ProduceResponse
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.rpc.connection_states import Node
from tests.support.client_metadata import cluster_of, metadata_response

TP0, TP1 = TopicPartition("t", 0), TopicPartition("t", 1)


def hints_of(
    leaders: dict[TopicPartition, tuple[int, int]], nodes: tuple[tuple[int, str, int], ...] = ()
) -> LeaderHints:
    hints = LeaderHints()
    for topic_partition, (leader_id, epoch) in leaders.items():
        hints.add(topic_partition, ProduceResponse.LeaderIdAndEpoch(leader_id, epoch))
    hints.add_nodes([ProduceResponse.NodeEndpoint(*node) for node in nodes])
    return hints


def test_a_new_leader_at_a_new_address_is_taken_over_and_the_rest_stays() -> None:
    old = cluster_of({"t": [0, 0], "u": [0]})
    cluster, changed = merge_leaders(old, hints_of({TP0: (7, 1)}, ((7, "b", 9093),)))
    assert changed == {TP0}
    assert cluster.leader(TP0) == Node(7, "b", 9093)
    assert cluster.leader_epoch(TP0) == 1
    assert cluster.leader(TP1) == old.leader(TP1)
    assert cluster.topics["u"] == old.topics["u"]
    assert old.leader(TP0) == Node(0, "127.0.0.1", 9092), "a snapshot never changes"


@pytest.mark.parametrize(
    ("leaders", "why"),
    [
        ({TP0: (1, 0)}, "the view's leader is of the same epoch"),
        ({TP0: (9, 3)}, "the leader's address is unknown"),
        ({TopicPartition("t", 5): (1, 3)}, "the view lacks the partition"),
        ({TP0: (-1, 3)}, "the broker knows no leader"),
        ({TP0: (1, -1)}, "the broker knows no epoch"),
    ],
)
def test_a_hint_that_cannot_be_used_changes_nothing(leaders: dict[TopicPartition, tuple[int, int]], why: str) -> None:
    old = cluster_of({"t": [0, 0]}, brokers=2)
    cluster, changed = merge_leaders(old, hints_of(leaders))
    assert (cluster, changed) == (old, frozenset()), why


def test_an_endpoint_without_an_address_is_no_node() -> None:
    hints = LeaderHints()
    hints.add_nodes([FetchResponse.NodeEndpoint(-1, "", -1), FetchResponse.NodeEndpoint(3, "c", 1, "rack")])
    assert hints.nodes == {3: Node(3, "c", 1, "rack")}


def test_a_broker_that_lags_behind_does_not_undo_a_hint() -> None:
    metadata = ClusterMetadata([Node(-1, "a", 1)], MetadataConfig())
    metadata.add_topic("t", 0)
    _, version, is_partial = metadata.new_request(0)
    metadata.update(version, metadata_response({"t": [0]}, 2, epoch=4), is_partial, 0)
    updates = metadata.update_version
    assert metadata.update_leaders(hints_of({TP0: (1, 5)})) == {TP0}
    assert metadata.update_version == updates, "the topics were not described again"
    _, version, _ = metadata.new_request(10)
    metadata.update(version, metadata_response({"t": [0]}, 2, epoch=4), False, 10)
    leader = metadata.cluster.leader(TP0)
    assert leader is not None
    assert leader.id == 1
