"""CreatePartitions v0-3: topics grow, and what is refused, in which words."""

from __future__ import annotations

import pytest

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.topics import CreatePartitionsRequest, CreatePartitionsResponse
from tests.broker.versions import each_version
from tests.support.raw_client import SECONDS, RawClient

Grown = CreatePartitionsRequest.CreatePartitionsTopic
Assignment = CreatePartitionsRequest.CreatePartitionsAssignment


def _grow(
    client: RawClient,
    *topics: CreatePartitionsRequest.CreatePartitionsTopic,
    version: int = 3,
    validate_only: bool = False,
    timeout_ms: int = SECONDS * 1000,
) -> dict[str, tuple[ErrorCode, str | None]]:
    request = CreatePartitionsRequest(list(topics), timeout_ms, validate_only)
    results = client.call(request, version, CreatePartitionsResponse).results
    return {result.name: (ErrorCode(result.error_code), result.error_message) for result in results}


@each_version(ApiKey.CREATE_PARTITIONS)
def test_a_topic_grows_and_keeps_its_records(client: RawClient, topic: str, version: int) -> None:
    client.create_topic(topic, 2)
    assert client.produce_values(topic, b"before", partition=1) == 0
    assert _grow(client, Grown(topic, 5, None), version=version) == {topic: (ErrorCode.NONE, None)}
    found = client.metadata(topic)
    assert [p.leader_id for p in sorted(found.partitions, key=lambda p: p.partition_index)] == [0] * 5
    assert client.produce_values(topic, b"new", partition=4) == 0
    assert client.produce_values(topic, b"after", partition=1) == 1


def test_grown_twice_and_where_told_to(client: RawClient, topic: str) -> None:
    client.create_topic(topic, 1)
    assert _grow(client, Grown(topic, 2, [Assignment([0])]))[topic][0] is ErrorCode.NONE
    assert _grow(client, Grown(topic, 4, [Assignment([0]), Assignment([0])]))[topic][0] is ErrorCode.NONE
    client.wait_for_leaders(topic, 4)


def test_validation_changes_nothing(client: RawClient, topic: str) -> None:
    client.create_topic(topic, 1)
    assert _grow(client, Grown(topic, 3, None), validate_only=True) == {topic: (ErrorCode.NONE, None)}
    assert len(client.metadata(topic).partitions) == 1


def test_without_time_the_topic_grows_all_the_same(client: RawClient, topic: str) -> None:
    client.create_topic(topic, 1)
    assert _grow(client, Grown(topic, 2, None), timeout_ms=0) == {topic: (ErrorCode.REQUEST_TIMED_OUT, None)}
    client.wait_for_leaders(topic, 2)


@pytest.mark.parametrize(
    ("count", "assignments", "code", "text"),
    [
        (
            1,
            None,
            ErrorCode.INVALID_PARTITIONS,
            "Topic currently has 2 partitions, which is higher than the requested 1.",
        ),
        (2, None, ErrorCode.INVALID_PARTITIONS, "Topic already has 2 partitions."),
        (
            -1,
            None,
            ErrorCode.INVALID_PARTITIONS,
            "Topic currently has 2 partitions, which is higher than the requested -1.",
        ),
        (3, [[7]], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "Unknown broker(s) in replica assignment: 7."),
        (
            4,
            [[0]],
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Increasing the number of partitions by 2 but 1 assignments provided.",
        ),
        (
            3,
            [[]],
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Cannot have replication factor of 0 for partition id 2.",
        ),
        (
            3,
            [[0, 0]],
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Duplicate brokers not allowed in replica assignment: 0, 0 for partition id 2.",
        ),
    ],
)
def test_refused(
    client: RawClient, topic: str, count: int, assignments: list[list[int]] | None, code: ErrorCode, text: str
) -> None:
    client.create_topic(topic, 2)
    given = None if assignments is None else [Assignment(replicas) for replicas in assignments]
    assert _grow(client, Grown(topic, count, given)) == {topic: (code, text)}
    assert len(client.metadata(topic).partitions) == 2


def test_unknown_and_repeated_topics_and_one_that_grows(client: RawClient, topic: str) -> None:
    client.create_topic(topic, 1)
    missing, twice = f"{topic}-missing", f"{topic}-twice"
    results = _grow(
        client, Grown(topic, 2, None), Grown(missing, 2, None), Grown(twice, 2, None), Grown(twice, 3, None)
    )
    assert results == {
        topic: (ErrorCode.NONE, None),
        missing: (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{missing}' does not exist."),
        twice: (ErrorCode.INVALID_REQUEST, "Duplicate topic in request."),
    }
