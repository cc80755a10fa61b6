"""Fetch: v0-18.

Brief from v4 on; runs on the Processor's thread or a handler's, its answer perhaps on the thread that completes a long
poll. v0-3: messages of magic 0 and 1, converted while they are sent (`LazyDownConversionRecords`). v3: limit of the
whole answer. v4: isolation level. v5: log start offset. v6: KAFKA_STORAGE_ERROR. v7: sessions (KIP-227,
`api.fetch_sessions`). v9: leader epoch. v10: zstd. v11: consumers may read from followers (KIP-392). v12: flexible,
last fetched epoch. v13: topic ids. v15: replica state. v16: the current leader in errors, node endpoints (KIP-951).

Kafka: KafkaApis.handleFetchRequest.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Final

from barnabas.api.authorize import CLUSTER_NAME, AclOperation, Authorizer, ResourceType, is_allowed, permitted
from barnabas.api.brief import Brief
from barnabas.api.current_leader import CurrentLeaders
from barnabas.api.fetch_session import FINAL_EPOCH, NO_SESSION, Refused
from barnabas.api.fetch_sessions import TOPIC_IDS, FetchSessions, FullFetch, IncrementalFetch
from barnabas.api.request import Handler, Request, Throttle
from barnabas.metadata.metadata_cache import MetadataCache
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.records.errors import CorruptRecord, UnsupportedCodec
from barnabas.records.file_records import FileRecords
from barnabas.records.lazy_down_conversion import LazyDownConversionRecords
from barnabas.replica.partition_fetch import FetchTerms, PartitionFetch
from barnabas.replica.replica_manager import ReplicaManager
from barnabas.runtime.clock import Clock
from barnabas.storage.fetch_data import FetchIsolation

logger = logging.getLogger(__name__)

TopicAnswer = FetchResponse.FetchableTopicResponse
PartitionAnswer = FetchResponse.PartitionData

LEADER_ERRORS: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
READ_UNCOMMITTED, READ_COMMITTED = 0, 1

FOLLOWER_FETCH, REPLICA_STATE, CURRENT_LEADER = 11, 15, 16
ZSTD_SINCE, STORAGE_ERROR_SINCE = 10, 6
LAST_CONVERTED: Final = 3
"""Versions from which on, or up to which, something holds."""

LARGE_BYTES: Final = 64 * 1024
"""Of a range of a file: smaller ones are not worth a look whether they are in the page cache."""

ANSWER_BYTES, TOPIC_BYTES, PARTITION_BYTES = 22, 6, 50
"""What an answer has besides records and names, more or less: the layouts differ by a few bytes from version to
version. This is what quotas are charged for."""

Context = FullFetch | IncrementalFetch | None
"""What a fetch is in terms of sessions; None outside of them."""


class FetchApi:
    """Reads what a consumer asks for, and waits for it when there is too little.

    max_bytes: `fetch.max.bytes`, the broker's own limit of an answer.
    """

    def __init__(
        self,
        replicas: ReplicaManager,
        metadata: MetadataCache,
        sessions: FetchSessions,
        max_bytes: int,
        clock: Clock,
        authorizer: Authorizer | None,
    ) -> None:
        self._now = clock.nanoseconds
        self._sessions = sessions
        self._reader = replicas.reader
        self._hosted = replicas.hosted
        self._topic_stats = replicas.topic_stats
        self._metadata = metadata
        self._max_bytes = max_bytes
        self._authorizer = authorizer

    def handlers(self) -> Sequence[Handler]:
        """Return the lines of the table."""
        return (Handler(ApiKey.FETCH, self.fetch, brief=Brief(since=LAST_CONVERTED + 1)),)

    def fetch(self, request: Request[FetchRequest]) -> None:
        """Read the partitions asked for; a long poll is answered by whoever completes it.

        Raises ApiError for the whole request: an isolation level that does not exist.
        """
        body = request.body
        version = request.api_version
        terms = self._terms(body, version)
        context: Context = None
        if body.session_epoch != FINAL_EPOCH or body.session_id != NO_SESSION:
            try:
                context = self._sessions.begin(
                    body, version, is_from_follower=terms.is_from_follower, brief=request.brief
                )
            except ApiError as error:
                request.respond(FetchResponse(error_code=error.code))
                return
        fetches: Sequence[PartitionFetch]
        if context is not None and isinstance(context, IncrementalFetch):
            fetches, refused = self._partitions_in_session(request, context, is_follower=terms.is_from_follower)
        elif self._authorizer is None:
            fetches, refused = self._partitions_asked_for(body.topics, version)
        else:
            topics, unauthorized = self._readable(request, is_follower=terms.is_from_follower)
            fetches, refused = self._partitions_asked_for(topics, version)
            refused = unauthorized + refused
        throttle = request.handler.throttle
        if throttle is not None:
            terms = _within_quota(request, throttle, terms)

        def answer(results: Sequence[PartitionFetch]) -> None:
            # What Request.deferred does, without its call.
            try:
                if throttle is not None and self._is_throttled(request, context, throttle, terms, results, refused):
                    return
                on_disk = [fetch.records for fetch in results if _waits_for_disk(fetch.records)]
                if on_disk:
                    request.channel.resume(lambda: self._read_and_respond(request, context, on_disk, results, refused))
                    return
                response = (
                    self._answer(request, NO_SESSION, results, refused)
                    if context is None
                    else self._answer_in_session(request, context, results, refused)
                )
            except Exception as error:  # noqa: BLE001 - `fail` logs it
                _give_up(request, results, error)
            else:
                request.respond(response)

        self._reader.fetch_records(terms, fetches, answer)

    def _terms(self, body: FetchRequest, version: int) -> FetchTerms:
        state = body.replica_state
        replica_id, replica_epoch = body.replica_id, -1
        if version >= REPLICA_STATE and state is not None:
            replica_id, replica_epoch = state.replica_id, state.replica_epoch
        if body.isolation_level not in (READ_UNCOMMITTED, READ_COMMITTED):
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"Unknown isolation level {body.isolation_level}")
        if replica_id >= 0:
            isolation = FetchIsolation.LOG_END
        elif body.isolation_level == READ_COMMITTED:
            isolation = FetchIsolation.TXN_COMMITTED
        else:
            isolation = FetchIsolation.HIGH_WATERMARK
        max_bytes = min(body.max_bytes, self._max_bytes) if version >= 3 else self._max_bytes
        min_bytes = min(body.min_bytes, max_bytes)
        leader_only = replica_id >= 0 or version < FOLLOWER_FETCH
        return FetchTerms(
            body.max_wait_ms, min_bytes, max_bytes, isolation, version <= 2, replica_id, replica_epoch, leader_only
        )

    def _readable(
        self, request: Request[FetchRequest], *, is_follower: bool
    ) -> tuple[list[FetchRequest.FetchTopic], list[Refused]]:
        """The topics that the sender may read, and the partitions of all others; followers need one permission."""
        topics = request.body.topics
        by_id = request.api_version >= TOPIC_IDS
        names = self._metadata.image.topic_names
        named = [(names.get(topic.topic_id) if by_id else topic.topic, topic) for topic in topics]
        if is_follower:
            cluster = (AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)
            allowed = is_allowed(self._authorizer, request, *cluster)
            return (topics, []) if allowed else ([], _unauthorized(named, by_id))
        asked = [name for name, topic in named if name is not None for _ in topic.partitions]
        readable = permitted(self._authorizer, request, AclOperation.READ, ResourceType.TOPIC, asked)
        hidden = [(name, topic) for name, topic in named if name is not None and name not in readable]
        return [topic for name, topic in named if name is None or name in readable], _unauthorized(hidden, by_id)

    def _partitions_asked_for(
        self, topics_asked_for: Sequence[FetchRequest.FetchTopic], version: int
    ) -> tuple[list[PartitionFetch], list[Refused]]:
        """What can be read; and what the metadata does not know, which neither is read nor ends a long poll."""
        fetches: list[PartitionFetch] = []
        refused: list[Refused] = []
        image = self._metadata.image
        topics, names = image.topics, image.topic_names
        by_id = version >= TOPIC_IDS
        for topic in topics_asked_for:
            name = names.get(topic.topic_id) if by_id else topic.topic
            known = topics.get(name) if name is not None else None
            count = 0 if known is None else len(known.partitions)
            topic_id = topic.topic_id if by_id else b""
            for asked in topic.partitions:
                if known is None or not (0 <= asked.partition < count or known.partition(asked.partition)):
                    code = ErrorCode.UNKNOWN_TOPIC_ID if name is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                    refused.append((name or "", topic_id, asked.partition, code))
                    continue
                fetches.append(
                    PartitionFetch(
                        known.name,
                        asked.partition,
                        asked.fetch_offset,
                        asked.partition_max_bytes,
                        topic_id=topic_id,
                        current_leader_epoch=asked.current_leader_epoch,
                        last_fetched_epoch=asked.last_fetched_epoch,
                        log_start_offset_of_follower=asked.log_start_offset,
                    )
                )
        return fetches, refused

    def _partitions_in_session(
        self, request: Request[FetchRequest], context: IncrementalFetch, *, is_follower: bool
    ) -> tuple[Sequence[PartitionFetch], list[Refused]]:
        """The same for all partitions of a session, with those refused that the sender may not read."""
        fetches, refused = context.partitions(self._metadata.image)
        if self._authorizer is None:
            return fetches, refused
        if is_follower:
            cluster = (AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)
            readable = frozenset[str]()
            if is_allowed(self._authorizer, request, *cluster):
                return fetches, refused
        else:
            asked = [each.topic for each in fetches] + [name for name, _, _, _ in refused if name]
            readable = permitted(self._authorizer, request, AclOperation.READ, ResourceType.TOPIC, asked)
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        hidden = [(each.topic, each.topic_id, each.partition, code) for each in fetches if each.topic not in readable]
        hidden += [
            each if each[0] in readable or not (each[0] or is_follower) else (*each[:3], code) for each in refused
        ]
        return [each for each in fetches if each.topic in readable], hidden

    def _is_throttled(
        self,
        request: Request[FetchRequest],
        context: Context,
        throttle: Throttle,
        terms: FetchTerms,
        results: Sequence[PartitionFetch],
        refused: Sequence[Refused],
    ) -> bool:
        """Charge the client; if it has to wait answer with nothing, and forget what was read. Followers are exempt.

        The size is that of the answer within some bytes, and before any conversion, as in Kafka.
        """
        if terms.is_from_follower:
            throttle.charge_nobody(request)
            return False
        news = results if context is None else context.news(results)
        names = {fetch.topic for fetch in news}
        size = ANSWER_BYTES + sum(len(name) + TOPIC_BYTES for name in names)
        size += PARTITION_BYTES * (len(news) + len(refused)) + sum(len(fetch.records) for fetch in news)
        throttle_time_ms = throttle.charge_fetch(request, size)
        if throttle_time_ms <= 0:
            return False
        for fetch in results:
            if fetch.records:
                self._topic_stats.topic(fetch.topic).bytes_out -= len(fetch.records)
            fetch.release()
        response = FetchResponse(throttle_time_ms=throttle_time_ms, session_id=NO_SESSION)
        if context is not None:
            response.session_id = context.session_id
            if not context.is_last():
                response.error_code = ErrorCode.INVALID_FETCH_SESSION_EPOCH
            context.end()
        request.respond(response)
        return True

    def _read_and_respond(
        self,
        request: Request[FetchRequest],
        context: Context,
        on_disk: Sequence[FileRecords],
        results: Sequence[PartitionFetch],
        refused: Sequence[Refused],
    ) -> None:
        """Bring records into the page cache, on a handler's thread, before they are sent."""
        try:
            for records in on_disk:
                records.bring_into_cache()
        except OSError as error:
            logger.warning("reading ahead of a fetch failed: %s", error)  # whoever sends it meets it again
        try:
            response = (
                self._answer(request, NO_SESSION, results, refused)
                if context is None
                else self._answer_in_session(request, context, results, refused)
            )
        except Exception as error:  # noqa: BLE001 - `fail` logs it
            _give_up(request, results, error)
        else:
            request.respond(response)

    def _answer_in_session(
        self,
        request: Request[FetchRequest],
        context: FullFetch | IncrementalFetch,
        results: Sequence[PartitionFetch],
        refused: Sequence[Refused],
    ) -> FetchResponse:
        """What is new to the client, or everything to whom the session is new."""
        told = context.answered(results, refused)
        if told is None:
            for fetch in results:
                fetch.release()
            return FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH, session_id=context.session_id)
        response = self._answer(request, context.session_id, told, refused)
        context.end()
        return response

    def _answer(
        self,
        request: Request[FetchRequest],
        session_id: int,
        results: Sequence[PartitionFetch],
        refused: Sequence[Refused],
    ) -> FetchResponse:
        version = request.api_version
        topics: dict[Any, TopicAnswer] = {}
        leaders: CurrentLeaders | None = None
        for fetch in results:
            answer = self._partition_answer(request, fetch)
            if version >= CURRENT_LEADER and fetch.error in LEADER_ERRORS:
                if leaders is None:
                    listener = request.connection.listener_name
                    leaders = CurrentLeaders(self._hosted, self._metadata.image, listener)
                leader = leaders.leader_of(fetch.topic, fetch.partition)
                answer.current_leader = FetchResponse.LeaderIdAndEpoch(*leader)
            self._topic_answer(topics, fetch.topic, fetch.topic_id).partitions.append(answer)
        for name, topic_id, partition, code in refused:
            self._topic_answer(topics, name, topic_id).partitions.append(_refusal(partition, code))
        response = FetchResponse(error_code=ErrorCode.NONE, session_id=session_id, responses=list(topics.values()))
        if leaders is not None:
            response.node_endpoints = [FetchResponse.NodeEndpoint(*node) for node in leaders.nodes()]
        return response

    @staticmethod
    def _topic_answer(topics: dict[Any, TopicAnswer], name: str, topic_id: bytes) -> TopicAnswer:
        key = topic_id or name
        answer = topics.get(key)
        if answer is None:
            answer = topics[key] = TopicAnswer(topic=name, topic_id=topic_id or bytes(16), partitions=[])
        return answer

    def _partition_answer(self, request: Request[FetchRequest], fetch: PartitionFetch) -> PartitionAnswer:
        version = request.api_version
        if version < ZSTD_SINCE:
            refusal = self._refusal_of_old_version(request, fetch)
            if refusal is not None:
                fetch.release()
                return _refusal(fetch.partition, refusal, records=None)
        error = fetch.error
        if error is ErrorCode.KAFKA_STORAGE_ERROR and version < STORAGE_ERROR_SINCE:
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER  # which old clients know to be worth another try
        answer = PartitionAnswer(  # by position: keywords would cost half as much again
            fetch.partition,
            error,
            fetch.high_watermark,
            fetch.last_stable_offset,
            fetch.log_start_offset,
            None,
            None,
            None,
            fetch.aborted_transactions,
            fetch.preferred_read_replica,
            fetch.records,
        )
        if fetch.diverging_epoch is not None:
            answer.diverging_epoch = FetchResponse.EpochEndOffset(*fetch.diverging_epoch)
        if version <= LAST_CONVERTED and isinstance(fetch.records, FileRecords):
            return self._converted(request, fetch, 0 if version <= 1 else 1, answer)
        return answer

    def _converted(
        self, request: Request[FetchRequest], fetch: PartitionFetch, magic: int, answer: PartitionAnswer
    ) -> PartitionAnswer:
        """The answer with messages of an old format for what was read; what cannot be converted is its error."""
        topic, stats_of = fetch.topic, self._topic_stats.topic

        def count_conversion(records: int, nanoseconds: int, size: int) -> None:
            stats_of(topic).fetch_message_conversions += records
            request.note_conversion(nanoseconds, size)

        try:
            answer.records = LazyDownConversionRecords(
                fetch.records, magic, fetch.fetch_offset, count_conversion, self._now
            )
        except UnsupportedCodec:
            error = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        except CorruptRecord:
            error = ErrorCode.CORRUPT_MESSAGE
        else:
            return answer
        fetch.release()
        return _refusal(fetch.partition, error, records=None)

    def _refusal_of_old_version(self, request: Request[FetchRequest], fetch: PartitionFetch) -> ErrorCode | None:
        """Why a topic's settings keep its records from old clients, whatever was asked for."""
        try:
            config = self._hosted.partition_or_error(fetch.topic, fetch.partition).log.config
        except ApiError:
            return None
        if config.compression_type == "zstd":
            return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        is_consumer = request.body.replica_id < 0
        if request.api_version <= LAST_CONVERTED and is_consumer and not config.message_downconversion:
            return ErrorCode.UNSUPPORTED_VERSION
        return None


def _within_quota(request: Request[FetchRequest], throttle: Throttle, terms: FetchTerms) -> FetchTerms:
    """Limited to what the client's quota ever lets pass at once: else it would be throttled again and again."""
    most = None if terms.is_from_follower else throttle.max_fetch_bytes(request)
    if most is None or most >= terms.max_bytes:
        return terms
    return terms._replace(max_bytes=most, min_bytes=min(terms.min_bytes, most))


def _unauthorized(topics: Sequence[tuple[str | None, FetchRequest.FetchTopic]], by_id: bool) -> list[Refused]:
    return [
        (name or "", topic.topic_id if by_id else b"", asked.partition, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        for name, topic in topics
        for asked in topic.partitions
    ]


def _give_up(request: Request[FetchRequest], results: Sequence[PartitionFetch], error: Exception) -> None:
    for fetch in results:
        fetch.release()
    request.fail(error)


def _waits_for_disk(records: FileRecords | bytes) -> bool:
    """Whether sending it would make the network thread, and every other connection, wait for the disk."""
    return isinstance(records, FileRecords) and len(records) >= LARGE_BYTES and not records.is_cached()


def _refusal(partition: int, code: ErrorCode, records: bytes | None = b"") -> PartitionAnswer:
    return PartitionAnswer(partition_index=partition, error_code=code, high_watermark=-1, records=records)
