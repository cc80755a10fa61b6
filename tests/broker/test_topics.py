"""CreateTopics v0-7 and DeleteTopics v0-6: what they do, what they refuse, and in which words."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.topics import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from barnabas.protocol.uuid import ZERO_UUID
from tests.broker.versions import each_version
from tests.support.raw_client import SECONDS, RawClient
from tests.support.server_fixtures import SERVER_PROPERTIES, Server
from tests.support.waiting import wait_until

NewTopic = CreateTopicsRequest.CreatableTopic
Config = CreateTopicsRequest.CreatableTopicConfig
Assignment = CreateTopicsRequest.CreatableReplicaAssignment


def _create(
    client: RawClient, *topics: CreateTopicsRequest.CreatableTopic, version: int = 7, validate_only: bool = False
) -> list[CreateTopicsResponse.CreatableTopicResult]:
    request = CreateTopicsRequest(list(topics), SECONDS * 1000, validate_only)
    return client.call(request, version, CreateTopicsResponse).topics


def _delete(client: RawClient, name: str, version: int) -> DeleteTopicsResponse.DeletableTopicResult:
    request = DeleteTopicsRequest([DeleteTopicsRequest.DeleteTopicState(name)], [name], SECONDS * 1000)
    if version >= 6:
        request.topic_names = []
    else:
        request.topics = []
    (result,) = client.call(request, version, DeleteTopicsResponse).responses
    assert result.name == name
    return result


def _wait_until_unknown(client: RawClient, name: str) -> None:
    wait_until(lambda: client.metadata(name).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, SECONDS)


@each_version(ApiKey.CREATE_TOPICS)
def test_create(client: RawClient, topic: str, version: int) -> None:
    (result,) = _create(client, NewTopic(topic, 3, 1, [], [Config("retention.ms", "12345")]), version=version)
    assert (result.name, result.error_code) == (topic, ErrorCode.NONE)
    if version >= 5:
        assert (result.num_partitions, result.replication_factor) == (3, 1)
        settings = {config.name: config.value for config in result.configs or []}
        assert settings["retention.ms"] == "12345"
        assert settings["cleanup.policy"] == "delete"
    assert (result.topic_id != ZERO_UUID) == (version >= 7)
    client.wait_for_leaders(topic, 3)
    assert client.produce_values(topic, b"value", partition=2) == 0


@each_version(ApiKey.CREATE_TOPICS, lowest=4)
def test_create_with_defaults(client: RawClient, topic: str, version: int) -> None:
    (result,) = _create(client, NewTopic(topic, -1, -1), version=version)
    assert result.error_code == ErrorCode.NONE
    client.wait_for_leaders(topic, int(SERVER_PROPERTIES["num.partitions"]))


def test_create_with_assignments(client: RawClient, topic: str) -> None:
    (result,) = _create(client, NewTopic(topic, -1, -1, [Assignment(1, [0]), Assignment(0, [0])]))
    assert result.error_code == ErrorCode.NONE, result
    client.wait_for_leaders(topic, 2)


@pytest.mark.parametrize("timeout_ms", [0, 500])
def test_a_partition_without_a_broker_that_lives_times_out(client: RawClient, topic: str, timeout_ms: int) -> None:
    new = NewTopic(topic, -1, -1, [Assignment(0, [0]), Assignment(1, [7])])
    (result,) = client.call(CreateTopicsRequest([new], timeout_ms), 7, CreateTopicsResponse).topics
    assert (result.error_code, result.error_message) == (ErrorCode.REQUEST_TIMED_OUT, None)
    assert (result.num_partitions, result.replication_factor, result.configs) == (-1, -1, [])
    (late,) = _create(client, NewTopic(topic, 1, 1))
    assert late.error_code == ErrorCode.TOPIC_ALREADY_EXISTS, "it was created all the same"


@each_version(ApiKey.CREATE_TOPICS)
def test_create_twice(client: RawClient, topic: str, version: int) -> None:
    client.create_topic(topic)
    (result,) = _create(client, NewTopic(topic, 1, 1), version=version)
    assert result.error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    assert result.error_message == (f"Topic '{topic}' already exists." if version >= 1 else "")


def test_the_same_name_twice_in_one_request(client: RawClient, topic: str) -> None:
    results = _create(client, NewTopic(topic, 1, 1), NewTopic(topic, 2, 1), NewTopic(f"{topic}-other", 1, 1))
    by_name = {result.name: result for result in results}
    assert by_name[topic].error_code == ErrorCode.INVALID_REQUEST
    assert by_name[f"{topic}-other"].error_code == ErrorCode.NONE


@each_version(ApiKey.CREATE_TOPICS, lowest=1)
def test_validate_only_creates_nothing(client: RawClient, topic: str, version: int) -> None:
    (result,) = _create(client, NewTopic(topic, 1, 1), version=version, validate_only=True)
    assert result.error_code == ErrorCode.NONE
    assert client.metadata(topic).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


REFUSED: list[tuple[str, dict[str, Any], ErrorCode]] = [
    ("no partitions", {"num_partitions": 0}, ErrorCode.INVALID_PARTITIONS),
    ("negative partitions", {"num_partitions": -2}, ErrorCode.INVALID_PARTITIONS),
    ("no replicas", {"replication_factor": 0}, ErrorCode.INVALID_REPLICATION_FACTOR),
    ("more replicas than brokers", {"replication_factor": 2}, ErrorCode.INVALID_REPLICATION_FACTOR),
    ("unknown setting", {"configs": [Config("no.such.setting", "1")]}, ErrorCode.INVALID_CONFIG),
    ("value out of range", {"configs": [Config("segment.bytes", "1")]}, ErrorCode.INVALID_CONFIG),
    ("value of a wrong type", {"configs": [Config("retention.ms", "soon")]}, ErrorCode.INVALID_CONFIG),
    (
        "a hole in the assignment",
        {"num_partitions": -1, "replication_factor": -1, "assignments": [Assignment(1, [0])]},
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    ),
    ("assignment and a number", {"assignments": [Assignment(0, [0])]}, ErrorCode.INVALID_REQUEST),
]


@pytest.mark.parametrize(("fields", "code"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_refused(client: RawClient, topic: str, fields: dict[str, Any], code: ErrorCode) -> None:
    new = NewTopic(topic, 1, 1)
    for name, value in fields.items():
        setattr(new, name, value)
    (result,) = _create(client, new)
    assert result.error_code == code, result
    assert result.error_message
    assert client.metadata(topic).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "x" * 250])
def test_invalid_name(client: RawClient, name: str) -> None:
    (result,) = _create(client, NewTopic(name, 1, 1))
    assert result.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_names_that_collide_in_metrics(client: RawClient, topic: str) -> None:
    client.create_topic(f"{topic}.a")
    (result,) = _create(client, NewTopic(f"{topic}_a", 1, 1))
    assert result.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


@each_version(ApiKey.DELETE_TOPICS)
def test_delete(client: RawClient, topic: str, version: int) -> None:
    client.create_topic(topic)
    client.produce_values(topic, b"value")
    assert _delete(client, topic, version).error_code == ErrorCode.NONE
    _wait_until_unknown(client, topic)
    assert client.produce(topic, None).error_code != ErrorCode.NONE


@each_version(ApiKey.DELETE_TOPICS)
def test_delete_unknown(client: RawClient, topic: str, version: int) -> None:
    assert _delete(client, topic, version).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_delete_by_id(client: RawClient, topic: str) -> None:
    client.create_topic(topic)
    known, unknown = client.topic_id(topic), uuid.uuid4().bytes
    states = [DeleteTopicsRequest.DeleteTopicState(None, topic_id) for topic_id in (known, unknown)]
    request = DeleteTopicsRequest(states, [], SECONDS * 1000)
    results = {each.topic_id: each for each in client.call(request, 6, DeleteTopicsResponse).responses}
    assert results[known].error_code == ErrorCode.NONE
    assert results[unknown].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    _wait_until_unknown(client, topic)


def test_recreated_topic_is_a_new_one(server: Server, client: RawClient, topic: str) -> None:
    client.create_topic(topic)
    first_id = client.topic_id(topic)
    client.produce_values(topic, b"of the first topic")
    assert _delete(client, topic, 6).error_code == ErrorCode.NONE
    _wait_until_unknown(client, topic)
    wait_until(
        lambda: _create(client, NewTopic(topic, 1, 1))[0].error_code != ErrorCode.TOPIC_ALREADY_EXISTS, SECONDS
    )  # Kafka deletes in the background
    client.wait_for_leaders(topic, 1)
    assert client.topic_id(topic) != first_id
    assert client.end_offset(topic) == 0
    assert client.produce_values(topic, b"of the second topic") == 0
    assert (server.data_dir / f"{topic}-0" / "partition.metadata").exists()
