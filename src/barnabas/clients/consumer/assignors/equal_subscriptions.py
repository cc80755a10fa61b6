"""Divides partitions stickily among members that all subscribe to the same topics. Pure.

    1. Everybody keeps what it owned, up to its share: the floor or the ceiling of the average, the latter for as many
       members as there are partitions beyond the floor. Only partitions of its rack, where racks matter.
    2. Where racks matter, the others go to members of their racks in turn, as long as those have room.
    3. What is left goes to the members with room in turn, those below the floor first.

Kafka: AbstractStickyAssignor.ConstrainedAssignmentBuilder.
"""

from __future__ import annotations

from collections import deque

from barnabas.clients.consumer.assignors.partition_assignor import GroupAssignment, PartitionRacks
from barnabas.clients.consumer.assignors.sticky_members import Ownership, RackInfo
from barnabas.protocol.topic_partition import TopicPartition


class EqualSubscriptionsBuilder:
    """`build` once. `transferred` then has the partitions that go from one member to another, with the latter."""

    def __init__(self, topics: PartitionRacks, racks: RackInfo, ownership: Ownership) -> None:
        self._topics = topics
        self._racks = racks
        self._ownership = ownership
        total = sum(len(partitions) for partitions in topics.values())
        members = ownership.owned.keys()
        self._floor, self._expected_above_floor = divmod(total, len(members))
        self._ceiling = self._floor + (self._expected_above_floor > 0)
        self._above_floor = 0
        self._below_floor: list[str] = []
        """Members with room that have less than the floor."""
        self._at_floor: deque[str] = deque()
        """Members with exactly the floor, some of which may get one more."""
        self._revoked_from: dict[TopicPartition, str] = {}
        self._assignment: GroupAssignment = {member_id: [] for member_id in members}
        self.transferred: dict[TopicPartition, str] = {}

    def build(self) -> GroupAssignment:
        """Divide."""
        self._keep_owned()
        kept = {partition for partitions in self._assignment.values() for partition in partitions}
        unassigned = [
            partition
            for topic in sorted(self._topics)
            for index in range(len(self._topics[topic]))
            if (partition := TopicPartition(topic, index)) not in kept
        ]
        self._below_floor.sort()
        self._at_floor = deque(sorted(self._at_floor))
        unassigned = self._racks.by_members(unassigned)
        if self._racks.members:
            unassigned = self._deal_within_racks(unassigned)
        self._deal(unassigned)
        return self._assignment

    def _keep_owned(self) -> None:
        for member_id, all_owned in self._ownership.owned.items():
            owned = []
            for partition in sorted(all_owned, key=lambda each: (each.partition, each.topic)):
                if self._racks.mismatch(member_id, partition):
                    self._revoked_from[partition] = member_id
                elif partition not in self._ownership.doubly_claimed:
                    owned.append(partition)
            if len(owned) < self._floor:
                limit = len(owned)
                self._below_floor.append(member_id)
            elif len(owned) >= self._ceiling and self._above_floor < self._expected_above_floor:
                limit = self._ceiling
                self._count_above_floor()
            else:
                limit = self._floor
                if self._above_floor < self._expected_above_floor:
                    self._at_floor.append(member_id)
            self._assignment[member_id] += owned[:limit]
            for partition in owned[limit:]:
                self._revoked_from[partition] = member_id

    def _count_above_floor(self) -> None:
        """One more member has the ceiling; when that is enough, those at the floor are full."""
        self._above_floor += 1
        if self._above_floor == self._expected_above_floor:
            self._at_floor.clear()

    def _deal_within_racks(self, unassigned: list[TopicPartition]) -> list[TopicPartition]:
        """Returns what found no member."""
        left = []
        turn = 0
        for partition in unassigned:
            index = self._racks.next_member(partition, self._below_floor, turn)
            if index >= 0:
                member_id = self._below_floor[index]
                if len(self._assignment[member_id]) + 1 >= self._floor:
                    self._below_floor.remove(member_id)
                    may_have_more = len(self._assignment[member_id]) + 1 < self._ceiling
                    if may_have_more and self._above_floor < self._expected_above_floor:
                        self._at_floor.append(member_id)
                else:
                    index += 1
                turn = index % len(self._below_floor) if self._below_floor else 0
                self._give(partition, member_id)
                continue
            index = self._racks.next_member(partition, self._at_floor, 0)
            if index < 0:
                left.append(partition)
                continue
            member_id = self._at_floor[index]
            if len(self._assignment[member_id]) + 1 == self._ceiling:
                del self._at_floor[index]
                self._count_above_floor()
            self._give(partition, member_id)
        return left

    def _deal(self, unassigned: list[TopicPartition]) -> None:
        turn = 0
        for partition in unassigned:
            if self._below_floor:
                turn %= len(self._below_floor)
                member_id = self._below_floor[turn]
                turn += 1
            else:
                member_id = self._at_floor.popleft()
            self._give(partition, member_id)
            count = len(self._assignment[member_id])
            if count == self._floor:
                turn -= 1
                del self._below_floor[turn]
                self._at_floor.append(member_id)
            elif count == self._ceiling:
                self._above_floor += 1

    def _give(self, partition: TopicPartition, member_id: str) -> None:
        self._assignment[member_id].append(partition)
        was_anothers = self._revoked_from.get(partition, member_id) != member_id
        if was_anothers or partition in self._ownership.doubly_claimed:
            self.transferred[partition] = member_id
