"""Creates, deletes, lists and describes topics.

Called by `Admin`. Kafka: KafkaAdminClient.
"""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.clients.admin.admin_calls import AdminCalls, raise_error
from barnabas.clients.admin.new_topic import CreatedTopic, NewTopic
from barnabas.clients.calls.topic_lookup import TopicDescription, topic_descriptions, topic_names, topics_request
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.metadata import MetadataResponse
from barnabas.protocol.messages.topics import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)

# DeleteTopics v6 names topics by name or id (KIP-516); this client knows names.
_VERSION_WITHOUT_TOPIC_IDS = 5


def create_topics(
    calls: AdminCalls, topics: Iterable[NewTopic], *, validate_only: bool = False
) -> dict[str, CreatedTopic]:
    """Create topics and wait until every broker knows them.

    Raises ApiError for the first topic that cannot be created.
    """
    request = CreateTopicsRequest(
        topics=[_creatable(topic) for topic in topics],
        timeout_ms=calls.broker_timeout_ms,
        validate_only=validate_only,
    )
    response = calls.ask_controller(
        request, CreateTopicsResponse, lambda answer: (topic.error_code for topic in answer.topics)
    )
    for topic in response.topics:
        raise_error(topic.error_code, topic.error_message, f"Topic: {topic.name}")
    if not validate_only:
        # The next call may go to any broker, as may the next program.
        names = [topic.name for topic in response.topics]
        calls.await_all_brokers(topics_request(names), MetadataResponse, _knows_all)
    return {
        topic.name: CreatedTopic(topic.name, topic.topic_id, topic.num_partitions, topic.replication_factor)
        for topic in response.topics
    }


def delete_topics(calls: AdminCalls, names: Iterable[str]) -> None:
    """Delete topics. Raises ApiError for the first topic that cannot be deleted."""
    names = list(names)
    request = DeleteTopicsRequest(topic_names=names, timeout_ms=calls.broker_timeout_ms)
    response = calls.ask_controller(
        request,
        DeleteTopicsResponse,
        lambda answer: (topic.error_code for topic in answer.responses),
        versions=(0, _VERSION_WITHOUT_TOPIC_IDS),
    )
    for topic in response.responses:
        raise_error(topic.error_code, topic.error_message, f"Topic: {topic.name}")


def list_topics(calls: AdminCalls, *, include_internal: bool = False) -> list[str]:
    """Return the names of all topics, sorted. Raises ClientTimeout, Disconnected."""
    return topic_names(metadata_of(calls, None), include_internal=include_internal)


def describe_topics(calls: AdminCalls, names: Iterable[str] | None = None) -> dict[str, TopicDescription]:
    """Return these topics, or all. Raises ApiError for a topic that does not exist or may not be described."""
    return topic_descriptions(metadata_of(calls, None if names is None else list(names)))


def metadata_of(calls: AdminCalls, names: list[str] | None) -> MetadataResponse:
    """Return any broker's answer about these topics, or about all. Raises ClientTimeout, Disconnected."""
    return calls.ask(topics_request(names), MetadataResponse, None)


def _knows_all(answer: MetadataResponse) -> bool:
    return all(topic.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION for topic in answer.topics)


def _creatable(topic: NewTopic) -> CreateTopicsRequest.CreatableTopic:
    return CreateTopicsRequest.CreatableTopic(
        name=topic.name,
        # Brokers reject requests with numbers and assignments both: the assignments say how many there are.
        num_partitions=-1 if topic.assignments else topic.num_partitions,
        replication_factor=-1 if topic.assignments else topic.replication_factor,
        assignments=[
            CreateTopicsRequest.CreatableReplicaAssignment(partition, list(brokers))
            for partition, brokers in topic.assignments.items()
        ],
        configs=[CreateTopicsRequest.CreatableTopicConfig(name, value) for name, value in topic.configs.items()],
    )
