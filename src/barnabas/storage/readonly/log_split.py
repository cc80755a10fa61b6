"""Cuts a log into pieces that tasks read side by side: at segments, and within large ones where the index has entries;
and reads the batches of one piece, checked, a few megabytes at a time.

Used by the log source: cut on the planner's thread, read in each task on the task's thread, with `pread`. No lock.

For example, a partition has segments from 0 (1 GiB) and from 900 (300 MiB), 1,200 is its end, and a split has 512 MiB.
The index of the first segment says that a batch with last offset 449 lies at 536,874,011, which is the first entry
behind 512 MiB; the header there says that it begins at 440. The splits are offsets 0-439, 440-899 and 900-1,199.

The planned file may have changed when a task reads it: rolled (nothing changes), cleaned (another file of the same name
holds what is left), or deleted by retention. When the file is another one, the split's offsets are looked up again.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.compression import Buffer
from barnabas.records.errors import CorruptRecord
from barnabas.records.legacy_records import LegacyBatch
from barnabas.records.memory_records import batch_at
from barnabas.records.record_batch import LOG_OVERHEAD, RecordBatch, is_whole_batch
from barnabas.runtime.files import File, Files
from barnabas.storage.readonly.log_directories import ReadableLog
from barnabas.storage.readonly.log_transactions import AbortedRange
from barnabas.storage.readonly.partition_log import (
    Cut,
    ListedSegment,
    LogUnreadable,
    PartitionLog,
    RecordsDeleted,
    file_id,
    unreadable,
)


@dataclass(frozen=True, slots=True)
class LogSplit:
    """The offsets from `start_offset` up to, not including, `end_offset`, and where they lay when this was planned.

    The offsets are the task; path, file id and positions are a shortcut, valid as long as the file is the same.
    """

    topic_partition: TopicPartition
    directory: str
    start_offset: int
    end_offset: int
    path: str
    file_id: int
    position: int
    end_position: int
    """The end of the bytes that belong to this split."""
    ends_log: bool
    """Whether the end lies in the newest segment, whose last batch must reach it."""
    aborted: tuple[AbortedRange, ...] = ()
    """The aborted transactions whose records are left out."""


def split_log(readable: ReadableLog, start: int, end: int, split_bytes: int) -> Iterator[LogSplit]:
    """Yield splits of about `split_bytes` with the offsets from `start` up to, not including, `end`.

    Raises LogUnreadable, OSError.
    """
    segments = readable.segments
    for number, segment in enumerate(segments):
        is_last = number + 1 == len(segments)
        first = max(start, segment.base_offset)
        behind = end if is_last else min(end, segments[number + 1].base_offset)
        if first >= behind or not segment.size:
            continue
        position = readable.log.cut_before(segment, first).position if first > segment.base_offset else 0
        cuts = list(_cuts(readable, segment, behind, position, split_bytes))
        places = [Cut(first, position), *cuts, Cut(behind, segment.size)]
        for here, there in pairwise(places):
            yield LogSplit(
                readable.log.topic_partition,
                readable.log.directory,
                here.offset,
                there.offset,
                segment.path,
                segment.file_id,
                here.position,
                there.position,
                ends_log=is_last and there is places[-1],
            )


def _cuts(readable: ReadableLog, segment: ListedSegment, behind: int, position: int, split_bytes: int) -> Iterator[Cut]:
    """Yield the places at which a segment is cut, from `position` up to offset `behind`."""
    hints = readable.log.offset_hints(segment)
    # A rest of less than half a split stays with the piece before it.
    while position + split_bytes + split_bytes // 2 < segment.size:
        cut = readable.log.cut_from(segment, hints, position + split_bytes)
        if cut is None or cut.offset >= behind or cut.position <= position:
            return
        yield cut
        position = cut.position


def with_aborted(split: LogSplit, aborted: list[AbortedRange]) -> LogSplit:
    """Return the split with those of the aborted transactions that have offsets in it."""
    inside = tuple(
        each for each in aborted if each.first_offset < split.end_offset and each.last_offset >= split.start_offset
    )
    return replace(split, aborted=inside)


READ_BYTES = 2 << 20
"""The bytes of one read, which stay in a processor's second cache. A batch that is cut off at the end is read again."""

_ATTEMPTS = 50
_LENGTH = struct.Struct(">8xi")


class _Piece(NamedTuple):
    """A part of a log file, open; the caller closes it."""

    file: File
    path: str
    position: int
    end_position: int
    next_offset: int
    """The offset behind the part."""
    ends_log: bool


class SplitBatches:
    """A reader of one split. `read_bytes` is the size of one read, which a larger batch exceeds."""

    def __init__(self, split: LogSplit, files: Files, read_bytes: int = READ_BYTES, *, check_crcs: bool = True) -> None:
        self._split = split
        self._files = files
        self._read_bytes = read_bytes
        self._check_crcs = check_crcs
        self._offset = split.start_offset
        # One buffer for all reads: the page faults of fresh memory would take as long as the checksums and the reads.
        self._buffer = bytearray()
        self._aborted: dict[int, list[range]] = {}
        for each in split.aborted:
            self._aborted.setdefault(each.producer_id, []).append(range(each.first_offset, each.last_offset + 1))

    def __iter__(self) -> Iterator[list[RecordBatch | LegacyBatch]]:
        """Yield the batches with records of the range, those of one read at a time.

        The next read overwrites the buffer in which the batches lie: until then their records must have been read or
        copied. Control batches, and batches of aborted transactions, are left out.
        Raises RecordsDeleted, LogUnreadable, OSError.
        """
        piece = self._planned_piece() or self._next_piece()
        while piece is not None:
            try:
                yield from self._batches(piece)
            finally:
                piece.file.close()
            # A cleaned segment may end long before the next one begins.
            self._offset = max(self._offset, piece.next_offset)
            piece = self._next_piece()

    def _planned_piece(self) -> _Piece | None:
        """Return the part of the file of the plan, or None if the file is gone or another one has its name."""
        split = self._split
        try:
            file = self._files.open(split.path)
        except FileNotFoundError:
            return None
        if file_id(file) == split.file_id and file.size() >= split.end_position:
            return _Piece(file, split.path, split.position, split.end_position, split.end_offset, split.ends_log)
        file.close()
        return None

    def _next_piece(self) -> _Piece | None:
        """Return the part of the files of this moment that holds the next offset; None behind the range's end.

        Raises RecordsDeleted, LogUnreadable, OSError.
        """
        split = self._split
        if self._offset >= split.end_offset:
            return None
        log = PartitionLog(split.topic_partition, split.directory, self._files)
        for _ in range(_ATTEMPTS):
            segments = log.segments()
            if not segments or segments[0].base_offset > self._offset:
                raise RecordsDeleted(
                    f"{split.topic_partition}: records from offset {self._offset} on were deleted from {split.path}"
                    " after the query was planned; the log begins at"
                    f" {segments[0].base_offset if segments else 'no offset'}"
                )
            number = max(number for number, each in enumerate(segments) if each.base_offset <= self._offset)
            is_last = number + 1 == len(segments)
            following = split.end_offset if is_last else segments[number + 1].base_offset
            try:
                return self._piece_of(log, segments[number], following, is_last=is_last)
            except FileNotFoundError:
                # Replaced since the listing.
                continue
        raise LogUnreadable(
            f"{split.topic_partition}: the segments in {split.directory} change faster than one is read"
        )

    def _piece_of(self, log: PartitionLog, segment: ListedSegment, following: int, *, is_last: bool) -> _Piece:
        """Return the part of a segment from the next offset on. Raises LogUnreadable, OSError."""
        file = log.open(segment)
        try:
            position = log.cut_in(file, segment, self._offset).position
        except BaseException:
            file.close()
            raise
        next_offset = min(following, self._split.end_offset)
        return _Piece(file, segment.path, position, segment.size, next_offset, is_last and self._split.ends_log)

    def _batches(self, piece: _Piece) -> Iterator[list[RecordBatch | LegacyBatch]]:
        """Yield the batches of one piece. Raises LogUnreadable, OSError."""
        position = piece.position
        size = self._read_bytes
        while position < piece.end_position and self._offset < self._split.end_offset:
            buffer = self._read(piece, position, min(size, piece.end_position - position))
            found: list[RecordBatch | LegacyBatch] = []
            read = self._scan(buffer, found, piece, position)
            if found:
                yield found
            if self._offset >= self._split.end_offset:
                return
            if not read:
                # Not one whole batch: it is larger than a read, or cut off.
                size = self._size_of_batch(buffer, piece, position)
                continue
            position += read
            size = self._read_bytes
        if piece.ends_log and self._offset < self._split.end_offset:
            raise self._unreadable(piece, position, f"the file ends before offset {self._split.end_offset}")

    def _read(self, piece: _Piece, position: int, size: int) -> memoryview:
        """Return up to `size` bytes of the file, in the buffer of all reads. Raises OSError."""
        if len(self._buffer) < size:
            self._buffer = bytearray(size)
        room = memoryview(self._buffer)[:size]
        return room[: piece.file.read_into(room, position)]

    def _scan(self, buffer: Buffer, found: list[RecordBatch | LegacyBatch], piece: _Piece, position: int) -> int:
        """Append the wanted batches of a buffer to `found`; return the bytes of its whole batches.

        Raises LogUnreadable: a batch is damaged or cut off.
        """
        at = 0
        split = self._split
        try:
            while self._offset < split.end_offset and is_whole_batch(buffer, at):
                batch = batch_at(buffer, at)
                # Offsets and lengths lie outside of the checksum; a batch that goes back is damage.
                if batch.last_offset < self._offset and at + position > piece.position:
                    raise CorruptRecord(f"the batch's last offset is {batch.last_offset}")
                if isinstance(batch, RecordBatch) and batch.base_offset >= split.end_offset:
                    self._offset = split.end_offset
                    break
                if batch.last_offset >= split.start_offset:
                    if self._check_crcs:
                        batch.check()
                    if not batch.is_control and not self._is_aborted(batch):
                        found.append(batch)
                    self._offset = batch.last_offset + 1
                at += batch.length
        except CorruptRecord as error:
            raise self._unreadable(piece, position + at, error) from None
        return at

    def _size_of_batch(self, buffer: Buffer, piece: _Piece, position: int) -> int:
        """Return the size of the batch at the buffer's start. Raises LogUnreadable if the file does not hold it."""
        size = _LENGTH.unpack_from(buffer)[0] + LOG_OVERHEAD if len(buffer) >= LOG_OVERHEAD else 0
        if size <= len(buffer) or position + size > piece.end_position:
            raise self._unreadable(piece, position, "the batch is cut off")
        return int(size)

    def _is_aborted(self, batch: RecordBatch | LegacyBatch) -> bool:
        if not self._aborted or not isinstance(batch, RecordBatch) or not batch.is_transactional:
            return False
        return any(batch.base_offset in offsets for offsets in self._aborted.get(batch.producer_id, ()))

    def _unreadable(self, piece: _Piece, position: int, reason: object) -> LogUnreadable:
        return unreadable(self._split.topic_partition, self._offset, f"{piece.path} at byte {position}", reason)
