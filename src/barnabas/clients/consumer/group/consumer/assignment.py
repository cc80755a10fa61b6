"""A member's partitions as its coordinator names them: by topic ids. Immutable.

Passed between the channel's thread, which reads assignments from answers, and the consumer's thread, which carries them
out. Kafka: AbstractMembershipManager.LocalAssignment, TopicIdPartition.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from barnabas.protocol.messages.consumer_groups import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse


class AssignedPartition(NamedTuple):
    """One partition of a topic, which the 16 bytes of its id name."""

    topic_id: bytes
    partition: int


class MemberAssignment(NamedTuple):
    """A set of partitions, and its `number` among the assignments that one member was given.

    Two assignments with the same partitions and different numbers differ: the second one has to be acknowledged too.
    """

    number: int
    partitions: frozenset[AssignedPartition]


def read_assignment(assignment: ConsumerGroupHeartbeatResponse.Assignment) -> frozenset[AssignedPartition]:
    """Return the partitions in an answer to ConsumerGroupHeartbeat."""
    return frozenset(
        AssignedPartition(bytes(topic.topic_id), partition)
        for topic in assignment.topic_partitions
        for partition in topic.partitions
    )


def owned_topics(partitions: Iterable[AssignedPartition]) -> list[ConsumerGroupHeartbeatRequest.TopicPartitions]:
    """Return partitions as a heartbeat carries them."""
    by_topic: dict[bytes, list[int]] = {}
    for topic_id, partition in sorted(partitions):
        by_topic.setdefault(topic_id, []).append(partition)
    return [
        ConsumerGroupHeartbeatRequest.TopicPartitions(topic_id=topic_id, partitions=found)
        for topic_id, found in by_topic.items()
    ]
