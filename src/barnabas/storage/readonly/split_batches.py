"""The batches of one split of a log, checked, a few megabytes at a time.

Called by the log source in each task, on the task's thread; the files are read with `pread`, no lock.

The planned file may have changed since: rolled (nothing changes), cleaned (another file of the same name holds what is
left), or deleted by retention. When the file is another one, the split's offsets are looked up afresh.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from barnabas.records.compression import Buffer
from barnabas.records.errors import CorruptRecord
from barnabas.records.legacy_records import LegacyBatch
from barnabas.records.memory_records import batch_at
from barnabas.records.record_batch import LOG_OVERHEAD, RecordBatch, is_whole_batch
from barnabas.runtime.files import File, Files
from barnabas.storage.readonly.log_split import LogSplit
from barnabas.storage.readonly.partition_log import (
    ListedSegment,
    LogUnreadable,
    PartitionLog,
    RecordsDeleted,
    file_id,
    unreadable,
)

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
