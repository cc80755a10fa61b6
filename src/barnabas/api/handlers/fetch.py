"""Fetch: v0-18.

Brief; runs on the Processor's thread or a handler's, its answer perhaps on the thread that completes a long poll.
v0-3: messages of magic 0 and 1 (down-converted). v3: limit of the whole answer. v4: isolation level. v7: sessions
(KIP-227; none is created yet: every fetch is answered as a full one, which the protocol allows). v9: leader epoch.
v10: zstd. v12: flexible, current leader in errors. v13: topic ids. v15: replica state. v16: node endpoints.

Kafka: KafkaApis.handleFetchRequest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from barnabas.api.request import Request
from barnabas.metadata.metadata_cache import MetadataCache
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.errors import CorruptRecord, UnsupportedCodec
from barnabas.records.record_conversion import down_convert
from barnabas.replica.partition_fetch import FetchTerms, PartitionFetch
from barnabas.replica.replica_manager import ReplicaManager
from barnabas.storage.fetch_data import FetchIsolation

TopicAnswer = FetchResponse.FetchableTopicResponse
PartitionAnswer = FetchResponse.PartitionData

NO_SESSION = 0
LEADER_ERRORS = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)

Refused = tuple[str, bytes, int, ErrorCode]


class FetchApi:
    """Reads what a consumer asks for, and waits for it when there is too little.

    max_bytes: `fetch.max.bytes`, the broker's own limit of an answer.
    """

    def __init__(self, replicas: ReplicaManager, metadata: MetadataCache, max_bytes: int) -> None:
        self._replicas = replicas
        self._metadata = metadata
        self._max_bytes = max_bytes

    def fetch(self, request: Request[FetchRequest]) -> None:
        """Read the partitions asked for; a long poll is answered by whoever completes it."""
        body = request.body
        if body.session_id != NO_SESSION:
            request.respond(FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND))
            return
        version = request.api_version
        fetches, refused = self._partitions_asked_for(body, version)

        def answer(results: Sequence[PartitionFetch]) -> None:
            request.respond(self._response(results, refused, version))

        terms = self._terms(body, version)
        if refused:
            # An error is worth an immediate answer: the client must act on it.
            terms = FetchTerms(0, 0, terms.max_bytes, terms.isolation, terms.hard_max_bytes, terms.replica_id)
        self._replicas.fetch_records(terms, fetches, answer)

    @staticmethod
    def error(request: Request[FetchRequest], code: ErrorCode, message: str | None) -> FetchResponse:
        """A top-level error; before v7, which has none, the same error for every partition."""
        return FetchResponse(
            error_code=code,
            responses=[
                TopicAnswer(
                    topic=topic.topic,
                    topic_id=topic.topic_id,
                    partitions=[
                        PartitionAnswer(partition_index=partition.partition, error_code=code, high_watermark=-1)
                        for partition in topic.partitions
                    ],
                )
                for topic in request.body.topics
            ],
        )

    def _terms(self, body: FetchRequest, version: int) -> FetchTerms:
        state = body.replica_state
        replica_id = body.replica_id if version < 15 or state is None else state.replica_id
        if replica_id >= 0:
            isolation = FetchIsolation.LOG_END
        elif body.isolation_level == 1:
            isolation = FetchIsolation.TXN_COMMITTED
        else:
            isolation = FetchIsolation.HIGH_WATERMARK
        max_bytes = min(body.max_bytes, self._max_bytes) if version >= 3 else self._max_bytes
        return FetchTerms(
            max_wait_ms=body.max_wait_ms,
            min_bytes=min(body.min_bytes, max_bytes),
            max_bytes=max_bytes,
            isolation=isolation,
            hard_max_bytes=version <= 2,
            replica_id=replica_id,
        )

    def _partitions_asked_for(self, body: FetchRequest, version: int) -> tuple[list[PartitionFetch], list[Refused]]:
        fetches: list[PartitionFetch] = []
        refused: list[Refused] = []
        names = self._metadata.image.topic_names
        for topic in body.topics:
            name = topic.topic if version < 13 else names.get(topic.topic_id)
            for asked in topic.partitions:
                if name is None:
                    refused.append(("", topic.topic_id, asked.partition, ErrorCode.UNKNOWN_TOPIC_ID))
                else:
                    fetches.append(
                        PartitionFetch(
                            name,
                            asked.partition,
                            asked.fetch_offset,
                            asked.partition_max_bytes,
                            topic_id=topic.topic_id if version >= 13 else b"",
                            current_leader_epoch=asked.current_leader_epoch,
                        )
                    )
        return fetches, refused

    def _response(self, results: Sequence[PartitionFetch], refused: Sequence[Refused], version: int) -> FetchResponse:
        topics: dict[Any, TopicAnswer] = {}
        for fetch in results:
            answer = self._partition_answer(fetch, version)
            self._topic_answer(topics, fetch.topic, fetch.topic_id).partitions.append(answer)
        for name, topic_id, partition, code in refused:
            answer = PartitionAnswer(partition_index=partition, error_code=code, high_watermark=-1, records=b"")
            self._topic_answer(topics, name, topic_id).partitions.append(answer)
        return FetchResponse(error_code=ErrorCode.NONE, session_id=NO_SESSION, responses=list(topics.values()))

    @staticmethod
    def _topic_answer(topics: dict[Any, TopicAnswer], name: str, topic_id: bytes) -> TopicAnswer:
        key = topic_id or name
        answer = topics.get(key)
        if answer is None:
            answer = topics[key] = TopicAnswer(topic=name, topic_id=topic_id or bytes(16), partitions=[])
        return answer

    def _partition_answer(self, fetch: PartitionFetch, version: int) -> PartitionAnswer:
        records = fetch.records
        if version <= 3 and len(records) > 0:
            records = self._converted(fetch, 0 if version <= 1 else 1)
        answer = PartitionAnswer(
            partition_index=fetch.partition,
            error_code=fetch.error,
            high_watermark=fetch.high_watermark,
            last_stable_offset=fetch.last_stable_offset,
            log_start_offset=fetch.log_start_offset,
            aborted_transactions=fetch.aborted_transactions,
            records=records,
        )
        if version >= 12 and fetch.error in LEADER_ERRORS:
            leader = self._metadata.image.partition(TopicPartition(fetch.topic, fetch.partition))
            if leader is not None:
                answer.current_leader = FetchResponse.LeaderIdAndEpoch(leader.leader, leader.leader_epoch)
        return answer

    @staticmethod
    def _converted(fetch: PartitionFetch, magic: int) -> Any:
        """Messages of an old format, made of what was read; an impossible conversion is the partition's error."""
        try:
            data = fetch.records if isinstance(fetch.records, bytes) else fetch.records.read()
            converted = down_convert(data, magic, fetch.fetch_offset)
        except UnsupportedCodec:
            converted = b""
            error = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        except CorruptRecord:
            converted = b""
            error = ErrorCode.CORRUPT_MESSAGE
        else:
            error = ErrorCode.NONE
        high_watermark = fetch.high_watermark
        fetch.release()
        if error is not ErrorCode.NONE:
            fetch.fail(ApiError(error))
        fetch.high_watermark = high_watermark
        return converted
