"""A piece of a log: a file of batches from a base offset on, with its indexes.

Changed under the log's lock; read from any thread, up to positions that were published after the bytes had been
written. Kafka: LogSegment.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.records.errors import CorruptRecord
from barnabas.records.file_records import FileRecords
from barnabas.runtime.files import Buffer
from barnabas.storage.fetch_data import FetchDataInfo
from barnabas.storage.log_offset_metadata import LogOffsetMetadata
from barnabas.storage.segment.batch_scan import (
    SEARCH_CHUNK_BYTES,
    Batch,
    BatchPlace,
    find_batch,
    good_batches,
    scan_batches,
)
from barnabas.storage.segment.file import MOST_SEQUENTIAL_BYTES, SegmentFile, SequentialReads
from barnabas.storage.segment.index_file import CorruptIndex
from barnabas.storage.segment.indexes import SegmentIndexes
from barnabas.storage.segment.time_index import NO_TIMESTAMP, TimestampOffset

if TYPE_CHECKING:
    from mypy_extensions import i64

RECENT_BATCHES: Final = 128
"""As many of the newest batches at least have their places in memory: a consumer at the end of the log needs no search.
"""
NOT_KNOWN: Final = -(1 << 63)
_SIZE_BITS: Final = 31
_SIZE_MASK: Final = 0x7FFFFFFF

# How a segment is read while it is written
#
# Readers take no lock. Bytes are written before `size` covers them, and a reader looks at nothing at or behind the size
# that it has seen. A truncation lowers the size before it cuts the file. A file that is deleted or replaced stays
# readable for those that hold its descriptor, which is counted (`OpenFile`).
#
# Worked example: batches of 4,000 bytes with the offsets 0-9, 10-19 and 20-29 lie at 0, 4,000 and 8,000. Only the third
# has an index entry, (29, 8000). A consumer reads from offset 10 with a limit of 5,000 bytes: `recent` knows that the
# batch lies at 4,000, so the answer is the range 4,000 to 8,999, and the consumer drops the 1,000 bytes of the third
# batch that are cut off. A consumer that reads from 15 needs a search: no entry lies at or before 15, so the walk
# begins at position 0, and the batch 10-19 is the first whose last offset is at least 15.


class LogSegment:
    """One segment. Made by `SegmentFactory`.

    size: bytes of whole batches in the log file. rolling_timestamp: the timestamp that decides when the segment is old
    enough to roll; NOT_KNOWN as long as the segment is empty or was not looked at. recent: base offset -> position and
    size, in one number; keys are set and read one at a time, which dictionaries do atomically. is_preallocated: the log
    file is longer than `size`, and is cut when the segment rolls or closes.
    """

    __slots__ = (
        "_largest",
        "_less_recent",
        "_sequential_reads",
        "base_offset",
        "bytes_since_last_index_entry",
        "created_ms",
        "file",
        "indexes",
        "is_preallocated",
        "recent",
        "roll_jitter_ms",
        "rolling_timestamp",
        "size",
    )

    def __init__(
        self,
        base_offset: int,
        file: SegmentFile,
        indexes: SegmentIndexes,
        *,
        size: int,
        created_ms: int,
        roll_jitter_ms: int,
    ) -> None:
        self.base_offset: i64 = base_offset
        self.file = file
        self.indexes = indexes
        self.size: i64 = size
        self.created_ms = created_ms
        self.roll_jitter_ms: i64 = roll_jitter_ms
        self.rolling_timestamp: i64 = NOT_KNOWN
        self.bytes_since_last_index_entry: i64 = 0
        self.is_preallocated = False
        self.recent: dict[int, int] = {}
        self._less_recent: dict[int, int] = {}
        """The batches before those: when there are enough new ones, the old ones are dropped as a whole."""
        self._largest = TimestampOffset(NO_TIMESTAMP, base_offset) if size == 0 else None
        """The largest timestamp and the last offset of its batch; None in an opened segment until the first append."""
        self._sequential_reads = SequentialReads()

    # -- appending, under the log's lock

    def append(
        self,
        buffers: tuple[Buffer, ...],
        size: i64,
        first_offset: i64,
        last_offset: i64,
        max_timestamp: i64,
    ) -> None:
        """Append one batch, given as `buffers` of `size` bytes together. Raises OSError, and then nothing has changed.

        The order is Kafka's (docs/kafka-facts.md, order of a segment append): rolling timestamp, write, largest
        timestamp, index entries when more than the interval lies behind the last one, and only then this batch's size
        is counted towards the next interval.
        """
        position = self.size
        if position == 0:
            self.rolling_timestamp = max_timestamp
        self.file.write(buffers, position)
        largest = self._largest
        if largest is None:  # the first append to a segment that was opened
            largest = self._largest = self.indexes.times.last_entry
        if max_timestamp > largest.timestamp:
            largest = self._largest = TimestampOffset(max_timestamp, last_offset)
        since = self.bytes_since_last_index_entry
        if since > self.indexes.interval_bytes:
            self.indexes.append(last_offset, position, largest)
            since = 0
        self.bytes_since_last_index_entry = since + size
        recent = self.recent
        if len(recent) >= RECENT_BATCHES:
            # The old ones in their new place first: a reader that misses them here looks there next.
            self._less_recent = recent
            self.recent = recent = {}
        recent[first_offset] = position << _SIZE_BITS | size
        # Last, because readers take no lock: a reader looks at nothing at or behind the size that it has seen.
        self.size = position + size

    def time_waited_for_roll(self, now_ms: int, message_timestamp: int) -> int:
        """Return the milliseconds since the first batch, by timestamps; without one, since the segment was made."""
        if self.rolling_timestamp == NOT_KNOWN and self.size:
            self.rolling_timestamp = self.first_batch_timestamp()
        if self.rolling_timestamp >= 0:
            return message_timestamp - self.rolling_timestamp
        return now_ms - self.created_ms

    def on_become_inactive(self) -> None:
        """Enter the largest timestamp, write the indexes and keep nothing in memory: no batch will be appended."""
        self._enter_largest()
        self.indexes.forget_tail()
        self.forget_recent()
        self._trim()

    def forget_recent(self) -> None:
        """Forget the places of the newest batches."""
        self.recent = {}
        self._less_recent = {}

    def _trim(self) -> None:
        """Cut off the bytes that were allocated in advance and are not needed."""
        if self.is_preallocated:
            self.file.truncate(self.size)
            self.is_preallocated = False

    def _enter_largest(self) -> None:
        if self._largest is not None:
            self.indexes.enter_largest(self._largest)

    # -- reading, any thread

    def read(
        self, start_offset: i64, max_bytes: i64, max_position: i64, *, min_one_message: bool
    ) -> FetchDataInfo | None:
        """Return batches from the one that holds `start_offset` on, at most `max_bytes`, not beyond `max_position`.

        None when the segment has no such offset. The first batch is whole with `min_one_message`, whatever the limit.
        Raises OSError, CorruptRecord, CorruptIndex. Raises ApiError: UNKNOWN_SERVER_ERROR for a negative limit, as
        Kafka answers it.

        The place of the first batch comes from the cheapest source that has it: the newest batches (`recent`), the end
        of an earlier small read (`SequentialReads`), the offset index and a search in the log file.
        """
        known = self.recent.get(start_offset)
        if known is None:
            known = self._less_recent.get(start_offset)
        position: i64
        batch_size: i64
        size: i64
        if known is not None:
            place: i64 = known
            position, batch_size = place >> _SIZE_BITS, place & _SIZE_MASK
        else:
            reads = self._sequential_reads
            expected_at = reads.take(start_offset)
            if expected_at >= 0:
                size = min(max_position - expected_at, max_bytes)
                if 0 < size <= MOST_SEQUENTIAL_BYTES:
                    records = reads.read(self.file, start_offset, expected_at, size)
                    if records is not None:
                        return FetchDataInfo(LogOffsetMetadata(start_offset, self.base_offset, expected_at), records)
            found = self.translate_offset(start_offset, max(expected_at, 0))
            if found is None:
                return None
            position, batch_size = found.position, found.size
            # Only small reads find their next place by this note; a large one would push the places of others out.
            if max_bytes <= MOST_SEQUENTIAL_BYTES:
                reads.note(found.last_offset + 1, position + batch_size)
        # KIP-74: a consumer must make progress, so one whole batch may exceed its limit.
        if max_bytes <= batch_size:
            if max_bytes < 0:
                raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"Invalid max size {max_bytes} for log read from {self}")
            if min_one_message:
                max_bytes = batch_size
        size = min(max_position - position, max_bytes)
        if size <= 0:
            begins_at = LogOffsetMetadata(start_offset, self.base_offset, position)
            return FetchDataInfo(begins_at, b"", first_entry_incomplete=max_bytes < batch_size)
        return FetchDataInfo(
            LogOffsetMetadata(start_offset, self.base_offset, position),
            FileRecords(self.file.borrow(), position, size),
            max_bytes < batch_size,
        )

    def translate_offset(self, offset: i64, from_position: i64 = 0) -> BatchPlace | None:
        """Return the first batch whose last offset is at least `offset`; None when there is none.

        Raises OSError, CorruptRecord, CorruptIndex.
        """
        at_or_before, following = self.indexes.offsets.bounds(offset)
        if following - at_or_before > SEARCH_CHUNK_BYTES:
            # Large batches have an entry each, so the batch is most likely that of the next entry: looking there first
            # saves reading the header of the batch before.
            place = find_batch(self.file, offset, following, self.size)
            if place is not None and place.base_offset <= offset:
                return place
        return find_batch(self.file, offset, max(at_or_before, from_position), self.size)

    def upper_bound_offset(self, position: int, size: int) -> int | None:
        """Return an offset that batches of `size` bytes from `position` on do not reach; None for the segment's end.

        The offset comes from the offset index, so it may lie some batches further on.
        """
        return self.indexes.offsets.upper_bound_offset(position + size)

    def next_offset(self) -> int:
        """Return the offset behind the last batch; the base offset when the segment is empty."""
        offsets = self.indexes.offsets
        position = offsets.lookup(offsets.last_offset).position
        last = self.base_offset - 1
        while (found := find_batch(self.file, last + 1, position, self.size)) is not None:
            last, position = found.last_offset, found.position + found.size
        return last + 1

    def batches(self, from_position: int = 0) -> Sequence[Batch]:
        """Return all whole batches from a position on; for tests and small ranges."""
        return list(scan_batches(self.file, from_position, self.size))

    def first_batch_timestamp(self) -> int:
        """Return the largest timestamp of the first batch; -1 when it has none or the segment is empty."""
        if self.size == 0:
            return NO_TIMESTAMP
        return next(iter(scan_batches(self.file, 0, self.size, chunk_bytes=4096))).max_timestamp

    def max_timestamp_and_offset(self) -> TimestampOffset:
        """Return the largest timestamp and the last offset of the batch that has it, or (-1, base offset)."""
        # A segment that was closed has its largest timestamp as the last entry. A reader does not keep what it has
        # looked up: an append may have set a newer value by now, and only the appender holds the log's lock.
        return self._largest or self.indexes.times.last_entry

    @property
    def largest_timestamp(self) -> int:
        """The largest timestamp; without one, when the file was changed last, in milliseconds. Raises OSError."""
        timestamp = self.max_timestamp_and_offset().timestamp
        return timestamp if timestamp >= 0 else self.file.modified_ms()

    def find_offset_by_timestamp(self, timestamp: int, from_offset: int) -> tuple[int, int, int] | None:
        """Return (timestamp, offset, leader epoch) of the first record at or behind `from_offset` that is not older."""
        start = self.indexes.times.lookup(timestamp)
        position = self.indexes.offsets.lookup(max(start.offset, from_offset)).position
        for batch in scan_batches(self.file, position, self.size):
            if batch.max_timestamp < timestamp or batch.last_offset < from_offset:
                continue
            for record in batch.records():
                if record.timestamp >= timestamp and record.offset >= from_offset:
                    return record.timestamp, record.offset, getattr(batch, "partition_leader_epoch", -1)
        return None

    def find_largest_timestamp(self, from_offset: int) -> tuple[int, int, int] | None:
        """Return (timestamp, offset, leader epoch) of the newest record at or behind `from_offset`, by timestamp.

        Of several with the same timestamp it is the first. None if there is no record.
        """
        position = self.indexes.offsets.lookup(from_offset).position
        best: tuple[int, int, int] | None = None
        newest: Batch | None = None
        for batch in scan_batches(self.file, position, self.size):
            if batch.base_offset < from_offset:
                best = _newest_record((batch,), from_offset) or best  # the header's timestamp may be of a record before
            elif newest is None or batch.max_timestamp > newest.max_timestamp:
                newest = batch
        if newest is None or (best is not None and best[0] >= newest.max_timestamp):
            return best
        found = _newest_record((newest,), from_offset)
        if found is not None and found[0] == newest.max_timestamp:
            return found
        # A header may name a timestamp that no record has: one emptied by the cleaner, or stored without a look at the
        # records. Then each record counts.
        return _newest_record(scan_batches(self.file, position, self.size), from_offset)

    # -- loading, recovery, truncation

    def sanity_check(self) -> None:
        """Check the indexes. Raises CorruptIndex when one is missing or cannot belong to the segment.

        The last entry of the offset index must point at a batch: Kafka's followers enter the last offset of several
        batches with the position of the first.
        """
        self.indexes.sanity_check()
        offsets = self.indexes.offsets
        number = offsets.entries
        if number == 0:
            return
        entry = offsets.entry(number - 1)
        try:
            place = find_batch(self.file, self.base_offset, entry.position, self.size)
        except CorruptRecord:
            place = None
        if (
            place is None
            or place.position != entry.position
            or place.position + place.size > self.size
            or not self.base_offset <= place.base_offset <= place.last_offset <= entry.offset
        ):
            raise CorruptIndex(f"index file {offsets.path} ends in {entry}, but the log has no such batch there")

    def recover(
        self, on_batch: Callable[[Batch], None], gapless_from: int | None = None, *, stays_active: bool = False
    ) -> int:
        """Check every batch, cut the file behind the last good one, rebuild the indexes; return the bytes cut off.

        `recovery.good_batches` says what is good. `on_batch` is called with every good batch, in order; it makes the
        entries of the transaction index. The indexes of a segment that `stays_active` reach the disk when it is
        flushed, rolls or closes, as if it had been written to just now: making files is most of the time of a recovery
        of many small logs. Raises OSError.
        """
        indexes = self.indexes
        indexes.reset()
        self.forget_recent()
        largest = TimestampOffset(NO_TIMESTAMP, self.base_offset)
        valid_bytes = last_entry_at = 0
        file_size = self.file.size()
        for batch in good_batches(self.file, file_size, self.base_offset, gapless_from):
            if batch.max_timestamp > largest.timestamp:
                largest = TimestampOffset(batch.max_timestamp, batch.last_offset)
            if valid_bytes - last_entry_at > indexes.interval_bytes:
                indexes.append(batch.last_offset, valid_bytes, largest)
                last_entry_at = valid_bytes
            valid_bytes += batch.length
            on_batch(batch)
        self.bytes_since_last_index_entry = valid_bytes - last_entry_at
        if valid_bytes < file_size:
            self.file.truncate(valid_bytes)
            # What was cut off must not come back behind new batches after another crash.
            self.file.sync()
        self.size = valid_bytes
        self.rolling_timestamp = NOT_KNOWN
        self._largest = largest
        self._enter_largest()
        if not stays_active:
            indexes.write_recovered()
        return file_size - valid_bytes

    def truncate_to(self, offset: int, now_ms: int) -> int:
        """Drop the batches that hold `offset` and what is behind it; return the bytes cut off. Raises OSError."""
        # The place is looked up while the index is whole. Entries are dropped before the bytes that they point at: a
        # crash in between leaves batches without entries, which a search finds all the same.
        place = self.translate_offset(offset)
        self.indexes.truncate_to(offset)
        self.forget_recent()
        cut = 0
        if place is not None:
            cut = self.size - place.position
            # The size before the file: readers take no lock, and must not be sent to bytes that are about to go.
            self.size = place.position
            self.file.truncate(place.position)
            # After the cut, so that a reader that is still at work notes its place in the old object.
            self._sequential_reads = SequentialReads()
        if self.size == 0:
            self.created_ms = now_ms
            self.rolling_timestamp = NOT_KNOWN
        self.bytes_since_last_index_entry = 0
        self._largest = self._find_largest()
        return cut

    def _find_largest(self) -> TimestampOffset:
        """Return the largest timestamp: the last entry's, or that of a batch behind the entry."""
        largest = self.indexes.times.last_entry
        position = self.indexes.offsets.lookup(largest.offset).position
        for batch in scan_batches(self.file, position, self.size):
            if batch.max_timestamp > largest.timestamp:
                largest = TimestampOffset(batch.max_timestamp, batch.last_offset)
        return largest

    # -- files

    def flush(self) -> None:
        """Return when log file and indexes are on stable storage. Needs no lock of the log. Raises OSError."""
        self.file.sync()
        self.indexes.sync()

    def change_suffix(self, old: str, new: str) -> None:
        """Rename the files, from `old` at the end of their names to `new`. Raises OSError.

        A crash must not leave a log without its transaction index: the log file gets its final name last, and loses it
        first.
        """
        files = (self.file, *self.indexes.files())
        for file in files if new else reversed(files):
            path = file.path.removesuffix(old) + new
            # An index whose entries are all in memory, or that has none, has no file yet.
            if file is self.file or file.exists():
                file.rename(path)
            else:
                file.moved_to(path)

    def moved_to(self, directory: str) -> None:
        """Note that the log's directory has been renamed."""
        for file in (self.file, *self.indexes.files()):
            file.moved_to(os.path.join(directory, os.path.basename(file.path)))

    def close(self) -> None:
        """Enter the largest timestamp, bring the indexes to stable storage, trim and close the files.

        Raises OSError.
        """
        if self.size:
            self._enter_largest()
        # Zeros behind the last batch would look like a damaged segment to a start that trusts the clean shutdown.
        if self.is_preallocated:
            self._trim()
            self.file.sync()
        self.indexes.close()
        self.file.close()

    def close_handlers(self) -> None:
        """Close the files for good and write nothing."""
        for file in (*self.indexes.files(), self.file):
            file.close_for_good()

    def delete(self) -> None:
        """Remove the files. Raises OSError."""
        # The log file first: a start deletes indexes without a log file, but would take a log file without indexes for
        # a segment and rebuild them.
        for file in (self.file, *self.indexes.files()):
            file.delete()

    def __repr__(self) -> str:
        return f"LogSegment(baseOffset={self.base_offset}, size={self.size})"


def _newest_record(batches: Iterable[Batch], from_offset: int) -> tuple[int, int, int] | None:
    """Return (timestamp, offset, leader epoch) of the first record with the largest timestamp; None: no record."""
    best: tuple[int, int, int] | None = None
    for batch in batches:
        if batch.last_offset < from_offset or (best is not None and batch.max_timestamp <= best[0]):
            continue
        for record in batch.records():
            if record.offset >= from_offset and (best is None or record.timestamp > best[0]):
                best = record.timestamp, record.offset, getattr(batch, "partition_leader_epoch", -1)
    return best
