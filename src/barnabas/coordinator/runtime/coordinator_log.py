"""The appends to a coordinator's topic, in two steps: to the local log, and then a wait for the replicas.

The first step runs under the lock of the group or transactional id, so that its records are in the log in the order of
its changes. The second one runs without it.

Called by the coordinators' services on any thread; owns no lock and keeps nothing. Waiting costs no thread: an append
waits in the produce purgatory (`ReplicaAppender.when_replicated`).
Kafka: GroupMetadataManager.appendForGroup, TransactionStateManager.appendTransactionToLog.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from barnabas.coordinator.runtime.record import KeyAndValue
from barnabas.protocol.errors import ErrorCode
from barnabas.records.compression import Codec
from barnabas.records.record_batch_builder import RecordBatchBuilder, plain_batch
from barnabas.replica.partitions.partition_append import PartitionAppend
from barnabas.replica.requests.replica_appender import ReplicaAppender
from barnabas.runtime.clock import Clock
from barnabas.storage.log_append_info import AppendOrigin

_COORDINATOR: Final = AppendOrigin.COORDINATOR
_NONE: Final = ErrorCode.NONE
_UNCOMPRESSED: Final = Codec.NONE

ErrorTranslation = Mapping[ErrorCode, ErrorCode]
"""The log's errors, and what the coordinator's clients get instead. An error that is not named stays as it is."""


class AppendTerms(NamedTuple):
    """How a coordinator appends. `timeout_ms`: the most that an append waits for the replicas."""

    codec: Codec
    required_acks: int
    timeout_ms: int


class StoredAppend:
    """An append: its records are in the local log, unless `error` says why not.

    error: NONE, or the error for the client. position: the offset of the batch in the log, -1 if it was refused.
    is_decided: there is nothing to wait for; `when_replicated` calls back at once, with `error`.
    """

    __slots__ = ("_entry", "_log", "_translation", "error", "is_decided", "position")

    def __init__(self, log: CoordinatorLog, entry: PartitionAppend, translation: ErrorTranslation) -> None:
        self._log = log
        self._entry = entry
        self._translation = translation
        info, partition = entry.info, entry.hosted_by
        if info is None or partition is None:
            self.error = translation.get(entry.error, entry.error)
            self.is_decided = True
            self.position = -1
            return
        self.error = _NONE
        self.position = info.first_offset
        if not log.waits_for_replicas:
            self.is_decided = True
            return
        # With a single replica the outcome is known here, and a commit can answer without a trip through the
        # purgatory.
        outcome = partition.is_replicated_up_to(info.last_offset + 1)
        self.is_decided = outcome is not None
        if outcome is not None:
            self.error = translation.get(outcome, outcome)

    def when_replicated(self, on_stored: Callable[[ErrorCode], None]) -> None:
        """Call `on_stored` once with the result, now or later on another thread. The caller holds no lock."""
        if self.is_decided:
            on_stored(self.error)
            return
        translation = self._translation

        def completed(entries: Sequence[PartitionAppend]) -> None:
            on_stored(translation.get(entries[0].error, entries[0].error))

        self._log.wait(self._entry, completed)


class CoordinatorLog:
    """The writer to the partitions of one topic."""

    def __init__(self, topic: str, replicas: ReplicaAppender, terms: AppendTerms, clock: Clock) -> None:
        self._topic = topic
        self._replicas = replicas
        self._codec = terms.codec
        self._required_acks = terms.required_acks
        self._timeout_ms = terms.timeout_ms
        self._now_ms = clock.milliseconds
        self.waits_for_replicas = terms.required_acks == -1
        """Whether an append counts only when the in-sync replicas have it."""

    def append(
        self,
        partition: int,
        records: Sequence[KeyAndValue],
        translation: ErrorTranslation,
        *,
        now_ms: int | None = None,
    ) -> StoredAppend:
        """Append `records` as one batch to the local log, under the lock of what changes. An error is in the result.

        now_ms: the records' timestamp; None: the present time.
        """
        batch = self._batch(self._now_ms() if now_ms is None else now_ms, records)
        entry = PartitionAppend(self._topic, partition, batch)
        self._replicas.append_locally(entry, self._required_acks, _COORDINATOR)
        return StoredAppend(self, entry, translation)

    def append_transactional(
        self,
        partition: int,
        records: Sequence[KeyAndValue],
        translation: ErrorTranslation,
        *,
        producer_id: int,
        producer_epoch: int,
    ) -> StoredAppend:
        """Append `records` as one batch of a producer's transaction, under the lock of what changes.

        The log checks the producer's epoch, and that its transaction was verified. An error is in the result.
        """
        builder = RecordBatchBuilder(
            self._codec, producer_id=producer_id, producer_epoch=producer_epoch, is_transactional=True
        )
        now_ms = self._now_ms()
        for key, value in records:
            builder.append(now_ms, key, value)
        entry = PartitionAppend(self._topic, partition, builder.build())
        self._replicas.append_locally(entry, self._required_acks, _COORDINATOR)
        return StoredAppend(self, entry, translation)

    def append_unwatched(self, partition: int, records: Sequence[KeyAndValue]) -> ErrorCode:
        """Append records that may be lost with the leader, because the next one would write them again.

        Tombstones of expired offsets, mostly. Kafka: requiredAcks = 0.
        """
        entry = PartitionAppend(self._topic, partition, self._batch(self._now_ms(), records))
        self._replicas.append_locally(entry, 0, _COORDINATOR)
        return entry.error

    def _batch(self, timestamp_ms: int, records: Sequence[KeyAndValue]) -> bytes:
        # The default, and on the path of every commit: the batch is made in one pass.
        if self._codec is _UNCOMPRESSED:
            return plain_batch(timestamp_ms, records)
        builder = RecordBatchBuilder(self._codec)
        for key, value in records:
            builder.append(timestamp_ms, key, value)
        return builder.build()

    def wait(self, entry: PartitionAppend, completed: Callable[[Sequence[PartitionAppend]], None]) -> None:
        """Call `completed` when the entry is replicated; for StoredAppend."""
        self._replicas.when_replicated([entry], self._timeout_ms, completed)
