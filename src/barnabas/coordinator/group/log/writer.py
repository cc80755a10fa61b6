"""The appends to `__consumer_offsets`, in two steps: to the local log, and then a wait for the replicas.

The first step runs under the group's lock, so that a group's records are in the log in the order of its changes.
The second one runs without it.

Called by the services of this package on any thread; owns no lock and keeps nothing. Waiting costs no thread: an append
waits in the produce purgatory (`ReplicaAppender.when_replicated`).

Kafka: GroupMetadataManager.appendForGroup, storeGroup, storeOffsets (translation of errors); for consumer groups
CoordinatorOperationExceptionHelper.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Final, Protocol

from barnabas.coordinator.group.group_config import GroupCoordinatorConfig
from barnabas.coordinator.group.log.record import GroupRecord, KeyAndValue
from barnabas.metadata.topic_name import GROUP_METADATA_TOPIC
from barnabas.protocol.errors import ErrorCode
from barnabas.records.compression import Codec
from barnabas.records.plain_batch import plain_batch
from barnabas.records.record_batch_builder import RecordBatchBuilder
from barnabas.replica.partition_append import PartitionAppend
from barnabas.runtime.clock import Clock
from barnabas.storage.log_append_info import AppendOrigin

_REPLICATED: Final = ErrorCode.NONE
_COORDINATOR: Final = AppendOrigin.COORDINATOR

# Clients of a group know few errors. NOT_COORDINATOR and COORDINATOR_NOT_AVAILABLE make them find the coordinator
# again; the log's own errors would end them.
_ALWAYS: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
}
_TOO_LARGE: Final = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.INVALID_FETCH_SIZE)


class RecordPurpose(Enum):
    """The kind of the records: each translates the log's errors differently for the client."""

    OFFSETS = "offsets"
    CLASSIC_GROUP = "a classic group"
    CONSUMER_GROUP = "a consumer group"


# After a timeout a commit is repeated as it is. A classic member joins again, since its assignment may not be stored. A
# member of a consumer group looks for the coordinator, and repeats its heartbeat.
_TRANSLATIONS: Final[Mapping[RecordPurpose, Mapping[ErrorCode, ErrorCode]]] = {
    RecordPurpose.OFFSETS: _ALWAYS | dict.fromkeys(_TOO_LARGE, ErrorCode.INVALID_COMMIT_OFFSET_SIZE),
    RecordPurpose.CLASSIC_GROUP: _ALWAYS
    | dict.fromkeys(_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR)
    | {ErrorCode.REQUEST_TIMED_OUT: ErrorCode.REBALANCE_IN_PROGRESS},
    RecordPurpose.CONSUMER_GROUP: _ALWAYS
    | dict.fromkeys(_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR)
    | {ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE},
}


class ReplicatedLog(Protocol):
    """The local log and its replication. Implemented by `ReplicaAppender`."""

    def append_locally(self, entry: PartitionAppend, required_acks: int, origin: AppendOrigin) -> None:
        """Append to the local log; the result is in `entry`."""

    def when_replicated(
        self,
        entries: Sequence[PartitionAppend],
        timeout_ms: int,
        on_complete: Callable[[Sequence[PartitionAppend]], None],
    ) -> None:
        """Call `on_complete` once when the entries are replicated, or the time is over."""


class StoredAppend:
    """An append: its records are in the local log, unless `error` says why not.

    error: NONE, or the error for the client. position: the offset of the batch in the log, -1 if it was refused.
    is_settled: there is nothing to wait for; `when_replicated` calls back at once, with `error`.
    """

    __slots__ = ("_entry", "_log", "_purpose", "error", "is_settled", "position")

    def __init__(self, log: GroupLog, entry: PartitionAppend, purpose: RecordPurpose) -> None:
        self._log = log
        self._entry = entry
        self._purpose = purpose
        info, partition = entry.info, entry.hosted_by
        if info is None or partition is None:
            self.error = _TRANSLATIONS[purpose].get(entry.error, entry.error)
            self.is_settled = True
            self.position = -1
            return
        self.error = ErrorCode.NONE
        self.position = info.first_offset
        if not log.waits_for_replicas:
            self.is_settled = True
            return
        # With a single replica the append is settled here, and a commit can answer without a trip through the
        # purgatory.
        outcome = partition.is_replicated_up_to(info.last_offset + 1)
        self.is_settled = outcome is _REPLICATED
        if outcome is not None and outcome is not _REPLICATED:
            self.error = _TRANSLATIONS[purpose].get(outcome, outcome)
            self.is_settled = True

    def when_replicated(self, on_stored: Callable[[ErrorCode], None]) -> None:
        """Call `on_stored` once with the result, now or later on another thread. The caller holds no lock."""
        if self.is_settled:
            on_stored(self.error)
            return
        translation = _TRANSLATIONS[self._purpose]

        def completed(entries: Sequence[PartitionAppend]) -> None:
            on_stored(translation.get(entries[0].error, entries[0].error))

        self._log.wait(self._entry, completed)


class GroupLog:
    """The writer to the partitions of `__consumer_offsets`."""

    def __init__(self, replicas: ReplicatedLog, config: GroupCoordinatorConfig, clock: Clock) -> None:
        self._append_locally = replicas.append_locally
        self._when_replicated = replicas.when_replicated
        self._codec = config.codec
        self._required_acks = config.commit_required_acks
        self._timeout_ms = config.commit_timeout_ms
        self._now_ms = clock.milliseconds
        self.waits_for_replicas = config.commit_required_acks == -1
        """Whether an append counts only when the in-sync replicas have it."""

    def append(
        self,
        partition: int,
        records: Sequence[KeyAndValue],
        purpose: RecordPurpose = RecordPurpose.CLASSIC_GROUP,
        *,
        now_ms: int | None = None,
    ) -> StoredAppend:
        """Append `records` as one batch to the local log, under the group's lock. An error is in the result.

        now_ms: the records' timestamp; None: the present time.
        """
        batch = self._batch(self._now_ms() if now_ms is None else now_ms, records)
        entry = PartitionAppend(GROUP_METADATA_TOPIC, partition, batch)
        self._append_locally(entry, self._required_acks, _COORDINATOR)
        return StoredAppend(self, entry, purpose)

    def append_unwatched(self, partition: int, records: Sequence[GroupRecord]) -> ErrorCode:
        """Append records that may be lost with the leader, because the next one would write them again.

        Tombstones of expired offsets, mostly. Kafka: requiredAcks = 0.
        """
        entry = PartitionAppend(GROUP_METADATA_TOPIC, partition, self._batch(self._now_ms(), records))
        self._append_locally(entry, 0, _COORDINATOR)
        return entry.error

    def _batch(self, timestamp_ms: int, records: Sequence[KeyAndValue]) -> bytes:
        # The default, and on the path of every commit: the batch is made in one pass.
        if self._codec is Codec.NONE:
            return plain_batch(timestamp_ms, records)
        builder = RecordBatchBuilder(self._codec)
        for key, value in records:
            builder.append(timestamp_ms, key, value)
        return builder.build()

    def wait(self, entry: PartitionAppend, completed: Callable[[Sequence[PartitionAppend]], None]) -> None:
        """Call `completed` when the entry is replicated; for StoredAppend."""
        self._when_replicated([entry], self._timeout_ms, completed)
