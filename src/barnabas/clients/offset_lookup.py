"""Asks the leaders of partitions for offsets by time (ListOffsets), for consumer and admin client.

Called on the thread that owns the BlockingClient. Kafka: OffsetFetcher.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, cast

from barnabas.clients.blocking_client import BlockingClient
from barnabas.clients.cluster_metadata import INVALID_METADATA_ERRORS
from barnabas.clients.errors import ClientTimeout, error_of
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.rpc.node import Node

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3

_RETRY_MS = 100
_VERSION_OF_MAX_TIMESTAMP = 7


class OffsetAndTimestamp(NamedTuple):
    """`offset` -1 when no record is that young; `timestamp_ms` -1 for the earliest and the latest."""

    offset: int
    timestamp_ms: int
    leader_epoch: int = -1


def lookup_offsets(
    client: BlockingClient,
    timestamps: Mapping[TopicPartition, int],
    deadline_ms: int,
    *,
    isolation_level: int = 0,
) -> dict[TopicPartition, OffsetAndTimestamp]:
    """The first offset whose record is at least as young as the timestamp; LATEST, EARLIEST and MAX_TIMESTAMP too.

    Raises ApiError, ClientTimeout; errors that may pass are tried again until the deadline.
    """
    client.check_usable()
    found: dict[TopicPartition, OffsetAndTimestamp] = {}
    missing = dict(timestamps)
    last_error = ErrorCode.NONE
    while missing:
        by_leader: dict[Node, list[TopicPartition]] = {}
        for topic_partition in missing:
            by_leader.setdefault(client.await_leader(topic_partition, deadline_ms), []).append(topic_partition)
        for node, partitions in by_leader.items():
            request = _request({each: missing[each] for each in partitions}, isolation_level)
            oldest = _VERSION_OF_MAX_TIMESTAMP if MAX_TIMESTAMP in timestamps.values() else 1
            body = client.call(
                request,
                to=lambda cluster, node=node: cluster.nodes.get(node.id),  # type: ignore[misc]
                versions=(oldest, ListOffsetsRequest.max_version),
                deadline_ms=deadline_ms,
            )
            last_error = _take(cast("ListOffsetsResponse", body), missing, found) or last_error
        if missing:
            client.metadata.request_update()
            left_ms = deadline_ms - client.now_ms()
            if left_ms <= 0:
                raise ApiError(last_error) if last_error else ClientTimeout("No offsets in time")
            client.poll(min(_RETRY_MS, left_ms))
    return found


def _request(timestamps: Mapping[TopicPartition, int], isolation_level: int) -> ListOffsetsRequest:
    topics: dict[str, list[ListOffsetsRequest.ListOffsetsPartition]] = {}
    for (topic, partition), timestamp in timestamps.items():
        entry = ListOffsetsRequest.ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
        topics.setdefault(topic, []).append(entry)
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation_level,
        topics=[ListOffsetsRequest.ListOffsetsTopic(name, partitions) for name, partitions in topics.items()],
    )


def _take(
    response: ListOffsetsResponse,
    missing: dict[TopicPartition, int],
    found: dict[TopicPartition, OffsetAndTimestamp],
) -> ErrorCode:
    """Move what was answered from `missing` to `found`; the last error that may pass, or NONE."""
    passing = ErrorCode.NONE
    for topic in response.topics:
        for partition in topic.partitions:
            topic_partition = TopicPartition(topic.name, partition.partition_index)
            error = error_of(partition.error_code)
            if error is ErrorCode.NONE:
                if missing.pop(topic_partition, None) is not None:
                    found[topic_partition] = OffsetAndTimestamp(
                        partition.offset, partition.timestamp, partition.leader_epoch
                    )
            elif error.retriable or error in INVALID_METADATA_ERRORS:
                passing = error
            else:
                raise ApiError(error, f"{error.message} Partition: {topic_partition}")
    return passing
