"""Finds the coordinator of a group, and commits, fetches and deletes its offsets, request by request."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from barnabas.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from tests.support.raw_client import SECONDS, RawClient

NONE = ErrorCode.NONE
BY_TOPIC_ID = 10
NOT_COMMITTED = (-1, -1, "", NONE)
CommitPartition = OffsetCommitRequest.OffsetCommitRequestPartition
CommitTopic = OffsetCommitRequest.OffsetCommitRequestTopic
Fetched = dict[int, tuple[int, int, str | None, int]]


def commit_offsets(
    client: RawClient, group: str, topic: str, offsets: dict[int, int], version: int = 8, **fields: Any
) -> dict[int, int]:
    """Commit with the metadata "m"; errors by partition."""
    epoch = 3 if version >= 6 else -1
    partitions = [
        CommitPartition(number, offset, committed_leader_epoch=epoch, committed_metadata="m")
        for number, offset in offsets.items()
    ]
    asked = CommitTopic(partitions=partitions)
    if version >= BY_TOPIC_ID:
        asked.topic_id = client.topic_id(topic)
    else:
        asked.name = topic
    request = OffsetCommitRequest(group, topics=[asked], **fields)
    (answer,) = client.call(request, version, OffsetCommitResponse).topics
    assert answer.topic_id == asked.topic_id if version >= BY_TOPIC_ID else answer.name == topic
    return {each.partition_index: each.error_code for each in answer.partitions}


def fetch_offsets(
    client: RawClient, group: str, topic: str, partitions: Sequence[int] | None, version: int = 8, **fields: Any
) -> Fetched:
    """(offset, epoch, metadata, error) by partition; partitions None: everything."""
    request: OffsetFetchRequest
    if version < 8:
        topics = None if partitions is None else [OffsetFetchRequest.OffsetFetchRequestTopic(topic, list(partitions))]
        request = OffsetFetchRequest(group, topics, **fields)
        answer = client.call(request, version, OffsetFetchResponse)
        assert answer.error_code == NONE
        found: Any = answer.topics
    else:
        asked = None
        if partitions is not None:
            asked = [OffsetFetchRequest.OffsetFetchRequestTopics(partition_indexes=list(partitions))]
            if version >= BY_TOPIC_ID:
                asked[0].topic_id = client.topic_id(topic)
            else:
                asked[0].name = topic
        groups = [OffsetFetchRequest.OffsetFetchRequestGroup(group, topics=asked)]
        answer = client.call(OffsetFetchRequest(groups=groups, **fields), version, OffsetFetchResponse)
        (one,) = answer.groups
        assert (one.group_id, one.error_code) == (group, NONE)
        found = one.topics
    return {
        each.partition_index: (each.committed_offset, each.committed_leader_epoch, each.metadata, each.error_code)
        for of_topic in found
        for each in of_topic.partitions
    }


def delete_offsets(client: RawClient, group: str, topic: str, *partitions: int) -> tuple[int, dict[int, int]]:
    wanted = [OffsetDeleteRequest.OffsetDeleteRequestPartition(number) for number in partitions]
    request = OffsetDeleteRequest(group, [OffsetDeleteRequest.OffsetDeleteRequestTopic(topic, wanted)])
    answer = client.call(request, 0, OffsetDeleteResponse)
    return answer.error_code, {each.partition_index: each.error_code for of in answer.topics for each in of.partitions}


def find_coordinator(client: RawClient, group: str, version: int = 4) -> tuple[int, int, str, int]:
    """Error, node, host and port, once the topic's leaders are there."""
    deadline = time.monotonic() + SECONDS
    while True:
        if version < 4:
            answer = client.call(FindCoordinatorRequest(key=group), version, FindCoordinatorResponse)
            found = (answer.error_code, answer.node_id, answer.host, answer.port)
        else:
            answer = client.call(FindCoordinatorRequest(coordinator_keys=[group]), version, FindCoordinatorResponse)
            (each,) = answer.coordinators
            assert each.key == group
            found = (each.error_code, each.node_id, each.host, each.port)
        if found[0] != ErrorCode.COORDINATOR_NOT_AVAILABLE or time.monotonic() > deadline:
            return found
        assert found[1:] == (-1, "", -1)
        time.sleep(0.05)
