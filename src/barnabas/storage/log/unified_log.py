"""One partition's log: appends with offsets and epochs, reads up to a watermark, truncation, flushing, deletion.

Called by the partition's leader and fetcher, by the cleaner and by the log manager's tasks, on any thread. What changes
a log holds `lock` (`LogState`): a partition that must check its leadership and append in one go holds it around both.
Reads take no lock: the end (`LocalLog.end`) and the bounds (`LogBounds`) are immutable values replaced by one
assignment. Kafka: UnifiedLog.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from barnabas.config.log_config import LogConfig
from barnabas.records.fixed_fields import first_bytes
from barnabas.records.record_batch import BatchHeader
from barnabas.runtime.files import Buffer
from barnabas.storage.fetch_data import FetchDataInfo, FetchIsolation
from barnabas.storage.file_names import CLEANED_SUFFIX
from barnabas.storage.log.aborted_transactions import read_committed
from barnabas.storage.log.failures import READ_ERRORS, fail, fail_reading, out_of_range, report, segment_too_small
from barnabas.storage.log.follower_append import append_batches, checked_batches
from barnabas.storage.log.leader_epochs import LeaderEpochCache
from barnabas.storage.log.local_log import LocalLog
from barnabas.storage.log.retention import delete_old_segments
from barnabas.storage.log.state import LogState
from barnabas.storage.log.timestamp_search import TimestampAndOffset, find_offset
from barnabas.storage.log.truncation import truncate_fully_and_start_at, truncate_to
from barnabas.storage.log_append_info import AppendGate, AppendOrigin, LogAppendInfo
from barnabas.storage.log_environment import LogEnvironment
from barnabas.storage.producers.append import check_producer, duplicate_append_info, note_append
from barnabas.storage.producers.entry import BatchMetadata
from barnabas.storage.producers.state_manager import ProducerStateManager
from barnabas.storage.segment.log_segment import LogSegment
from barnabas.storage.validation.validator import LogValidator

if TYPE_CHECKING:
    from mypy_extensions import i64

_CLIENT: Final = AppendOrigin.CLIENT
_LOG_END: Final = FetchIsolation.LOG_END
_COMMITTED: Final = FetchIsolation.TXN_COMMITTED


class UnifiedLog(LogState):
    """A log. Made by `loader.load_log`.

    config and validator are replaced by `update_config`, each by one assignment; safe to read anywhere.
    """

    __slots__ = ("config", "validator")

    def __init__(
        self,
        local: LocalLog,
        leader_epochs: LeaderEpochCache,
        log_start_offset: int,
        topic_id: bytes | None,
        environment: LogEnvironment,
        producers: ProducerStateManager,
    ) -> None:
        super().__init__(local, leader_epochs, log_start_offset, topic_id, environment, producers)
        self.config = local.config
        self.validator = LogValidator(local.config, local.topic_partition, environment.clock)
        environment.note_settings(local.topic_partition.topic, self.validator, is_future=self.is_future)

    # -- appending

    # Why the steps of `append_as_leader` come in their order:
    # - Validation, the long part, comes without the lock: other appends to this log go on meanwhile.
    # - Producer state is checked before the write and noted after it: a failed write must leave the state as it was,
    #   or the producer's retry would count as a duplicate of a batch that is not in the log.
    # - 21 new bytes and the untouched rest are written: what the checksum covers, which begins with the attributes.
    # - A flush comes outside of the lock: an fsync takes milliseconds, in which other appends go on. The high watermark
    #   rises after it, in the caller: a record must not be visible before it is as durable as the topic wants.
    # The steps are sections of one function, and not functions: every produced batch goes through them, and a call with
    # its arguments costs about as much as a whole section.

    def append_as_leader(  # noqa: C901 - one function, because every produced batch goes through it
        self,
        records: Buffer | None,
        leader_epoch: i64,
        *,
        origin: AppendOrigin = _CLIENT,
        admit: AppendGate | None = None,
        header: BatchHeader | None = None,
        body: bytes | None = None,
    ) -> LogAppendInfo:
        """Give the batch in `records` its offsets and append it: 21 new bytes and the untouched rest, in one write.

        header, body: what the caller has read of the batch already, as `LogValidator.validate` takes it. admit: asked
        under the lock before anything changes. Where it says that the batch is committed once it is appended, the high
        watermark rises with the end, unless a flush has to come first.
        A batch that repeats one of the last five of its idempotent producer is answered as the first time.
        Raises ApiError: CORRUPT_MESSAGE, INVALID_RECORD, INVALID_TIMESTAMP, MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE,
        UNSUPPORTED_COMPRESSION_TYPE, KAFKA_STORAGE_ERROR; the errors of `check_producer`; and what `admit` raises.
        """
        batch = self.validator.validate(records, origin, header, body)
        if batch is None:
            return LogAppendInfo(-1, -1, -1, -1, self.log_start_offset, 0, 0)
        stored = batch.header
        size = stored.length
        max_timestamp = batch.max_timestamp
        with self.lock:
            # The offsets, and whether the partition and the producer's state allow the append.
            is_committed = False if admit is None else admit.admits(leader_epoch)
            local = self.local
            if size > local.segment_bytes:
                raise segment_too_small(local, size)
            place = local.end
            first = place.message_offset
            last = first + stored.last_offset_delta
            states = end = None
            if stored.producer_id >= 0:
                states = self.producers.states or self.producers.make_states()
                checked = check_producer(states, stored, records or b"", first, origin)
                if checked is not None:
                    if isinstance(checked, BatchMetadata):
                        return duplicate_append_info(checked, self.bounds.start, size, stored.count)
                    end = checked
            # The write, and what has to be on the disk before it.
            try:
                if not self.is_ready:
                    self.prepare_append()
                if local.must_roll(size, max_timestamp, last):
                    self.roll(first)
                    place = local.end  # the same offset, in the new segment
                if leader_epoch != self.leader_epochs.latest_epoch:
                    self.assign_epoch(leader_epoch, first)
                if end is not None:
                    end.enter(local.segments.active)
                head = first_bytes(first, size, leader_epoch, batch.crc, batch.head)
                local.append((head, batch.rest), size, first, last, max_timestamp)
            except OSError as error:
                if end is not None:
                    end.withdraw(local.segments.active)
                fail(local, "appending records", error)
            # What the log knows of itself: producers, the first unstable offset, the high watermark.
            if states is not None and note_append(states, stored, place, last, max_timestamp, end):
                self.update_first_unstable_offset()
            bounds = self.bounds
            info = LogAppendInfo(
                first,
                last,
                max_timestamp,
                batch.log_append_time_ms,
                bounds.start,
                size,
                stored.count,
                batch.conversion_ns,
            )
            if last + 1 - local.recovery_point < local.flush_messages:
                if is_committed:
                    self.move_high_watermark(local.end)
                    info.leader_hw_increased = True
                return info
        self.flush()
        return info

    def append_as_follower(self, records: Buffer) -> LogAppendInfo:
        """Append whole batches with the offsets and epochs the leader gave them.

        Batches are appended one by one: a disk error leaves those before it in the log.
        Raises OffsetsOutOfOrder, UnexpectedAppendOffset. Raises ApiError: CORRUPT_MESSAGE, RECORD_LIST_TOO_LARGE,
        KAFKA_STORAGE_ERROR.
        """
        batches = checked_batches(records, self.topic_partition)
        if not batches:
            return LogAppendInfo(-1, -1, -1, -1, self.log_start_offset, 0, 0)
        with self.lock:
            info = append_batches(self, batches, records)
        if info.last_offset + 1 - self.local.recovery_point >= self.config.flush_messages:
            self.flush()
        return info

    # -- reading

    def read(
        self,
        start_offset: i64,
        max_bytes: i64,
        isolation: FetchIsolation,
        min_one_message: bool = True,
        *,
        is_retry: bool = False,
    ) -> FetchDataInfo:
        """Return whole batches from the one that holds `start_offset`, up to the end that `isolation` sets.

        At most `max_bytes`, and the last batch may be cut off there; the first one is whole with `min_one_message`.
        is_retry: the second attempt. A missing file was being deleted or replaced when the first attempt opened it: the
        records are read once more, under the lock that files move under.
        Raises ApiError: OFFSET_OUT_OF_RANGE, KAFKA_STORAGE_ERROR, CORRUPT_MESSAGE.
        """
        local = self.local
        # Two values, each consistent in itself. The bounds may be newer than the end, which only lets this read see
        # more.
        end = local.end
        bounds = self.bounds
        if start_offset < bounds.start or start_offset > end.message_offset:
            raise out_of_range(local, start_offset, bounds.start)
        limit = end if isolation is _LOG_END else self.placed_bounds().limit(isolation)
        try:
            if start_offset >= limit.message_offset:
                place = limit if start_offset == limit.message_offset else local.position_of(start_offset)
                data = FetchDataInfo(place, b"")
            elif isolation is _COMMITTED:
                return read_committed(local, start_offset, max_bytes, limit, min_one_message=min_one_message)
            else:
                return local.read(start_offset, max_bytes, limit, min_one_message=min_one_message)
        except READ_ERRORS as error:
            if is_retry or not isinstance(error, FileNotFoundError):
                fail_reading(local, "reading records", error)
            with self.lock:
                self.refuse_if_closed()
                return self.read(start_offset, max_bytes, isolation, min_one_message, is_retry=True)
        data.aborted_transactions = [] if isolation is _COMMITTED else None
        return data

    def offset_for_timestamp(self, timestamp_ms: int, *, is_retry: bool = False) -> TimestampAndOffset | None:
        """Return the first record that is not older, or the answer to a special timestamp of ListOffsets (negative).

        None when there is no such record. is_retry: as in `read`.
        Raises ApiError: KAFKA_STORAGE_ERROR, CORRUPT_MESSAGE.
        """
        local = self.local
        try:
            return find_offset(local, self.leader_epochs, self.bounds.start, timestamp_ms)
        except READ_ERRORS as error:
            if is_retry or not isinstance(error, FileNotFoundError):
                fail_reading(local, "searching an offset by timestamp", error)
            with self.lock:
                self.refuse_if_closed()
                return self.offset_for_timestamp(timestamp_ms, is_retry=True)

    # -- truncation, retention, flushing

    def truncate_to(self, offset: int) -> bool:
        """Drop everything from `offset` on; True if there was something.

        Raises ApiError: KAFKA_STORAGE_ERROR. Raises ValueError when `offset` is negative.
        """
        if offset < 0:
            raise ValueError(f"truncation of {self.topic_partition} to {offset}")
        with self.lock:
            return truncate_to(self, offset)

    def truncate_fully_and_start_at(self, offset: int, log_start_offset: int | None = None) -> None:
        """Drop everything; the log begins anew at `offset`. Raises ApiError: KAFKA_STORAGE_ERROR."""
        with self.lock:
            truncate_fully_and_start_at(self, offset, offset if log_start_offset is None else log_start_offset)

    def delete_old_segments(self) -> int:
        """Delete the segments that retention no longer wants; return their number.

        Raises ApiError: KAFKA_STORAGE_ERROR, CORRUPT_MESSAGE.
        """
        with self.lock:
            if self.is_closed:
                return 0
            try:
                return delete_old_segments(self)
            except READ_ERRORS as error:
                fail_reading(self.local, "deleting segments", error)

    def replace_segments(self, base_offset: int, old: Sequence[LogSegment]) -> None:
        """Put the cleaner's `.cleaned` segment in the place of `old` ones; readers see the old or the new one.

        Raises ApiError: KAFKA_STORAGE_ERROR.
        """
        with self.lock:
            self.refuse_if_closed()
            local, bounds = self.local, self.bounds
            try:
                new = self.environment.segments.open(local.directory, base_offset, local.config, CLEANED_SUFFIX)
                replaced = local.replace_segments(new, old)
                # A snapshot belongs to the start of a segment: only the first of these keeps its base offset.
                gone = [segment.base_offset for segment in replaced if segment.base_offset != base_offset]
                self.producers.delete_snapshots_of(gone)
                # The high watermark may lie at the end of an old segment, which no read would find any more.
                if not bounds.high_watermark.is_offset_only:
                    place = local.position_of(bounds.high_watermark.message_offset)
                    self.bounds = bounds.with_high_watermark(place)
            except OSError as error:
                fail(local, "replacing segments", error)

    def flush(self, offset: int | None = None) -> None:
        """Bring everything below `offset` (None: all) to stable storage. Appends go on meanwhile.

        Raises ApiError: KAFKA_STORAGE_ERROR.
        """
        local = self.local
        try:
            self.flush_files(offset)
        except OSError as error:
            # A log that was deleted meanwhile has another directory by now, and is not wanted on the disk.
            self.refuse_if_closed()
            if self.local is local:
                fail(local, "flushing the log", error)
            self.flush(offset)  # it has moved meanwhile

    # -- settings, identity, life

    def update_config(self, config: LogConfig) -> None:
        """Take new settings; they hold from the next append on."""
        with self.lock:
            self.validator = LogValidator(config, self.topic_partition, self.environment.clock)
            self.local.update_config(config)
            self.config = config
            self.environment.note_settings(self.topic_partition.topic, self.validator, is_future=self.is_future)

    def assign_topic_id(self, topic_id: bytes) -> None:
        """Note the topic's id; written before the first append, or soon.

        Raises InconsistentTopicId when the log belongs to another topic.
        """
        with self.lock:
            self.identity.assign(topic_id)
            if self.identity.is_pending:
                self.is_ready = False
        if self.identity.is_pending:
            self.environment.write_later(self._write_identity_later)

    def _write_identity_later(self) -> None:
        with self.lock:  # a deletion renames the directory under it
            if not self.is_closed:
                try:
                    self.write_identity()
                except OSError as error:
                    report(self.local, "writing partition metadata", error)

    def moved_to(self, directory: str) -> None:
        """Note that the log's directory has been renamed: it is being deleted, or has moved."""
        with self.lock:
            self.local.moved_to(directory)
            self.producers.moved_to(directory)
            self.leader_epochs.moved_to(directory)

    def close(self) -> None:
        """Write what is only in memory and close the files; nothing can be appended afterwards. Raises OSError."""
        with self.lock:
            if not self.is_closed:
                self._refuse_appends()
                self.write_identity()
                self.leader_epochs.flush()
                self.producers.take_snapshot(self.local.end.message_offset, sync=True)
                self.local.close()

    def close_handlers(self) -> None:
        """Close the files and write nothing: the directory has failed, or the log is being deleted."""
        with self.lock:
            self._refuse_appends()
            self.local.close_handlers()

    def _refuse_appends(self) -> None:
        self.is_closed = True
        self.is_ready = False

    def __repr__(self) -> str:
        return (
            f"UnifiedLog({self.topic_partition} in {self.parent_dir}, offsets {self.log_start_offset} to"
            f" {self.log_end_offset}, high watermark {self.high_watermark})"
        )
