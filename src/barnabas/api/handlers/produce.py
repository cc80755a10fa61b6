"""Produce: v0-13.

Brief from v3 on; runs on the Processor's thread or a handler's. v0-2: message sets of magic 0 and 1, which are
converted, so these go through the queue. v3: magic 2, transactional id. v7: zstd. v8: record errors (KIP-467). v9:
flexible. v10: the current leader in errors (KIP-951). v13: topic ids.

Beside Kafka's: a refusal always comes with its text (Kafka sends one only where records are to blame), and a partition
whose bytes are no batch at all fails alone, not the whole request.

Kafka: KafkaApis.handleProduceRequest.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Container, Sequence
from typing import Any, Final

from barnabas.api.authorize import AclOperation, Authorizer, ResourceType, is_allowed, permitted
from barnabas.api.brief import MAX_FRAME_BYTES, Brief, hand_over
from barnabas.api.current_leader import CurrentLeaders
from barnabas.api.request import Handler, Request, described_error_answer
from barnabas.metadata.metadata_cache import MetadataCache
from barnabas.metadata.metadata_image import MetadataImage
from barnabas.metadata.topic_name import INTERNAL_TOPICS
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.message import Message
from barnabas.protocol.messages.produce import ProduceRequest, ProduceResponse
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.compression import Codec
from barnabas.records.errors import CorruptRecord
from barnabas.records.record_batch import (
    ATTRIBUTES_POSITION,
    CODEC_MASK,
    LOG_OVERHEAD,
    MAGIC_POSITION,
    PRODUCER_ID_POSITION,
    TRANSACTIONAL_MASK,
)
from barnabas.replica.append import VALID_ACKS
from barnabas.replica.partition_append import PartitionAppend
from barnabas.replica.replica_manager import ReplicaManager

logger = logging.getLogger(__name__)

TopicAnswer = ProduceResponse.TopicProduceResponse
PartitionAnswer = ProduceResponse.PartitionProduceResponse

BATCH_START: Final = struct.Struct(">qiibIh")
"""Base offset, length of what follows, leader epoch, magic, checksum, attributes of a batch of magic 2."""
SMALLEST_BATCH: Final = 14
ATTRIBUTES_LOW_BYTE: Final = ATTRIBUTES_POSITION + 1
PRODUCER_END: Final = PRODUCER_ID_POSITION + 10
"""Where producer id and epoch end in a batch of magic 2."""

LARGE_BYTES: Final = 64 * 1024
"""Of a request: what is smaller never takes long, unless it is compressed."""

ADMIN_CLIENT_ID: Final = "__admin_client"
"""The client that may write to the broker's own topics (Kafka: AdminUtils.ADMIN_CLIENT_ID)."""


TOLD_FIRST: Final = (
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)


class ProduceApi:
    """Appends what a producer sends and answers each partition on its own."""

    def __init__(self, replicas: ReplicaManager, metadata: MetadataCache, authorizer: Authorizer | None) -> None:
        self._appender = replicas.appender
        self._hosted = replicas.hosted
        self._metadata = metadata
        self._authorizer = authorizer

    def handlers(self) -> Sequence[Handler]:
        """Return the lines of the table."""
        return (
            Handler(
                ApiKey.PRODUCE,
                self.produce,
                error_answer=_error_answer,
                brief=Brief(since=3, limit_bytes=MAX_FRAME_BYTES),
            ),
        )

    def produce(self, request: Request[ProduceRequest]) -> None:
        """Append every partition's batch; with acks=all the answer may wait for the in-sync replicas.

        Raises ApiError for the whole request: TRANSACTIONAL_ID_AUTHORIZATION_FAILED, INVALID_PRODUCER_ID_MAPPING.
        """
        body = request.body
        if request.brief and (request.request_size > LARGE_BYTES or _is_compressed(body)) and self._takes_long(body):
            hand_over()
        version = request.api_version
        acks = body.acks
        image = self._metadata.image
        writable: Container[str] = image.topics
        if self._authorizer is not None:
            writable = self._writable_topics(request, image)
        to_append: list[PartitionAppend] = []
        by_topic: list[tuple[str, bytes, list[PartitionAppend]]] = []
        asked = body.topic_data
        if len(asked) != 1 or len(asked[0].partition_data) != 1:
            asked = _each_partition_once(body)
        for topic in asked:
            name = topic.name if version < 13 else image.topic_names.get(topic.topic_id, "")
            refusal = None
            if name not in writable or name in INTERNAL_TOPICS or acks not in VALID_ACKS:
                refusal = self._refused_topic(request, name, image, writable)
            entries: list[PartitionAppend] = []
            for partition in topic.partition_data:
                records = partition.records
                entry = PartitionAppend(name, partition.index, records)
                entries.append(entry)
                error = refused_batch(version, records, body.transactional_id)
                partition.records = None  # from here on the entry's alone: a view left would keep the frame's buffer
                if error is None and refusal is None:
                    to_append.append(entry)
                else:
                    entry.fail(_first_of(error, refusal, image, entry))
            if entries:
                by_topic.append((name, topic.topic_id, entries))
        if body.transactional_id is not None:
            _refuse_several_producers(to_append)
            to_append = _without_transactions(to_append)

        def answer(_: Sequence[PartitionAppend]) -> None:
            try:
                if acks == 0:
                    self._answer_nothing(request, by_topic)
                else:
                    request.respond(self._response(request, by_topic))
            except Exception as error:  # noqa: BLE001 - `fail` logs it; what Request.deferred does, without its call
                request.fail(error)

        self._appender.append_records(to_append, required_acks=acks, timeout_ms=body.timeout_ms, on_complete=answer)

    def _takes_long(self, body: ProduceRequest) -> bool:
        """Whether a topic's settings ask for much work on its batch."""
        for topic in body.topic_data:
            name = topic.name or self._metadata.image.topic_names.get(topic.topic_id, "")
            for partition in topic.partition_data:
                try:
                    log = self._hosted.partition_or_error(name, partition.index).log
                except ApiError:
                    continue
                if partition.records is not None and log.validator.takes_long(partition.records):
                    return True
        return False

    def _writable_topics(self, request: Request[ProduceRequest], image: MetadataImage) -> frozenset[str]:
        """Those that the sender may write to, whether or not they exist.

        Raises ApiError TRANSACTIONAL_ID_AUTHORIZATION_FAILED for transactional batches of an id that is not his.
        """
        body = request.body
        transactional_id = body.transactional_id
        if _is_transactional_request(body) and (
            transactional_id is None
            or not is_allowed(
                self._authorizer, request, AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id
            )
        ):
            raise ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        by_id = request.api_version >= 13
        names = [image.topic_names.get(topic.topic_id, "") if by_id else topic.name for topic in body.topic_data]
        asked = [name for name in names if name or not by_id]
        return permitted(self._authorizer, request, AclOperation.WRITE, ResourceType.TOPIC, asked)

    @staticmethod
    def _refused_topic(
        request: Request[ProduceRequest], name: str, image: MetadataImage, writable: Container[str]
    ) -> ApiError | None:
        """Why nothing of the topic may be appended, in Kafka's order: whether it exists is only told who may write."""
        by_id = request.api_version >= 13 and not name
        if writable is not image.topics and name not in writable and not by_id:
            return ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        if name not in image.topics:
            return ApiError(ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if request.body.acks not in VALID_ACKS:
            return ApiError(ErrorCode.INVALID_REQUIRED_ACKS)
        if name in INTERNAL_TOPICS and request.header.client_id != ADMIN_CLIENT_ID:
            return ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Cannot append to internal topic {name}")
        return None

    def _response(
        self, request: Request[ProduceRequest], by_topic: list[tuple[str, bytes, list[PartitionAppend]]]
    ) -> ProduceResponse:
        # By position: keywords would double the cost of what every request does once.
        topics = []
        leaders = None
        for name, topic_id, entries in by_topic:
            answers = []
            for entry in entries:
                info = entry.info
                if info is None or entry.failure is not None:
                    if leaders is None:
                        image, listener = self._metadata.image, request.connection.listener_name
                        leaders = CurrentLeaders(self._hosted, image, listener)
                    answers.append(_failure_answer(entry, leaders, request.api_version))
                else:
                    if info.conversion_ns:
                        request.note_conversion(info.conversion_ns, info.valid_bytes)
                    answers.append(
                        PartitionAnswer(
                            entry.partition, 0, info.first_offset, info.log_append_time_ms, info.log_start_offset
                        )
                    )
            topics.append(TopicAnswer(name, topic_id, answers))
        response = ProduceResponse(topics)
        if leaders is not None:
            response.node_endpoints = [
                ProduceResponse.NodeEndpoint(node.id, node.host, node.port, node.rack) for node in leaders.nodes()
            ]
        return response

    def _answer_nothing(
        self, request: Request[ProduceRequest], by_topic: list[tuple[str, bytes, list[PartitionAppend]]]
    ) -> None:
        """acks=0: an error can only be shown by closing the connection, which makes the client ask for metadata."""
        for _, _, entries in by_topic:
            for entry in entries:
                if entry.info is not None and entry.info.conversion_ns:
                    request.note_conversion(entry.info.conversion_ns, entry.info.valid_bytes)
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
            request.response = self._response(request, by_topic)  # never sent, but its errors are counted
            request.close_connection()
        else:
            request.no_response()


def _error_answer(request: Request[ProduceRequest], error: ApiError) -> Message | None:
    """Say the error of every partition; None to a client that waits for no answer."""
    return None if request.body.acks == 0 else described_error_answer(request, error)


def _failure_answer(entry: PartitionAppend, leaders: CurrentLeaders, version: int) -> PartitionAnswer:
    """What was appended and then not replicated in time keeps its offsets (Kafka: DelayedProduce)."""
    info = entry.info
    failure = entry.failure
    answer = PartitionAnswer(
        index=entry.partition,
        error_code=entry.error,
        base_offset=-1 if info is None else info.first_offset,
        log_append_time_ms=-1 if info is None else info.log_append_time_ms,
        log_start_offset=entry.log_start_offset if info is None else info.log_start_offset,
        record_errors=[
            ProduceResponse.BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=message)
            for index, message in entry.record_errors
        ],
        error_message=None if failure is None else failure.message,
    )
    if version >= 10 and entry.error is ErrorCode.NOT_LEADER_OR_FOLLOWER:
        # KIP-951: tell the client who leads, to save it a metadata request.
        answer.current_leader = ProduceResponse.LeaderIdAndEpoch(*leaders.leader_of(entry.topic, entry.partition))
    return answer


def _is_compressed(body: ProduceRequest) -> bool:
    """Whether a batch may be much larger than it looks."""
    for topic in body.topic_data:
        for partition in topic.partition_data:
            records = partition.records
            if records is not None and len(records) > ATTRIBUTES_LOW_BYTE and records[ATTRIBUTES_LOW_BYTE] & CODEC_MASK:
                return True
    return False


def _each_partition_once(body: ProduceRequest) -> list[ProduceRequest.TopicProduceData]:
    """Of a partition that is named twice the last batch counts, as in Kafka, whose maps are keyed by partition."""
    topics = body.topic_data
    if len({topic.name or topic.topic_id for topic in topics}) == len(topics) and all(
        len({partition.index for partition in topic.partition_data}) == len(topic.partition_data) for topic in topics
    ):
        return topics
    merged: dict[str | bytes, dict[int, ProduceRequest.PartitionProduceData]] = {}
    first: dict[str | bytes, ProduceRequest.TopicProduceData] = {}
    for topic in topics:
        key = topic.name or topic.topic_id
        first.setdefault(key, topic)
        merged.setdefault(key, {}).update((partition.index, partition) for partition in topic.partition_data)
    for key, topic in first.items():
        topic.partition_data = list(merged[key].values())
    return list(first.values())


def _first_of(
    error: ApiError | None, refusal: ApiError | None, image: MetadataImage, entry: PartitionAppend
) -> ApiError:
    """Which of two reasons is told: permission comes first, then whether the partition exists, then the batch."""
    if refusal is not None and refusal.code in TOLD_FIRST:
        return refusal
    if image.partition(TopicPartition(entry.topic, entry.partition)) is None:
        return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return error or refusal or ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)


def _is_transactional_request(body: ProduceRequest) -> bool:
    """Whether a first batch is part of a transaction (Kafka: RequestUtils.hasTransactionalRecords)."""
    for topic in body.topic_data:
        for partition in topic.partition_data:
            records = partition.records
            if (
                records is not None
                and len(records) >= PRODUCER_END
                and records[MAGIC_POSITION] == 2
                and records[ATTRIBUTES_LOW_BYTE] & TRANSACTIONAL_MASK
            ):
                return True
    return False


def _is_transactional(entry: PartitionAppend) -> bool:
    return len(entry.records) >= PRODUCER_END and bool(entry.records[ATTRIBUTES_LOW_BYTE] & TRANSACTIONAL_MASK)


def _without_transactions(entries: Sequence[PartitionAppend]) -> list[PartitionAppend]:
    """Fail transactional batches, as Kafka does when it reaches no coordinator to verify them with (KIP-890).

    Nobody would ever end such a transaction, and readers of committed records would wait behind it.
    """
    others: list[PartitionAppend] = []
    text = (
        "Unable to verify the partition has been added to the transaction. Underlying error: COORDINATOR_NOT_AVAILABLE"
    )
    for entry in entries:
        if _is_transactional(entry):
            entry.fail(ApiError(ErrorCode.NOT_ENOUGH_REPLICAS, text))
        else:
            others.append(entry)
    return others


def _refuse_several_producers(entries: Sequence[PartitionAppend]) -> None:
    """Raise INVALID_PRODUCER_ID_MAPPING when the transactional batches of a request are of several producers."""
    transactional = filter(_is_transactional, entries)
    producers = {bytes(entry.records[PRODUCER_ID_POSITION:PRODUCER_END]) for entry in transactional}
    if len(producers) > 1:
        text = "Transactional records contained more than one producer ID"
        raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, text)


def refused_batch(version: int, records: Any, transactional_id: str | None = None) -> ApiError | None:
    """What a produce version demands of its records; None when all is well. Contents are the log's matter.

    From v3 on exactly one whole batch of magic 2 per partition (less than a header behind it is the log's to trim),
    from v7 on it may be zstd. Raises TRANSACTIONAL_ID_AUTHORIZATION_FAILED for a transactional batch in a request
    without a transactional id. Kafka: ProduceRequest.validateRecords over ByteBufferLogInputStream.
    """
    size = 0 if records is None else len(records)
    if size < BATCH_START.size:
        return _refused_stub(version, records)
    _, length, _, magic, _, attributes = BATCH_START.unpack_from(records)
    end = length + LOG_OVERHEAD
    if end == size and magic == 2 and version >= 7 and not attributes & TRANSACTIONAL_MASK:
        return None
    if version < 3:
        return None
    try:
        if _whole_batch_size(records) is None:
            return _no_batch(version)
        if magic != 2:
            return _only(version, "record batches with magic version 2")
        if attributes & TRANSACTIONAL_MASK and transactional_id is None:
            raise ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        if version < 7 and attributes & CODEC_MASK == Codec.ZSTD:
            text = f"Produce requests with version {version} are not allowed to use ZStandard compression"
            return ApiError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, text)
        if _whole_batch_size(records[end:]) is not None:
            return _only(version, "exactly one record batch per partition")
    except CorruptRecord as error:
        return ApiError(ErrorCode.CORRUPT_MESSAGE, str(error))
    return None


def _refused_stub(version: int, records: Any) -> ApiError | None:
    """Fewer bytes than any batch of magic 2. Before v3 no bytes are nothing to append, as is a cut off message."""
    if version < 3:
        return None if records is not None else ApiError(ErrorCode.CORRUPT_MESSAGE, "the request holds no records")
    try:
        if records is None or _whole_batch_size(records) is None:
            return _no_batch(version)
    except CorruptRecord as error:
        return ApiError(ErrorCode.CORRUPT_MESSAGE, str(error))
    return _only(version, "record batches with magic version 2")


def _whole_batch_size(records: Any) -> int | None:
    """Size of the batch at the start; None when it is not all there. Raises CorruptRecord for what begins no batch."""
    available = len(records)
    if available < LOG_OVERHEAD:
        return None
    length = int.from_bytes(records[8:LOG_OVERHEAD], "big", signed=True)
    if length < SMALLEST_BATCH:
        raise CorruptRecord(f"Record size {length} is less than the minimum record overhead ({SMALLEST_BATCH})")
    if available <= MAGIC_POSITION:
        return None
    magic = records[MAGIC_POSITION]
    if magic > 2:
        raise CorruptRecord(f"Invalid magic found in record: {magic - 256 if magic > 127 else magic}")
    return length + LOG_OVERHEAD if length <= available - LOG_OVERHEAD else None


def _no_batch(version: int) -> ApiError:
    text = f"Produce requests with version {version} must have at least one record batch per partition"
    return ApiError(ErrorCode.INVALID_RECORD, text)


def _only(version: int, what: str) -> ApiError:
    text = f"Produce requests with version {version} are only allowed to contain {what}"
    return ApiError(ErrorCode.INVALID_RECORD, text)
