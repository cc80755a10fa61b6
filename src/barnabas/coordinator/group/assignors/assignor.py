"""What a server-side assignor is given, and what it gives back (KIP-848).

Implemented by `UniformAssignor` and `ServerRangeAssignor`. The consumer group service calls an assignor on any thread,
under the group's lock. Everything here is immutable and pure. Kafka: org.apache.kafka.coordinator.group.api.assignor
(ConsumerGroupPartitionAssignor, GroupSpec, MemberSubscription, SubscribedTopicDescriber).
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from barnabas.protocol.uuid import uuid_to_string

# Topic id -> partitions, none of them empty. Never changed once made: assignors hand on those that stay as they are.
Assignment = Mapping[bytes, frozenset[int]]


class PartitionAssignorError(Exception):
    """No assignment can be made (a topic does not exist). Kafka: PartitionAssignorException."""


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

    members: in the order in which they are considered (the first get what does not divide evenly), so it should be the
    same every time. assigned_partitions: topic id -> the partitions that are in some member's present target (Kafka:
    invertedMemberAssignment; the values may as well be dicts by partition).
    """

    members: Mapping[str, MemberSpec]
    subscription_type: GroupSubscriptionType
    assigned_partitions: Mapping[bytes, Container[int]]

    def is_partition_assigned(self, topic_id: bytes, partition: int) -> bool:
        """Whether some member's present target has the partition."""
        return partition in self.assigned_partitions.get(topic_id, ())


class TopicDescriber(Protocol):
    """What an assignor may ask about topics. Kafka: SubscribedTopicDescriber."""

    def partition_count(self, topic_id: bytes) -> int:
        """How many partitions the topic has; -1 if there is no such topic."""

    def racks_for_partition(self, topic_id: bytes, partition: int) -> AbstractSet[str]:
        """The racks of the brokers that have the partition; of a topic that does not exist: none."""


class ConsumerGroupPartitionAssignor(Protocol):
    """Decides which member reads what."""

    @property
    def name(self) -> str:
        """How members and settings call it."""

    def assign(self, spec: GroupSpec, topics: TopicDescriber) -> dict[str, Assignment]:
        """The new target: by member id; who is not in it gets nothing.

        A member whose target stays has the very same object in it. PartitionAssignorError: a topic is unknown.
        """


def subscribed_partition_count(topic_id: bytes, topics: TopicDescriber) -> int:
    """How many partitions a topic has that members subscribe to. PartitionAssignorError: there is no such topic."""
    count = topics.partition_count(topic_id)
    if count == -1:
        raise PartitionAssignorError(
            f"Members are subscribed to topic {uuid_to_string(topic_id)} which doesn't exist in the topic metadata."
        )
    return count
