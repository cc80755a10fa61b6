"""Looks up offsets by time, by asking the leaders of partitions (ListOffsets).

Called by consumer and admin client, on the thread that owns the BlockingClient. Kafka: OffsetFetcher.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from barnabas.clients.calls.blocking_client import BlockingClient
from barnabas.clients.calls.leader_calls import LeaderWaits, ask_leaders
from barnabas.clients.isolation_level import READ_UNCOMMITTED
from barnabas.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from barnabas.protocol.topic_partition import TopicPartition

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3

# ListOffsets v7 added the timestamp -3, the offset of the record with the largest timestamp (KIP-734).
_VERSION_OF_MAX_TIMESTAMP = 7
# v0 answered with a list of segment offsets; v1 is the first with one offset for each partition (KIP-79).
_VERSION_OF_ONE_OFFSET = 1
# v2 added the isolation level (KIP-98).
_VERSION_OF_ISOLATION = 2


class OffsetAndTimestamp(NamedTuple):
    """An offset found by time, or -1 when no record is that young. `timestamp_ms`: -1 for EARLIEST and LATEST."""

    offset: int
    timestamp_ms: int
    leader_epoch: int = -1


def lookup_offsets(
    client: BlockingClient,
    timestamps: Mapping[TopicPartition, int],
    deadline_ms: int,
    *,
    isolation_level: int = READ_UNCOMMITTED,
    unknown_ms: int | None = None,
) -> dict[TopicPartition, OffsetAndTimestamp]:
    """Return each partition's first offset at or after its timestamp, which may be LATEST, EARLIEST or MAX_TIMESTAMP.

    For readers of committed records, LATEST is the last stable offset, and records behind it are not found.
    Errors that may pass are retried until the deadline; a partition that the cluster does not know, for `unknown_ms`
    unless that is None. Raises ApiError, ClientTimeout.
    """
    return ask_leaders(
        client,
        timestamps.keys(),
        lambda partitions: offsets_request({each: timestamps[each] for each in partitions}, isolation_level),
        offsets_in,
        LeaderWaits(deadline_ms, unknown_ms),
        versions=(oldest_version(timestamps.values(), isolation_level), ListOffsetsRequest.max_version),
    )


def oldest_version(timestamps: Iterable[int], isolation_level: int) -> int:
    """Return the oldest version of ListOffsets that asks what is meant.

    A version without the level of isolation would ask for the high watermark instead of the last stable offset.
    """
    if MAX_TIMESTAMP in timestamps:
        return _VERSION_OF_MAX_TIMESTAMP
    return _VERSION_OF_ONE_OFFSET if isolation_level == READ_UNCOMMITTED else _VERSION_OF_ISOLATION


def offsets_request(
    timestamps: Mapping[TopicPartition, int], isolation_level: int = READ_UNCOMMITTED
) -> ListOffsetsRequest:
    """Return a request for these partitions of one leader."""
    topics: dict[str, list[ListOffsetsRequest.ListOffsetsPartition]] = {}
    for (topic, partition), timestamp in timestamps.items():
        entry = ListOffsetsRequest.ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
        topics.setdefault(topic, []).append(entry)
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation_level,
        topics=[ListOffsetsRequest.ListOffsetsTopic(name, partitions) for name, partitions in topics.items()],
    )


def offsets_in(response: ListOffsetsResponse) -> Iterator[tuple[TopicPartition, int, OffsetAndTimestamp]]:
    """Yield partition, error code and result of each entry of an answer."""
    for topic in response.topics:
        for partition in topic.partitions:
            found = OffsetAndTimestamp(partition.offset, partition.timestamp, partition.leader_epoch)
            yield TopicPartition(topic.name, partition.partition_index), partition.error_code, found
