"""Divides partitions stickily among members whose subscriptions differ: as evenly as those allow. Pure.

    1. Each member keeps the partitions that it owned and still subscribes to (where racks matter, those of its rack).
    2. Each partition without an owner goes to the member with the fewest partitions that may have it, within racks
       first.
    3. Partitions move from members with many to members with few, as long as that helps: first those of step 2, and
       preferably back to their previous owners. If the result is not more even, the result of step 2 stands.

Called by `sticky`. Kafka: AbstractStickyAssignor.GeneralAssignmentBuilder, AbstractStickyAssignor.PartitionMovements.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

from barnabas.clients.consumer.assignors.partition_assignor import GroupAssignment, PartitionRacks
from barnabas.clients.consumer.assignors.sticky_members import DEFAULT_GENERATION, Ownership, RackInfo
from barnabas.protocol.consumer_protocol import Subscription
from barnabas.protocol.topic_partition import TopicPartition


class _PartitionMovements:
    """The moves of partitions between members while an assignment is balanced: by topic, and by (from, to).

    No two cancel out: if a partition of a topic has moved from member A to member B, and then another one of the same
    topic is to move from B to A, the first one goes back instead.
    """

    def __init__(self) -> None:
        self._by_topic: dict[str, dict[tuple[str, str], dict[TopicPartition, None]]] = {}
        self._by_partition: dict[TopicPartition, tuple[str, str]] = {}

    def move(self, partition: TopicPartition, source: str, target: str) -> None:
        """Note a movement. One that undoes an earlier one cancels it out."""
        earlier = self._by_partition.pop(partition, None)
        if earlier is not None:
            pairs = self._by_topic[partition.topic]
            del pairs[earlier][partition]
            if not pairs[earlier]:
                del pairs[earlier]
            source = earlier[0]
        if source != target:
            self._by_partition[partition] = (source, target)
            pairs = self._by_topic.setdefault(partition.topic, {})
            pairs.setdefault((source, target), {})[partition] = None

    def actual(self, partition: TopicPartition, source: str, target: str) -> TopicPartition:
        """Return the partition to move instead of this one: one that would go back to its owner, if possible."""
        earlier = self._by_partition.get(partition)
        if earlier is not None:
            source = earlier[0]
        reverse = self._by_topic.get(partition.topic, {}).get((target, source))
        return next(iter(reverse)) if reverse else partition


class MixedSubscriptionsBuilder:
    """The builder of one assignment."""

    def __init__(
        self,
        topics: PartitionRacks,
        racks: RackInfo,
        ownership: Ownership,
        subscriptions: Mapping[str, Subscription],
    ) -> None:
        self._counts = {topic: len(partitions) for topic, partitions in topics.items()}
        self._racks = racks
        self._ownership = ownership
        self._topics_of: dict[str, list[str]] = {
            member_id: [topic for topic in subscription.topics if topic in topics]
            for member_id, subscription in subscriptions.items()
        }
        self._candidates: dict[str, list[str]] = {topic: [] for topic in topics}
        for member_id, wanted in self._topics_of.items():
            for topic in wanted:
                self._candidates[topic].append(member_id)
        self._assignment: GroupAssignment = {
            member_id: list(ownership.owned.get(member_id, ())) for member_id in subscriptions
        }
        self._owner: dict[TopicPartition, str] = {}
        self._active: set[str] = set(subscriptions)
        """Members that may still give partitions away or get some."""
        self._previous: dict[TopicPartition, str] = self._previous_owners()
        self._movements = _PartitionMovements()
        self._revocation_required = False

    def build(self) -> GroupAssignment:
        """Divide the partitions. Called once."""
        self._keep_owned()
        # Topics with the fewest subscribers come first: their partitions have the least choice of members.
        topics = sorted(self._candidates, key=lambda topic: (len(self._candidates[topic]), topic))
        everything = [TopicPartition(topic, index) for topic in topics for index in range(self._counts[topic])]
        unassigned = [partition for partition in everything if partition not in self._owner]
        self._balance(everything, unassigned)
        return self._assignment

    def _previous_owners(self) -> dict[TopicPartition, str]:
        """Return the owners of partitions in the youngest generation before the last one."""
        youngest = self._ownership.max_generation
        found: dict[TopicPartition, tuple[int, str]] = {}
        for member_id, data in self._ownership.members.items():
            generation = DEFAULT_GENERATION if data.generation is None else data.generation
            if generation >= youngest:
                continue
            for partition in data.partitions:
                # Kafka would move the partition back even to a member that no longer subscribes to its topic.
                if partition.topic not in self._topics_of[member_id]:
                    continue
                if partition not in found or generation > found[partition][0]:
                    found[partition] = generation, member_id
        return {partition: member_id for partition, (_, member_id) in found.items()}

    def _keep_owned(self) -> None:
        for member_id, partitions in self._assignment.items():
            kept = []
            for partition in partitions:
                if partition.topic not in self._topics_of[member_id] or self._racks.mismatch(member_id, partition):
                    self._revocation_required = True
                else:
                    kept.append(partition)
                    self._owner[partition] = member_id
            self._assignment[member_id] = kept

    # -- balancing

    def _balance(self, everything: list[TopicPartition], unassigned: list[TopicPartition]) -> None:
        was_empty = not any(self._assignment.values())
        left = unassigned
        if self._racks.members:
            left = [partition for partition in unassigned if not self._assign(partition, within_rack=True)]
        for partition in left:
            self._assign(partition, within_rack=False)

        movable = {topic for topic, members in self._candidates.items() if len(members) >= 2}
        everything = [partition for partition in everything if partition.topic in movable]
        unassigned = [partition for partition in unassigned if partition.topic in movable]
        self._active = {member_id for member_id in self._assignment if self._can_take_part(member_id, movable)}

        before = {member_id: list(self._assignment[member_id]) for member_id in self._active}
        # A partition without an owner moves at no cost. Once a subscription change makes some member revoke partitions
        # anyway, those moves are no longer preferred.
        if not self._revocation_required:
            self._reassign(unassigned)
        has_changed = self._reassign(everything)
        now = {member_id: self._assignment[member_id] for member_id in self._active}
        # Every move makes a member revoke a partition. Moves that leave the assignment no more even are undone, except
        # in a group's first assignment, where no member has anything to revoke.
        if not was_empty and has_changed and _imbalance(now) >= _imbalance(before):
            self._assignment.update(before)

    def _assign(self, partition: TopicPartition, *, within_rack: bool) -> bool:
        for member_id in self._by_load():
            if partition.topic in self._topics_of[member_id] and not (
                within_rack and self._racks.mismatch(member_id, partition)
            ):
                self._assignment[member_id].append(partition)
                self._owner[partition] = member_id
                return True
        return False

    def _by_load(self) -> list[str]:
        """Return the active members, those with the fewest partitions first."""
        return sorted(self._active, key=lambda member_id: (len(self._assignment[member_id]), member_id))

    def _can_take_part(self, member_id: str, movable: set[str]) -> bool:
        owned = self._assignment[member_id]
        return len(owned) < self._most(member_id) or any(partition.topic in movable for partition in owned)

    def _most(self, member_id: str) -> int:
        """Return how many partitions the member's topics have."""
        return sum(self._counts[topic] for topic in self._topics_of[member_id])

    def _is_balanced(self) -> bool:
        """Return whether no partition could move to a member that has at least two partitions fewer."""
        sizes = {member_id: len(self._assignment[member_id]) for member_id in self._active}
        if not sizes or min(sizes.values()) >= max(sizes.values()) - 1:
            return True
        for member_id, size in sizes.items():
            if size == self._most(member_id):
                continue
            for topic in self._topics_of[member_id]:
                for index in range(self._counts[topic]):
                    owner = self._owner[TopicPartition(topic, index)]
                    if size + 1 < len(self._assignment[owner]):
                        return False
        return True

    def _reassign(self, partitions: list[TopicPartition]) -> bool:
        """Move partitions as long as that makes the assignment more even. Returns whether any partition moved."""
        has_changed = False
        is_modified = True
        while is_modified:
            is_modified = False
            for partition in partitions:
                if self._is_balanced():
                    break
                target = self._better_owner(partition)
                if target is not None:
                    self._move(self._movements.actual(partition, self._owner[partition], target), target)
                    has_changed = is_modified = True
        return has_changed

    def _better_owner(self, partition: TopicPartition) -> str | None:
        size = len(self._assignment[self._owner[partition]])
        previous = self._previous.get(partition)
        if previous in self._active and size > len(self._assignment[previous]) + 1:
            return previous
        # Kafka looks within the rack first, but in either case moves to the member with the fewest partitions.
        if any(size > len(self._assignment[other]) + 1 for other in self._candidates[partition.topic]):
            return next(each for each in self._by_load() if partition.topic in self._topics_of[each])
        return None

    def _move(self, partition: TopicPartition, target: str) -> None:
        source = self._owner[partition]
        self._movements.move(partition, source, target)
        self._assignment[source].remove(partition)
        self._assignment[target].append(partition)
        self._owner[partition] = target


def _imbalance(assignment: GroupAssignment) -> int:
    """Return the sum of the differences of all pairs of members: 0 when all have the same number."""
    return sum(abs(len(one) - len(other)) for one, other in combinations(assignment.values(), 2))
