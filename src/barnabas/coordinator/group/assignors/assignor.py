"""The interface of server-side assignors: their input and their result (KIP-848).

Implemented by `UniformAssignor` and `ServerRangeAssignor`. The consumer group service calls an assignor on any thread,
under the group's lock. Everything here is immutable and pure.
Kafka: ConsumerGroupPartitionAssignor, GroupSpec, MemberSubscription and SubscribedTopicDescriber of
org.apache.kafka.coordinator.group.api.assignor.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from barnabas.protocol.uuid import uuid_to_string

# Topic id -> partitions, none of them empty. Immutable by agreement: an assignor returns an unchanged assignment as the
# same object, and the member, the target and the assignor share it.
Assignment = Mapping[bytes, frozenset[int]]


class PartitionAssignorError(Exception):
    """An assignment cannot be made, because a topic does not exist. Kafka: PartitionAssignorException."""


class GroupSubscriptionType(Enum):
    """Whether all members of a group subscribe to the same topics."""

    HOMOGENEOUS = "Homogeneous"
    HETEROGENEOUS = "Heterogeneous"


@dataclass(frozen=True, slots=True)
class MemberSpec:
    """A member as an assignor sees it, with its present target. Kafka: MemberSubscriptionAndAssignmentImpl."""

    subscribed_topic_ids: AbstractSet[bytes]
    assignment: Assignment = field(default_factory=dict)
    instance_id: str | None = None
    rack_id: str | None = None


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """A group as an assignor sees it. Kafka: GroupSpecImpl.

    members: the order is that of the assignment (the first ones get the partitions that do not divide evenly), so it
    should be the same every time. assigned_partitions: topic id -> the partitions that are in some member's present
    target (Kafka: invertedMemberAssignment; the values may as well be dicts by partition).
    """

    members: Mapping[str, MemberSpec]
    subscription_type: GroupSubscriptionType
    assigned_partitions: Mapping[bytes, Container[int]]


class TopicDescriber(Protocol):
    """The metadata of topics, for an assignor. Kafka: SubscribedTopicDescriber."""

    def partition_count(self, topic_id: bytes) -> int:
        """Return the number of the topic's partitions, -1 if it does not exist."""

    def racks_for_partition(self, topic_id: bytes, partition: int) -> AbstractSet[str]:
        """Return the racks of the partition's replicas, empty if the topic does not exist."""


class ConsumerGroupPartitionAssignor(Protocol):
    """A strategy that divides the partitions of a group's topics among its members."""

    @property
    def name(self) -> str:
        """The name in subscriptions and settings."""

    def assign(self, spec: GroupSpec, topics: TopicDescriber) -> dict[str, Assignment]:
        """Return the new target by member id; a member that is not in it gets no partition.

        A member whose target stays has the very same object in it. Raises PartitionAssignorError when a topic is
        unknown.
        """


def subscribed_partition_count(topic_id: bytes, topics: TopicDescriber) -> int:
    """Return the number of a subscribed topic's partitions. Raises PartitionAssignorError if it does not exist."""
    count = topics.partition_count(topic_id)
    if count == -1:
        raise PartitionAssignorError(
            f"Members are subscribed to topic {uuid_to_string(topic_id)} which doesn't exist in the topic metadata."
        )
    return count
