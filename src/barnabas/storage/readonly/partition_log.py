"""One partition's directory, read without its broker: which segments it has now, and where offsets lie in them.

Used by `log_directories`, the planner and the readers on their caller's thread; every call looks at the disk again, so
nothing is kept and no lock is needed.

Segments appear, are rolled, deleted by retention and replaced by the cleaner while they are listed. A listing counts
once the next one has the same names. A cleaner that is at work, or was killed, may have left `.log.swap` files: such a
file is complete, and stands for the segments whose offsets it covers, as it does for a starting broker.
"""

from __future__ import annotations

import errno
import os
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
from barnabas.storage.readonly.read_error import LogUnreadable, unreadable
from barnabas.storage.readonly.sparse_index import OffsetHints, TimeHints
from barnabas.storage.segment.batch_scan import MIN_BATCH_SIZE, find_batch, scan_batches

_LISTINGS = 50
"""The listings after which a directory that changes all the time is given up."""
_HEADER_BYTES = 64


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
