"""One partition's directory, read without its broker: which segments it has now, and where offsets lie in them.

Used by `log_directories`, the planner and the readers on their caller's thread; every call looks at the disk again, so
nothing is kept and no lock is needed.

Segments appear, are rolled, deleted by retention and replaced by the cleaner while they are listed. A listing counts
once the next one has the same names. A cleaner that is at work, or was killed, may have left `.log.swap` files: such a
file is complete, and stands for the segments whose offsets it covers, as it does for a starting broker.

The indexes are hints; they may be preallocated, torn, stale or missing. A broker that runs, or was killed, leaves its
newest indexes at their full size with zeros at the end; a crash of the machine may leave anything. So an index is
searched without a look at all of it, and the found place is checked in the log file itself. `storage.segment` has the
broker's own indexes and the format.
"""

from __future__ import annotations

import errno
import os
import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.errors import CorruptRecord
from barnabas.records.legacy_records import LegacyBatch
from barnabas.records.record_batch import RecordBatch
from barnabas.runtime.files import File, Files
from barnabas.storage.file_names import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    base_offset_of,
)
from barnabas.storage.segment.batch_scan import MIN_BATCH_SIZE, find_batch, scan_batches
from barnabas.storage.segment.offset_index import OffsetPosition
from barnabas.storage.segment.time_index import TimestampOffset

_LISTINGS = 50
"""The listings after which a directory that changes all the time is given up."""
_HEADER_BYTES = 64
_OFFSET_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")


class LogUnreadable(Exception):
    """A log cannot be read as asked; raised by this package and its callers.

    The text names the topic, the partition, the offset and the file.
    """


class RecordsDeleted(LogUnreadable):
    """Records that were to be read are gone: retention or a deletion removed them after the read was planned."""


class BeyondLogEnd(LogUnreadable):
    """An offset lies outside of the log."""


def unreadable(topic_partition: TopicPartition, offset: int, path: str, reason: object) -> LogUnreadable:
    """Return the error for a place in a log."""
    return LogUnreadable(f"{topic_partition}, offset {offset}, {path}: {reason}")


class ListedSegment(NamedTuple):
    """A segment as a listing found it. `size` in bytes; `file_id` tells its log file from one of the same name."""

    base_offset: int
    path: str
    size: int
    file_id: int

    def sibling(self, suffix: str) -> str:
        """Return the path of the segment's file with another suffix."""
        ending = SWAP_SUFFIX if self.path.endswith(SWAP_SUFFIX) else ""
        return self.path.removesuffix(ending).removesuffix(LOG_SUFFIX) + suffix + ending


class Cut(NamedTuple):
    """A place between two batches: the offset of the batch behind it, and its position in the log file."""

    offset: int
    position: int


class OffsetHints:
    """The `.index` of a segment: places of batches in the log file, by their last offsets. Immutable."""

    __slots__ = ("_base_offset", "_count", "_data")

    def __init__(self, data: bytes, base_offset: int) -> None:
        self._data = data
        self._base_offset = base_offset
        self._count = _used_bytes(data, _OFFSET_ENTRY.size) // _OFFSET_ENTRY.size

    @classmethod
    def read(cls, files: Files, path: str, base_offset: int) -> OffsetHints:
        """Read the file. A missing one has no entries. Raises OSError."""
        return cls(_index_bytes(files, path), base_offset)

    def at_or_before(self, offset: int) -> OffsetPosition | None:
        """Return the last entry whose offset is at most `offset`, or None."""
        number = bisect_right(range(self._count), offset, key=lambda entry: self._place(entry).offset)
        return self._place(number - 1) if number else None

    def from_position(self, position: int) -> OffsetPosition | None:
        """Return the first entry at or behind a position of the log file, or None."""
        number = bisect_left(range(self._count), position, key=lambda entry: self._place(entry).position)
        return self._place(number) if number < self._count else None

    def last(self) -> OffsetPosition | None:
        """Return the last entry, or None."""
        return self._place(self._count - 1) if self._count else None

    def _place(self, number: int) -> OffsetPosition:
        relative, position = _OFFSET_ENTRY.unpack_from(self._data, number * _OFFSET_ENTRY.size)
        return OffsetPosition(self._base_offset + relative, position)


class TimeHints:
    """The `.timeindex` of a segment: offsets up to which the log file holds no larger timestamps. Immutable."""

    __slots__ = ("_base_offset", "_count", "_data")

    def __init__(self, data: bytes, base_offset: int) -> None:
        self._data = data
        self._base_offset = base_offset
        self._count = _used_bytes(data, _TIME_ENTRY.size) // _TIME_ENTRY.size

    @classmethod
    def read(cls, files: Files, path: str, base_offset: int) -> TimeHints:
        """Read the file. A missing one has no entries. Raises OSError."""
        return cls(_index_bytes(files, path), base_offset)

    def before(self, timestamp_ms: int) -> TimestampOffset | None:
        """Return the last entry with a smaller timestamp, or None: up to its offset, all timestamps are smaller."""
        number = bisect_left(range(self._count), timestamp_ms, key=lambda entry: self._place(entry).timestamp)
        return self._place(number - 1) if number else None

    def last(self) -> TimestampOffset | None:
        """Return the last entry, or None. In a segment that a broker has closed, it has the largest timestamp."""
        return self._place(self._count - 1) if self._count else None

    def _place(self, number: int) -> TimestampOffset:
        timestamp, relative = _TIME_ENTRY.unpack_from(self._data, number * _TIME_ENTRY.size)
        return TimestampOffset(timestamp, self._base_offset + relative)


def _index_bytes(files: Files, path: str) -> bytes:
    try:
        return files.read_bytes(path)
    except FileNotFoundError:
        return b""


def _used_bytes(data: bytes, entry_size: int) -> int:
    """Return the bytes of whole entries before the zeros of a preallocated file."""
    # The last entry may end in zeros of its own.
    used = len(data.rstrip(b"\0"))
    return min(-(-used // entry_size) * entry_size, len(data) // entry_size * entry_size)


class PartitionLog:
    """The log of one partition in one directory."""

    def __init__(self, topic_partition: TopicPartition, directory: str, files: Files) -> None:
        self.topic_partition = topic_partition
        self.directory = directory
        self.files = files

    # -- segments

    def segments(self) -> list[ListedSegment]:
        """Return the segments of this moment, in order of offsets. Raises LogUnreadable, OSError."""
        for _ in range(_LISTINGS):
            names = self._log_names()
            try:
                found = [self._listed(name) for name in names]
                if names == self._log_names():
                    return self._without_replaced(found)
            except FileNotFoundError:
                # A segment of the listing is gone: a new listing shows what has replaced it.
                continue
        raise LogUnreadable(
            f"{self.topic_partition}: the segments in {self.directory} change faster than they are read"
        )

    def _log_names(self) -> list[str]:
        """Return the names of the segments' log files. Raises LogUnreadable, OSError."""
        try:
            names = self.files.list_dir(self.directory)
        except FileNotFoundError:
            raise LogUnreadable(f"{self.topic_partition}: there is no directory {self.directory} any more") from None
        return [
            name
            for name in names
            if base_offset_of(name) is not None and name.endswith((LOG_SUFFIX, LOG_SUFFIX + SWAP_SUFFIX))
        ]

    def _listed(self, name: str) -> ListedSegment:
        path = os.path.join(self.directory, name)
        file = self.files.open(path)
        try:
            base_offset = base_offset_of(name)
            assert base_offset is not None
            return ListedSegment(base_offset, path, file.size(), file_id(file))
        finally:
            file.close()

    def _without_replaced(self, found: list[ListedSegment]) -> list[ListedSegment]:
        """Return the segments without those that a cleaned one replaces."""
        swaps = [segment for segment in found if segment.path.endswith(SWAP_SUFFIX)]
        covered = [range(segment.base_offset, self._next_offset(segment)) for segment in swaps]
        kept = [
            segment
            for segment in found
            if segment in swaps or not any(segment.base_offset in offsets for offsets in covered)
        ]
        return sorted(kept)

    def _next_offset(self, segment: ListedSegment) -> int:
        following = segment.base_offset + 1
        for batch in self._batches(segment, Cut(segment.base_offset, 0)):
            following = max(following, batch.last_offset + 1)
        return following

    def open(self, segment: ListedSegment) -> File:
        """Open the log file of a segment, for the caller to close.

        Raises FileNotFoundError when it is gone or another file has its name by now: then the listing is outdated.
        """
        file = self.files.open(segment.path)
        if file_id(file) != segment.file_id:
            file.close()
            raise FileNotFoundError(errno.ENOENT, "the segment has been replaced", segment.path)
        return file

    # -- places

    def cut_before(self, segment: ListedSegment, offset: int) -> Cut:
        """Return the place of the batch that holds `offset`, or else of the next one; the file's end if there is none.

        Raises LogUnreadable, OSError.
        """
        file = self.open(segment)
        try:
            return self.cut_in(file, segment, offset)
        finally:
            file.close()

    def cut_in(self, file: File, segment: ListedSegment, offset: int) -> Cut:
        """Return what `cut_before` returns, for the segment's open file. Raises LogUnreadable, OSError."""
        start = Cut(segment.base_offset, 0)
        hint = self.offset_hints(segment).at_or_before(offset)
        try:
            if hint is not None:
                start = self._checked_cut(file, hint.offset, hint.position, segment.size) or start
            place = find_batch(file, offset, start.position, segment.size)
        except CorruptRecord as error:
            raise unreadable(self.topic_partition, offset, segment.path, error) from None
        return Cut(offset, segment.size) if place is None else Cut(place.base_offset, place.position)

    def cut_from(self, segment: ListedSegment, hints: OffsetHints, position: int) -> Cut | None:
        """Return the first place at or behind a position that the index knows, or None. Raises OSError."""
        hint = hints.from_position(position)
        if hint is None:
            return None
        file = self.open(segment)
        try:
            return self._checked_cut(file, hint.offset, hint.position, segment.size)
        finally:
            file.close()

    def offset_hints(self, segment: ListedSegment) -> OffsetHints:
        """Read the segment's offset index. Raises OSError."""
        return OffsetHints.read(self.files, segment.sibling(INDEX_SUFFIX), segment.base_offset)

    def time_hints(self, segment: ListedSegment) -> TimeHints:
        """Read the segment's time index. Raises OSError."""
        return TimeHints.read(self.files, segment.sibling(TIME_INDEX_SUFFIX), segment.base_offset)

    def aborted_index_path(self, segment: ListedSegment) -> str:
        """Return the path of the segment's index of aborted transactions, which may not exist."""
        return segment.sibling(TRANSACTION_INDEX_SUFFIX)

    @staticmethod
    def _checked_cut(file: File, last_offset: int, position: int, size: int) -> Cut | None:
        """Return the place if the batch of an index entry lies there, else None: then the index is wrong."""
        if not 0 <= position <= size - MIN_BATCH_SIZE:
            return None
        try:
            batch = RecordBatch(file.read(position, _HEADER_BYTES))
        except CorruptRecord:
            # Also a batch of an old format, whose first offset its header does not tell.
            return None
        return Cut(batch.base_offset, position) if batch.last_offset == last_offset else None

    # -- the end of the log

    def end_offset(self, segments: list[ListedSegment]) -> int:
        """Return the offset behind the last sound batch: what a starting broker would keep. Raises OSError.

        The newest segment is read from its last index entry on, and ends before the first batch that is torn, has a
        wrong checksum, or is no batch, such as the zeros of a preallocated file.
        """
        segment = segments[-1]
        hint = self.offset_hints(segment).last()
        start = None if hint is None else self._cut_at(segment, hint.offset, hint.position)
        end = segment.base_offset
        try:
            for batch in self._batches(segment, start or Cut(segment.base_offset, 0)):
                if batch.last_offset < end or not batch.is_valid_crc():
                    break
                end = batch.last_offset + 1
        except CorruptRecord:
            # The tail that a crash has left.
            pass
        return end

    def _cut_at(self, segment: ListedSegment, last_offset: int, position: int) -> Cut | None:
        file = self.open(segment)
        try:
            return self._checked_cut(file, last_offset, position, segment.size)
        finally:
            file.close()

    def _batches(self, segment: ListedSegment, start: Cut) -> Iterator[RecordBatch | LegacyBatch]:
        """Yield the batches of a segment from a place on. Raises CorruptRecord, OSError."""
        file = self.open(segment)
        try:
            yield from scan_batches(file, start.position, segment.size)
        finally:
            file.close()


def file_id(file: File) -> int:
    """Return the number by which the file system tells this file from another one of the same name."""
    return os.fstat(file.fileno()).st_ino
