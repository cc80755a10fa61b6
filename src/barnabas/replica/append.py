"""The produce path below the handlers: append to local logs, then answer at once or wait for the in-sync replicas.

`ReplicaAppender` is part of ReplicaManager's facade; it runs on handler and processor threads and owns no lock.
Waiting operations are woken through the action queue, never from under a partition's or log's lock.

Kafka: ReplicaManager.appendRecords, appendToLocalLog.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.purgatory.action_queue import ActionQueue
from barnabas.purgatory.purgatory import DelayedOperationPurgatory
from barnabas.replica.delayed_fetch import DelayedFetch
from barnabas.replica.delayed_produce import DelayedProduce
from barnabas.replica.partition import Partition
from barnabas.replica.partition_append import PartitionAppend
from barnabas.storage.log_append_info import AppendOrigin

logger = logging.getLogger(__name__)

VALID_ACKS = (-1, 0, 1)

EXPECTED_ERRORS = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
"""Refusals that are no failure of the broker; all others tell the client the log start offset (appendToLocalLog)."""

AppendCallback = Callable[[Sequence[PartitionAppend]], None]


class ReplicaAppender:
    """Appends the partitions of one request and decides who waits.

    partition_or_error: finds a partition this broker hosts, or raises the ApiError that says why it cannot.
    """

    def __init__(
        self,
        partition_or_error: Callable[[str, int], Partition],
        produce_purgatory: DelayedOperationPurgatory[DelayedProduce],
        fetch_purgatory: DelayedOperationPurgatory[DelayedFetch],
        actions: ActionQueue,
    ) -> None:
        self._partition_or_error = partition_or_error
        self._produce_purgatory = produce_purgatory
        self._fetch_purgatory = fetch_purgatory
        self._produce_watchers = produce_purgatory.watchers
        self._fetch_watchers = fetch_purgatory.watchers
        self._actions = actions

    def append_records(
        self,
        entries: Sequence[PartitionAppend],
        *,
        required_acks: int,
        timeout_ms: int,
        on_complete: AppendCallback,
        origin: AppendOrigin = AppendOrigin.CLIENT,
    ) -> None:
        """Append every entry and call `on_complete(entries)` once: now, or when the in-sync replicas have it.

        Each entry carries its own error; one partition's failure does not touch the others. A wait that takes
        longer than `timeout_ms` ends in REQUEST_TIMED_OUT for the partitions that are still short of replicas.
        """
        if required_acks not in VALID_ACKS:
            error = ApiError(ErrorCode.INVALID_REQUIRED_ACKS)
            for entry in entries:
                entry.fail(error)
            on_complete(entries)
            return
        for entry in entries:
            self._append_to_local_log(entry, required_acks, origin)
        if required_acks == -1 and any(self._must_wait(entry) for entry in entries):
            self._wait_for_replicas(entries, timeout_ms, on_complete)
        else:
            on_complete(entries)

    def _append_to_local_log(self, entry: PartitionAppend, required_acks: int, origin: AppendOrigin) -> None:
        try:
            partition = self._partition_or_error(entry.topic, entry.partition)
            info = partition.append_records_to_leader(entry.records, required_acks, origin)
        except ApiError as error:
            entry.fail(error)
            if error.code not in EXPECTED_ERRORS:
                entry.log_start_offset = self._log_start_offset(entry)
        except Exception as error:
            logger.exception("appending to %s-%d failed", entry.topic, entry.partition)
            entry.fail(ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)))
            entry.log_start_offset = self._log_start_offset(entry)
        else:
            entry.info = info
            entry.hosted_by = partition
            if self._produce_watchers or self._fetch_watchers:
                self._wake_waiting(partition.topic_partition, high_watermark_increased=info.leader_hw_increased)
        finally:
            entry.records = None

    def _log_start_offset(self, entry: PartitionAppend) -> int:
        try:
            return self._partition_or_error(entry.topic, entry.partition).log.log_start_offset
        except ApiError:
            return -1

    def _wake_waiting(self, key: TopicPartition, *, high_watermark_increased: bool) -> None:
        """Let those try again whom the append may have served: with the high watermark produces and fetches move,
        without it only fetches that read to the log's end."""
        if high_watermark_increased and key in self._produce_watchers:
            self._actions.add(lambda: self._wake(self._produce_purgatory, key))
        if key in self._fetch_watchers:
            self._actions.add(lambda: self._wake(self._fetch_purgatory, key))

    @staticmethod
    def _wake(purgatory: DelayedOperationPurgatory[Any], key: TopicPartition) -> None:
        purgatory.check_and_complete(key)

    @staticmethod
    def _must_wait(entry: PartitionAppend) -> bool:
        partition = entry.hosted_by
        return partition is not None and partition.is_replicated_up_to(entry.required_offset) is not ErrorCode.NONE

    def _wait_for_replicas(
        self, entries: Sequence[PartitionAppend], timeout_ms: int, on_complete: AppendCallback
    ) -> None:
        operation = DelayedProduce(timeout_ms, entries, on_complete)
        keys = [entry.hosted_by.topic_partition for entry in entries if entry.hosted_by is not None]
        self._produce_purgatory.try_complete_else_watch(operation, keys)
