"""The parts of one log: segments, bounds, leader epochs, producers; and the changes that concern several of them.

Owned by a UnifiedLog and handed to the modules that do its larger tasks (`follower_append`, `truncation`, `retention`,
`segment_swap`). Guarded by `lock`, the log's lock: re-entrant, and held by the caller of every method but `flush`.
`bounds` is read by any thread without it. Kafka: UnifiedLog, which has these fields itself.
"""

from __future__ import annotations

import logging
import os

from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.records.errors import CorruptRecord
from barnabas.runtime.lock_order import LockRank, ranked_lock
from barnabas.storage.file_names import is_future_dir
from barnabas.storage.log.bounds import LogBounds, bounds_of
from barnabas.storage.log.failures import READ_ERRORS, LogFailures
from barnabas.storage.log.leader_epochs import LeaderEpochCache
from barnabas.storage.log.local_log import LocalLog
from barnabas.storage.log.topic_identity import TopicIdentity
from barnabas.storage.log_environment import LogEnvironment
from barnabas.storage.log_offset_metadata import LogOffsetMetadata
from barnabas.storage.producers.snapshot import encode_snapshot
from barnabas.storage.producers.state_manager import ProducerStateManager

logger = logging.getLogger(__name__)


class LogState:
    """The parts of one log.

    is_closed: nothing is appended any more. is_ready: a leader may append at once; False while `prepare_append` has
    something to do or to refuse. One flag for both, since every append looks at it.
    """

    __slots__ = (
        "bounds",
        "environment",
        "failures",
        "identity",
        "is_closed",
        "is_ready",
        "leader_epochs",
        "local",
        "lock",
        "producers",
    )

    def __init__(
        self,
        local: LocalLog,
        leader_epochs: LeaderEpochCache,
        producers: ProducerStateManager,
        identity: TopicIdentity,
        environment: LogEnvironment,
        log_start_offset: int,
    ) -> None:
        # The end of a move takes both locks, the copy's behind the log's.
        rank = LockRank.FUTURE_LOG if is_future_dir(local.directory) else LockRank.LOG
        self.lock = ranked_lock(rank, reentrant=True)
        self.local = local
        self.leader_epochs = leader_epochs
        self.producers = producers
        self.identity = identity
        self.environment = environment
        self.failures = LogFailures(local, environment)
        self.is_closed = False
        self.is_ready = False
        self.bounds = self._bounds_at_start(log_start_offset)
        self.update_first_unstable_offset()

    def _bounds_at_start(self, log_start_offset: int) -> LogBounds:
        """Return the bounds of a log that was just opened.

        Its high watermark is its start until the checkpoint is read.
        """
        offset = max(log_start_offset, 0)
        try:
            place = self.local.position_of(offset)
        # Readers of that batch get the error; all others are served.
        except CorruptRecord:
            place = LogOffsetMetadata(offset)
        return bounds_of(log_start_offset, place, None)

    # -- appending

    def prepare_append(self) -> None:
        """Write `partition.metadata` if that is due.

        Raises ApiError: KAFKA_STORAGE_ERROR when the log is closed. Raises OSError, also when the disk is full.
        """
        self.refuse_if_closed()
        # First: a pause that comes meanwhile, because the disk is full, must not be overwritten.
        self.is_ready = True
        try:
            self.environment.require_room(os.path.dirname(self.local.directory))
            self.write_identity()
        except BaseException:
            self.is_ready = False
            raise

    def refuse_if_closed(self) -> None:
        """Raise ApiError: KAFKA_STORAGE_ERROR when the log is closed."""
        if self.is_closed:
            self.failures.refuse_closed()

    def close(self) -> None:
        """Refuse appends from now on."""
        self.is_closed = True
        self.is_ready = False

    def assign_epoch(self, epoch: int, start_offset: int) -> None:
        """Note that a leader of `epoch` begins at `start_offset`; the file is written in the background."""
        if self.leader_epochs.assign(epoch, start_offset):
            self.environment.write_later(self._write_leader_epochs)

    def _write_leader_epochs(self) -> None:
        if not self.is_closed:
            try:
                self.leader_epochs.flush()
            except OSError as error:
                if not self.is_closed:  # else the log was deleted meanwhile, and its directory renamed
                    self.failures.report("writing leader epochs", error)

    def write_identity(self) -> None:
        """Write `partition.metadata` if that is due. Raises OSError."""
        self.identity.flush(self.environment.files, self.local.directory)

    def roll(self, expected_next_offset: int = 0) -> None:
        """Begin a new segment; the older ones are flushed in the background.

        The producers are snapshotted first, so that a recovery need not begin before the new segment.
        Raises ApiError: KAFKA_STORAGE_ERROR when the log is closed. Raises OSError.
        """
        self.refuse_if_closed()
        local, bounds = self.local, self.bounds
        # A watermark at the end lies in the new segment from now on. A fetch that waits there measures the bytes behind
        # it by positions, and positions of two segments say nothing about each other.
        at_end = bounds.high_watermark.message_offset >= local.end.message_offset
        base_offset = max(expected_next_offset, local.end.message_offset)
        # Without a sync, since a roll comes in the middle of an append: `_flush_before` writes and syncs the snapshot.
        snapshot_taken = self.producers.begin_snapshot(base_offset)
        local.roll(expected_next_offset)
        if at_end:
            self.bounds = bounds.with_high_watermark(local.end)
        self.flush_later(base_offset, snapshot_taken=snapshot_taken)

    # -- durability; without the log's lock

    def flush(self, offset: int | None = None) -> None:
        """Bring everything below `offset` (None: all) to stable storage, topic id and epochs before batches.

        What lies before the recovery point is not looked for in the batches again, so the epochs of these batches must
        be durable before the recovery point moves. Raises OSError.
        """
        if self.identity.is_pending:
            with self.lock:
                self.write_identity()
        self.local.flush(offset, before=self.leader_epochs.flush)

    def flush_later(self, base_offset: int, *, snapshot_taken: bool) -> None:
        """Have the background flush what a roll at `base_offset` has left behind. snapshot_taken: its snapshot too."""
        local = self.local
        self.environment.scheduler.schedule("flush-log", lambda: self._flush_before(local, base_offset, snapshot_taken))

    def _flush_before(self, local: LocalLog, base_offset: int, snapshot_taken: bool) -> None:
        """Flush what a roll of `local` has left behind. Errors are reported: nothing waits for the answer."""
        if not self._is_open(local):
            return
        try:
            if snapshot_taken:
                self._write_begun_snapshot(base_offset)
                self.producers.sync_snapshot(base_offset)
            self.flush(base_offset)
        except OSError as error:
            if self._is_open(local):
                self.failures.report("flushing the log behind a roll", error)

    def _write_begun_snapshot(self, offset: int) -> None:
        """Write the producers' snapshot of a roll. Only the write holds the log's lock. Raises OSError."""
        producers = self.producers
        entries = producers.begun(offset)
        if entries is not None:
            content = encode_snapshot(entries)
            with self.lock:
                producers.write_begun(offset, entries, content)

    def _is_open(self, local: LocalLog) -> bool:
        """Return whether `local` is open, and still this log's: after a move other files are, which were flushed."""
        return not self.is_closed and self.local is local

    # -- bounds

    def move_high_watermark(self, place: LogOffsetMetadata) -> None:
        """Set the high watermark; transactions whose markers it has passed are stable now."""
        self.bounds = self.bounds.with_high_watermark(place)
        if self.bounds.first_unstable is not None:
            self.update_first_unstable_offset()

    def set_high_watermark(self, offset: int) -> int:
        """Set the high watermark, kept between log start and end, and return it.

        Its place is looked up by the first who reads up to it (`placed_bounds`).
        """
        bounds, end = self.bounds, self.local.end
        bounded = min(max(offset, bounds.start), end.message_offset)
        if bounded != bounds.high_watermark.message_offset:
            self.move_high_watermark(end if bounded == end.message_offset else LogOffsetMetadata(bounded))
        return bounded

    def placed_bounds(self) -> LogBounds:
        """Return the bounds, with the place of the high watermark looked up if it is not known yet.

        A follower's watermark moves with every append, mostly without anybody who reads up to it (Kafka:
        fetchHighWatermarkMetadata). Raises ApiError: KAFKA_STORAGE_ERROR, CORRUPT_MESSAGE.
        """
        bounds = self.bounds
        if bounds.high_watermark.is_offset_only:
            with self.lock:
                bounds = self.bounds
                if bounds.high_watermark.is_offset_only:
                    try:
                        place = self.local.position_of(bounds.high_watermark.message_offset)
                    except READ_ERRORS as error:
                        self.failures.fail_reading("looking for the high watermark", error)
                    bounds = self.bounds = bounds.with_high_watermark(place)
        return bounds

    def raise_start(self, offset: int, reason: str) -> bool:
        """Raise the log start offset, and forget epochs and transactions below it; True if it has changed.

        Raises ApiError: OFFSET_OUT_OF_RANGE when `offset` is beyond the high watermark.
        """
        bounds, topic_partition = self.bounds, self.local.topic_partition
        high_watermark = bounds.high_watermark.message_offset
        if offset > high_watermark:
            raise ApiError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"Cannot increment the log start offset to {offset} of partition {topic_partition} since it"
                f" is larger than the high watermark {high_watermark}",
            )
        if offset <= bounds.start:
            return False
        # The bound first: readers must not find a start whose epoch or transactions are forgotten already.
        self.bounds = bounds.with_start(offset)
        self.leader_epochs.truncate_from_start(offset)
        self.producers.on_log_start_offset_incremented(offset)
        self.update_first_unstable_offset()
        logger.info("Incremented log start offset of %s to %d due to %s", topic_partition, offset, reason)
        return True

    def update_first_unstable_offset(self) -> None:
        """Look the first unstable offset up anew: transactions began or ended, or another bound has moved.

        A transaction that a snapshot tells of has an offset without a place, and one that began below the log start
        offset begins there now; the place of either is searched in the segments, once.
        """
        bounds = self.bounds
        unstable = self.producers.first_unstable_offset(bounds.high_watermark.message_offset)
        if unstable is not None and (unstable.is_offset_only or unstable.message_offset < bounds.start):
            offset = max(unstable.message_offset, bounds.start)
            known = bounds.first_unstable
            if known is not None and known.message_offset == offset and not known.is_offset_only:
                return
            try:
                unstable = self.local.position_of(offset)
            except OSError as error:
                self.failures.report("looking for the first unstable offset", error)
        self.bounds = bounds.with_first_unstable(unstable)
