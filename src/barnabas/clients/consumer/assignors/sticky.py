"""The sticky assignors: they divide partitions evenly, with as few changes of owners as possible (KIP-54, KIP-341).

Each consumer has objects of its own (`built_in`); no lock. Where subscriptions differ, `mixed_subscriptions` divides.
Kafka: StickyAssignor, AbstractStickyAssignor (ConstrainedAssignmentBuilder), CooperativeStickyAssignor.
"""

from __future__ import annotations

import struct
from abc import abstractmethod
from collections import deque
from collections.abc import Iterable, Mapping

from barnabas.clients.consumer.assignors.mixed_subscriptions import MixedSubscriptionsBuilder
from barnabas.clients.consumer.assignors.partition_assignor import (
    GroupAssignment,
    PartitionAssignor,
    PartitionRacks,
    RebalanceProtocol,
)
from barnabas.clients.consumer.assignors.sticky_members import (
    DEFAULT_GENERATION,
    MemberData,
    Ownership,
    RackInfo,
    are_subscriptions_equal,
)
from barnabas.clients.values import ConsumerGroupMetadata
from barnabas.protocol.consumer_protocol import Assignment, FieldReader, Subscription, encode_partitions
from barnabas.protocol.errors import DecodeError
from barnabas.protocol.topic_partition import TopicPartition


class EqualSubscriptionsBuilder:
    """The builder of one assignment to members that all subscribe to the same topics.

    1. Each member keeps the partitions it owned, up to its share: the floor or the ceiling of the average, the latter
       for as many members as there are partitions beyond the floor. Where racks matter, it keeps those of its rack.
    2. Where racks matter, the other partitions go to members of their racks in turn, as long as those have room.
    3. The rest goes to the members with room in turn, those below the floor first.

    Seven partitions and three members A, B, C: the floor is 2, and one member gets the ceiling, 3. If A owned 0 1 2 3
    and B owned 4, A keeps 0 1 2 and B keeps 4. Of 3 5 6, in turn, B gets 3, C gets 5 and 6. Partition 3 moves from A
    to B. After `build`, `transferred` maps each partition that moves to its new owner.
    """

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


_GENERATION = struct.Struct(">i")


class AbstractStickyAssignor(PartitionAssignor):
    """The base of both. `_transferred`: partitions that change owners, or None if they have to be computed."""

    def __init__(self) -> None:
        self._generation = DEFAULT_GENERATION
        self._transferred: Mapping[TopicPartition, str] | None = None

    @abstractmethod
    def member_data(self, subscription: Subscription) -> MemberData:
        """Return the partitions a member owned, and in which generation."""

    def assign(self, topics: PartitionRacks, subscriptions: Mapping[str, Subscription]) -> GroupAssignment:
        """Divide by the builder that fits: for equal subscriptions, or for mixed ones."""
        subscribed = {topic for subscription in subscriptions.values() for topic in subscription.topics}
        known = {topic: racks for topic, racks in topics.items() if racks and topic in subscribed}
        ordered = {member_id: subscriptions[member_id] for member_id in sorted(subscriptions)}
        ownership = Ownership(known, ordered, self.member_data)
        racks = RackInfo(known, ordered)
        if are_subscriptions_equal(ordered):
            equal = EqualSubscriptionsBuilder(known, racks, ownership)
            assignment = equal.build()
            self._transferred = equal.transferred
            return assignment
        self._transferred = None
        return MixedSubscriptionsBuilder(known, racks, ownership, ordered).build()


class StickyAssignor(AbstractStickyAssignor):
    """The eager assignor: members revoke all partitions before a rebalance, and name them in their user data."""

    name = "sticky"

    def __init__(self) -> None:
        super().__init__()
        self._assigned: tuple[TopicPartition, ...] | None = None

    def user_data(self, topics: Iterable[str]) -> bytes | None:
        """Return the last assignment and its generation."""
        if self._assigned is None:
            return None
        return encode_partitions(self._assigned) + _GENERATION.pack(self._generation)

    def on_assignment(self, assignment: Assignment, metadata: ConsumerGroupMetadata) -> None:
        """Remember the assignment for the next rebalance's user data."""
        self._assigned = assignment.partitions
        self._generation = metadata.generation_id

    def member_data(self, subscription: Subscription) -> MemberData:
        """Return a member's claim from its user data, whose version 0 had no generation."""
        if not subscription.user_data:
            return MemberData((), None)
        # User data comes from another client and may be of any form. With unreadable data the member claims nothing.
        reader = FieldReader(subscription.user_data)
        try:
            partitions = reader.partitions()
        except DecodeError:
            return MemberData((), DEFAULT_GENERATION)
        try:
            # v1 of the user data added the generation (KIP-341).
            return MemberData(partitions, reader.int32())
        except DecodeError:
            return MemberData(partitions, None)


class CooperativeStickyAssignor(AbstractStickyAssignor):
    """The assignor for cooperative rebalances: a partition that moves is first revoked, then assigned (KIP-429).

    In the first rebalance the partition is assigned to no member. Its old owner revokes it and joins again, and the
    second rebalance assigns the partition to its new owner. In groups where some members know only the eager protocol,
    this is an eager assignor.
    """

    name = "cooperative-sticky"
    protocols = frozenset({RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER})

    def user_data(self, topics: Iterable[str]) -> bytes | None:
        """Return the generation of the last assignment, for leaders that do not read it from the subscription yet."""
        return _GENERATION.pack(self._generation)

    def on_assignment(self, assignment: Assignment, metadata: ConsumerGroupMetadata) -> None:
        """Remember the generation of the assignment."""
        self._generation = metadata.generation_id

    def member_data(self, subscription: Subscription) -> MemberData:
        """Return a member's own claim. Its generation is in the subscription (v2), or else in the user data."""
        if subscription.generation_id >= 0:
            return MemberData(subscription.owned_partitions, subscription.generation_id)
        if subscription.user_data is None:
            return MemberData(subscription.owned_partitions, None)
        try:
            (generation,) = _GENERATION.unpack_from(subscription.user_data)
        except struct.error:
            generation = DEFAULT_GENERATION
        return MemberData(subscription.owned_partitions, generation)

    def assign(self, topics: PartitionRacks, subscriptions: Mapping[str, Subscription]) -> GroupAssignment:
        """Divide stickily, and leave out partitions that another member has yet to revoke."""
        assignment = super().assign(topics, subscriptions)
        transferred = self._transferred
        # The builder for mixed subscriptions keeps no account of the partitions that move.
        if transferred is None:
            transferred = _transferred(subscriptions, assignment)
        for partition, member_id in transferred.items():
            assignment[member_id].remove(partition)
        return assignment


def _transferred(subscriptions: Mapping[str, Subscription], assignment: GroupAssignment) -> dict[TopicPartition, str]:
    """Return the new owner of each partition that is added to one member and was owned by another."""
    added: dict[TopicPartition, str] = {}
    revoked: set[TopicPartition] = set()
    for member_id, partitions in assignment.items():
        owned = set(subscriptions[member_id].owned_partitions)
        added.update({partition: member_id for partition in partitions if partition not in owned})
        revoked |= owned.difference(partitions)
    return {partition: member_id for partition, member_id in added.items() if partition in revoked}
