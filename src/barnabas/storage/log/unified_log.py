"""One partition's log: appends with offsets and epochs, reads up to a watermark, start and end, flushing, deletion.

Appends, rolls, truncation and everything that moves an offset hold `lock`, which lies inside the partition's lock and
is re-entrant: a partition that must check its leadership and append in one go holds it around both. Reads take no
lock: end and watermarks are immutable and replaced by one assignment. Kafka: UnifiedLog.
"""

from __future__ import annotations

import logging
import os
import struct
from collections.abc import Callable, Sequence
from typing import Final

from barnabas.config.log_config import LogConfig
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.errors import CorruptRecord
from barnabas.runtime.files import Buffer
from barnabas.runtime.lock_order import LockRank, ranked_lock
from barnabas.storage.errors import InconsistentTopicId
from barnabas.storage.fetch_data import FetchDataInfo, FetchIsolation
from barnabas.storage.log import retention
from barnabas.storage.log.aborted_transactions import END_OF_ALL, collect_aborted, read_committed
from barnabas.storage.log.failures import READ_ERRORS, LogFailures
from barnabas.storage.log.follower_append import append_as_follower
from barnabas.storage.log.leader_epochs import EpochEntry, LeaderEpochCache
from barnabas.storage.log.local_log import LocalLog
from barnabas.storage.log.partition_metadata import write_partition_metadata
from barnabas.storage.log.segment_swap import swap_in
from barnabas.storage.log.timestamp_search import TimestampAndOffset, find_offset
from barnabas.storage.log.truncation import truncate_fully_and_start_at, truncate_to
from barnabas.storage.log_append_info import AppendOrigin, LogAppendInfo
from barnabas.storage.log_environment import LogEnvironment
from barnabas.storage.log_offset_metadata import LogOffsetMetadata
from barnabas.storage.producers.append import answer_again, check_producer, note_append
from barnabas.storage.producers.entry import ActiveProducer, BatchMetadata, LastRecord
from barnabas.storage.producers.state_manager import ProducerStateManager
from barnabas.storage.segment.log_segment import LogSegment
from barnabas.storage.segment.transaction_index import AbortedTransactionEntry
from barnabas.storage.validation.validator import LogValidator

logger = logging.getLogger(__name__)

_CLIENT: Final = AppendOrigin.CLIENT
_PREFIX: Final = struct.Struct(">qii")
"""Base offset, length, leader epoch: what an append writes anew."""


class UnifiedLog:
    """A log. Made by `loader.load_log`.

    config is replaced by `update_config`, log_start_offset by retention and DeleteRecords; both are single
    assignments, safe to read anywhere.
    """

    __slots__ = (
        "_closed",
        "_environment",
        "_high_watermark",
        "_local",
        "_metadata_pending",
        "_validator",
        "config",
        "failures",
        "first_unstable_offset",
        "leader_epochs",
        "lock",
        "log_start_offset",
        "producer_states",
        "topic_id",
        "topic_partition",
    )

    def __init__(
        self,
        local: LocalLog,
        leader_epochs: LeaderEpochCache,
        log_start_offset: int,
        topic_id: bytes | None,
        environment: LogEnvironment,
        producer_states: ProducerStateManager,
    ) -> None:
        self.lock = ranked_lock(LockRank.LOG, reentrant=True)
        self.topic_partition: TopicPartition = local.topic_partition
        self.topic_id = topic_id
        self.config = local.config
        self.leader_epochs = leader_epochs
        self.log_start_offset = log_start_offset
        self.first_unstable_offset: LogOffsetMetadata | None = None
        """Where the oldest transaction begins that is open, or whose end is not replicated yet."""
        self.producer_states = producer_states
        self.failures = LogFailures(local, environment)
        self._local = local
        self._environment = environment
        self._validator = LogValidator(local.config, local.topic_partition, environment.clock)
        self._metadata_pending = False
        self._closed = False
        start_offset = max(log_start_offset, 0)
        try:
            self._high_watermark = local.place_of(start_offset)
        except CorruptRecord:  # its readers will be told
            self._high_watermark = LogOffsetMetadata(start_offset)
        self.update_first_unstable_offset()

    # -- where things are

    @property
    def directory(self) -> str:
        """The log's own directory, `<log dir>/topic-0`."""
        return self._local.directory

    @property
    def parent_dir(self) -> str:
        """The log directory of `log.dirs` that holds it."""
        return os.path.dirname(self._local.directory)

    @property
    def log_end_offset(self) -> int:
        """The offset the next record gets."""
        return self._local.end.message_offset

    @property
    def log_end_offset_metadata(self) -> LogOffsetMetadata:
        """The log end offset and its place."""
        return self._local.end

    @property
    def high_watermark(self) -> int:
        """Consumers see what lies below."""
        return self._high_watermark.message_offset

    @property
    def high_watermark_metadata(self) -> LogOffsetMetadata:
        """The high watermark and its place."""
        return self._high_watermark

    @property
    def last_stable_offset(self) -> int:
        """Consumers that read committed transactions see what lies below."""
        return self.last_stable_offset_metadata.message_offset

    @property
    def last_stable_offset_metadata(self) -> LogOffsetMetadata:
        """The last stable offset and its place: the high watermark, or the oldest open transaction before it."""
        unstable, high_watermark = self.first_unstable_offset, self._high_watermark
        if unstable is not None and unstable.message_offset < high_watermark.message_offset:
            return unstable
        return high_watermark

    @property
    def recovery_point(self) -> int:
        """What lies below is on stable storage; a start after a crash checks the segments from here on."""
        return self._local.recovery_point

    @property
    def last_flush_ms(self) -> int:
        """Wall time of the last flush (or of the opening of the log), in milliseconds."""
        return self._local.last_flush_ms

    @property
    def size(self) -> int:
        """Bytes of all segments' log files."""
        return self._local.segments.size

    @property
    def segment_count(self) -> int:
        """Number of segments."""
        return len(self._local.segments)

    @property
    def validator(self) -> LogValidator:
        """What checks produced batches; replaced with the settings."""
        return self._validator

    @property
    def local(self) -> LocalLog:
        """The files below; for the cleaner, retention and tests."""
        return self._local

    # -- appending

    def append_as_leader(  # noqa: C901 - one function, because every produced batch goes through it
        self,
        records: Buffer | None,
        leader_epoch: int,
        *,
        origin: AppendOrigin = _CLIENT,
        guard: Callable[[], bool] | None = None,
    ) -> LogAppendInfo:
        """Give the batch in `records` its offsets and append it. Nothing is kept of `records`.

        Order of article-facts P4-P6. The batch stays where it is: 16 new bytes and the untouched rest go out in one
        write. `guard` is called under the lock before anything changes, and may raise: for callers that check their
        leadership without holding the lock around this call, so that a flush happens outside it. True from it: there
        is no other replica, so the high watermark rises with the end, unless a flush has to come first.
        Raises ApiError: CORRUPT_MESSAGE, INVALID_RECORD, INVALID_TIMESTAMP, MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE,
        UNSUPPORTED_COMPRESSION_TYPE, KAFKA_STORAGE_ERROR; with `record_errors` where single records are to blame.
        An idempotent producer's batch that is one of its last five is not appended again: the answer is that of the
        first time. Else, out of order, it raises what `producers.append.check_producer` says.
        """
        batch = self._validator.validate(records, origin)
        if batch is None:
            return LogAppendInfo(-1, -1, -1, -1, self.log_start_offset, 0, 0)
        rest, size, last_delta, count, max_timestamp, append_time, took_ns, producer = batch
        with self.lock:
            alone = guard is not None and guard()
            local = self._local
            if size > local.config.segment_bytes:
                raise self.failures.segment_too_small(size)
            first = local.end.message_offset
            last = first + last_delta
            states = end = None
            if producer is not None:
                states = self.producer_states.states or self.producer_states.make_states()
                checked = check_producer(states, producer, records or b"", first, origin)
                if checked is not None and isinstance(checked, BatchMetadata):
                    return answer_again(checked, self.log_start_offset, size, count)
                end = checked
            try:
                if self._metadata_pending:
                    self.flush_partition_metadata()
                if local.must_roll(size, max_timestamp, last):
                    self.roll(first)
                elif self._closed:
                    self.failures.refuse_closed()
                if leader_epoch != self.leader_epochs.latest_epoch:
                    self._assign_epoch(leader_epoch, first)
                place = local.end
                if end is not None:
                    end.enter(local.segments.active)
                local.append((_PREFIX.pack(first, size - 12, leader_epoch), *rest), size, first, last, max_timestamp)
            except OSError as error:
                if end is not None:
                    end.withdraw(local.segments.active)
                self.failures.fail("appending records", error)
            if states is not None and note_append(states, producer, place, last, max_timestamp, end):  # type: ignore[arg-type]
                self.update_first_unstable_offset()
            info = LogAppendInfo(first, last, max_timestamp, append_time, self.log_start_offset, size, count, took_ns)
            if last + 1 - local.recovery_point < local.config.flush_messages:
                if alone:
                    self._high_watermark = local.end
                    info.leader_hw_increased = True
                    if self.first_unstable_offset is not None:
                        self.update_first_unstable_offset()
                return info
        self.flush()
        return info

    def append_as_follower(self, records: Buffer) -> LogAppendInfo:
        """Append whole batches with the offsets and epochs the leader gave them.

        Raises OffsetsOutOfOrder, UnexpectedAppendOffset, ApiError: CORRUPT_MESSAGE, RECORD_LIST_TOO_LARGE,
        KAFKA_STORAGE_ERROR. Batches are appended one by one: a disk error leaves those before it in the log.
        """
        info = append_as_follower(self, records)
        if info.last_offset + 1 - self._local.recovery_point >= self._local.config.flush_messages:
            self.flush()
        return info

    def _assign_epoch(self, epoch: int, start_offset: int) -> None:
        if self.leader_epochs.assign(epoch, start_offset):
            self._environment.write_later(self._flush_leader_epochs)

    def _flush_leader_epochs(self) -> None:
        if not self._closed:
            try:
                self.leader_epochs.flush()
            except OSError as error:
                if not self._closed:  # else it was deleted meanwhile, and its directory renamed
                    self.failures.report("writing leader epochs", error)

    def roll(self, expected_next_offset: int = 0) -> None:
        """Begin a new segment; the old ones are flushed in the background. Raises OSError.

        The producers are snapshotted first, so that a recovery need not begin before the new segment.
        """
        with self.lock:
            self.refuse_if_closed()
            at_end = self._high_watermark.message_offset >= self._local.end.message_offset
            base_offset = max(expected_next_offset, self._local.end.message_offset)
            snapshot_taken = self.producer_states.take_snapshot(base_offset, sync=False)
            self._local.roll(expected_next_offset)
            if at_end:
                self._high_watermark = self._local.end
        self._environment.scheduler.schedule("flush-log", lambda: self._flush_before(base_offset, snapshot_taken))

    def _flush_before(self, base_offset: int, snapshot_taken: bool) -> None:
        if not self._closed:
            try:
                if snapshot_taken:
                    self._flush_snapshot(base_offset)
                self.flush(base_offset)
            except ApiError as error:
                # Told to whom it concerns when it happened; here nobody waits for the answer.
                logger.warning("Flushing %s behind a roll: %s", self, error)

    def _flush_snapshot(self, offset: int) -> None:
        try:
            self.producer_states.sync_snapshot(offset)
        except OSError as error:
            if not self._closed:
                self.failures.fail("flushing a producer snapshot", error)

    # -- reading

    def read(
        self,
        start_offset: int,
        max_bytes: int,
        isolation: FetchIsolation,
        min_one_message: bool = True,
        *,
        is_again: bool = False,
    ) -> FetchDataInfo:
        """Whole batches from the one that holds `start_offset`, up to the end that `isolation` sets.

        At most `max_bytes`, and the last batch may be cut off there; the first one is whole with `min_one_message`.
        A file that is gone was on its way out; `is_again`: it is read anew, under the lock that files move under.
        Raises ApiError: OFFSET_OUT_OF_RANGE, KAFKA_STORAGE_ERROR, CORRUPT_MESSAGE.
        """
        end = self._local.end
        if start_offset < self.log_start_offset or start_offset > end.message_offset:
            raise self.failures.out_of_range(start_offset, self.log_start_offset)
        if isolation is FetchIsolation.HIGH_WATERMARK:
            limit = self._high_watermark
        elif isolation is FetchIsolation.LOG_END:
            limit = end
        else:
            limit = self.last_stable_offset_metadata
        try:
            if start_offset >= limit.message_offset:
                place = limit if start_offset == limit.message_offset else self._local.place_of(start_offset)
                data = FetchDataInfo(place, b"")
            elif isolation is FetchIsolation.TXN_COMMITTED:
                return read_committed(self._local, start_offset, max_bytes, limit, min_one_message=min_one_message)
            else:
                return self._local.read(start_offset, max_bytes, limit, min_one_message=min_one_message)
        except READ_ERRORS as error:
            if is_again or not isinstance(error, FileNotFoundError):
                self.failures.fail_reading("reading records", error)
            with self.lock:
                self.refuse_if_closed()
                return self.read(start_offset, max_bytes, isolation, min_one_message, is_again=True)
        data.aborted_transactions = [] if isolation is FetchIsolation.TXN_COMMITTED else None
        return data

    def collect_aborted_transactions(self, start_offset: int, upper_bound_offset: int) -> list[AbortedTransactionEntry]:
        """The aborted transactions that overlap the offsets from the start to below the bound. Raises OSError."""
        return collect_aborted(self._local.segments.values(start_offset, END_OF_ALL), start_offset, upper_bound_offset)

    def offset_for_timestamp(self, timestamp_ms: int, *, is_again: bool = False) -> TimestampAndOffset | None:
        """The first record that is not older, or the answer to a special timestamp of ListOffsets (negative).

        None when there is no such record. Raises ApiError: KAFKA_STORAGE_ERROR, CORRUPT_MESSAGE.
        """
        try:
            return find_offset(self, timestamp_ms)
        except READ_ERRORS as error:
            if is_again or not isinstance(error, FileNotFoundError):
                self.failures.fail_reading("searching an offset by timestamp", error)
            with self.lock:  # see `read`
                self.refuse_if_closed()
                return self.offset_for_timestamp(timestamp_ms, is_again=True)

    # -- watermarks and start

    def update_high_watermark(self, offset: int) -> int:
        """Set the high watermark, kept between log start and end; returns it. For restarts and followers."""
        with self.lock:
            end = self._local.end
            bounded = min(max(offset, self.log_start_offset), end.message_offset)
            if bounded != self._high_watermark.message_offset or self._high_watermark.is_offset_only:
                self._set_high_watermark(self._local.place_of(bounded))
            return bounded

    def maybe_increment_high_watermark(self, new: LogOffsetMetadata) -> LogOffsetMetadata | None:
        """Raise the high watermark to `new`, or put it into a newer segment; returns the old one if it changed."""
        with self.lock:
            old = self._high_watermark
            if new.message_offset > self._local.end.message_offset:
                raise ValueError(
                    f"high watermark {new.message_offset} beyond the end of {self.topic_partition},"
                    f" {self._local.end.message_offset}"
                )
            if old.message_offset < new.message_offset or (
                old.message_offset == new.message_offset and old.on_older_segment(new)
            ):
                self._set_high_watermark(self._local.place_of(new.message_offset) if new.is_offset_only else new)
                return old
            return None

    def raise_high_watermark_to_end(self) -> bool:
        """Raise the high watermark to the log end (the only in-sync replica is this one); True if it changed."""
        with self.lock:
            end = self._local.end
            if self._high_watermark == end:
                return False
            self._set_high_watermark(end)
            return True

    def _set_high_watermark(self, place: LogOffsetMetadata) -> None:
        self._high_watermark = place
        if self.first_unstable_offset is not None:
            self.update_first_unstable_offset()

    def update_first_unstable_offset(self) -> None:
        """Transactions began or ended, or the high watermark or the start of the log has moved. Holds the lock."""
        with self.lock:
            unstable = self.producer_states.first_unstable_offset(self._high_watermark.message_offset)
            if unstable is not None and (unstable.is_offset_only or unstable.message_offset < self.log_start_offset):
                offset = max(unstable.message_offset, self.log_start_offset)
                known = self.first_unstable_offset
                if known is not None and known.message_offset == offset and not known.is_offset_only:
                    return
                try:
                    unstable = self._local.place_of(offset)
                except OSError as error:
                    self.failures.report("looking for the first unstable offset", error)
            self.first_unstable_offset = unstable

    def maybe_increment_log_start_offset(self, offset: int, reason: str) -> bool:
        """Raise the log start offset; what lies below is gone for readers at once, and deleted with whole segments.

        Raises ApiError: OFFSET_OUT_OF_RANGE when it is beyond the high watermark.
        """
        with self.lock:
            if offset > self.high_watermark:
                raise ApiError(
                    ErrorCode.OFFSET_OUT_OF_RANGE,
                    f"Cannot increment the log start offset to {offset} of partition {self.topic_partition} since it"
                    f" is larger than the high watermark {self.high_watermark}",
                )
            if offset <= self.log_start_offset:
                return False
            self.log_start_offset = offset
            self.leader_epochs.truncate_from_start(offset)
            self.producer_states.on_log_start_offset_incremented(offset)
            self.update_first_unstable_offset()
            logger.info("Incremented log start offset of %s to %d due to %s", self.topic_partition, offset, reason)
            return True

    # -- producers

    def active_producers(self) -> list[ActiveProducer]:
        """The producers whose sequence numbers or transactions are remembered, for DescribeProducers."""
        with self.lock:
            return self.producer_states.active_producers()

    def last_records_of_active_producers(self) -> dict[int, LastRecord]:
        """Each producer's newest record, which the cleaner keeps: sequence numbers are found again by it."""
        with self.lock:
            return self.producer_states.last_records()

    def remove_expired_producers(self, now_ms: int) -> None:
        """Forget producers that have been idle for `producer.id.expiration.ms`."""
        if self.producer_states.states is not None:
            with self.lock:
                self.producer_states.remove_expired(now_ms, self._environment.producer_id_expiration_ms())

    # -- leader epochs

    @property
    def latest_epoch(self) -> int | None:
        """The newest leader epoch of the log."""
        epoch = self.leader_epochs.latest_epoch
        return epoch if epoch >= 0 else None

    def assign_epoch_start_offset(self, epoch: int, start_offset: int) -> None:
        """A leader of `epoch` begins at `start_offset` (KIP-101). Written to disk in the background."""
        with self.lock:
            self._assign_epoch(epoch, start_offset)

    def end_offset_for_epoch(self, epoch: int) -> EpochEntry | None:
        """The largest epoch of the log not above `epoch`, and where it ends; None when nothing is known."""
        entry = self.leader_epochs.end_offset_for(epoch, self.log_end_offset)
        return entry if entry.start_offset >= 0 else None

    # -- truncation, retention, flushing

    def truncate_to(self, offset: int) -> bool:
        """Drop everything from `offset` on; True if there was something. Raises ApiError: KAFKA_STORAGE_ERROR."""
        if offset < 0:
            raise ValueError(f"truncation of {self.topic_partition} to {offset}")
        with self.lock:
            return truncate_to(self, offset, self._environment)

    def truncate_fully_and_start_at(self, offset: int, log_start_offset: int | None = None) -> None:
        """Drop everything; the log begins anew at `offset`. Raises ApiError: KAFKA_STORAGE_ERROR."""
        with self.lock:
            truncate_fully_and_start_at(self, offset, log_start_offset, self._environment)

    def delete_old_segments(self) -> int:
        """Delete the segments that retention no longer wants; returns their number. Raises ApiError, as above."""
        with self.lock:
            if self._closed:
                return 0
            try:
                return retention.delete_old_segments(self, self._environment)
            except READ_ERRORS as error:
                self.failures.fail_reading("deleting segments", error)

    def replace_segments(self, base_offset: int, old: Sequence[LogSegment]) -> None:
        """Put the cleaner's `.cleaned` segment in the place of `old` ones. Raises ApiError, as above."""
        with self.lock:
            self.refuse_if_closed()
            try:
                swap_in(self, base_offset, old, self._environment)
                self._high_watermark = self._local.place_of(self.high_watermark)  # may lie at the end of an old one
            except OSError as error:
                self.failures.fail("replacing segments", error)

    def flush(self, offset: int | None = None) -> None:
        """Bring everything below `offset` (None: all) to stable storage. Appends go on meanwhile.

        Topic id and epochs go first: what lies before the recovery point is not looked for in the batches again.
        Raises ApiError: KAFKA_STORAGE_ERROR.
        """
        try:
            if self._metadata_pending:
                self.flush_partition_metadata()
            self._local.flush(offset, before=self.leader_epochs.flush)
        except OSError as error:
            if self._closed:
                # Deleted meanwhile: its directory has another name by now, and nobody wants it on disk.
                self.failures.refuse_closed()
            self.failures.fail("flushing the log", error)

    # -- settings, identity, life

    def update_config(self, config: LogConfig) -> None:
        """Take new settings; they hold from the next append on."""
        with self.lock:
            self._validator = LogValidator(config, self.topic_partition, self._environment.clock)
            self._local.config = config
            self.config = config

    def assign_topic_id(self, topic_id: bytes) -> None:
        """Note the topic's id; written before the first append, or soon. Raises InconsistentTopicId."""
        with self.lock:
            if self.topic_id is None:
                self.topic_id = topic_id
                self._metadata_pending = True
            elif self.topic_id != topic_id:
                raise InconsistentTopicId(
                    f"{self.topic_partition} is of topic {self.topic_id.hex()}, not of {topic_id.hex()}"
                )
        if self._metadata_pending:
            self._environment.write_later(self._flush_partition_metadata_later)

    def flush_partition_metadata(self) -> None:
        """Write `partition.metadata` if it is due. Raises OSError."""
        with self.lock:
            if self._metadata_pending and self.topic_id is not None:
                write_partition_metadata(self._environment.files, self.directory, self.topic_id)
                self._metadata_pending = False

    def _flush_partition_metadata_later(self) -> None:
        with self.lock:  # a deletion renames the directory under it
            if self._closed:
                return
            try:
                self.flush_partition_metadata()
            except OSError as error:
                self.failures.report("writing partition metadata", error)

    def moved_to(self, directory: str) -> None:
        """The log's directory has been renamed to this (its topic is being deleted)."""
        with self.lock:
            self._local.moved_to(directory)
            self.producer_states.moved_to(directory)
            self.leader_epochs.moved_to(directory)

    def close(self) -> None:
        """Write what is only in memory and close the files; nothing can be appended afterwards. Raises OSError."""
        with self.lock:
            if not self._closed:
                self._closed = True
                self.flush_partition_metadata()
                self.leader_epochs.flush()
                self.producer_states.take_snapshot(self._local.end.message_offset, sync=True)
                self._local.close()

    def refuse_if_closed(self) -> None:
        """Raise ApiError: KAFKA_STORAGE_ERROR when the log is closed. Holds the lock."""
        if self._closed:
            self.failures.refuse_closed()

    def close_handlers(self) -> None:
        """Close the files and write nothing: the directory has failed, or the log is being deleted."""
        with self.lock:
            self._closed = True
            self._local.close_handlers()

    def __repr__(self) -> str:
        return (
            f"UnifiedLog({self.topic_partition} in {self.parent_dir}, offsets {self.log_start_offset} to"
            f" {self.log_end_offset}, high watermark {self.high_watermark})"
        )
