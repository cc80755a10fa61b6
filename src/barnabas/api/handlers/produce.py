"""Produce: v0-13.

Brief from v3 on, unless its facts say that it takes long (`api.brief`, "batches"); runs on the Processor's thread or a
handler's. Before v3 records are converted, so these requests go through the queue.

v0: message sets of magic 0 and 1, up to v2.
v3: magic 2, transactional id.
v7: zstd.
v8: record errors (KIP-467).
v9: flexible.
v10: the current leader in errors (KIP-951).
v12: a transactional batch adds its partition to the transaction (KIP-890).
v13: topic ids.

Beside Kafka's: a refusal always comes with its text (Kafka sends one only where records are to blame), and a partition
whose bytes are no batch at all fails alone, not the whole request.

Kafka: KafkaApis.handleProduceRequest.
"""

from __future__ import annotations

import logging
from collections.abc import Container, Sequence
from typing import Final

from barnabas.api.authorize import Authorizer, is_allowed, permitted
from barnabas.api.brief import AT_ONCE_BATCHES, AT_ONCE_BYTES, AT_ONCE_RECORDS, Brief, hand_over
from barnabas.api.current_leader import CurrentLeaders
from barnabas.api.large_requests import Line, NeedsPlace
from barnabas.api.produced_batches import refused_batch
from barnabas.api.request import Handler, Request, described_error_answer
from barnabas.api.transaction_verification import (
    TransactionalProducer,
    TransactionalWrite,
    TransactionVerification,
    VerificationErrors,
    VerificationQuestion,
    VerificationTerms,
    producer_error,
)
from barnabas.metadata.metadata_cache import MetadataCache
from barnabas.metadata.metadata_image import MetadataImage
from barnabas.metadata.topic_name import INTERNAL_TOPICS
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.message import Message
from barnabas.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.record_batch import CODEC_MASK, BatchHeader
from barnabas.replica.partitions.partition_append import PartitionAppend
from barnabas.replica.replica_manager import ReplicaManager
from barnabas.replica.requests.replica_appender import VALID_ACKS, AppendCallback
from barnabas.security.acl.acl_codes import AclOperation, ResourceType

logger = logging.getLogger(__name__)

ABORTABLE_SINCE: Final = 11
"""The first version with TRANSACTION_ABORTABLE (KIP-890)."""

ADDS_PARTITIONS_SINCE: Final = 12

ADMIN_CLIENT_ID: Final = "__admin_client"
"""The client that may write to the broker's own topics (Kafka: AdminUtils.ADMIN_CLIENT_ID)."""


_INTERNAL: Final = INTERNAL_TOPICS
_AT_ONCE_RECORDS: Final = AT_ONCE_RECORDS

# Errors of a topic that hide what is wrong with the bytes: a client must not learn more about a topic it may not see.
REPORTED_FIRST: Final = (
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)


class ProducedTopic:
    """The partitions of one topic of a request, in the order in which they are answered."""

    __slots__ = ("entries", "name", "topic_id")

    def __init__(self, name: str, topic_id: bytes, entries: list[PartitionAppend]) -> None:
        self.name = name
        self.topic_id = topic_id
        self.entries = entries


class PendingAnswer:
    """The answer to a request, once its batches are appended, or their time is over. Called on any thread, once."""

    __slots__ = ("_acks", "_api", "_by_topic", "_request")

    def __init__(self, api: ProduceApi, request: Request[ProduceRequest], by_topic: list[ProducedTopic]) -> None:
        self._api = api
        self._request = request
        self._by_topic = by_topic
        self._acks = request.body.acks

    def __call__(self, _: Sequence[PartitionAppend]) -> None:
        """Answer."""
        request = self._request
        try:
            if self._acks == 0:
                self._api.answer_nothing(request, self._by_topic)
            else:
                request.respond(self._api.response(request, self._by_topic))
        except Exception as error:  # noqa: BLE001 - `fail` logs it; what Request.deferred does, without its call
            request.fail(error)


class ProduceApi:
    """Appends the records of producers and answers each partition on its own."""

    def __init__(
        self,
        replicas: ReplicaManager,
        metadata: MetadataCache,
        authorizer: Authorizer | None,
        verification: TransactionVerification,
    ) -> None:
        self._appender = replicas.appender
        self._hosted = replicas.hosted
        self._slow_topics = replicas.slow_topics
        self._large_batches = Line()
        self._metadata = metadata
        self._authorizer = authorizer
        self._verification = verification

    def handlers(self) -> Sequence[Handler]:
        """Return the lines of the table."""
        return (
            Handler(
                ApiKey.PRODUCE,
                self.produce,
                error_answer=_error_answer,
                brief=Brief(since=3, limit_bytes=AT_ONCE_BYTES),
            ),
        )

    # Not cut into functions: every produced batch goes through it, and a call costs as much as one of its sections.

    def produce(self, request: Request[ProduceRequest]) -> None:
        """Append every partition's batch; with acks=all the answer may wait for the in-sync replicas.

        Raises ApiError for the whole request: TRANSACTIONAL_ID_AUTHORIZATION_FAILED, INVALID_PRODUCER_ID_MAPPING.
        """
        body = request.body
        version = request.api_version
        acks = body.acks
        image = self._metadata.image
        writable: Container[str] = image.topics
        if self._authorizer is not None:
            # With an authorizer only: without one every topic that exists can be written to, and nothing is allocated.
            writable = self._writable_topics(self._authorizer, request, image)
        to_append: list[PartitionAppend] = []
        by_topic: list[ProducedTopic] = []
        asked = body.topic_data
        # Most requests of most producers are one batch, which needs no look for duplicates.
        has_one_batch = len(asked) == 1 and len(asked[0].partition_data) == 1
        if not has_one_batch:
            asked = _each_partition_once(body, most=AT_ONCE_BATCHES if request.brief else None)
        for topic in asked:
            name = topic.name if version < 13 else image.topic_names.get(topic.topic_id, "")
            refusal = None
            if name not in writable or name in _INTERNAL or acks not in VALID_ACKS:
                refusal = self._refused_topic(request, name, image, writable)
            entries: list[PartitionAppend] = []
            for partition in topic.partition_data:
                records = partition.records
                # The only reading of the header on the way to the disk. An entry is appended, or fails at once.
                header = None if records is None else BatchHeader.parse(records)
                entry = PartitionAppend(name, partition.index, records, header)
                entries.append(entry)
                error = refused_batch(version, records, header, body.transactional_id)
                if error is None and refusal is None:
                    if (
                        header is None
                        or header.attributes & CODEC_MASK
                        or header.count > _AT_ONCE_RECORDS
                        or name in self._slow_topics
                    ):
                        self._look_ahead(request, entry, to_append)
                    to_append.append(entry)
                else:
                    # Each partition fails alone: the others of the request are appended.
                    entry.fail(_first_of(error, refusal, image, entry))
            if entries:
                by_topic.append(ProducedTopic(name, topic.topic_id, entries))
        # From here on the records are the entries' alone: a view in the request would keep the frame's buffer.
        if has_one_batch:
            asked[0].partition_data[0].records = None
        else:
            _release_records(asked)

        answer = PendingAnswer(self, request, by_topic)
        if body.transactional_id is not None:
            self._append_verified(request, body.transactional_id, to_append, answer)
            return
        self._appender.append_records(to_append, required_acks=acks, timeout_ms=body.timeout_ms, on_complete=answer)

    def _append_verified(
        self,
        request: Request[ProduceRequest],
        transactional_id: str,
        entries: Sequence[PartitionAppend],
        answer: AppendCallback,
    ) -> None:
        """Append batches, the transactional ones of them when their coordinator has confirmed the transaction.

        Raises ApiError: INVALID_PRODUCER_ID_MAPPING when they have several producers.
        """
        body = request.body
        acks, timeout_ms = body.acks, body.timeout_ms
        adds = request.api_version >= ADDS_PARTITIONS_SINCE
        is_large = request is self._large_batches.holder

        def append(errors: VerificationErrors) -> None:
            if is_large and request is not self._large_batches.holder:
                # The place was given to others while the coordinator was asked.
                self._large_batches.queue(request, request.deferred(lambda _request: append(errors)))
                return
            verified = []
            for entry in entries:
                # Nothing is asked for batches outside of the transaction, so they have no error.
                code = errors.get(TopicPartition(entry.topic, entry.partition))
                if code is None:
                    verified.append(entry)
                else:
                    entry.fail(producer_error(code, adds=adds))
            self._appender.append_records(verified, required_acks=acks, timeout_ms=timeout_ms, on_complete=answer)

        producer = _transactional_producer(transactional_id, entries)
        if producer is None:
            append({})
            return
        writes = [
            TransactionalWrite(TopicPartition(entry.topic, entry.partition), header.base_sequence)
            for entry in entries
            if (header := _transactional_header(entry)) is not None
        ]
        terms = VerificationTerms(tells_abortable=request.api_version >= ABORTABLE_SINCE, adds=adds)
        self._verification.verify(
            request,
            VerificationQuestion(producer, writes, terms),
            append,
            before_asking=lambda: _keep_records(entries),
        )

    def _look_ahead(
        self,
        request: Request[ProduceRequest],
        entry: PartitionAppend,
        before: Sequence[PartitionAppend],
    ) -> None:
        """Decompress a batch that is small, so that the log need not.

        before: the request's batches before this one; on a network thread the bound on decompressed bytes is for all.
        Raises NeedsHandlerThread when appending the batch takes long, and NeedsPlace when its records are large, before
        anything of the request is appended.
        """
        header = entry.header
        if request is self._large_batches.holder:
            return
        if header is None:  # old formats, which no network thread handles
            from barnabas.storage.validation.legacy import may_be_large  # noqa: PLC0415 - few clients have them

            if may_be_large(entry.records):
                raise NeedsPlace(self._large_batches)
            return
        try:
            validator = self._hosted.partition_or_error(entry.topic, entry.partition).log.validator
        except ApiError:  # the append comes to the same error, and answers it
            return
        if request.brief:
            left = AT_ONCE_BYTES - sum(len(other.body) for other in before if other.body is not None)
            found = validator.look_ahead(entry.records, header, left)
            if found.takes_long:
                hand_over()
        else:
            found = validator.small_body(entry.records, header)
            if found.takes_long:
                raise NeedsPlace(self._large_batches)
            if len(before) >= AT_ONCE_BATCHES:
                return  # decompressed again by the append: the bodies of all batches together stay small
        entry.body = found.body

    @staticmethod
    def _writable_topics(
        authorizer: Authorizer, request: Request[ProduceRequest], image: MetadataImage
    ) -> Container[str]:
        """Return the topics that the client may write to; not all of them exist.

        Raises ApiError TRANSACTIONAL_ID_AUTHORIZATION_FAILED for transactional batches of an id that the client may not
        use.
        """
        topics, transactional_id = request.body.topic_data, request.body.transactional_id
        # `refused_batch` refuses transactional batches without an id.
        if transactional_id is not None and _has_transactional_batch(topics):
            action = (AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)
            if not is_allowed(authorizer, request, *action):
                raise ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        by_id = request.api_version >= 13
        if len(topics) == 1:
            # Most requests name one topic, which the client was allowed to write to before.
            name = image.topic_names.get(topics[0].topic_id, "") if by_id else topics[0].name
            if authorizer.is_known_to_allow(request.connection, AclOperation.WRITE, ResourceType.TOPIC, name):
                return image.topics
        names = [image.topic_names.get(topic.topic_id, "") if by_id else topic.name for topic in topics]
        asked = [name for name in names if name or not by_id]
        return permitted(authorizer, request, AclOperation.WRITE, ResourceType.TOPIC, asked)

    @staticmethod
    def _refused_topic(
        request: Request[ProduceRequest], name: str, image: MetadataImage, writable: Container[str]
    ) -> ApiError | None:
        """Return why nothing of the topic may be appended, in Kafka's order, or None.

        Only a client that may write to a topic learns whether it exists.
        """
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

    def response(self, request: Request[ProduceRequest], by_topic: list[ProducedTopic]) -> ProduceResponse:
        """Build the answer from what became of each partition."""
        # By position: keywords would double the cost of what every request does once.
        topics = []
        count = 0
        leaders = None
        for topic in by_topic:
            answers = []
            for entry in topic.entries:
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
                        PartitionProduceResponse(
                            entry.partition, 0, info.first_offset, info.log_append_time_ms, info.log_start_offset
                        )
                    )
            topics.append(TopicProduceResponse(topic.name, topic.topic_id, answers))
            count += len(answers)
        response = ProduceResponse(topics)
        if leaders is None:
            request.successes = count
        else:
            response.node_endpoints = [
                NodeEndpoint(node.id, node.host, node.port, node.rack) for node in leaders.nodes()
            ]
        return response

    def answer_nothing(self, request: Request[ProduceRequest], by_topic: list[ProducedTopic]) -> None:
        """Finish a request with acks=0: on an error close the connection, which makes the client ask for metadata."""
        for topic in by_topic:
            for entry in topic.entries:
                if entry.info is not None and entry.info.conversion_ns:
                    request.note_conversion(entry.info.conversion_ns, entry.info.valid_bytes)
        errors = {
            f"{topic.name}-{entry.partition}": entry.error.name
            for topic in by_topic
            for entry in topic.entries
            if entry.error is not ErrorCode.NONE
        }
        if errors:
            logger.info(
                "closing connection %s of client %r: a produce with acks=0 failed: %s",
                request.connection.connection_id,
                request.header.client_id,
                errors,
            )
            request.response = self.response(request, by_topic)  # never sent, but its errors are counted
            request.close_connection()
        else:
            request.no_response()


def _error_answer(request: Request[ProduceRequest], error: ApiError) -> Message | None:
    """Say the error of every partition; None to a client that waits for no answer."""
    # A client that sent acks=0 reads no answer: bytes it does not expect would be taken for the next one's.
    return None if request.body.acks == 0 else described_error_answer(request, error)


def _failure_answer(entry: PartitionAppend, leaders: CurrentLeaders, version: int) -> PartitionProduceResponse:
    """Answer with an error. Records that were appended and not replicated in time keep their offsets (Kafka:
    DelayedProduce)."""
    info = entry.info
    failure = entry.failure
    answer = PartitionProduceResponse(
        index=entry.partition,
        error_code=entry.error,
        base_offset=-1 if info is None else info.first_offset,
        log_append_time_ms=-1 if info is None else info.log_append_time_ms,
        log_start_offset=entry.log_start_offset if info is None else info.log_start_offset,
        record_errors=[
            BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=message)
            for index, message in entry.record_errors
        ],
        error_message=None if failure is None else failure.message,
    )
    if version >= 10 and entry.error is ErrorCode.NOT_LEADER_OR_FOLLOWER:
        # KIP-951: tell the client who leads, to save it a metadata request.
        answer.current_leader = LeaderIdAndEpoch(*leaders.leader_of(entry.topic, entry.partition))
    return answer


def _release_records(topics: Sequence[TopicProduceData]) -> None:
    """Forget the records of every partition."""
    for topic in topics:
        for partition in topic.partition_data:
            partition.records = None


def _each_partition_once(body: ProduceRequest, most: int | None) -> list[TopicProduceData]:
    """Keep the last batch of a partition that is named twice, as Kafka, whose maps are keyed by partition.

    Raises NeedsHandlerThread when the request has more batches than `most`.
    """
    topics = body.topic_data
    if most is not None and sum(len(topic.partition_data) for topic in topics) > most:
        hand_over()
    if len({topic.name or topic.topic_id for topic in topics}) == len(topics) and all(
        len({partition.index for partition in topic.partition_data}) == len(topic.partition_data) for topic in topics
    ):
        return topics
    merged: dict[str | bytes, dict[int, PartitionProduceData]] = {}
    first: dict[str | bytes, TopicProduceData] = {}
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
    """Return the first error of these: the permission, the existence of the partition, the batch."""
    if refusal is not None and refusal.code in REPORTED_FIRST:
        return refusal
    if image.partition(TopicPartition(entry.topic, entry.partition)) is None:
        return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return error or refusal or ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)


def _has_transactional_batch(topics: Sequence[TopicProduceData]) -> bool:
    """Return whether a batch is part of a transaction (Kafka: RequestUtils.hasTransactionalRecords)."""
    for topic in topics:
        for partition in topic.partition_data:
            header = None if partition.records is None else BatchHeader.parse(partition.records)
            if header is not None and header.is_transactional:
                return True
    return False


def _transactional_header(entry: PartitionAppend) -> BatchHeader | None:
    """Return the header of a batch that is part of a transaction, None for any other."""
    header = entry.header
    return header if header is not None and header.is_transactional and header.producer_id >= 0 else None


def _transactional_producer(transactional_id: str, entries: Sequence[PartitionAppend]) -> TransactionalProducer | None:
    """Return the producer of the transactional batches, None if there are none.

    Raises ApiError: INVALID_PRODUCER_ID_MAPPING when they have several.
    """
    headers = map(_transactional_header, entries)
    producers = {(header.producer_id, header.producer_epoch) for header in headers if header is not None}
    if len(producers) > 1:
        text = "Transactional records contained more than one producer ID"
        raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, text)
    return TransactionalProducer(transactional_id, *producers.pop()) if producers else None


def _keep_records(entries: Sequence[PartitionAppend]) -> None:
    """Copy the records: the frame that they are a view of may be reused while a coordinator is asked."""
    for entry in entries:
        entry.records = bytes(entry.records)
