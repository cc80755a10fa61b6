"""One partition's log: appends with offsets and epochs, reads up to a watermark, start and end, flushing, deletion.

Appends, rolls, truncation and everything that moves an offset hold `lock`, which lies inside the partition's lock and
is re-entrant: a partition that must check its leadership and append in one go holds it around both. Reads take no
lock: the end (`LocalLog.end`) and the bounds (`LogBounds`) are immutable values replaced by one assignment.
Kafka: UnifiedLog.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Sequence
from typing import Final

from barnabas.config.log_config import LogConfig
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.record_batch import NO_TIMESTAMP, BatchHeader
from barnabas.runtime.files import Buffer
from barnabas.storage.fetch_data import FetchDataInfo, FetchIsolation
from barnabas.storage.file_names import is_future_dir
from barnabas.storage.log.aborted_transactions import END_OF_ALL, collect_aborted, read_committed
from barnabas.storage.log.bounds import LogBounds
from barnabas.storage.log.exchange import exchange
from barnabas.storage.log.failures import READ_ERRORS
from barnabas.storage.log.follower_append import append_batches, checked_batches
from barnabas.storage.log.leader_epochs import EpochEntry, LeaderEpochCache
from barnabas.storage.log.local_log import LocalLog
from barnabas.storage.log.retention import delete_old_segments
from barnabas.storage.log.segment_swap import swap_in
from barnabas.storage.log.state import LogState
from barnabas.storage.log.timestamp_search import TimestampAndOffset, find_offset, segment_boundaries
from barnabas.storage.log.topic_identity import TopicIdentity
from barnabas.storage.log.truncation import truncate_fully_and_start_at, truncate_to
from barnabas.storage.log_append_info import AppendOrigin, LogAppendInfo
from barnabas.storage.log_environment import LogEnvironment
from barnabas.storage.log_offset_metadata import LogOffsetMetadata
from barnabas.storage.producers.append import check_producer, duplicate_append_info, note_append
from barnabas.storage.producers.entry import ActiveProducer, BatchMetadata, LastRecord, Verification
from barnabas.storage.producers.state_manager import ProducerStateManager
from barnabas.storage.segment.log_segment import LogSegment
from barnabas.storage.segment.transaction_index import AbortedTransactionEntry
from barnabas.storage.validation.validator import LogValidator

_CLIENT: Final = AppendOrigin.CLIENT
_PREFIX: Final = struct.Struct(">qii")
"""Base offset, length, leader epoch: what an append writes anew."""
_new_tuple: Final = tuple.__new__


# How the offsets of a log move
#
# Five offsets matter, and they never lie in another order than this:
#
#     log start <= last stable <= high watermark <= log end        last stable = min(first unstable, high watermark)
#
# A produced batch moves the log end only. The high watermark follows when all in-sync replicas have the batch: the
# replica layer says so (`maybe_increment_high_watermark`), or, when a batch is committed by its append, the caller of
# `append_as_leader` does. An open transaction holds the last stable offset back, until the high watermark has passed
# the transaction's marker: a consumer of committed records must not see the records before it knows how they end, and
# must not see the end before it is replicated. A partition with one follower, from its creation on:
#
#     | event                                                | start | last stable | high watermark | end |
#     | the log is made                                      |     0 |           0 |              0 |   0 |
#     | the leader appends offsets 0 to 4                    |     0 |           0 |              0 |   5 |
#     | the follower fetches from 5: it has what lies below  |     0 |           5 |              5 |   5 |
#     | a transaction begins: offsets 5 and 6                |     0 |           5 |              5 |   7 |
#     | the follower fetches from 7                          |     0 |           5 |              7 |   7 |
#     | the coordinator's commit marker is appended at 7     |     0 |           5 |              7 |   8 |
#     | the follower fetches from 8                          |     0 |           8 |              8 |   8 |
#     | DeleteRecords up to 6                                |     6 |           8 |              8 |   8 |
#
# Between the last two "fetches" the transaction is ended but not stable: `ProducerStates` keeps it among the
# unreplicated ones, so that the first unstable offset stays 5. Offsets carry their place in the files
# (`LogOffsetMetadata`), so that a fetch at a watermark finds its bytes without an index; a roll or a swapped segment
# moves the place and not the offset.


class UnifiedLog:
    """A log. Made by `loader.load_log`.

    config and validator are replaced by `update_config`, each by one assignment; safe to read anywhere. local: the
    files below, which the cleaner, the checkpoints and gauges read.
    """

    __slots__ = (
        "_environment",
        "_state",
        "config",
        "leader_epochs",
        "local",
        "lock",
        "producer_states",
        "topic_partition",
        "validator",
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
        identity = TopicIdentity(local.topic_partition, topic_id)
        self._state = LogState(local, leader_epochs, producer_states, identity, environment, log_start_offset)
        self._environment = environment
        self.lock = self._state.lock
        self.local = local
        self.topic_partition: TopicPartition = local.topic_partition
        self.config = local.config
        self.validator = LogValidator(local.config, local.topic_partition, environment.clock)
        self.leader_epochs = leader_epochs
        self.producer_states = producer_states
        environment.note_settings(local.topic_partition.topic, self.validator, is_future=self.is_future)

    # -- where things are

    @property
    def topic_id(self) -> bytes | None:
        """The id of the log's topic; None when none was ever assigned."""
        return self._state.identity.topic_id

    @property
    def directory(self) -> str:
        """The log's own directory, `<log dir>/topic-0`."""
        return self.local.directory

    @property
    def parent_dir(self) -> str:
        """The log directory of `log.dirs` that holds it."""
        return os.path.dirname(self.local.directory)

    @property
    def is_future(self) -> bool:
        """Whether it is a future log: the copy of a replica that is moving to this log directory."""
        return is_future_dir(self.local.directory)

    @property
    def bounds(self) -> LogBounds:
        """Log start offset and watermarks, as of now. The place of the high watermark may be unknown."""
        return self._state.bounds

    def placed_bounds(self) -> LogBounds:
        """Return log start offset and watermarks with their places, for those who compare places.

        Raises ApiError: KAFKA_STORAGE_ERROR, CORRUPT_MESSAGE.
        """
        return self._state.placed_bounds()

    @property
    def log_start_offset(self) -> int:
        """The first offset that readers may ask for."""
        return self._state.bounds.start

    @property
    def log_end_offset(self) -> int:
        """The offset the next record gets."""
        return self.local.end.message_offset

    @property
    def high_watermark(self) -> int:
        """The offset below which consumers see records."""
        return self._state.bounds.high_watermark.message_offset

    @property
    def last_stable_offset(self) -> int:
        """The offset below which consumers that read committed records see records."""
        return self._state.bounds.last_stable.message_offset

    # -- appending

    # Why the steps of `append_as_leader` come in their order:
    # - Validation, the long part, comes without the lock: other appends to this log go on meanwhile.
    # - Producer state is checked before the write and noted after it: a failed write must leave the state as it was,
    #   or the producer's retry would count as a duplicate of a batch that is not in the log.
    # - 16 new bytes and the untouched rest are written. The length does not count the base offset and itself, which are
    #   12 bytes; the checksum covers nothing before the attributes, so it stays right.
    # - A flush comes outside of the lock: an fsync takes milliseconds, in which other appends go on. The high watermark
    #   rises after it, in the caller: a record must not be visible before it is as durable as the topic wants.
    # The steps are sections of one function, and not functions: every produced batch goes through them, and a call with
    # its arguments costs about as much as a whole section.

    def append_as_leader(  # noqa: C901 - one function, because every produced batch goes through it
        self,
        records: Buffer | None,
        leader_epoch: int,
        *,
        origin: AppendOrigin = _CLIENT,
        admit: Callable[[], bool] | None = None,
        header: BatchHeader | None = None,
        body: bytes | None = None,
    ) -> LogAppendInfo:
        """Give the batch in `records` its offsets and append it: 16 new bytes and the untouched rest, in one write.

        header, body: what the caller has read of the batch already, as `LogValidator.validate` takes it. admit: called
        under the lock before anything changes. It raises to refuse the append, and returns whether the batch is
        committed once it is appended: then the high watermark rises with the end, unless a flush has to come first.
        A batch that repeats one of the last five of its idempotent producer is answered as the first time.
        Raises ApiError: CORRUPT_MESSAGE, INVALID_RECORD, INVALID_TIMESTAMP, MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE,
        UNSUPPORTED_COMPRESSION_TYPE, KAFKA_STORAGE_ERROR; the errors of `check_producer`; and what `admit` raises.
        """
        batch = self.validator.validate(records, origin, header, body)
        if batch is None:
            return LogAppendInfo(-1, -1, -1, -1, self.log_start_offset, 0, 0)
        size = batch.size
        max_timestamp = batch.max_timestamp
        state = self._state
        with self.lock:
            # The offsets, and whether the partition and the producer's state allow the append.
            is_committed = False if admit is None else admit()
            local = state.local
            if size > local.config.segment_bytes:
                raise state.failures.segment_too_small(size)
            place = local.end
            first = place.message_offset
            last = first + batch.last_offset_delta
            states = end = None
            if batch.producer is not None:
                states = state.producers.states or state.producers.make_states()
                checked = check_producer(states, batch.producer, records or b"", first, origin)
                if checked is not None:
                    if isinstance(checked, BatchMetadata):
                        return duplicate_append_info(checked, state.bounds.start, size, batch.record_count)
                    end = checked
            # The write, and what has to be on the disk before it.
            try:
                if not state.is_ready:
                    state.prepare_append()
                if local.must_roll(size, max_timestamp, last):
                    state.roll(first)
                    place = local.end  # the same offset, in the new segment
                if leader_epoch != state.leader_epochs.latest_epoch:
                    state.assign_epoch(leader_epoch, first)
                if end is not None:
                    end.enter(local.segments.active)
                local.append(
                    (_PREFIX.pack(first, size - 12, leader_epoch), *batch.pieces), size, first, last, max_timestamp
                )
            except OSError as error:
                if end is not None:
                    end.withdraw(local.segments.active)
                state.failures.fail("appending records", error)
            # What the log knows of itself: producers, the first unstable offset, the high watermark.
            if states is not None and note_append(states, batch.producer, place, last, max_timestamp, end):  # type: ignore[arg-type] # set together
                state.update_first_unstable_offset()
            bounds = state.bounds
            info = LogAppendInfo(
                first,
                last,
                max_timestamp,
                batch.log_append_time_ms,
                bounds.start,
                size,
                batch.record_count,
                batch.conversion_ns,
            )
            if last + 1 - local.recovery_point < local.config.flush_messages:
                if is_committed:
                    if bounds.first_unstable is None:
                        # `bounds_of` and `move_high_watermark` in one line: nearly every produced batch comes here.
                        state.bounds = _new_tuple(LogBounds, (bounds.start, local.end, None, local.end))
                    else:
                        state.move_high_watermark(local.end)
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
            info = append_batches(self._state, batches, records)
        if info.last_offset + 1 - self.local.recovery_point >= self.config.flush_messages:
            self.flush()
        return info

    def roll(self, expected_next_offset: int = 0) -> None:
        """Begin a new segment; the older ones are flushed in the background.

        Raises OSError. Raises ApiError: KAFKA_STORAGE_ERROR when the log is closed.
        """
        with self.lock:
            self._state.roll(expected_next_offset)

    # -- reading

    def read(
        self,
        start_offset: int,
        max_bytes: int,
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
        bounds = self._state.bounds
        if start_offset < bounds.start or start_offset > end.message_offset:
            raise self._state.failures.out_of_range(start_offset, bounds.start)
        limit = end if isolation is FetchIsolation.LOG_END else self._state.placed_bounds().limit(isolation)
        try:
            if start_offset >= limit.message_offset:
                place = limit if start_offset == limit.message_offset else local.position_of(start_offset)
                data = FetchDataInfo(place, b"")
            elif isolation is FetchIsolation.TXN_COMMITTED:
                return read_committed(local, start_offset, max_bytes, limit, min_one_message=min_one_message)
            else:
                return local.read(start_offset, max_bytes, limit, min_one_message=min_one_message)
        except READ_ERRORS as error:
            if is_retry or not isinstance(error, FileNotFoundError):
                self._state.failures.fail_reading("reading records", error)
            with self.lock:
                self._state.refuse_if_closed()
                return self.read(start_offset, max_bytes, isolation, min_one_message, is_retry=True)
        data.aborted_transactions = [] if isolation is FetchIsolation.TXN_COMMITTED else None
        return data

    def collect_aborted_transactions(self, start_offset: int, upper_bound_offset: int) -> list[AbortedTransactionEntry]:
        """Return the aborted transactions that overlap offsets from the start to below the bound. Raises OSError."""
        return collect_aborted(self.local.segments.values(start_offset, END_OF_ALL), start_offset, upper_bound_offset)

    def offset_for_timestamp(self, timestamp_ms: int, *, is_retry: bool = False) -> TimestampAndOffset | None:
        """Return the first record that is not older, or the answer to a special timestamp of ListOffsets (negative).

        None when there is no such record. is_retry: as in `read`.
        Raises ApiError: KAFKA_STORAGE_ERROR, CORRUPT_MESSAGE.
        """
        try:
            return find_offset(self.local, self.leader_epochs, self.log_start_offset, timestamp_ms)
        except READ_ERRORS as error:
            if is_retry or not isinstance(error, FileNotFoundError):
                self._state.failures.fail_reading("searching an offset by timestamp", error)
            with self.lock:
                self._state.refuse_if_closed()
                return self.offset_for_timestamp(timestamp_ms, is_retry=True)

    def offsets_before(self, timestamp_ms: int, max_offsets: int, now_ms: int) -> list[int]:
        """Return up to `max_offsets` offsets where segments begin, no newer than `timestamp_ms`. Raises OSError."""
        return segment_boundaries(self.local, self.log_start_offset, timestamp_ms, max_offsets, now_ms)

    # -- watermarks and start

    def update_high_watermark(self, offset: int) -> int:
        """Set the high watermark, kept between log start and end; return it. For restarts and followers."""
        with self.lock:
            return self._state.set_high_watermark(offset)

    def maybe_increment_high_watermark(self, new: LogOffsetMetadata) -> LogOffsetMetadata | None:
        """Raise the high watermark to `new`, or put it into a newer segment; return the old one if it changed.

        Raises ValueError when `new` is beyond the log end.
        """
        with self.lock:
            end, bounds = self.local.end, self._state.bounds
            if new.message_offset > end.message_offset:
                raise ValueError(
                    f"high watermark {new.message_offset} beyond the end of {self.topic_partition},"
                    f" {end.message_offset}"
                )
            if not bounds.is_raised_by(new):
                return None
            self._state.move_high_watermark(self.local.position_of(new.message_offset) if new.is_offset_only else new)
            return bounds.high_watermark

    def raise_high_watermark_to_end(self) -> bool:
        """Raise the high watermark to the log end: everything appended is committed. True if it changed."""
        with self.lock:
            if self._state.bounds.high_watermark == self.local.end:
                return False
            self._state.move_high_watermark(self.local.end)
            return True

    def maybe_increment_log_start_offset(self, offset: int, reason: str) -> bool:
        """Raise the log start offset; what lies below is gone for readers at once, and deleted with whole segments.

        Raises ApiError: OFFSET_OUT_OF_RANGE when `offset` is beyond the high watermark.
        """
        with self.lock:
            return self._state.raise_start(offset, reason)

    # -- producers

    def active_producers(self) -> list[ActiveProducer]:
        """Return the producers whose sequence numbers or transactions are remembered, for DescribeProducers."""
        with self.lock:
            return self.producer_states.active_producers()

    def oldest_open_timestamp(self) -> int:
        """Return the time of the last batch of the producer whose transaction is open for longest; -1: none is open."""
        # Most logs have no producers with transactions: their gauges take no lock.
        if self.producer_states.states is None:
            return NO_TIMESTAMP
        with self.lock:
            return self.producer_states.oldest_open_timestamp

    def begin_verification(
        self, producer_id: int, producer_epoch: int, base_sequence: int, *, is_required: bool = False
    ) -> Verification | None:
        """Return the verification that a transactional batch needs before its append; None when it needs none.

        The caller asks the coordinator, and tells a confirmation to `end_verification`. is_required: also where
        verification is switched off.
        """
        with self.lock:
            states = self.producer_states.make_states()
            now_ms = self._environment.clock.milliseconds()
            return states.begin_verification(
                producer_id, producer_epoch, base_sequence, now_ms, is_required=is_required
            )

    def end_verification(self, producer_id: int, producer_epoch: int, verification: Verification) -> bool:
        """Note that the coordinator has confirmed the transaction; return False when a marker has come meanwhile."""
        with self.lock:
            states = self.producer_states.states
            return states is not None and states.end_verification(producer_id, producer_epoch, verification)

    def last_records_of_active_producers(self) -> dict[int, LastRecord]:
        """Return each producer's newest record, by producer id.

        The cleaner keeps these records: a recovery finds the sequence numbers again by them.
        """
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
        """Note that a leader of `epoch` begins at `start_offset` (KIP-101). Written to disk in the background."""
        with self.lock:
            self._state.assign_epoch(epoch, start_offset)

    def end_offset_for_epoch(self, epoch: int) -> EpochEntry | None:
        """Return the largest epoch of the log not above `epoch`, and where it ends; None when nothing is known."""
        entry = self.leader_epochs.end_offset_for(epoch, self.log_end_offset)
        return entry if entry.start_offset >= 0 else None

    # -- truncation, retention, flushing

    def truncate_to(self, offset: int) -> bool:
        """Drop everything from `offset` on; True if there was something.

        Raises ApiError: KAFKA_STORAGE_ERROR. Raises ValueError when `offset` is negative.
        """
        if offset < 0:
            raise ValueError(f"truncation of {self.topic_partition} to {offset}")
        with self.lock:
            return truncate_to(self._state, offset)

    def truncate_fully_and_start_at(self, offset: int, log_start_offset: int | None = None) -> None:
        """Drop everything; the log begins anew at `offset`. Raises ApiError: KAFKA_STORAGE_ERROR."""
        with self.lock:
            truncate_fully_and_start_at(self._state, offset, offset if log_start_offset is None else log_start_offset)

    def delete_old_segments(self) -> int:
        """Delete the segments that retention no longer wants; return their number.

        Raises ApiError: KAFKA_STORAGE_ERROR, CORRUPT_MESSAGE.
        """
        with self.lock:
            if self._state.is_closed:
                return 0
            try:
                return delete_old_segments(self._state)
            except READ_ERRORS as error:
                self._state.failures.fail_reading("deleting segments", error)

    def replace_segments(self, base_offset: int, old: Sequence[LogSegment]) -> None:
        """Put the cleaner's `.cleaned` segment in the place of `old` ones. Raises ApiError: KAFKA_STORAGE_ERROR."""
        with self.lock:
            self._state.refuse_if_closed()
            try:
                swap_in(self._state, base_offset, old)
            except OSError as error:
                self._state.failures.fail("replacing segments", error)

    def flush(self, offset: int | None = None) -> None:
        """Bring everything below `offset` (None: all) to stable storage. Appends go on meanwhile.

        Raises ApiError: KAFKA_STORAGE_ERROR.
        """
        local = self.local
        try:
            self._state.flush(offset)
        except OSError as error:
            # A log that was deleted meanwhile has another directory by now, and is not wanted on the disk.
            self._state.refuse_if_closed()
            if self.local is local:
                self._state.failures.fail("flushing the log", error)
            self.flush(offset)  # it has moved meanwhile

    # -- settings, identity, life

    def update_config(self, config: LogConfig) -> None:
        """Take new settings; they hold from the next append on."""
        with self.lock:
            self.validator = LogValidator(config, self.topic_partition, self._environment.clock)
            self.local.update_config(config)
            self.config = config
            self._environment.note_settings(self.topic_partition.topic, self.validator, is_future=self.is_future)

    def assign_topic_id(self, topic_id: bytes) -> None:
        """Note the topic's id; written before the first append, or soon.

        Raises InconsistentTopicId when the log belongs to another topic.
        """
        state = self._state
        with self.lock:
            state.identity.assign(topic_id)
            if state.identity.is_pending:
                state.is_ready = False
        if state.identity.is_pending:
            self._environment.write_later(self._write_identity)

    def _write_identity(self) -> None:
        with self.lock:  # a deletion renames the directory under it
            if not self._state.is_closed:
                try:
                    self._state.write_identity()
                except OSError as error:
                    self._state.failures.report("writing partition metadata", error)

    def check_room(self) -> None:
        """Have the next append ask for room on the disk first. Called under no lock, or under that of any log."""
        self._state.is_ready = False

    def exchange_files(self, future: UnifiedLog) -> None:
        """Exchange files with a copy that has this log's high watermark, under both locks."""
        exchange(self._state, future._state)
        self._take_parts()
        future._take_parts()
        self.local.update_config(self.config)

    def _take_parts(self) -> None:
        state = self._state
        self.local, self.leader_epochs, self.producer_states = state.local, state.leader_epochs, state.producers

    def moved_to(self, directory: str) -> None:
        """Note that the log's directory has been renamed: it is being deleted, or has moved."""
        with self.lock:
            self.local.moved_to(directory)
            self.producer_states.moved_to(directory)
            self.leader_epochs.moved_to(directory)

    def close(self) -> None:
        """Write what is only in memory and close the files; nothing can be appended afterwards. Raises OSError."""
        with self.lock:
            if not self._state.is_closed:
                self._state.close()
                self._state.write_identity()
                self.leader_epochs.flush()
                self.producer_states.take_snapshot(self.local.end.message_offset, sync=True)
                self.local.close()

    def close_handlers(self) -> None:
        """Close the files and write nothing: the directory has failed, or the log is being deleted."""
        with self.lock:
            self._state.close()
            self.local.close_handlers()

    def __repr__(self) -> str:
        bounds = self._state.bounds
        return (
            f"UnifiedLog({self.topic_partition} in {self.parent_dir}, offsets {bounds.start} to {self.log_end_offset},"
            f" high watermark {bounds.high_watermark.message_offset})"
        )
