"""The produce path below the handlers: append to local logs, then answer at once or wait for the in-sync replicas.

`ReplicaAppender` is a part of ReplicaManager, called by the produce handler and by the group coordinator on handler and
processor threads. It owns no lock. Delayed operations that an append may complete are retried through the action
queue, never under the lock of a partition or a log. A DelayedProduce is tried whenever a high watermark moves or
leadership changes, and expired by the timer.

Kafka: ReplicaManager.appendRecords, appendToLocalLog.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final

from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.purgatory.delayed_operation import DelayedOperation
from barnabas.replica.broker_topic_stats import BrokerTopicStats, TopicStats
from barnabas.replica.partitions.hosted_partitions import HostedPartitions
from barnabas.replica.partitions.partition_append import PartitionAppend
from barnabas.replica.requests.waiting_requests import ProduceExpirations, WaitingRequests
from barnabas.storage.log_append_info import AppendOrigin, RefusedBatch

logger = logging.getLogger(__name__)

VALID_ACKS: Final = (-1, 0, 1)
_REPLICATED: Final = ErrorCode.NONE
_NOT_LEADER: Final = ErrorCode.NOT_LEADER_OR_FOLLOWER
_CLIENT: Final = AppendOrigin.CLIENT

EXPECTED_ERRORS: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
"""Errors that are not failures of the broker. After any other error the answer has the log start offset, as in Kafka's
appendToLocalLog."""

AppendCallback = Callable[[Sequence[PartitionAppend]], None]


class ReplicaAppender:
    """The append of the partitions of a request, and the decision whether the request waits.

    hosted: the partitions of this broker.
    """

    def __init__(self, hosted: HostedPartitions, waiting: WaitingRequests, stats: BrokerTopicStats) -> None:
        self._hosted = hosted
        self._waiting = waiting
        self._produce_watchers = waiting.produce_watchers
        self._fetch_watchers = waiting.fetch_watchers
        self._session_watches = waiting.sessions.by_partition
        self._stats = stats

    def append_records(
        self,
        entries: list[PartitionAppend],
        required_acks: int,
        timeout_ms: int,
        on_complete: AppendCallback,
        origin: AppendOrigin = _CLIENT,
    ) -> None:
        """Append every entry and call `on_complete(entries)` once: now, or when the in-sync replicas have it.

        Each entry carries its own error; the failure of one partition does not touch the others. A wait that takes
        longer than `timeout_ms` ends in REQUEST_TIMED_OUT for the partitions whose in-sync replicas lack the records.
        """
        if not -1 <= required_acks <= 1:
            error = ApiError(ErrorCode.INVALID_REQUIRED_ACKS)
            for entry in entries:
                entry.fail(error)
            on_complete(entries)
            return
        for entry in entries:
            self.append_locally(entry, required_acks, origin)
        # Without followers the appends above have raised the high watermark already: the loop then finds every entry
        # replicated, and no delayed operation is made.
        if required_acks == -1:
            for entry in entries:
                partition, info = entry.hosted_by, entry.info
                if partition is None or info is None:
                    continue
                outcome = partition.is_replicated_up_to(info.last_offset + 1)
                if outcome is not _REPLICATED:
                    self.when_replicated(entries, timeout_ms, on_complete, was_tried=outcome is None)
                    return
        on_complete(entries)

    def append_locally(self, entry: PartitionAppend, required_acks: int, origin: AppendOrigin) -> None:
        """Append one entry to the local log, and note the result or the error in the entry.

        Delayed operations are retried only when the calling thread has finished its request, so the caller may hold the
        lock of a group. `when_replicated` must be called without that lock.
        """
        stats = self._stats.topic(entry.topic)
        stats.total_produce_requests += 1
        records = entry.records
        try:
            partition = self._hosted.partition_or_error(entry.topic, entry.partition)
            info = partition.append_records_to_leader(records, required_acks, origin, entry.header, entry.body)
        except ApiError as error:
            if error.code is ErrorCode.MESSAGE_TOO_LARGE:
                stats.bytes_rejected += len(records)
            if isinstance(error, RefusedBatch):
                setattr(stats, error.counter, getattr(stats, error.counter) + error.count)
            if error.code not in EXPECTED_ERRORS:
                self._note_unexpected(entry, stats, error.code)
            entry.fail(error)
        except Exception as error:
            logger.exception("appending to %s-%d failed", entry.topic, entry.partition)
            self._note_unexpected(entry, stats, ErrorCode.UNKNOWN_SERVER_ERROR)
            entry.fail(ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)))
        else:
            entry.info = info
            entry.hosted_by = partition
            if info.first_offset >= 0:
                stats.bytes_in += len(records)
                stats.messages_in += info.record_count
            if info.conversion_ns:
                stats.produce_message_conversions += info.record_count
            # Truth of three dicts, on every append: nothing is to be done unless some request waits, or a session is to
            # be told.
            if self._produce_watchers or self._fetch_watchers or self._session_watches:
                self._waiting.after_append(partition.topic_partition, high_watermark_moved=info.leader_hw_increased)
        finally:
            # A produce that waits needs offsets only; the view would keep the whole frame of the request in memory.
            entry.records = entry.body = None

    def when_replicated(
        self,
        entries: list[PartitionAppend],
        timeout_ms: int,
        on_complete: AppendCallback,
        *,
        was_tried: bool = False,
    ) -> None:
        """Call `on_complete(entries)` once, now or later: when the in-sync replicas have the local appends.

        was_tried: they were just found to lack one of them.
        """
        operation = DelayedProduce(timeout_ms, entries, self._hosted, on_complete, self._waiting.produce_expirations)
        keys = [entry.hosted_by.topic_partition for entry in entries if entry.hosted_by is not None]
        self._waiting.produces.try_complete_else_watch(operation, keys, was_tried=was_tried)

    def _note_unexpected(self, entry: PartitionAppend, stats: TopicStats, code: ErrorCode) -> None:
        """Count an unexpected error, and note the log start offset for the answer. Kafka: processFailedRecord.

        A timestamp out of bounds gets the same answer but is not counted: it is the client's failure and not the
        broker's.
        """
        if code is not ErrorCode.INVALID_TIMESTAMP:
            stats.failed_produce_requests += 1
        try:
            entry.log_start_offset = self._hosted.partition_or_error(entry.topic, entry.partition).log.log_start_offset
        except ApiError:
            entry.log_start_offset = -1


class DelayedProduce(DelayedOperation):
    """A wait of a produce with acks=all that completes when every partition is decided.

    Case A: this broker does not host the partition any more. The answer is the error that says why
            (NOT_LEADER_OR_FOLLOWER, UNKNOWN_TOPIC_OR_PARTITION, KAFKA_STORAGE_ERROR).
    Case B: this broker does not lead the partition any more. The answer is NOT_LEADER_OR_FOLLOWER.
    Case C: the high watermark reached the required offset. The answer is success, or NOT_ENOUGH_REPLICAS_AFTER_APPEND
            when the in-sync replicas are fewer than `min.insync.replicas` by then.
    On time-out an undecided partition answers REQUEST_TIMED_OUT.

    expirations: counts the partitions that timed out. Kafka: DelayedProduce.
    """

    __slots__ = ("_entries", "_expirations", "_hosted", "_on_decided", "_undecided")

    def __init__(
        self,
        timeout_ms: int,
        entries: list[PartitionAppend],
        hosted: HostedPartitions,
        on_complete: Callable[[Sequence[PartitionAppend]], None],
        expirations: ProduceExpirations,
    ) -> None:
        super().__init__(timeout_ms)
        self._entries = entries
        self._undecided = [entry for entry in entries if entry.hosted_by is not None]
        self._hosted = hosted
        self._on_decided = on_complete
        self._expirations = expirations

    def try_complete(self) -> bool:
        """Decide the partitions that can be decided, by cases A to C of the class."""
        still_undecided: list[PartitionAppend] = []
        for entry in self._undecided:
            outcome = self._outcome(entry)
            if outcome is None:
                still_undecided.append(entry)
            elif outcome is not _REPLICATED:
                entry.failure = ApiError(outcome)
        # A new list, since the timer may be completing the operation with the old one.
        self._undecided = still_undecided
        return not still_undecided and self.force_complete()

    def _outcome(self, entry: PartitionAppend) -> ErrorCode | None:
        partition, info = entry.hosted_by, entry.info
        required_offset = -1 if info is None else info.last_offset + 1
        outcome = _NOT_LEADER if partition is None else partition.is_replicated_up_to(required_offset)
        if outcome is not _NOT_LEADER:
            return outcome
        try:
            # A replica that has left this broker leads no more; why it left, or where it is again, the table says.
            return self._hosted.partition_or_error(entry.topic, entry.partition).is_replicated_up_to(required_offset)
        except ApiError as error:
            return error.code

    def on_complete(self) -> None:
        """Answer. Partitions still undecided have timed out."""
        for entry in self._undecided:
            entry.failure = ApiError(ErrorCode.REQUEST_TIMED_OUT)
        self._on_decided(self._entries)

    def on_expiration(self) -> None:
        """Count the partitions that timed out."""
        self._expirations.count(self._undecided)
