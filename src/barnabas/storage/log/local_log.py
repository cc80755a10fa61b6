"""The segments of one log as one sequence: append, roll, read, flush, truncate, delete. Knows no epochs and watermarks.

Owned by a UnifiedLog: changed under the log's lock, read by any thread without it. `_flush_lock` orders flushes; it
comes after the log's lock where both are held. `flush` never takes the log's lock, so that an fsync does not stop
appends. Kafka: LocalLog.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from barnabas.config.log_config import LogConfig
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.runtime.files import Buffer
from barnabas.runtime.lock_order import LockRank, ranked_lock
from barnabas.runtime.locks import Lock
from barnabas.storage.fetch_data import FetchDataInfo
from barnabas.storage.file_names import CLEANED_SUFFIX, DELETED_SUFFIX, SWAP_SUFFIX
from barnabas.storage.log_environment import LogEnvironment
from barnabas.storage.log_offset_metadata import LogOffsetMetadata
from barnabas.storage.segment.log_segment import LogSegment
from barnabas.storage.segment.log_segments import LogSegments
from barnabas.storage.segment.offset_index import MAX_RELATIVE_OFFSET

if TYPE_CHECKING:
    from mypy_extensions import i64

logger = logging.getLogger(__name__)


class LocalLog:
    """A log's files, without any until the loader adds the segments and sets end and recovery point.

    end: the log end offset and its place. recovery_point: the offset below which everything is on stable storage.
    segment_bytes, flush_messages: the settings that every append looks at. Every method that touches files raises
    OSError.
    """

    __slots__ = (
        "_directory_synced",
        "_flush_lock",
        "_roll_ms",
        "config",
        "directory",
        "end",
        "environment",
        "flush_messages",
        "last_flush_ms",
        "recovery_point",
        "segment_bytes",
        "segments",
        "topic_partition",
    )

    def __init__(
        self,
        directory: str,
        topic_partition: TopicPartition,
        config: LogConfig,
        environment: LogEnvironment,
    ) -> None:
        self.directory = directory
        self.topic_partition = topic_partition
        self.update_config(config)
        self.segments = LogSegments()
        self.end = LogOffsetMetadata(0)
        self.recovery_point: i64 = 0
        self.last_flush_ms = environment.clock.milliseconds()
        self.environment = environment
        self._flush_lock: Lock = ranked_lock(LockRank.FLUSH)
        self._directory_synced = False

    def update_config(self, config: LogConfig) -> None:
        """Take new settings. A compacted log rolls early enough for `max.compaction.lag.ms` to be kept."""
        self.config = config
        self.segment_bytes: i64 = config.segment_bytes
        self.flush_messages: i64 = config.flush_messages
        self._roll_ms: i64 = config.segment_ms
        if config.is_compacted and 0 < config.max_compaction_lag_ms < config.segment_ms:
            self._roll_ms = config.max_compaction_lag_ms

    # -- appending, under the log's lock

    def append(self, buffers: tuple[Buffer, ...], size: i64, first: i64, last: i64, max_timestamp: i64) -> None:
        """Append one batch to the active segment and move the log end offset behind it."""
        segment = self.segments.active
        segment.append(buffers, size, first, last, max_timestamp)
        self.end = LogOffsetMetadata(last + 1, segment.base_offset, segment.size)

    def must_roll(self, size: i64, max_timestamp: i64, last_offset: i64) -> bool:
        """Return whether the next batch needs a new segment: full, old enough, index full, or offset out of range."""
        segment = self.segments.active
        if (
            segment.size > self.segment_bytes - size
            or segment.indexes.is_full
            or last_offset - segment.base_offset > MAX_RELATIVE_OFFSET
        ):
            return True
        if segment.size == 0:
            return False
        # As in Kafka, the age of a segment with timestamps is the distance between its first batch and the next one,
        # whatever the clock says: a log that is copied years later is cut by the times of its records.
        started = segment.rolling_timestamp
        if started >= 0:
            # The difference to a time before -1, which only a client makes up, may not fit a machine integer.
            return max_timestamp >= -1 and max_timestamp - started > self._roll_ms - segment.roll_jitter_ms
        waited = segment.time_waited_for_roll(self.environment.clock.milliseconds(), max_timestamp)
        return waited > self._roll_ms - segment.roll_jitter_ms

    def roll(self, expected_next_offset: int = 0) -> LogSegment:
        """Begin a new active segment at the log end offset, or at `expected_next_offset` if that is larger.

        An empty active segment of the same base offset is made anew. The old segment's indexes are written.
        Raises ValueError when the new segment would begin within the active one.
        """
        base_offset = max(expected_next_offset, self.end.message_offset)
        active = self.segments.active
        if active.base_offset == base_offset:
            if active.size:
                raise ValueError(f"segment {base_offset} of {self.topic_partition} holds batches already")
            logger.warning("Replacing the empty segment %d of %s", base_offset, self.topic_partition)
            # Only the files: the log is never without a segment, so the object stays until it is replaced.
            active.delete()
        elif base_offset < active.base_offset:
            raise ValueError(f"roll of {self.topic_partition} to {base_offset}, before {active.base_offset}")
        else:
            active.on_become_inactive()
            if self.recovery_point >= self.end.message_offset:
                # No flush will reach this segment any more: it lies before the recovery point already.
                self._flush_segment(active)
        segment = self.environment.segments.create(self.directory, base_offset, self.config)
        self.segments.add(segment)
        self.end = LogOffsetMetadata(self.end.message_offset, base_offset, 0)
        logger.info("Rolled new log segment at offset %d of %s", base_offset, self.topic_partition)
        return segment

    # -- reading, any thread

    def read(
        self, start_offset: i64, max_bytes: i64, limit: LogOffsetMetadata, *, min_one_message: bool
    ) -> FetchDataInfo:
        """Return batches from `start_offset`, which is within the log, to `limit`, which is above it.

        Offsets that compaction removed are skipped, over segments if need be. Raises CorruptRecord, CorruptIndex.
        """
        # Segments of one moment. With the next segment looked up anew in each turn, a reader at the end of segment 0
        # would miss records when the cleaner puts a new segment 0 in the place of segments 0 and 100 meanwhile: what
        # follows 0 is then 200, and offsets 100 to 199 would be taken for compacted away. The files of the old segments
        # stay for `file.delete.delay.ms`.
        active = self.segments.active
        if start_offset >= active.base_offset:
            segments: tuple[LogSegment, ...] = (active,)
        else:
            segments = self.segments.since(start_offset) or self.segments.all()
        for segment in segments:
            if segment.base_offset > limit.segment_base_offset:
                break
            # The size is less than the limit's position if the segment was compacted since the limit was noted.
            max_position = segment.size
            if segment.base_offset == limit.segment_base_offset and limit.position_in_segment < max_position:
                max_position = limit.position_in_segment
            data = segment.read(start_offset, max_bytes, max_position, min_one_message=min_one_message)
            if data is not None:
                return data
        return FetchDataInfo(limit, b"")

    def position_of(self, offset: int) -> LogOffsetMetadata:
        """Return `offset` with the place where its batch begins; without a place when there is no such offset.

        Raises CorruptRecord, CorruptIndex.
        """
        end = self.end
        if offset == end.message_offset:
            return end
        for segment in self.segments.since(offset):
            place = segment.translate_offset(offset)
            if place is not None:
                return LogOffsetMetadata(offset, segment.base_offset, place.position)
        return LogOffsetMetadata(offset)

    def batch_start(self, offset: int) -> int:
        """Return the base offset of the batch that holds `offset`, or `offset` in a gap, or the log end behind all."""
        for segment in self.segments.since(offset):
            place = segment.translate_offset(offset)
            if place is not None:
                return min(place.base_offset, offset)
        return self.end.message_offset

    # -- durability

    def flush(self, offset: int | None = None, before: Callable[[], None] = lambda: None) -> None:
        """Bring everything below `offset` (None: everything there is) to stable storage and move the recovery point.

        Concurrent callers share one fsync: a caller whose offsets another caller has flushed returns at once. `before`
        is called first; it makes durable what must be so before the recovery point moves.
        """
        wanted = self.end.message_offset if offset is None else offset
        if wanted <= self.recovery_point:
            return
        with self._flush_lock:
            # Asked again under the lock: another caller may have flushed these offsets while this one waited.
            if wanted <= self.recovery_point:
                return
            # The log may have been truncated since the flush was asked for.
            upto = self.end.message_offset if offset is None else min(offset, self.end.message_offset)
            if upto <= self.recovery_point:
                return
            before()
            self._flush_segments(self.segments.values(self.recovery_point, upto))
            self.recovery_point = upto
            self.last_flush_ms = self.environment.clock.milliseconds()

    def _flush_segments(self, segments: Sequence[LogSegment]) -> None:
        """Sync the segments, and the directories that have their names. Raises OSError."""
        for segment in segments:
            try:
                self._flush_segment(segment)
            except FileNotFoundError:
                # A segment that was deleted since the caller looked needs no sync.
                if segment in self.segments.all():
                    raise
        # A synced file is lost with its directory entry: the log directory has that of the log's directory, which is
        # synced once, and the log's directory those of the segments, synced whenever one began since the last flush.
        files = self.environment.files
        if not self._directory_synced:
            files.sync_dir(os.path.dirname(self.directory))
        if not self._directory_synced or any(segment.base_offset >= self.recovery_point for segment in segments):
            files.sync_dir(self.directory)
        self._directory_synced = True

    def _flush_segment(self, segment: LogSegment) -> None:
        began_ns = self.environment.clock.nanoseconds()
        segment.flush()
        self.environment.flushes.update(self.environment.clock.nanoseconds() - began_ns)

    # -- truncating and deleting, under the log's lock

    def lower_recovery_point(self, offset: int) -> bool:
        """Count nothing behind `offset` as flushed any more: it will be written anew. True if something did count."""
        with self._flush_lock:
            lower = offset < self.recovery_point
            if lower:
                self.recovery_point = offset
            return lower

    def truncate_to(self, offset: int) -> list[LogSegment]:
        """Drop the batch that holds `offset` and all behind it; return the segments deleted.

        The first segment must not begin above `offset`.
        """
        # Later segments go before the segment with the cut is truncated: a broker that is killed in between leaves this
        # segment uncut, and never a hole between the cut and a segment that stayed.
        deletable = [segment for segment in self.segments if segment.base_offset > offset]
        self.delete_segments(deletable, delayed=True)
        # The flush lock: a flush that is under way must not set the recovery point behind the new end.
        with self._flush_lock:
            active = self.segments.active
            active.truncate_to(offset, self.environment.clock.milliseconds())
            end_offset = active.next_offset()
            self.end = LogOffsetMetadata(end_offset, active.base_offset, active.size)
            self.recovery_point = min(self.recovery_point, end_offset)
            # A crash must not bring the cut batches back behind new ones.
            self._flush_segment(active)
            self.environment.files.sync_dir(self.directory)
        return deletable

    def truncate_fully_and_start_at(self, offset: int) -> list[LogSegment]:
        """Drop everything; the log begins and ends at `offset`. Return the segments deleted."""
        deleted = list(self.segments)
        # The flush lock keeps a flush from moving the recovery point up again. The old files go before the new segment
        # is made: one of them may have its name.
        with self._flush_lock:
            for segment in deleted:
                segment.delete()
            fresh = self.environment.segments.create(self.directory, offset, self.config)
            self.segments.replace(fresh, deleted)
            self.end = LogOffsetMetadata(offset, offset, 0)
            self.recovery_point = min(self.recovery_point, offset)
        return deleted

    def delete_segments(self, segments: Iterable[LogSegment], *, delayed: bool) -> None:
        """Remove segments and rename their files to `.deleted`; the files go now, or after file.delete.delay.ms."""
        deleted = list(segments)
        # All of them leave the collection before the first file gets another name: a reader that finds no file reads
        # again, and must not find the segment again.
        for segment in deleted:
            self.segments.remove(segment.base_offset)
        for segment in deleted:
            segment.change_suffix("", DELETED_SUFFIX)
        if not delayed:
            delete_files(deleted)
        else:
            self._delete_later(deleted)

    def replace_segments(self, new: LogSegment, old: Sequence[LogSegment]) -> list[LogSegment]:
        """Put a segment that the cleaner has written (`.cleaned`, on stable storage) in the place of neighbours.

        A crash before all its files are called `.swap` leaves the old segments; after that, the next start finishes the
        swap. Old segments that retention has deleted meanwhile are left out. Return the others, whose files are deleted
        later. Raises OSError: EIO when the swap has stopped half-way.
        """
        # The order of a swap. The names on disk tell a start how far it had come:
        #
        #     | on disk                                          | what a start does (`log.loader`)         |
        #     | old segments, new files `.cleaned`               | deletes the new files                       |
        #     | old segments, new files `.cleaned` and `.swap`   | the same                                    |
        #     | old segments, some `.deleted`, new files `.swap` | finishes the swap                           |
        #     | the new segment under its final name             | deletes the `.deleted` files, nothing more  |
        #
        # The names `.swap` are synced before an old file changes its name: a disk may write directory entries in any
        # order.
        present = set(self.segments)
        replaced = [segment for segment in old if segment in present]
        files = self.environment.files
        try:
            new.change_suffix(CLEANED_SUFFIX, SWAP_SUFFIX)
            files.sync_dir(self.directory)
        except OSError:
            # No start must find this segment: the old ones may be cleaned differently by then.
            with suppress(OSError):
                new.delete()
            raise
        self.segments.replace(new, replaced)
        try:
            for segment in replaced:
                segment.change_suffix("", DELETED_SUFFIX)
            new.change_suffix(SWAP_SUFFIX, "")
            files.sync_dir(self.directory)
        except OSError as error:
            # Not even a full disk may be tried again: only a start can finish the swap.
            raise OSError(errno.EIO, f"segment {new.base_offset} is half swapped in: {error}") from error
        self._delete_later(replaced)
        return replaced

    def _delete_later(self, segments: Sequence[LogSegment]) -> None:
        if segments:
            self.environment.scheduler.schedule(
                "delete-file", lambda: delete_files(segments), delay_ms=self.config.file_delete_delay_ms
            )

    def moved_to(self, directory: str) -> None:
        """Note that the directory has been renamed."""
        self.directory = directory
        self._directory_synced = False
        for segment in self.segments:
            segment.moved_to(directory)

    def close(self) -> None:
        """Write the index entries that are only in memory, and close all files."""
        for segment in self.segments:
            segment.close()

    def close_handlers(self) -> None:
        """Close all files and write nothing."""
        for segment in self.segments:
            segment.close_handlers()


def delete_files(segments: Iterable[LogSegment]) -> None:
    """Remove the files of segments that were removed from their log. A file that cannot be removed is reported."""
    for segment in segments:
        logger.info("Deleting segment files %s", segment.file.path)
        try:
            segment.delete()
        except OSError:
            logger.exception("Could not delete %s", segment.file.path)
