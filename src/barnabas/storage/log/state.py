"""What one log is made of: segments, bounds, leader epochs, producers, topic id; and how these change together.

The base of UnifiedLog, and what the modules that do a log's larger tasks take (`follower_append`, `truncation`,
`retention`): those cannot call UnifiedLog, which takes the lock and translates errors.

`lock` is the log's lock: re-entrant, inside the partition's lock, shared with `producers`. Everything changes under it.
Any thread reads `local`, `bounds` and the epochs without it: each is replaced by one assignment, and its value is
immutable or guards itself (LocalLog). `is_ready` may be cleared by any thread. Kafka: UnifiedLog.
"""

from __future__ import annotations

import logging
import os

from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.errors import CorruptRecord
from barnabas.runtime.locks import ReentrantLock
from barnabas.storage.file_names import is_future_dir
from barnabas.storage.log.bounds import LogBounds
from barnabas.storage.log.failures import READ_ERRORS, fail_reading, report
from barnabas.storage.log.leader_epochs import EpochEntry, LeaderEpochCache
from barnabas.storage.log.local_log import LocalLog
from barnabas.storage.log.topic_identity import TopicIdentity
from barnabas.storage.log_environment import LogEnvironment
from barnabas.storage.log_offset_metadata import LogOffsetMetadata
from barnabas.storage.producers.snapshot import encode_snapshot
from barnabas.storage.producers.state_manager import ProducerStateManager

logger = logging.getLogger(__name__)


class LogState:
    """The parts of one log.

    local: the files, other ones after a move. bounds: log start offset and watermarks, as of now; the place of the high
    watermark may be unknown. is_closed: nothing is appended any more. is_ready: a leader may append at once; False
    while `prepare_append` has something to do or to refuse. One flag for both, since every append looks at it.
    """

    __slots__ = (
        "bounds",
        "environment",
        "identity",
        "is_closed",
        "is_ready",
        "leader_epochs",
        "local",
        "lock",
        "producers",
        "topic_partition",
    )

    def __init__(
        self,
        local: LocalLog,
        leader_epochs: LeaderEpochCache,
        log_start_offset: int,
        topic_id: bytes | None,
        environment: LogEnvironment,
        producers: ProducerStateManager,
    ) -> None:
        self.lock: ReentrantLock = producers.lock
        self.topic_partition: TopicPartition = local.topic_partition
        self.local = local
        self.leader_epochs = leader_epochs
        self.producers = producers
        self.identity = TopicIdentity(local.topic_partition, topic_id)
        self.environment = environment
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
        return LogBounds(log_start_offset, place, None)

    # -- what it is and where; any thread

    @property
    def topic_id(self) -> bytes | None:
        """The id of the log's topic; None when none was ever assigned."""
        return self.identity.topic_id

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
    def log_start_offset(self) -> int:
        """The first offset that readers may ask for."""
        return self.bounds.start

    @property
    def log_end_offset(self) -> int:
        """The offset the next record gets."""
        return self.local.end.message_offset

    @property
    def high_watermark(self) -> int:
        """The offset below which consumers see records."""
        return self.bounds.high_watermark.message_offset

    @property
    def last_stable_offset(self) -> int:
        """The offset below which consumers that read committed records see records."""
        return self.bounds.last_stable.message_offset

    # -- appending, under the lock

    def prepare_append(self) -> None:
        """Write `partition.metadata` if that is due.

        Raises ApiError: KAFKA_STORAGE_ERROR when the log is closed. Raises OSError, also when the disk is full.
        """
        self.refuse_if_closed()
        # First: a pause that comes meanwhile, because the disk is full, must not be overwritten.
        self.is_ready = True
        try:
            self.environment.require_room(self.parent_dir)
            self.write_identity()
        except BaseException:
            self.is_ready = False
            raise

    def refuse_if_closed(self) -> None:
        """Raise ApiError: KAFKA_STORAGE_ERROR when the log is closed."""
        if self.is_closed:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"The log of {self.topic_partition} is closed")

    def check_room(self) -> None:
        """Have the next append ask for room on the disk first. Called under no lock, or under that of any log."""
        self.is_ready = False

    def roll(self, expected_next_offset: int = 0) -> None:
        """Begin a new segment; the older ones are flushed in the background.

        The producers are snapshotted first, so that a recovery need not begin before the new segment.
        Raises ApiError: KAFKA_STORAGE_ERROR when the log is closed. Raises OSError.
        """
        with self.lock:
            self.refuse_if_closed()
            local, bounds = self.local, self.bounds
            # A watermark at the end lies in the new segment from now on. A fetch that waits there measures the bytes
            # behind it by positions, and positions of two segments say nothing about each other.
            at_end = bounds.high_watermark.message_offset >= local.end.message_offset
            base_offset = max(expected_next_offset, local.end.message_offset)
            # Without a sync, since a roll comes in the middle of an append: `_flush_before` writes and syncs the
            # snapshot.
            snapshot_taken = self.producers.begin_snapshot(base_offset)
            local.roll(expected_next_offset)
            if at_end:
                self.bounds = bounds.with_high_watermark(local.end)
            self._flush_later(base_offset, snapshot_taken=snapshot_taken)

    # -- leader epochs

    def assign_epoch(self, epoch: int, start_offset: int) -> None:
        """Note that a leader of `epoch` begins at `start_offset` (KIP-101); the file is written in the background."""
        with self.lock:
            if self.leader_epochs.assign(epoch, start_offset):
                self.environment.write_later(self._write_leader_epochs)

    def _write_leader_epochs(self) -> None:
        if not self.is_closed:
            try:
                self.leader_epochs.flush()
            except OSError as error:
                if not self.is_closed:  # else the log was deleted meanwhile, and its directory renamed
                    report(self.local, "writing leader epochs", error)

    def end_offset_for_epoch(self, epoch: int) -> EpochEntry | None:
        """Return the largest epoch of the log not above `epoch`, and where it ends; None when nothing is known."""
        return self.leader_epochs.end_offset_for(epoch, self.local.end.message_offset)

    # -- durability; without the lock

    def write_identity(self) -> None:
        """Write `partition.metadata` if that is due. Under the lock. Raises OSError."""
        self.identity.flush(self.environment.files, self.local.directory)

    def flush_files(self, offset: int | None = None) -> None:
        """Bring everything below `offset` (None: all) to stable storage, topic id and epochs before batches.

        What lies before the recovery point is not looked for in the batches again, so the epochs of these batches must
        be durable before the recovery point moves. Raises OSError.
        """
        if self.identity.is_pending:
            with self.lock:
                self.write_identity()
        self.local.flush(offset, before=self.leader_epochs.flush)

    def _flush_later(self, base_offset: int, *, snapshot_taken: bool) -> None:
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
            self.flush_files(base_offset)
        except OSError as error:
            if self._is_open(local):
                report(local, "flushing the log behind a roll", error)

    def _write_begun_snapshot(self, offset: int) -> None:
        """Write the producers' snapshot of a roll. Only the write holds the lock. Raises OSError."""
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

    def update_high_watermark(self, offset: int) -> int:
        """Set the high watermark, kept between log start and end; return it. For restarts and followers.

        Its place is looked up by the first who reads up to it (`placed_bounds`).
        """
        with self.lock:
            bounds, end = self.bounds, self.local.end
            bounded = min(max(offset, bounds.start), end.message_offset)
            if bounded != bounds.high_watermark.message_offset:
                self.move_high_watermark(end if bounded == end.message_offset else LogOffsetMetadata(bounded))
            return bounded

    def maybe_increment_high_watermark(self, new: LogOffsetMetadata) -> LogOffsetMetadata | None:
        """Raise the high watermark to `new`, or put it into a newer segment; return the old one if it changed.

        Raises ValueError when `new` is beyond the log end.
        """
        with self.lock:
            local, bounds = self.local, self.bounds
            if new.message_offset > local.end.message_offset:
                raise ValueError(
                    f"high watermark {new.message_offset} beyond the end of {self.topic_partition},"
                    f" {local.end.message_offset}"
                )
            if not bounds.is_raised_by(new):
                return None
            self.move_high_watermark(local.position_of(new.message_offset) if new.is_offset_only else new)
            return bounds.high_watermark

    def raise_high_watermark_to_end(self) -> bool:
        """Raise the high watermark to the log end: everything appended is committed. True if it changed."""
        with self.lock:
            if self.bounds.high_watermark.is_same(self.local.end):
                return False
            self.move_high_watermark(self.local.end)
            return True

    def move_high_watermark(self, place: LogOffsetMetadata) -> None:
        """Set the high watermark; transactions whose markers it has passed are stable now. Under the lock."""
        bounds = self.bounds
        if bounds.first_unstable is None:
            self.bounds = LogBounds(bounds.start, place, None)
        else:
            self.bounds = bounds.with_high_watermark(place)
            self.update_first_unstable_offset()

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
                        fail_reading(self.local, "looking for the high watermark", error)
                    bounds = self.bounds = bounds.with_high_watermark(place)
        return bounds

    def maybe_increment_log_start_offset(self, offset: int, reason: str) -> bool:
        """Raise the log start offset, and forget epochs and transactions below it; True if it has changed.

        What lies below is gone for readers at once, and deleted with whole segments.
        Raises ApiError: OFFSET_OUT_OF_RANGE when `offset` is beyond the high watermark.
        """
        with self.lock:
            bounds = self.bounds
            high_watermark = bounds.high_watermark.message_offset
            if offset > high_watermark:
                raise ApiError(
                    ErrorCode.OFFSET_OUT_OF_RANGE,
                    f"Cannot increment the log start offset to {offset} of partition {self.topic_partition} since it"
                    f" is larger than the high watermark {high_watermark}",
                )
            if offset <= bounds.start:
                return False
            # The bound first: readers must not find a start whose epoch or transactions are forgotten already.
            self.bounds = bounds.with_start(offset)
            self.leader_epochs.truncate_from_start(offset)
            self.producers.on_log_start_offset_incremented(offset)
            self.update_first_unstable_offset()
        logger.info("Incremented log start offset of %s to %d due to %s", self.topic_partition, offset, reason)
        return True

    def update_first_unstable_offset(self) -> None:
        """Look the first unstable offset up anew: transactions began or ended, or another bound has moved.

        A transaction that a snapshot tells of has an offset without a place, and one that began below the log start
        offset begins there now; the place of either is searched in the segments, once. Under the lock.
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
                report(self.local, "looking for the first unstable offset", error)
        self.bounds = bounds.with_first_unstable(unstable)

    # -- the end of a move into another log directory

    def exchange_files(self, future: LogState) -> None:
        """Exchange files with a copy that has this log's high watermark, under both locks.

        The log stays the same object: the partition, requests that wait and coordinators hold it, and go on with it.
        It keeps what the copy lacks: epochs that no batch has, producers whose batches retention has deleted, and
        verifications. Reads and writes no file, so that nothing fails half-way.
        Kafka: Partition.maybeReplaceCurrentWithFutureReplica, which replaces the log object.
        """
        config = self.local.config
        self.local, future.local = future.local, self.local
        self.local.update_config(config)
        self.leader_epochs.exchange_file(future.leader_epochs)
        self.producers.exchange_snapshots(future.producers)
        self.identity.is_pending, future.identity.is_pending = future.identity.is_pending, self.identity.is_pending
        # The first unstable offset stays: batches lie at the same places in both.
        self.bounds = self.bounds.with_high_watermark(future.bounds.high_watermark)
        # Whatever was due to be written for the old files is due for the new ones.
        self.is_ready = False
        # What the copy has left to the background is looked for in these files by nobody else any more.
        for offset in self.producers.begun_offsets():
            self._flush_later(offset, snapshot_taken=True)
