"""What a Metadata answer says of topics: their names, and their partitions.

Called by the admin client and the Spark source; pure, no lock. Kafka: KafkaAdminClient.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from barnabas.clients.errors import raise_error
from barnabas.clients.metadata.cluster import PartitionInfo
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse


class TopicDescription(NamedTuple):
    """A topic as a broker describes it. `topic_id` is 16 bytes."""

    name: str
    topic_id: bytes
    is_internal: bool
    partitions: tuple[PartitionInfo, ...]


def topics_request(names: Sequence[str] | None) -> MetadataRequest:
    """Return the request for these topics, or for all."""
    topics = None if names is None else [MetadataRequest.MetadataRequestTopic(name=name) for name in names]
    # A look at a topic must not create it, whatever the broker's auto.create.topics.enable is.
    return MetadataRequest(topics=topics, allow_auto_topic_creation=False)


def topic_names(answer: MetadataResponse, *, include_internal: bool = False) -> list[str]:
    """Return the names of all topics, sorted."""
    return sorted(topic.name for topic in answer.topics if topic.name and (include_internal or not topic.is_internal))


def topic_descriptions(answer: MetadataResponse) -> dict[str, TopicDescription]:
    """Return the topics by name. Raises ApiError for a topic that does not exist or may not be described."""
    described = {}
    for topic in answer.topics:
        raise_error(topic.error_code, None, f"Topic: {topic.name}")
        name = topic.name or ""
        partitions = tuple(
            PartitionInfo.of(name, partition)
            # Brokers list partitions in any order.
            for partition in sorted(topic.partitions, key=lambda each: each.partition_index)
        )
        described[name] = TopicDescription(name, topic.topic_id, topic.is_internal, partitions)
    return described
