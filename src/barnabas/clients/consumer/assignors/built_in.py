"""The assignors by the names under which members agree on them, and the simplest of them, round-robin. Pure.

Called by `Consumer`; each consumer gets objects of its own. Kafka: RoundRobinAssignor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from barnabas.clients.consumer.assignors.partition_assignor import (
    GroupAssignment,
    PartitionAssignor,
    PartitionRacks,
    member_order,
)
from barnabas.clients.consumer.assignors.range import RangeAssignor
from barnabas.clients.consumer.assignors.sticky import CooperativeStickyAssignor, StickyAssignor
from barnabas.config.config_error import nearest_hint
from barnabas.protocol.consumer_protocol import Subscription
from barnabas.protocol.topic_partition import TopicPartition


class _RoundRobinAssignor(PartitionAssignor):
    """An assignor that deals all partitions, topic by topic, to the members in turn.

    Members without a subscription to the partition's topic are skipped.
    """

    name = "roundrobin"

    def assign(self, topics: PartitionRacks, subscriptions: Mapping[str, Subscription]) -> GroupAssignment:
        """Deal the partitions."""
        assignment: GroupAssignment = {member_id: [] for member_id in subscriptions}
        ordered = sorted(subscriptions, key=lambda member_id: member_order(member_id, subscriptions[member_id]))
        subscribed = {topic for subscription in subscriptions.values() for topic in subscription.topics}
        turn = 0
        for topic in sorted(subscribed & topics.keys()):
            for partition in range(len(topics[topic])):
                # This loop ends: only topics that at least one member subscribes to are dealt.
                while topic not in subscriptions[ordered[turn]].topics:
                    turn = (turn + 1) % len(ordered)
                assignment[ordered[turn]].append(TopicPartition(topic, partition))
                turn = (turn + 1) % len(ordered)
        return assignment


BUILT_IN: dict[str, Callable[[], PartitionAssignor]] = {
    RangeAssignor.name: RangeAssignor,
    _RoundRobinAssignor.name: _RoundRobinAssignor,
    StickyAssignor.name: StickyAssignor,
    CooperativeStickyAssignor.name: CooperativeStickyAssignor,
}


def make_assignors(wanted: Iterable[str | PartitionAssignor]) -> list[PartitionAssignor]:
    """Make assignors by name, and take the user's own as they are. Raises ValueError for unknown or repeated names."""
    made: dict[str, PartitionAssignor] = {}
    for each in wanted:
        if isinstance(each, str) and each not in BUILT_IN:
            hint = nearest_hint(each, BUILT_IN)
            raise ValueError(f"partition_assignment_strategy knows {', '.join(BUILT_IN)}, not {each!r}{hint}")
        assignor = BUILT_IN[each]() if isinstance(each, str) else each
        if assignor.name in made:
            raise ValueError(f"The assignor name {assignor.name!r} is used in more than one assignor")
        made[assignor.name] = assignor
    return list(made.values())
