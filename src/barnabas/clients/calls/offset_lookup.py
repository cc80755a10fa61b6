"""Requests to the leaders of partitions, retried where errors may pass, and the look-ups made of them.

`lookup_offsets` finds offsets by time (ListOffsets); `partitions_of` returns the partitions of a topic. Called by
consumer, admin client and Spark source, on the thread that owns the BlockingClient; no state, no lock.
Kafka: PartitionLeaderStrategy, AdminApiDriver, OffsetFetcher, TopicMetadataFetcher.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import NamedTuple, TypeVar, cast

from barnabas.clients.calls.blocking_client import BlockingClient
from barnabas.clients.errors import INVALID_METADATA_ERRORS, Disconnected
from barnabas.clients.metadata.cluster import PartitionInfo
from barnabas.clients.values import READ_UNCOMMITTED
from barnabas.protocol.errors import ApiError, ErrorCode, error_of
from barnabas.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from barnabas.protocol.messages.message import Message
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.rpc.connection_states import ExponentialBackoff, Node

# A partition that another broker has just made may be unknown to the broker that is asked. Java's admin client rejects
# an unknown topic at once, and waits out its timeout for an unknown partition of a known topic.
UNKNOWN_PARTITION_MS = 10_000

A = TypeVar("A", bound=Message)
R = TypeVar("R")


class LeaderWaits(NamedTuple):
    """How long to wait. deadline_ms: for all answers, as a time of the client's clock.

    unknown_ms: how long the cluster may not know a partition before that error is raised; None: until the deadline.
    """

    deadline_ms: int
    unknown_ms: int | None = None


def ask_leaders(
    client: BlockingClient,
    partitions: Collection[TopicPartition],
    request_for: Callable[[Collection[TopicPartition]], Message],
    results_in: Callable[[A], Iterable[tuple[TopicPartition, int, R]]],
    waits: LeaderWaits,
    *,
    versions: tuple[int, int] | None = None,
) -> dict[TopicPartition, R]:
    """Return every partition's result, with one request to each leader.

    results_in(answer): yields partition, error code and result. A leader whose connection is lost or refused is looked
    up again. Raises ApiError for an error that no retry cures, and at the deadline the last ApiError, Disconnected or
    ClientTimeout.
    """
    client.check_usable()
    found: dict[TopicPartition, R] = {}
    # Each round asks the leaders of the partitions that are left. A leader that has moved is asked in the next round.
    missing = dict.fromkeys(partitions)
    while missing:
        last_error: ApiError | Disconnected | None = None
        for node, led in _by_leader(client, missing, waits).items():
            try:
                answer = client.call_node(node, request_for(led), versions=versions, deadline_ms=waits.deadline_ms)
            except Disconnected as lost:
                last_error = lost
                continue
            for partition, code, result in results_in(cast("A", answer)):
                error = error_of(code)
                if error is ErrorCode.NONE and partition in missing:
                    del missing[partition]
                    found[partition] = result
                elif error.retriable or error in INVALID_METADATA_ERRORS:
                    last_error = ApiError(error)
                elif error is not ErrorCode.NONE:
                    raise ApiError(error, f"{error.message} Partition: {partition}")
        if missing:
            if client.now_ms() >= waits.deadline_ms:
                raise last_error or client.metadata.timeout("The leaders did not answer in time")
            client.pause_for_metadata(waits.deadline_ms)
    return found


def _by_leader(
    client: BlockingClient, partitions: Iterable[TopicPartition], waits: LeaderWaits
) -> Mapping[Node, list[TopicPartition]]:
    by_leader: dict[Node, list[TopicPartition]] = {}
    for partition in partitions:
        leader = client.await_leader(partition, waits.deadline_ms, unknown_ms=waits.unknown_ms)
        by_leader.setdefault(leader, []).append(partition)
    return by_leader


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


def partitions_of(
    client: BlockingClient, topic: str, backoff: ExponentialBackoff, deadline_ms: int, *, may_create: bool
) -> tuple[PartitionInfo, ...]:
    """Return the topic's partitions in order, or nothing for a topic that does not exist.

    The client need not follow the topic.

    may_create: whether the broker may create the topic, if it does such a thing. A topic that has no leaders yet is
    asked for again until the deadline. Raises ApiError: INVALID_TOPIC_EXCEPTION, TOPIC_AUTHORIZATION_FAILED and other
    errors that no retry cures; ClientTimeout, Disconnected.
    """
    request = MetadataRequest(
        topics=[MetadataRequest.MetadataRequestTopic(name=topic)], allow_auto_topic_creation=may_create
    )
    attempts = 0
    while True:
        answer = cast("MetadataResponse", client.call(request, deadline_ms=deadline_ms))
        (described,) = answer.topics
        error = error_of(described.error_code)
        if error is ErrorCode.NONE:
            listed = sorted(described.partitions, key=lambda each: each.partition_index)
            return tuple(PartitionInfo.of(topic, each) for each in listed)
        if error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return ()
        if not error.retriable:
            raise ApiError(error, f"{error.message} Topic: {topic}")
        retry_ms = client.now_ms() + backoff.after(attempts)
        attempts += 1
        if retry_ms >= deadline_ms:
            raise client.metadata.timeout(f"Timeout expired while fetching the metadata of topic {topic}: {error.name}")
        while (left_ms := retry_ms - client.now_ms()) > 0:
            client.poll(left_ms)
