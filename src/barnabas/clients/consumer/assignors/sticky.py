"""The sticky assignors: they divide partitions evenly, with as few changes of owners as possible (KIP-54, KIP-341).

Each consumer has objects of its own (`built_in`); no lock.
Kafka: StickyAssignor, AbstractStickyAssignor, CooperativeStickyAssignor.
"""

from __future__ import annotations

import struct
from abc import abstractmethod
from collections.abc import Iterable, Mapping

from barnabas.clients.consumer.assignors.equal_subscriptions import EqualSubscriptionsBuilder
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
