"""ListOffsets: v0-11.

Brief: a look-up in the indexes and at most a few blocks of one segment. v0: a list of offsets before a time. v1: one
offset and its time stamp. v2: isolation level. v4: leader epoch. v6: flexible. v7: max timestamp (-3, KIP-734).
v8: earliest local offset (-4, KIP-405). v9: latest tiered (-5, KIP-1005). v11: earliest pending upload (-6, KIP-1023).

Kafka: KafkaApis.handleListOffsetRequest, ReplicaManager.fetchOffset.
"""

from __future__ import annotations

from collections import Counter

from barnabas.api.request import Request
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from barnabas.replica.partition import Partition
from barnabas.replica.replica_manager import ReplicaManager
from barnabas.runtime.clock import Clock
from barnabas.storage.fetch_data import FetchIsolation
from barnabas.storage.timestamp_search import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    offsets_before,
)

PartitionAnswer = ListOffsetsResponse.ListOffsetsPartitionResponse

EARLIEST_PENDING_UPLOAD_TIMESTAMP = -6
"""KIP-1023; there is no tier to upload to, so it is never known."""

FIRST_VERSION_OF = {
    LATEST_TIMESTAMP: 0,
    EARLIEST_TIMESTAMP: 0,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL_TIMESTAMP: 8,
    LATEST_TIERED_TIMESTAMP: 9,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP: 11,
}
"""The request version from which on a special time stamp is understood."""

UNKNOWN = -1


class ListOffsetsApi:
    """Offsets by time, and the special ones."""

    def __init__(self, replicas: ReplicaManager, clock: Clock) -> None:
        self._replicas = replicas
        self._clock = clock

    def list_offsets(self, request: Request[ListOffsetsRequest]) -> None:
        """Answer every partition on its own; a partition named twice is an INVALID_REQUEST."""
        named = Counter(
            (topic.name, partition.partition_index) for topic in request.body.topics for partition in topic.partitions
        )
        response = ListOffsetsResponse(topics=[])
        for topic in request.body.topics:
            answer = ListOffsetsResponse.ListOffsetsTopicResponse(name=topic.name, partitions=[])
            for asked in topic.partitions:
                if named[topic.name, asked.partition_index] > 1:
                    answer.partitions.append(_failed(asked.partition_index, ErrorCode.INVALID_REQUEST))
                else:
                    answer.partitions.append(self._partition_answer(request, topic.name, asked))
            response.topics.append(answer)
        request.respond(response)

    @staticmethod
    def error(request: Request[ListOffsetsRequest], code: ErrorCode, message: str | None) -> ListOffsetsResponse:
        """The same error for every partition."""
        return ListOffsetsResponse(
            topics=[
                ListOffsetsResponse.ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=[_failed(partition.partition_index, code) for partition in topic.partitions],
                )
                for topic in request.body.topics
            ]
        )

    def _partition_answer(
        self, request: Request[ListOffsetsRequest], topic: str, asked: ListOffsetsRequest.ListOffsetsPartition
    ) -> PartitionAnswer:
        version = request.api_version
        first_version = FIRST_VERSION_OF.get(asked.timestamp)
        if asked.timestamp < 0 and (first_version is None or version < first_version):
            return _failed(asked.partition_index, ErrorCode.UNSUPPORTED_VERSION)
        try:
            partition = self._replicas.partition_or_error(topic, asked.partition_index)
            partition.check_leader_epoch(asked.current_leader_epoch, leader_only=request.body.replica_id != -2)
            if version == 0:
                offsets = _legacy_offsets(partition, asked.timestamp, asked.max_num_offsets, self._clock.milliseconds())
                return PartitionAnswer(
                    partition_index=asked.partition_index, error_code=ErrorCode.NONE, old_style_offsets=offsets
                )
            isolation = _isolation(request.body)
            timestamp, offset, leader_epoch = _offset_for(partition, asked.timestamp, isolation)
        except ApiError as error:
            return _failed(asked.partition_index, error.code)
        return PartitionAnswer(
            partition_index=asked.partition_index,
            error_code=ErrorCode.NONE,
            timestamp=timestamp,
            offset=offset,
            leader_epoch=leader_epoch if version >= 4 else UNKNOWN,
        )


def _isolation(body: ListOffsetsRequest) -> FetchIsolation:
    if body.replica_id >= 0:
        return FetchIsolation.LOG_END
    return FetchIsolation.TXN_COMMITTED if body.isolation_level == 1 else FetchIsolation.HIGH_WATERMARK


def _offset_for(partition: Partition, timestamp: int, isolation: FetchIsolation) -> tuple[int, int, int]:
    """(time stamp, offset, leader epoch); UNKNOWN where there is none. Nothing beyond what a fetch may read."""
    end = partition.end_offset_metadata(isolation).message_offset
    if timestamp == LATEST_TIMESTAMP:
        state = partition.state
        return UNKNOWN, end, UNKNOWN if state is None else state.leader_epoch
    if timestamp == EARLIEST_PENDING_UPLOAD_TIMESTAMP:
        return UNKNOWN, UNKNOWN, UNKNOWN
    found = partition.log.offset_for_timestamp(timestamp)
    if found is None or (found.offset >= end and timestamp not in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP)):
        return UNKNOWN, UNKNOWN, UNKNOWN
    return found.timestamp, found.offset, found.leader_epoch


def _legacy_offsets(partition: Partition, timestamp: int, max_num_offsets: int, now_ms: int) -> list[int]:
    """v0: offsets at segment boundaries, newest first, none beyond what a consumer may read.

    Kafka: ReplicaManager.legacyFetchOffsetsForTimestamp.
    """
    end = partition.end_offset_metadata(FetchIsolation.HIGH_WATERMARK).message_offset
    offsets = offsets_before(partition.log, timestamp, max(0, max_num_offsets), now_ms)
    if any(offset > end for offset in offsets):
        return [end, *(offset for offset in offsets if offset < end)]
    return offsets


def _failed(partition_index: int, code: ErrorCode) -> PartitionAnswer:
    return PartitionAnswer(partition_index=partition_index, error_code=code)
