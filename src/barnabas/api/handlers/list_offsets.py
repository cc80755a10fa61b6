"""ListOffsets: v0-11. OffsetForLeaderEpoch: v0-4 (KIP-101, KIP-320): where a leader epoch ends in the leader's log.

Brief, except look-ups by time and of the largest time stamp: those read batches, which may be on the disk only or
decompress to very much.

ListOffsets v0: a list of offsets before a time.
ListOffsets v1: one offset and its time stamp.
ListOffsets v2: isolation level.
ListOffsets v4: leader epoch.
ListOffsets v5: OFFSET_NOT_AVAILABLE.
ListOffsets v6: flexible.
ListOffsets v7: max timestamp (-3, KIP-734).
ListOffsets v8: earliest local offset (-4, KIP-405).
ListOffsets v9: latest tiered (-5, KIP-1005).
ListOffsets v11: earliest pending upload (-6, KIP-1023).
OffsetForLeaderEpoch v1: the epoch that was found.
OffsetForLeaderEpoch v2: current leader epoch, to fence the sender.
OffsetForLeaderEpoch v3: the follower's id (-2: a consumer).
OffsetForLeaderEpoch v4: flexible.

Kafka: KafkaApis.handleListOffsetRequest and handleOffsetForLeaderEpochRequest, ReplicaManager.fetchOffset and
lastOffsetForLeaderEpoch.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from barnabas.api.authorize import CLUSTER_NAME, Authorizer, is_allowed, permitted
from barnabas.api.brief import BRIEF, hand_over
from barnabas.api.request import Handler, Request
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from barnabas.replica.partitions.leader_state import LeaderState
from barnabas.replica.partitions.partition import EpochEndOffset, Partition
from barnabas.replica.replica_manager import ReplicaManager
from barnabas.runtime.clock import Clock
from barnabas.security.acl.acl_codes import AclOperation, ResourceType
from barnabas.storage.fetch_data import FetchIsolation
from barnabas.storage.log.timestamp_search import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    segment_boundaries,
)

logger = logging.getLogger(__name__)

PartitionAnswer = ListOffsetsResponse.ListOffsetsPartitionResponse
EpochTopicResult = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult
EpochResult = OffsetForLeaderEpochResponse.EpochEndOffset

EARLIEST_PENDING_UPLOAD_TIMESTAMP = -6
"""KIP-1023; there is no tier to upload to, so the offset is never known."""

FIRST_VERSION_OF = {
    LATEST_TIMESTAMP: 0,
    EARLIEST_TIMESTAMP: 0,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL_TIMESTAMP: 8,
    LATEST_TIERED_TIMESTAMP: 9,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP: 11,
}
"""The request version from which on a special time stamp is served."""

NO_VERSION = 2**15
"""Above every version of a request."""
UNKNOWN = -1
CONSUMER, DEBUGGING_CONSUMER = -1, -2
"""Replica ids of clients. The second may ask followers, and sees uncommitted records."""
FIRST_FOLLOWER_ID = 0
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
OFFSET_NOT_AVAILABLE_SINCE = 5


class _FoundOffset(NamedTuple):
    """An offset, its time stamp and its leader epoch; UNKNOWN where there is none."""

    timestamp: int = UNKNOWN
    offset: int = UNKNOWN
    leader_epoch: int = UNKNOWN


class ListOffsetsApi:
    """Looks offsets up by time, and the special ones."""

    def __init__(self, replicas: ReplicaManager, clock: Clock, authorizer: Authorizer | None) -> None:
        self._hosted = replicas.hosted
        self._clock = clock
        self._authorizer = authorizer

    def handlers(self) -> Sequence[Handler]:
        """Return the lines of the table."""
        return (Handler(ApiKey.LIST_OFFSETS, self.list_offsets, brief=BRIEF),)

    def list_offsets(self, request: Request[ListOffsetsRequest]) -> None:
        """Answer every partition on its own; from v1 on a partition named twice is an INVALID_REQUEST."""
        body, version = request.body, request.api_version
        topics = body.topics
        if request.brief and _reads_batches(topics):
            hand_over()
        described = None
        if self._authorizer is not None:
            names = [topic.name for topic in topics]
            described = permitted(self._authorizer, request, AclOperation.DESCRIBE, ResourceType.TOPIC, names)
        repeated = _named_twice(topics) if version else ()
        response = ListOffsetsResponse(topics=[])
        for topic in topics:
            name = topic.name
            answers: list[PartitionAnswer] = []
            response.topics.append(ListOffsetsResponse.ListOffsetsTopicResponse(name, answers))
            for asked in topic.partitions:
                if described is not None and name not in described:
                    answers.append(_failed(asked.partition_index, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
                elif repeated and (name, asked.partition_index) in repeated:
                    answers.append(_failed(asked.partition_index, ErrorCode.INVALID_REQUEST))
                else:
                    answers.append(self._partition_answer(body, version, name, asked))
        request.respond(response)

    def _partition_answer(
        self, body: ListOffsetsRequest, version: int, topic: str, asked: ListOffsetsRequest.ListOffsetsPartition
    ) -> PartitionAnswer:
        index, timestamp = asked.partition_index, asked.timestamp
        # A negative number without a meaning in this version: a newer client has to know that it was not understood.
        if timestamp < 0 and version < FIRST_VERSION_OF.get(timestamp, NO_VERSION):
            return _failed(index, ErrorCode.UNSUPPORTED_VERSION)
        try:
            partition = self._hosted.partition_or_error(topic, index)
            # Kafka's tools compare replicas, and so ask followers (-2).
            leader_only = body.replica_id != DEBUGGING_CONSUMER
            state = partition.check_leader_epoch(asked.current_leader_epoch, leader_only=leader_only)
            isolation = _isolation(body)
            if version == 0:
                offsets = _legacy_offsets(partition, asked, isolation, self._clock.milliseconds())
                return PartitionAnswer(index, ErrorCode.NONE, offsets)
            found = _offset_for(partition, state, timestamp, isolation)
        except ApiError as error:
            code = error.code
            if code is ErrorCode.OFFSET_NOT_AVAILABLE and version < OFFSET_NOT_AVAILABLE_SINCE:
                # Old clients do not know the error, but retry this one (KIP-207).
                code = ErrorCode.LEADER_NOT_AVAILABLE
            return _failed(index, code)
        except Exception:
            logger.exception("looking up offsets of %s-%d failed", topic, index)
            return _failed(index, ErrorCode.UNKNOWN_SERVER_ERROR)
        # By position: consumers that look for gaps, such as Spark's, ask twice for each fetch.
        epoch = found.leader_epoch if version >= 4 else UNKNOWN
        return PartitionAnswer(index, ErrorCode.NONE, [], found.timestamp, found.offset, epoch)


def _reads_batches(topics: Sequence[ListOffsetsRequest.ListOffsetsTopic]) -> bool:
    # Loops: most requests have one partition, and a generator costs more than its question.
    for topic in topics:
        for asked in topic.partitions:
            if asked.timestamp >= 0 or asked.timestamp == MAX_TIMESTAMP:
                return True
    return False


def _named_twice(topics: Sequence[ListOffsetsRequest.ListOffsetsTopic]) -> Collection[tuple[str, int]]:
    """Return the partitions that the request names more than once."""
    if len(topics) == 1 and len(topics[0].partitions) == 1:
        return ()
    named = Counter((topic.name, asked.partition_index) for topic in topics for asked in topic.partitions)
    return {partition for partition, count in named.items() if count > 1}


def _isolation(body: ListOffsetsRequest) -> FetchIsolation:
    """Return how far the sender sees: replicas see everything.

    Raises ApiError UNKNOWN_SERVER_ERROR for an isolation level that does not exist.
    """
    if body.replica_id != CONSUMER:
        return FetchIsolation.LOG_END
    if body.isolation_level not in (READ_UNCOMMITTED, READ_COMMITTED):
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"Unknown isolation level {body.isolation_level}")
    return FetchIsolation.TXN_COMMITTED if body.isolation_level == READ_COMMITTED else FetchIsolation.HIGH_WATERMARK


def _offset_for(partition: Partition, state: LeaderState, timestamp: int, isolation: FetchIsolation) -> _FoundOffset:
    """Find the offset for a time stamp, real or special, within what a fetch may read.

    Raises ApiError: OFFSET_NOT_AVAILABLE while a new leader's high watermark lags. Kafka:
    Partition.fetchOffsetForTimestamp.
    """
    log = partition.log
    if timestamp == LATEST_TIMESTAMP:
        _check_watermark_caught_up(partition, state, isolation)
        end = partition.end_offset_metadata(isolation).message_offset
        return _FoundOffset(offset=end, leader_epoch=state.leader_epoch)
    # Without tiered storage there is no such offset: Kafka answers -1 and no error.
    if timestamp in (EARLIEST_PENDING_UPLOAD_TIMESTAMP, LATEST_TIERED_TIMESTAMP):
        return _FoundOffset()
    if timestamp in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
        found = log.offset_for_timestamp(timestamp)
    else:
        # The end is read before the look-up: records appended meanwhile may be found, and are beyond what is readable.
        end = partition.end_offset_metadata(isolation).message_offset
        found = log.offset_for_timestamp(timestamp)
        if found is None or found.offset >= end:
            _check_watermark_caught_up(partition, state, isolation)
            found = None
    return _FoundOffset() if found is None else _FoundOffset(*found)


def _check_watermark_caught_up(partition: Partition, state: LeaderState, isolation: FetchIsolation) -> None:
    """Check that a new leader knows what its epoch found committed (KIP-207).

    Until its high watermark reaches the start of its epoch, consumers could see offsets go back. Raises ApiError:
    OFFSET_NOT_AVAILABLE until then.
    """
    high_watermark = partition.log.high_watermark
    if isolation is not FetchIsolation.LOG_END and state.start_offset > high_watermark:
        raise ApiError(
            ErrorCode.OFFSET_NOT_AVAILABLE,
            f"Failed to fetch offsets for partition {partition} with leader epoch {state.leader_epoch} as this"
            f" partition's high watermark ({high_watermark}) is lagging behind the start offset from the beginning of"
            f" this epoch ({state.start_offset}).",
        )


def _legacy_offsets(
    partition: Partition, asked: ListOffsetsRequest.ListOffsetsPartition, isolation: FetchIsolation, now_ms: int
) -> list[int]:
    """Return v0's offsets at segment boundaries, newest first, none beyond what a consumer may read.

    Raises ApiError: UNKNOWN_SERVER_ERROR for a negative number of offsets, as Kafka answers it. Kafka:
    Partition.legacyFetchOffsetsForTimestamp.
    """
    if asked.max_num_offsets < 0:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"Invalid number of offsets: {asked.max_num_offsets}")
    end = partition.end_offset_metadata(isolation).message_offset
    offsets = segment_boundaries(
        partition.log.local, partition.log.log_start_offset, asked.timestamp, asked.max_num_offsets, now_ms
    )
    # Segments may begin beyond what a consumer may read: those are replaced by the end, as in Kafka.
    if any(offset > end for offset in offsets):
        return [end, *(offset for offset in offsets if offset <= end)]
    return offsets


def _failed(partition_index: int, code: ErrorCode) -> PartitionAnswer:
    return PartitionAnswer(partition_index=partition_index, error_code=code)


class OffsetForLeaderEpochApi:
    """Looks the ends of leader epochs up, in memory.

    Followers ask to find where their logs diverge from the leader's, consumers to see whether what they read was
    truncated. A sender that may do CLUSTER_ACTION may ask for every topic, others for those they may describe.
    """

    def __init__(self, replicas: ReplicaManager, authorizer: Authorizer | None) -> None:
        self._replicas = replicas
        self._authorizer = authorizer

    def handlers(self) -> Sequence[Handler]:
        """Return the lines of the table."""
        return (Handler(ApiKey.OFFSET_FOR_LEADER_EPOCH, self.offset_for_leader_epoch, brief=BRIEF),)

    def offset_for_leader_epoch(self, request: Request[OffsetForLeaderEpochRequest]) -> None:
        """Answer every partition on its own."""
        body = request.body
        allowed = self._allowed(request)
        # Before v3 the id is the default, -2: a follower of an old release is then served as a consumer.
        from_follower = body.replica_id >= FIRST_FOLLOWER_ID
        request.respond(
            OffsetForLeaderEpochResponse(
                topics=[
                    EpochTopicResult(
                        topic.topic,
                        [
                            self._result(topic.topic, asked, from_follower=from_follower)
                            if topic.topic in allowed
                            else _epoch_result(asked.partition, EpochEndOffset(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
                            for asked in topic.partitions
                        ],
                    )
                    for topic in body.topics
                ]
            )
        )

    def _allowed(self, request: Request[OffsetForLeaderEpochRequest]) -> AbstractSet[str]:
        names = frozenset(topic.topic for topic in request.body.topics)
        # Followers have this one permission instead of one for each topic.
        if is_allowed(self._authorizer, request, AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
            return names
        return permitted(self._authorizer, request, AclOperation.DESCRIBE, ResourceType.TOPIC, names)

    def _result(
        self, topic: str, asked: OffsetForLeaderEpochRequest.OffsetForLeaderPartition, *, from_follower: bool
    ) -> EpochResult:
        found = self._replicas.last_offset_for_leader_epoch(
            topic,
            asked.partition,
            current_leader_epoch=asked.current_leader_epoch,
            leader_epoch=asked.leader_epoch,
            from_follower=from_follower,
        )
        return _epoch_result(asked.partition, found)


def _epoch_result(partition: int, found: EpochEndOffset) -> EpochResult:
    return EpochResult(
        error_code=found.error, partition=partition, leader_epoch=found.leader_epoch, end_offset=found.end_offset
    )
