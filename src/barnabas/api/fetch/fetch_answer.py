"""The answer to one fetch: throttled, read from the disk, or sent; in or out of a session.

Made by the Fetch handler, and called once, by whichever thread completes the fetch: the Processor's, a request
handler's, or the one that ends a long poll. Its steps:

    call -> above the quota?              -> an empty answer that says how long the client waits
         -> records that are not cached?  -> a request handler reads them, then
         -> made, in the session's terms  -> respond

A failure at any step gives back what was read and answers with the error. No lock: the request is this thread's.

Kafka: KafkaApis.handleFetchRequest, its processResponseCallback and maybeConvertFetchedData.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from barnabas.api.current_leader import CurrentLeaders
from barnabas.api.fetch.fetch_session import NO_SESSION, RefusedPartition
from barnabas.api.fetch.fetch_sessions import FullFetch, IncrementalFetch
from barnabas.api.request import Request, Throttle
from barnabas.metadata.metadata_cache import MetadataCache
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from barnabas.protocol.uuid import ZERO_UUID
from barnabas.records.errors import CorruptRecord, UnsupportedCodec
from barnabas.records.file_records import FileRecords
from barnabas.records.lazy_down_conversion import LazyDownConversionRecords
from barnabas.replica.broker_topic_stats import BrokerTopicStats
from barnabas.replica.partitions.hosted_partitions import HostedPartitions
from barnabas.replica.partitions.partition_fetch import PartitionFetch

logger = logging.getLogger(__name__)


_NONE: Final = ErrorCode.NONE
_NO_ID: Final = ZERO_UUID
LEADER_ERRORS: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
ZSTD_SINCE: Final = 10
STORAGE_ERROR_SINCE: Final = 6
CURRENT_LEADER: Final = 16
LAST_CONVERTED: Final = 3
"""The first versions with zstd, KAFKA_STORAGE_ERROR and the current leader; the last with converted records."""

LARGE_BYTES: Final = 64 * 1024
"""Of a range of a file: smaller ones are not worth a look whether they are in the page cache."""

ANSWER_BYTES: Final = 22
TOPIC_BYTES: Final = 6
PARTITION_BYTES: Final = 50
"""The bytes of an answer besides records and names, within a few bytes: layouts differ from version to version. Quotas
are charged for this much."""

Context: TypeAlias = FullFetch | IncrementalFetch | None
"""The session that a fetch opens or belongs to; None for a fetch outside of sessions."""


class FetchSources:
    """The parts of the broker that answers to fetches are made from. nanoseconds: the clock's monotonic time."""

    __slots__ = ("hosted", "metadata", "nanoseconds", "topic_stats")

    def __init__(
        self,
        hosted: HostedPartitions,
        topic_stats: BrokerTopicStats,
        metadata: MetadataCache,
        nanoseconds: Callable[[], int],
    ) -> None:
        self.hosted = hosted
        self.topic_stats = topic_stats
        self.metadata = metadata
        self.nanoseconds = nanoseconds


class FetchAnswer:
    """Answers one fetch. refused: the partitions that were not read."""

    __slots__ = ("_context", "_refused", "_request", "_sources")

    def __init__(
        self,
        request: Request[FetchRequest],
        sources: FetchSources,
        context: Context,
        refused: list[RefusedPartition],
    ) -> None:
        self._request = request
        self._sources = sources
        self._context = context
        self._refused = refused

    def __call__(self, results: list[PartitionFetch]) -> None:
        """Answer with what was read. A failure is answered as well."""
        for fetch in results:
            if fetch.size >= LARGE_BYTES:
                self._respond_from_disk(results)
                return
        self._respond(results)

    def _respond_from_disk(self, results: list[PartitionFetch]) -> None:
        """Do the same where the network thread, with all its connections, might have to wait for the disk."""
        try:
            on_disk = [
                fetch.records
                for fetch in results
                if isinstance(fetch.records, FileRecords) and _waits_for_disk(fetch.records)
            ]
        except Exception as error:  # noqa: BLE001 - `fail` logs it
            self._give_up(results, error)
            return
        if on_disk:
            # The disk may block. A request handler may wait for it; a network thread serves other connections.
            self._request.channel.resume(lambda: self._read_and_respond(results, on_disk))
        else:
            self._respond(results)

    def _read_and_respond(self, results: list[PartitionFetch], on_disk: list[FileRecords]) -> None:
        """Bring records into the page cache, on a handler's thread, before they are sent."""
        try:
            for records in on_disk:
                records.bring_into_cache()
        except OSError as error:
            logger.warning(
                "Prefetching the records of a fetch failed: %s", error
            )  # the thread that sends them raises it again
        self._respond(results)

    def _respond(self, results: list[PartitionFetch]) -> None:
        """Send everything outside of sessions and to a new one, else what is new to the client."""
        try:
            context = self._context
            if context is None:
                response = self._response(NO_SESSION, results)
            elif (selected := context.answered(results, self._refused)) is not None:
                response = self._response(context.session_id, selected)
                context.end()
            else:
                _release(results)
                response = FetchResponse(
                    error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH, session_id=context.session_id
                )
        except Exception as error:  # noqa: BLE001 - `fail` logs it
            self._give_up(results, error)
        else:
            self._request.respond(response)

    def _give_up(self, results: list[PartitionFetch], error: Exception) -> None:
        _release(results)
        self._request.fail(error)

    def _response(self, session_id: int, selected: list[PartitionFetch]) -> FetchResponse:
        version = self._request.api_version
        # Asked once: the loop below is the cost of a fetch of many partitions, and no current client is old.
        is_old = version < ZSTD_SINCE
        topics: dict[Any, FetchableTopicResponse] = {}
        leaders: CurrentLeaders | None = None
        answers: list[PartitionData] = []
        before: Any = None
        for fetch in selected:
            answer = self._old_answer(fetch, version) if is_old else _partition_answer(fetch)
            if fetch.error is not _NONE and version >= CURRENT_LEADER and fetch.error in LEADER_ERRORS:
                if leaders is None:
                    leaders = self._current_leaders()
                leader = leaders.leader_of(fetch.topic, fetch.partition)
                answer.current_leader = LeaderIdAndEpoch(leader.id, leader.epoch)
            key = fetch.topic_id or fetch.topic
            # The partitions of a topic usually follow each other, and share the object that names it.
            if key is not before:
                before = key
                answers = _topic_answer(topics, fetch.topic, fetch.topic_id).partitions
            answers.append(answer)
        for name, topic_id, partition, code in self._refused:
            _topic_answer(topics, name, topic_id).partitions.append(_refusal(partition, code))
        response = FetchResponse(0, _NONE, session_id, list(topics.values()))
        if leaders is not None:
            response.node_endpoints = [NodeEndpoint(*node) for node in leaders.nodes()]
        return response

    def _current_leaders(self) -> CurrentLeaders:
        sources = self._sources
        return CurrentLeaders(sources.hosted, sources.metadata.image, self._request.connection.listener_name)

    # -- old versions

    def _old_answer(self, fetch: PartitionFetch, version: int) -> PartitionData:
        """Answer a client that may lack a codec, an error code or the format of the records."""
        refusal = self._refusal_of_old_version(fetch)
        if refusal is not None:
            fetch.release()
            return _refusal(fetch.partition, refusal, records=None)
        answer = _partition_answer(fetch)
        if fetch.error is ErrorCode.KAFKA_STORAGE_ERROR and version < STORAGE_ERROR_SINCE:
            answer.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER  # which old clients retry
        if version <= LAST_CONVERTED and isinstance(fetch.records, FileRecords):
            return self._converted(fetch, 0 if version <= 1 else 1, answer)
        return answer

    def _converted(self, fetch: PartitionFetch, magic: int, answer: PartitionData) -> PartitionData:
        """Return the answer with messages of an old format; what cannot be converted is its error."""
        topic, stats_of, request = fetch.topic, self._sources.topic_stats.topic, self._request

        def count_conversion(records: int, nanoseconds: int, size: int) -> None:
            stats_of(topic).fetch_message_conversions += records
            request.note_conversion(nanoseconds, size)

        try:
            answer.records = LazyDownConversionRecords(
                fetch.records, magic, fetch.fetch_offset, count_conversion, self._sources.nanoseconds
            )
        except UnsupportedCodec:
            error = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        except CorruptRecord:
            error = ErrorCode.CORRUPT_MESSAGE
        else:
            return answer
        fetch.release()
        return _refusal(fetch.partition, error, records=None)

    def _refusal_of_old_version(self, fetch: PartitionFetch) -> ErrorCode | None:
        """Return why a topic's settings keep its records from old clients, whatever was asked for."""
        try:
            config = self._sources.hosted.partition_or_error(fetch.topic, fetch.partition).log.config
        except ApiError:
            return None
        # KIP-110: clients before v10 cannot read zstd. The setting is asked, as in Kafka, not each batch.
        if config.compression_type == "zstd":
            return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        is_consumer = self._request.body.replica_id < 0
        if self._request.api_version <= LAST_CONVERTED and is_consumer and not config.message_downconversion:
            return ErrorCode.UNSUPPORTED_VERSION
        return None


class ChargedFetchAnswer(FetchAnswer):
    """The answer to a fetch that counts for a quota; above the quota it is empty."""

    __slots__ = ("_is_from_follower", "_throttle")

    def __init__(
        self,
        request: Request[FetchRequest],
        sources: FetchSources,
        context: Context,
        refused: list[RefusedPartition],
        throttle: Throttle,
        *,
        is_from_follower: bool,
    ) -> None:
        super().__init__(request, sources, context, refused)
        self._throttle = throttle
        self._is_from_follower = is_from_follower

    def __call__(self, results: list[PartitionFetch]) -> None:
        """Charge the client, then answer with what was read, unless the client has to wait."""
        try:
            is_throttled = self._is_throttled(results)
        except Exception as error:  # noqa: BLE001 - `fail` logs it
            self._give_up(results, error)
            return
        if not is_throttled:
            super().__call__(results)

    def _is_throttled(self, results: list[PartitionFetch]) -> bool:
        """Charge the client; if it has to wait answer with nothing, and forget what was read. Followers are exempt.

        The size is that of the answer within some bytes, and before any conversion, as in Kafka.
        """
        request, context, throttle = self._request, self._context, self._throttle
        if self._is_from_follower:
            throttle.exempt(request)
            return False
        to_be_answered = results if context is None else context.to_be_answered(results)
        # `to_be_answered` and not `results`: partitions of a session without anything new are not in the answer.
        names = {fetch.topic for fetch in to_be_answered}
        size = ANSWER_BYTES + sum([len(name) + TOPIC_BYTES for name in names])
        size += PARTITION_BYTES * (len(to_be_answered) + len(self._refused)) + sum(
            [fetch.size for fetch in to_be_answered]
        )
        throttle_time_ms = throttle.charge_fetch(request, size)
        if throttle_time_ms <= 0:
            return False
        topic_stats = self._sources.topic_stats
        for fetch in results:
            if fetch.size:
                # Counted when it was read, and not sent after all.
                topic_stats.topic(fetch.topic).bytes_out -= fetch.size
            fetch.release()
        response = FetchResponse(throttle_time_ms=throttle_time_ms, session_id=NO_SESSION)
        if context is not None:
            response.session_id = context.session_id
            if not context.is_last():
                response.error_code = ErrorCode.INVALID_FETCH_SESSION_EPOCH
            context.end()
        request.respond(response)
        return True


def _partition_answer(fetch: PartitionFetch) -> PartitionData:
    answer = PartitionData(  # by position: keywords would cost half as much again
        fetch.partition,
        fetch.error,
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
        answer.diverging_epoch = EpochEndOffset(*fetch.diverging_epoch)
    return answer


def _release(results: list[PartitionFetch]) -> None:
    for fetch in results:
        fetch.release()


def _topic_answer(topics: dict[Any, FetchableTopicResponse], name: str, topic_id: bytes) -> FetchableTopicResponse:
    key = topic_id or name
    answer = topics.get(key)
    if answer is None:
        answer = topics[key] = FetchableTopicResponse(name, topic_id or _NO_ID, [])
    return answer


def _waits_for_disk(records: FileRecords) -> bool:
    """Return whether sending the records would wait for the disk."""
    return records.size >= LARGE_BYTES and not records.is_cached()


def _refusal(partition: int, code: ErrorCode, records: bytes | None = b"") -> PartitionData:
    return PartitionData(partition_index=partition, error_code=code, high_watermark=-1, records=records)
