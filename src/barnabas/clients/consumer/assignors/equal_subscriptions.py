"""Divides partitions stickily among members that all subscribe to the same topics. Pure.

    1. Each member keeps the partitions it owned, up to its share: the floor or the ceiling of the average, the latter
       for as many members as there are partitions beyond the floor. Where racks matter, it keeps those of its rack.
    2. Where racks matter, the other partitions go to members of their racks in turn, as long as those have room.
    3. The rest goes to the members with room in turn, those below the floor first.

Seven partitions and three members A, B, C: the floor is 2, and one member gets the ceiling, 3. If A owned 0 1 2 3 and B
owned 4, A keeps 0 1 2 and B keeps 4. Of 3 5 6, in turn, B gets 3, C gets 5 and 6. Partition 3 moves from A to B.

Kafka: AbstractStickyAssignor.ConstrainedAssignmentBuilder.
"""

from __future__ import annotations

from collections import deque

from barnabas.clients.consumer.assignors.partition_assignor import GroupAssignment, PartitionRacks
from barnabas.clients.consumer.assignors.sticky_members import Ownership, RackInfo
from barnabas.protocol.topic_partition import TopicPartition


class EqualSubscriptionsBuilder:
    """The builder of one assignment. After `build`, `transferred` maps each partition that moves to its new owner."""

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
        """Divide the partitions. Called once."""
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
        # Rack-bound partitions have the least choice, so they are dealt while most members have room.
        if self._racks.members:
            unassigned = self._deal_within_racks(unassigned)
        self._deal(unassigned)
        return self._assignment

    def _keep_owned(self) -> None:
        for member_id, all_owned in self._ownership.owned.items():
            owned = []
            # By number before topic: a member that has to give partitions up then loses the last ones of each of its
            # topics, not all partitions of one topic.
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
        """Count a member at the ceiling. With the last one allowed, members at the floor have no more room."""
        self._above_floor += 1
        if self._above_floor == self._expected_above_floor:
            self._at_floor.clear()

    def _deal_within_racks(self, unassigned: list[TopicPartition]) -> list[TopicPartition]:
        """Return the partitions for which no member of their racks has room."""
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
                # The members behind the removed one move up by one place.
                turn -= 1
                del self._below_floor[turn]
                self._at_floor.append(member_id)
            elif count == self._ceiling:
                self._above_floor += 1

    def _give(self, partition: TopicPartition, member_id: str) -> None:
        self._assignment[member_id].append(partition)
        was_anothers = self._revoked_from.get(partition, member_id) != member_id
        # A partition with two claimants counts as moved even when one of them gets it: both must revoke it first,
        # because either may still read it.
        if was_anothers or partition in self._ownership.doubly_claimed:
            self.transferred[partition] = member_id
