"""Walks the batches of a log file, of any format, in few reads: to find an offset, to look at every batch, and to find
those that a recovery keeps.

Used by segments, recovery and the dump tool, on the thread of each. Pure except for the reads of the given file.
Kafka: FileRecords.searchForOffsetWithSize, FileLogInputStream, LogSegment.recover.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from barnabas.records.errors import CorruptRecord
from barnabas.records.fixed_fields import EXTENT_SIZE, extent_at
from barnabas.records.memory_records import batch_at
from barnabas.records.record_batch import HEADER_SIZE, LOG_OVERHEAD, RecordBatch
from barnabas.storage.segment.offset_index import MAX_RELATIVE_OFFSET

if TYPE_CHECKING:
    from mypy_extensions import i64

    from barnabas.records.legacy_records import LegacyBatch

MIN_BATCH_SIZE: Final = 26
"""Of magic 0: offset, size, and the 14 bytes every message has."""
SEARCH_CHUNK_BYTES: Final = 8192
"""An index entry is at most `index.interval.bytes` (4096) and one batch before what is looked for."""
SCAN_CHUNK_BYTES: Final = 1 << 20

_LENGTH: Final = struct.Struct(">8xi")

# A text, because few brokers import the old formats.
Batch: TypeAlias = "RecordBatch | LegacyBatch"


class Readable(Protocol):
    """A file, or an object that reads like one."""

    def read(self, position: int, size: int) -> bytes:
        """Return up to `size` bytes from `position`; fewer only at the end."""


class BatchPlace:
    """The place of a batch in its file, in bytes, and its offsets (of an old message both are the last)."""

    __slots__ = ("base_offset", "last_offset", "position", "size")

    def __init__(self, position: i64, size: i64, base_offset: i64, last_offset: i64) -> None:
        self.position: i64 = position
        self.size: i64 = size
        self.base_offset: i64 = base_offset
        self.last_offset: i64 = last_offset


def find_batch(file: Readable, offset: i64, position: i64, end: i64) -> BatchPlace | None:
    """Return the first batch from `position` on whose last offset is at least `offset`; None if there is none.

    Nothing at or behind `end` is looked at. Raises CorruptRecord when a batch claims an impossible size; OSError.
    """
    chunk = b""
    chunk_start = position
    read: i64 = 0
    base_offset: i64
    last_offset: i64
    length: i64
    while position + MIN_BATCH_SIZE <= end:
        # The next header may lie in the chunk, beyond it, or be cut by its end: in the latter two cases a new chunk is
        # read that begins with the header.
        at = position - chunk_start
        if at + EXTENT_SIZE > read:
            wanted = end - position
            chunk = file.read(position, min(SEARCH_CHUNK_BYTES, wanted))
            read = len(chunk)
            if read < MIN_BATCH_SIZE:
                return None
            # An old message may be the last, and shorter than what is looked at.
            if read < EXTENT_SIZE:
                chunk += bytes(EXTENT_SIZE)
            chunk_start = position
            at = 0
        base_offset, last_offset, length = extent_at(chunk, at)
        # A damaged length below zero would lead the search back, or round in a circle.
        if length < MIN_BATCH_SIZE:
            raise CorruptRecord(f"a batch at position {position} claims {length - LOG_OVERHEAD} bytes")
        if last_offset >= offset:
            return BatchPlace(position, length, base_offset, last_offset)
        position += length
    return None


def scan_batches(file: Readable, position: int, end: int, chunk_bytes: int = SCAN_CHUNK_BYTES) -> Iterator[Batch]:
    """Yield every batch from `position` to `end`, whole, as views of large reads. Checksums are not checked.

    A view's own `position` is within its buffer: sum the lengths to know the place in the file. Raises CorruptRecord
    at the first batch that is cut off or lies about its size. Raises OSError.
    """
    chunk = b""
    at = 0
    while position < end:
        size = _size_at(chunk, at)
        if size < 0 or at + size > len(chunk):
            wanted = max(chunk_bytes, size, HEADER_SIZE)
            chunk = file.read(position, min(wanted, end - position))
            at = 0
            size = _size_at(chunk, 0)
            if size > len(chunk) and position + size <= end:
                chunk = file.read(position, size)
            if size < MIN_BATCH_SIZE or size > len(chunk):
                raise CorruptRecord(f"the batch at position {position} is cut off or claims an impossible size")
        batch = batch_at(chunk, at)
        yield batch
        at += size
        position += size


def _size_at(chunk: bytes, at: int) -> int:
    """Return the whole size of the batch at `at`, or -1 when its first bytes are not in the chunk."""
    if at + HEADER_SIZE > len(chunk) and at + MIN_BATCH_SIZE > len(chunk):
        return -1
    length: int = _LENGTH.unpack_from(chunk, at)[0]
    return length + LOG_OVERHEAD


def good_batches(file: Readable, file_size: int, base_offset: int, gapless_from: int | None) -> Iterator[Batch]:
    """Yield the batches from the start of the file that can be kept, in order. Raises OSError.

    Good means: whole, with a right checksum, behind the batch before it in offset and leader epoch, within the
    segment's range, and from offset `gapless_from` on directly behind that batch. The checksum does not cover the base
    offset, so a damaged one shows only as a gap.
    """
    next_offset = base_offset
    epoch = -1
    try:
        for batch in scan_batches(file, 0, file_size):
            epoch = _check_follows(batch, base_offset, next_offset, epoch)
            if gapless_from is not None and next_offset >= gapless_from and _leaves_gap(batch, next_offset):
                return
            yield batch
            next_offset = batch.last_offset + 1
    except CorruptRecord:
        # The end of what can be kept: the caller cuts the rest off, and reports the bytes.
        return


def _check_follows(batch: Batch, base_offset: int, next_offset: int, epoch: int) -> int:
    """Check that the batch may follow; return its leader epoch. Raises CorruptRecord when it may not.

    Epochs only rise: an older one is left from before a truncation that did not reach the disk.
    """
    batch.check()
    first, last, batch_epoch = batch.last_offset, batch.last_offset, epoch
    if isinstance(batch, RecordBatch):
        first, batch_epoch = batch.base_offset, batch.partition_leader_epoch
    if first < next_offset or last < first or last - base_offset > MAX_RELATIVE_OFFSET:
        raise CorruptRecord(f"batch {first}-{last} where offset {next_offset} was expected")
    if 0 <= batch_epoch < epoch:
        raise CorruptRecord(f"batch {first} of leader epoch {batch_epoch} follows one of {epoch}")
    return max(epoch, batch_epoch)


def _leaves_gap(batch: Batch, next_offset: int) -> bool:
    """Return whether offsets are missing before the batch; message sets do not say where they begin."""
    return isinstance(batch, RecordBatch) and batch.base_offset != next_offset
