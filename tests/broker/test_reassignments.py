"""AlterPartitionReassignments and ListPartitionReassignments as far as one broker goes: to itself, and nowhere else."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from tests.broker.versions import each_version
from tests.support.raw_client import SECONDS, RawClient

TopicToMove = AlterPartitionReassignmentsRequest.ReassignableTopic
PartitionToMove = AlterPartitionReassignmentsRequest.ReassignablePartition
TopicToList = ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics
Result = tuple[ErrorCode, str | None]


def _move(
    client: RawClient, wanted: dict[tuple[str, int], Sequence[int] | None], version: int = 0, *, may_resize: bool = True
) -> dict[tuple[str, int], Result]:
    topics = [
        TopicToMove(name, [PartitionToMove(index, None if replicas is None else list(replicas))])
        for (name, index), replicas in wanted.items()
    ]
    request = AlterPartitionReassignmentsRequest(SECONDS * 1000, may_resize, topics)
    response = client.call(request, version, AlterPartitionReassignmentsResponse)
    assert (response.error_code, response.error_message) == (ErrorCode.NONE, "")
    if version >= 1:
        assert response.allow_replication_factor_change == may_resize
    return {
        (topic.name, result.partition_index): (ErrorCode(result.error_code), result.error_message)
        for topic in response.responses
        for result in topic.partitions
    }


def _list(
    client: RawClient, topics: list[ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics] | None
) -> list[str]:
    request = ListPartitionReassignmentsRequest(SECONDS * 1000, topics)
    response = client.call(request, 0, ListPartitionReassignmentsResponse)
    assert (response.error_code, response.error_message) == (ErrorCode.NONE, "")
    return [topic.name for topic in response.topics]


@each_version(ApiKey.ALTER_PARTITION_REASSIGNMENTS)
def test_to_where_it_is_already(client: RawClient, topic: str, version: int) -> None:
    client.create_topic(topic, 2)
    client.produce_values(topic, b"before", partition=1)
    before = client.metadata(topic).partitions
    assert _move(client, {(topic, 1): [0]}, version) == {(topic, 1): (ErrorCode.NONE, None)}
    client.wait_for_leaders(topic, 2)
    assert client.produce_values(topic, b"after", partition=1) == 1
    assert _list(client, None) == []
    assert _list(client, [TopicToList(topic, [0, 1])]) == []
    epochs = {p.partition_index: p.leader_epoch for p in before}
    after = {p.partition_index: p.leader_epoch for p in client.metadata(topic).partitions}
    assert (after[0], after[1]) == (epochs[0], epochs[1] + 1)  # told anew, with the list of replicas


@pytest.mark.parametrize(
    ("replicas", "text"),
    [
        ([], "Empty replica list specified in partition reassignment."),
        ([0, 0], "Duplicate replica ids in partition reassignment replica list: ArrayBuffer(0, 0)"),
        (
            [7] * 50_000,
            f"Duplicate replica ids in partition reassignment replica list: ArrayBuffer({'7, ' * 100}... 50000 in all)",
        ),
        ([-1], "Invalid broker id in replica list: ArrayBuffer(-1)"),
        (
            [0, 7],
            "Replica assignment has brokers that are not alive. Replica list: ArrayBuffer(7), live broker list: Set(0)",
        ),
    ],
)
def test_refused(client: RawClient, topic: str, replicas: list[int], text: str) -> None:
    client.create_topic(topic, 1)
    assert _move(client, {(topic, 0): replicas}) == {(topic, 0): (ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)}


def test_nothing_to_cancel_and_nothing_there(client: RawClient, topic: str) -> None:
    client.create_topic(topic, 1)
    results = _move(client, {(topic, 0): None, (f"{topic}-missing", 0): [0], (topic, 5): [0]})
    no_reassignment = (ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "No partition reassignment is in progress.")
    unknown = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")
    assert results == {(topic, 0): no_reassignment, (f"{topic}-missing", 0): unknown, (topic, 5): unknown}
