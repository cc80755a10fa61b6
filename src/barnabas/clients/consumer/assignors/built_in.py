"""The assignors by the names under which members agree on them, and the simple ones, range and round-robin. Pure.

Called by `Consumer`; each consumer gets objects of its own. Kafka: RangeAssignor, RoundRobinAssignor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from barnabas.clients.consumer.assignors.partition_assignor import (
    GroupAssignment,
    PartitionAssignor,
    PartitionRacks,
    member_order,
    needs_racks,
)
from barnabas.clients.consumer.assignors.sticky import CooperativeStickyAssignor, StickyAssignor
from barnabas.config.config_error import nearest_hint
from barnabas.protocol.consumer_protocol import Subscription
from barnabas.protocol.topic_partition import TopicPartition


class _TopicState:
    """The state of one topic's division. `members`: its subscribers in order, with their racks."""

    def __init__(self, topic: str, racks: Sequence[frozenset[str]], members: dict[str, str | None]) -> None:
        self.topic = topic
        self.racks = racks
        self.members = members
        self.unassigned = [TopicPartition(topic, index) for index in range(len(racks))]
        self._quota, self._with_extra = divmod(len(racks), len(members)) if members else (0, 0)
        self._assigned = dict.fromkeys(members, 0)
        member_racks = [rack for rack in members.values() if rack is not None]
        self.needs_racks = needs_racks(member_racks, racks, frozenset().union(*racks))

    def matches(self, member_id: str, partition: int) -> bool:
        """Return whether the member is in a rack of the partition, or in none at all."""
        rack = self.members[member_id]
        return rack is None or rack in self.racks[partition]

    def room(self, member_id: str) -> int:
        """Return how many more partitions the member may get."""
        return max(self._quota + (self._with_extra > 0) - self._assigned[member_id], 0)

    def assign(self, member_id: str, partitions: Sequence[TopicPartition], assignment: GroupAssignment) -> None:
        """Give these partitions to the member."""
        assignment[member_id] += partitions
        self._assigned[member_id] += len(partitions)
        if self._assigned[member_id] > self._quota:
            self._with_extra -= 1
        taken = set(partitions)
        self.unassigned = [each for each in self.unassigned if each not in taken]


class RangeAssignor(PartitionAssignor):
    """The assignor that is preferred by default: it divides each topic by itself, consecutive partitions to members.

    Topics with the same members and partition counts are divided equally, so that partition n of each goes to the same
    member. Where racks matter, partitions go to members of their racks first, as far as no member gets more or fewer
    partitions because of that (KIP-881).
    """

    name = "range"

    def assign(self, topics: PartitionRacks, subscriptions: Mapping[str, Subscription]) -> GroupAssignment:
        """Divide each topic into ranges, within racks first."""
        ordered = sorted(subscriptions, key=lambda member_id: member_order(member_id, subscriptions[member_id]))
        states = [
            _TopicState(
                topic,
                racks,
                {each: subscriptions[each].rack_id for each in ordered if topic in subscriptions[each].topics},
            )
            for topic, racks in topics.items()
            if racks
        ]
        assignment: GroupAssignment = {member_id: [] for member_id in subscriptions}
        use_racks = any(state.needs_racks for state in states)
        if use_racks:
            self._assign_within_racks(states, assignment)
        for state in states:
            self._assign_ranges(state, lambda _member_id, _partition: True, assignment)
        if use_racks:
            # The rounds within racks take partitions out of order, and the round after them adds what was left.
            for partitions in assignment.values():
                partitions.sort()
        return assignment

    def _assign_ranges(
        self, state: _TopicState, may_assign: Callable[[str, int], bool], assignment: GroupAssignment
    ) -> None:
        for member_id in state.members:
            assignable = [each for each in state.unassigned if may_assign(member_id, each.partition)]
            if chosen := assignable[: state.room(member_id)]:
                state.assign(member_id, chosen, assignment)

    def _assign_within_racks(self, states: Sequence[_TopicState], assignment: GroupAssignment) -> None:
        """Divide topics with the same members and partition counts together, so that they are divided equally."""
        alike: dict[tuple[tuple[tuple[str, str | None], ...], int], list[_TopicState]] = {}
        for state in states:
            # Kafka counts the partitions whose racks it knows: none where no member of the topic has a rack.
            count = len(state.racks) if any(state.members.values()) else 0
            alike.setdefault((tuple(state.members.items()), count), []).append(state)
        for (_, count), group in alike.items():
            if len(group) > 1:
                self._assign_alike(group, count, assignment)
            elif group[0].needs_racks:
                self._assign_ranges(group[0], group[0].matches, assignment)

    def _assign_alike(self, states: Sequence[_TopicState], count: int, assignment: GroupAssignment) -> None:
        remaining = list(states[0].members)
        for partition in range(count):
            for member_id in remaining:
                if all(state.matches(member_id, partition) and state.room(member_id) > 0 for state in states):
                    for state in states:
                        state.assign(member_id, [TopicPartition(state.topic, partition)], assignment)
                    if not any(state.room(member_id) for state in states):
                        remaining.remove(member_id)
                    break


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
