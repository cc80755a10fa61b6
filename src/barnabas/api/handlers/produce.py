"""Produce: v0-13.

Brief; runs on the Processor's thread or a handler's. v0-2: message sets of magic 0 and 1. v3: magic 2, transactional
id. v7: zstd. v8: record errors (KIP-467). v9: flexible. v10: the current leader in errors (KIP-951). v13: topic ids.

Kafka: KafkaApis.handleProduceRequest.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Sequence
from typing import Any

from barnabas.api.request import Request
from barnabas.metadata.metadata_cache import MetadataCache
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.produce import ProduceRequest, ProduceResponse
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.compression import Codec
from barnabas.replica.partition_append import PartitionAppend
from barnabas.replica.replica_manager import ReplicaManager

logger = logging.getLogger(__name__)

TopicAnswer = ProduceResponse.TopicProduceResponse
PartitionAnswer = ProduceResponse.PartitionProduceResponse

BATCH_START = struct.Struct(">qiib")
"""Base offset, length of what follows, leader epoch, magic: as far as every format agrees where the magic is."""
LENGTH_PREFIX_SIZE = 12
SMALLEST_BATCH = 14
CODEC_OFFSET = 22

LEADER_ERRORS = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


class ProduceApi:
    """Appends what a producer sends and answers each partition on its own."""

    def __init__(self, replicas: ReplicaManager, metadata: MetadataCache) -> None:
        self._replicas = replicas
        self._metadata = metadata

    def produce(self, request: Request[ProduceRequest]) -> None:
        """Append every partition's batch; with acks=all the answer may wait for the in-sync replicas."""
        body = request.body
        version = request.api_version
        to_append: list[PartitionAppend] = []
        by_topic: list[tuple[str, bytes, list[PartitionAppend]]] = []
        for topic in body.topic_data:
            name, refusal = (topic.name, None) if version < 13 else self._resolve(topic.topic_id)
            entries: list[PartitionAppend] = []
            for partition in topic.partition_data:
                entry = PartitionAppend(name, partition.index, partition.records)
                entries.append(entry)
                error = refusal or refused_batch(version, partition.records)
                partition.records = None  # from here on the entry's alone: a view left would keep the frame's buffer
                if error is None:
                    to_append.append(entry)
                else:
                    entry.fail(error)
            by_topic.append((name, topic.topic_id, entries))
        acks = body.acks

        def answer(_: Sequence[PartitionAppend]) -> None:
            if acks == 0:
                self._answer_nothing(request, by_topic)
            else:
                request.respond(self._response(by_topic, version))

        self._replicas.append_records(to_append, required_acks=acks, timeout_ms=body.timeout_ms, on_complete=answer)

    @staticmethod
    def error(request: Request[ProduceRequest], code: ErrorCode, message: str | None) -> ProduceResponse:
        """The same error for every partition."""
        return ProduceResponse(
            responses=[
                TopicAnswer(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partition_responses=[
                        PartitionAnswer(index=partition.index, error_code=code, base_offset=-1, error_message=message)
                        for partition in topic.partition_data
                    ],
                )
                for topic in request.body.topic_data
            ]
        )

    def _resolve(self, topic_id: bytes) -> tuple[str, ApiError | None]:
        """A topic's name: from v13 on requests name ids."""
        name = self._metadata.image.topic_names.get(topic_id)
        if name is None:
            return "", ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
        return name, None

    def _response(self, by_topic: list[tuple[str, bytes, list[PartitionAppend]]], version: int) -> ProduceResponse:
        # By position: keywords would double the cost of what every request does once.
        topics = []
        for name, topic_id, entries in by_topic:
            answers = []
            for entry in entries:
                info = entry.info
                if info is None or entry.failure is not None:
                    answers.append(self._failure_answer(entry, version))
                else:
                    answers.append(
                        PartitionAnswer(
                            entry.partition, 0, info.first_offset, info.log_append_time_ms, info.log_start_offset
                        )
                    )
            topics.append(TopicAnswer(name, topic_id, answers))
        return ProduceResponse(topics)

    def _failure_answer(self, entry: PartitionAppend, version: int) -> PartitionAnswer:
        info = entry.info
        failure = entry.failure
        answer = PartitionAnswer(
            index=entry.partition,
            error_code=entry.error,
            base_offset=-1,
            log_start_offset=-1 if info is None else info.log_start_offset,
            record_errors=[
                ProduceResponse.BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=message)
                for index, message in entry.record_errors
            ],
            error_message=None if failure is None else failure.message,
        )
        if version >= 10 and entry.error in LEADER_ERRORS:
            self._name_leader(entry, answer)
        return answer

    def _name_leader(self, entry: PartitionAppend, answer: PartitionAnswer) -> None:
        """KIP-951: tell the client who leads, to save it a metadata request."""
        leader = self._metadata.image.partition(TopicPartition(entry.topic, entry.partition))
        if leader is not None:
            answer.current_leader = ProduceResponse.LeaderIdAndEpoch(leader.leader, leader.leader_epoch)

    @staticmethod
    def _answer_nothing(
        request: Request[ProduceRequest], by_topic: list[tuple[str, bytes, list[PartitionAppend]]]
    ) -> None:
        """acks=0: an error can only be shown by closing the connection, which makes the client ask for metadata."""
        errors = {
            f"{name}-{entry.partition}": entry.error.name
            for name, _, entries in by_topic
            for entry in entries
            if entry.error is not ErrorCode.NONE
        }
        if errors:
            logger.info(
                "closing connection %s of client %r: a produce with acks=0 failed: %s",
                request.connection.connection_id,
                request.header.client_id,
                errors,
            )
            request.close_connection()
        else:
            request.no_response()


def refused_batch(version: int, records: Any) -> ApiError | None:
    """What a produce version demands of its records; None when all is well. Contents are the log's matter.

    From v3 on exactly one whole batch of magic 2 per partition (bytes behind it that are none are the log's to trim),
    from v7 on it may be zstd. Kafka: ProduceRequest.validateRecords over ByteBufferLogInputStream.
    """
    if version < 3:
        return None if records else ApiError(ErrorCode.CORRUPT_MESSAGE, "the request holds no records")
    size = 0 if records is None else len(records)
    if size < BATCH_START.size:
        return _no_batch(version)
    _, length, _, magic = BATCH_START.unpack_from(records)
    end = length + LENGTH_PREFIX_SIZE
    if end == size and magic == 2 and version >= 7:
        return None
    if length < SMALLEST_BATCH:
        text = f"Record size {length} is less than the minimum record overhead ({SMALLEST_BATCH})"
        return ApiError(ErrorCode.CORRUPT_MESSAGE, text)
    if not 0 <= magic <= 2:
        return ApiError(ErrorCode.CORRUPT_MESSAGE, f"Invalid magic found in record: {magic}")
    if end > size:
        return _no_batch(version)
    if magic != 2:
        return _only(version, "record batches with magic version 2")
    if _is_whole_batch(records[end:]):
        return _only(version, "exactly one record batch per partition")
    if version < 7 and records[CODEC_OFFSET] & 7 == Codec.ZSTD:
        text = f"Produce requests with version {version} are not allowed to use ZStandard compression"
        return ApiError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, text)
    return None


def _is_whole_batch(rest: Any) -> bool:
    if len(rest) < BATCH_START.size:
        return False
    _, length, _, _ = BATCH_START.unpack_from(rest)
    return bool(SMALLEST_BATCH <= length <= len(rest) - LENGTH_PREFIX_SIZE)


def _no_batch(version: int) -> ApiError:
    text = f"Produce requests with version {version} must have at least one record batch per partition"
    return ApiError(ErrorCode.INVALID_RECORD, text)


def _only(version: int, what: str) -> ApiError:
    text = f"Produce requests with version {version} are only allowed to contain {what}"
    return ApiError(ErrorCode.INVALID_RECORD, text)
