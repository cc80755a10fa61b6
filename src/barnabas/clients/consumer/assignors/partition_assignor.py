"""The interface of assignors, with which a group's leader divides partitions among the members.

Called on the consumer's thread. Kafka: ConsumerPartitionAssignor, AbstractPartitionAssignor.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import ClassVar, TypeAlias

from barnabas.clients.values import ConsumerGroupMetadata
from barnabas.protocol.consumer_protocol import Assignment, Subscription
from barnabas.protocol.topic_partition import TopicPartition

PartitionRacks: TypeAlias = Mapping[str, Sequence[frozenset[str]]]
"""All known topics; for each partition, counted from 0, the racks that have a replica."""
GroupAssignment: TypeAlias = dict[str, list[TopicPartition]]
"""Partitions by member id."""


class RebalanceProtocol(IntEnum):
    """EAGER: members revoke all partitions before a rebalance. COOPERATIVE: only those that move (KIP-429)."""

    EAGER = 0
    COOPERATIVE = 1


class PartitionAssignor(ABC):
    """One way to divide partitions. An object belongs to one consumer, and may remember its last assignment."""

    name: ClassVar[str]
    """The name under which the members agree on it."""
    protocols: ClassVar[frozenset[RebalanceProtocol]] = frozenset({RebalanceProtocol.EAGER})

    def user_data(self, topics: Iterable[str]) -> bytes | None:
        """Return the bytes that this member adds to its subscription for the leader's assignor, if any."""
        return None

    def on_assignment(self, assignment: Assignment, metadata: ConsumerGroupMetadata) -> None:  # noqa: B027
        """Take note of this member's assignment. By default nothing happens."""

    @abstractmethod
    def assign(self, topics: PartitionRacks, subscriptions: Mapping[str, Subscription]) -> GroupAssignment:
        """Divide the partitions of all known topics. `subscriptions` are by member id; every member gets an entry."""


def member_order(member_id: str, subscription: Subscription) -> tuple[bool, str]:
    """Return a sort key: static members first, by instance id, which survives a restart (Kafka: MemberInfo)."""
    if subscription.group_instance_id is not None:
        return False, subscription.group_instance_id
    return True, member_id


def needs_racks(
    member_racks: Iterable[str], partitions: Iterable[frozenset[str]], partition_racks: frozenset[str]
) -> bool:
    """Return whether racks matter: members and partitions share some, and not every partition is in all racks."""
    return not partition_racks.isdisjoint(member_racks) and any(racks != partition_racks for racks in partitions)
