"""Creates, deletes, lists and describes topics; describes the cluster.

Part of `Admin`; its arguments and results are immutable. Kafka: KafkaAdminClient, NewTopic, ConfigEntry.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from barnabas.clients.admin.admin_calls import AdminCalls, AdminPart
from barnabas.clients.errors import raise_error
from barnabas.clients.metadata.cluster import TopicDescription, topic_descriptions, topic_names, topics_request
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.metadata import MetadataResponse
from barnabas.protocol.messages.topics import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from barnabas.rpc.connection_states import Node


@dataclass(frozen=True)
class NewTopic:
    """A topic to create. A number of -1 is the broker's default. `assignments`: broker ids by partition, instead."""

    name: str
    num_partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str | None] = field(default_factory=dict)
    assignments: Mapping[int, Sequence[int]] = field(default_factory=dict)


class CreatedTopic(NamedTuple):
    """A topic that was created. The numbers are -1 from brokers before 2.4."""

    name: str
    topic_id: bytes
    num_partitions: int
    replication_factor: int


class ClusterDescription(NamedTuple):
    """A cluster as a broker describes it. `controller_id` is -1 while the broker knows none."""

    cluster_id: str | None
    controller_id: int
    nodes: tuple[Node, ...]


class ConfigEntry(NamedTuple):
    """A setting. `source`: 1 topic, 2 and 3 dynamic broker, 4 static broker, 5 default, -1 unknown."""

    name: str
    value: str | None
    source: int
    is_read_only: bool
    is_sensitive: bool


# DeleteTopics v6 names topics by name or id (KIP-516); this client knows names.
_VERSION_WITHOUT_TOPIC_IDS = 5


class AdminTopics(AdminPart):
    """The methods of `Admin` about topics and the cluster."""

    def describe_cluster(self) -> ClusterDescription:
        """Return the cluster's id, controller and brokers. Raises ClientTimeout, Disconnected."""
        response = _metadata_of(self._calls, [])
        nodes = (Node(broker.node_id, broker.host, broker.port, broker.rack) for broker in response.brokers)
        return ClusterDescription(response.cluster_id, response.controller_id, tuple(sorted(nodes)))

    def create_topics(self, topics: Iterable[NewTopic], *, validate_only: bool = False) -> dict[str, CreatedTopic]:
        """Create topics and wait until they exist. With `validate_only`, only check whether they could be created.

        Every broker that can be reached knows them then, unless that takes more than two seconds. Raises ApiError for
        the first topic that cannot be created; all others are created.
        """
        request = CreateTopicsRequest(
            topics=[_creatable(topic) for topic in topics],
            timeout_ms=self._calls.broker_timeout_ms,
            validate_only=validate_only,
        )
        response = self._calls.ask_controller(
            request, CreateTopicsResponse, lambda answer: (topic.error_code for topic in answer.topics)
        )
        for topic in response.topics:
            raise_error(topic.error_code, topic.error_message, f"Topic: {topic.name}")
        if not validate_only:
            # The next call may go to any broker, as may the next program.
            names = [topic.name for topic in response.topics]
            self._calls.await_all_brokers(topics_request(names), MetadataResponse, _knows_all)
        return {
            topic.name: CreatedTopic(topic.name, topic.topic_id, topic.num_partitions, topic.replication_factor)
            for topic in response.topics
        }

    def delete_topics(self, names: Iterable[str]) -> None:
        """Delete topics. Raises ApiError for the first topic that cannot be deleted; all others are deleted."""
        names = list(names)
        request = DeleteTopicsRequest(topic_names=names, timeout_ms=self._calls.broker_timeout_ms)
        response = self._calls.ask_controller(
            request,
            DeleteTopicsResponse,
            lambda answer: (topic.error_code for topic in answer.responses),
            versions=(0, _VERSION_WITHOUT_TOPIC_IDS),
        )
        for topic in response.responses:
            raise_error(topic.error_code, topic.error_message, f"Topic: {topic.name}")

    def list_topics(self, *, include_internal: bool = False) -> list[str]:
        """Return the names of all topics, sorted. Raises ClientTimeout, Disconnected."""
        return topic_names(_metadata_of(self._calls, None), include_internal=include_internal)

    def describe_topics(self, names: Iterable[str] | None = None) -> dict[str, TopicDescription]:
        """Return these topics, or all. Raises ApiError for a topic that does not exist or may not be described."""
        return topic_descriptions(_metadata_of(self._calls, None if names is None else list(names)))


def _metadata_of(calls: AdminCalls, names: list[str] | None) -> MetadataResponse:
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
