"""The sticky assignor: it divides partitions evenly, with as few changes of owners as possible (KIP-54, KIP-341).

The base of `sticky` and `cooperative-sticky`, and the former itself.

Kafka: StickyAssignor, AbstractStickyAssignor.
"""

from __future__ import annotations

import struct
from abc import abstractmethod
from collections.abc import Iterable, Mapping

from barnabas.clients.consumer.assignors.equal_subscriptions import EqualSubscriptionsBuilder
from barnabas.clients.consumer.assignors.mixed_subscriptions import MixedSubscriptionsBuilder
from barnabas.clients.consumer.assignors.partition_assignor import GroupAssignment, PartitionAssignor, PartitionRacks
from barnabas.clients.consumer.assignors.sticky_members import (
    DEFAULT_GENERATION,
    MemberData,
    Ownership,
    RackInfo,
    are_subscriptions_equal,
)
from barnabas.clients.consumer.group_metadata import ConsumerGroupMetadata
from barnabas.protocol.consumer_protocol import Assignment, FieldReader, Subscription, encode_partitions
from barnabas.protocol.errors import DecodeError
from barnabas.protocol.topic_partition import TopicPartition

GENERATION = struct.Struct(">i")


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
        return encode_partitions(self._assigned) + GENERATION.pack(self._generation)

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
