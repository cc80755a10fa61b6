"""How far the followers of partitions are behind their leaders, as a client can learn it.

Used by `barnabas cluster health` on the main thread; no state. Each broker is asked for the end of its logs as Kafka's
replica verification asks: by a request with the replica id -2, which followers answer too. (The lag in DescribeLogDirs
is of no use here: a broker measures it against the high watermark that it knows itself.)

The leaders are asked before the followers. A lag above 0 is therefore real: these records were on the leader, and are
not on the follower. A follower that copies what has come meanwhile shows 0.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from barnabas.clients.admin import Admin, PartitionInfo
    from barnabas.protocol.topic_partition import TopicPartition


class FollowerLags(NamedTuple):
    """The result of asking all brokers. unreachable: the ids of registered brokers that did not answer."""

    by_partition: Mapping[TopicPartition, Mapping[int, int]]
    """Records behind the leader, by broker id. A follower that could not be asked is missing."""
    unreachable: frozenset[int]


def follower_lags(admin: Admin, partitions: Collection[PartitionInfo], live_brokers: Collection[int]) -> FollowerLags:
    """Ask the brokers for the lag of every follower of these partitions. Raises ApiError."""
    from barnabas.protocol.topic_partition import TopicPartition

    led: defaultdict[int, list[TopicPartition]] = defaultdict(list)
    followed: defaultdict[int, list[TopicPartition]] = defaultdict(list)
    for each in partitions:
        place = TopicPartition(each.topic, each.partition)
        led[each.leader].append(place)
        for broker_id in each.replicas:
            if broker_id != each.leader:
                followed[broker_id].append(place)
    unreachable: set[int] = set()
    leader_ends: dict[TopicPartition, int] = {}
    for ends in _end_offsets(admin, led, live_brokers, unreachable).values():
        leader_ends |= ends
    lags: defaultdict[TopicPartition, dict[int, int]] = defaultdict(dict)
    for broker_id, ends in _end_offsets(admin, followed, live_brokers, unreachable).items():
        for place in ends.keys() & leader_ends.keys():
            lags[place][broker_id] = max(0, leader_ends[place] - ends[place])
    return FollowerLags(lags, frozenset(unreachable))


def _end_offsets(
    admin: Admin,
    wanted: Mapping[int, Iterable[TopicPartition]],
    live_brokers: Collection[int],
    unreachable: set[int],
) -> dict[int, dict[TopicPartition, int]]:
    """Return the log ends by broker. A broker that does not answer is added to `unreachable`, and not asked again."""
    from barnabas.clients.errors import ClientTimeout

    found = {}
    for broker_id in sorted(set(wanted) & set(live_brokers) - unreachable):
        try:
            found[broker_id] = admin.replica_end_offsets(broker_id, list(wanted[broker_id]))
        except (ClientTimeout, ConnectionError):
            unreachable.add(broker_id)
    return found
