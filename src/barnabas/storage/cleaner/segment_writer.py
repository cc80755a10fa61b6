"""Writes the `.cleaned` files of one new segment: log, both indexes, and the transaction index when there is one.

Owned by one cleaning, in the cleaner's process; no other code looks at the files before the broker swaps them in.
The entries of the indexes are those that appends of the batches one by one would have made. Kafka: LogSegment.append.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from barnabas.records.compression import Buffer
from barnabas.records.errors import CorruptRecord
from barnabas.runtime.files import File, Files
from barnabas.storage.cleaner.batch_cleaner import CleanedBatch
from barnabas.storage.file_names import (
    CLEANED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
)
from barnabas.storage.segment.offset_index import MAX_RELATIVE_OFFSET
from barnabas.storage.segment.time_index import NO_TIMESTAMP
from barnabas.storage.segment.transaction_index import AbortedTransactionEntry

_OFFSET_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")


class CleanedSegmentTerms(NamedTuple):
    """path: of the new segment's files, without their suffixes. buffer_bytes: how much is written at once, about."""

    path: str
    base_offset: int
    index_interval_bytes: int
    max_index_bytes: int
    buffer_bytes: int


class CleanedSegmentWriter:
    """The files of one new segment. Every method that touches files raises OSError."""

    __slots__ = (
        "_aborted",
        "_entered_timestamp",
        "_file",
        "_files",
        "_index",
        "_largest_timestamp",
        "_offset_of_largest",
        "_pending",
        "_pending_bytes",
        "_since_last_entry",
        "_terms",
        "_time_index",
        "_written",
    )

    def __init__(self, terms: CleanedSegmentTerms, files: Files) -> None:
        self._terms = terms
        self._files = files
        # An earlier cleaning that failed may have left files; a transaction index among them would become part of this
        # segment.
        remove_cleaned_files(files, terms.path)
        self._file: File = files.open(self._path(LOG_SUFFIX), create=True, truncate=True)
        self._pending: list[Buffer] = []
        self._pending_bytes = 0
        self._written = 0
        self._since_last_entry = 0
        self._index = bytearray()
        self._time_index = bytearray()
        self._aborted = bytearray()
        self._largest_timestamp = NO_TIMESTAMP
        self._offset_of_largest = terms.base_offset
        self._entered_timestamp = NO_TIMESTAMP

    @property
    def size(self) -> int:
        """The bytes of the log file, including those still in memory."""
        return self._written + self._pending_bytes

    def append(self, batch: CleanedBatch) -> None:
        """Add a batch. Raises CorruptRecord when its offset is out of the segment's range."""
        terms = self._terms
        if not 0 <= batch.last_offset - terms.base_offset <= MAX_RELATIVE_OFFSET:
            raise CorruptRecord(f"offset {batch.last_offset} does not fit a segment that begins at {terms.base_offset}")
        if batch.max_timestamp > self._largest_timestamp:
            self._largest_timestamp, self._offset_of_largest = batch.max_timestamp, batch.last_offset
        if self._since_last_entry > terms.index_interval_bytes:
            self._enter(batch.last_offset)
            self._since_last_entry = 0
        self._since_last_entry += batch.size
        self._pending.append(batch.data)
        self._pending_bytes += batch.size
        if self._pending_bytes >= terms.buffer_bytes:
            self._write_pending()

    def add_aborted(self, transaction: AbortedTransactionEntry) -> None:
        """Enter an aborted transaction that still has batches and its marker in the new segment."""
        self._aborted += transaction.encode()

    def finish(self) -> int:
        """Bring all files to stable storage (the caller syncs the directory); return the log file's size."""
        # All files are synced here: once they are called `.swap`, a start puts them in place without a look inside.
        self._write_pending()
        self._file.sync()
        self.close()
        self._enter_timestamp()
        self._write_file(INDEX_SUFFIX, self._index)
        self._write_file(TIME_INDEX_SUFFIX, self._time_index)
        if self._aborted:
            self._write_file(TRANSACTION_INDEX_SUFFIX, self._aborted)
        return self._written

    def close(self) -> None:
        """Close the log file, finished or not."""
        self._file.close()

    def _path(self, suffix: str) -> str:
        return self._terms.path + suffix + CLEANED_SUFFIX

    def _enter(self, last_offset: int) -> None:
        """Make entries in both indexes for the batch that goes next, unless an index is full."""
        maximum = self._terms.max_index_bytes
        if len(self._index) + _OFFSET_ENTRY.size <= maximum:
            self._index += _OFFSET_ENTRY.pack(last_offset - self._terms.base_offset, self.size)
        # One entry is left for the largest timestamp, which `finish` enters.
        if len(self._time_index) + 2 * _TIME_ENTRY.size <= maximum:
            self._enter_timestamp()

    def _enter_timestamp(self) -> None:
        timestamp = self._largest_timestamp
        if timestamp > self._entered_timestamp:
            self._time_index += _TIME_ENTRY.pack(timestamp, self._offset_of_largest - self._terms.base_offset)
            self._entered_timestamp = timestamp

    def _write_pending(self) -> None:
        if self._pending:
            self._file.write(tuple(self._pending), self._written)
            self._written += self._pending_bytes
            self._pending, self._pending_bytes = [], 0

    def _write_file(self, suffix: str, data: bytearray) -> None:
        file = self._files.open(self._path(suffix), create=True, truncate=True)
        try:
            file.write((bytes(data),), 0)
            file.sync()
        finally:
            file.close()


def cleaned_paths(path: str) -> Sequence[str]:
    """Return the paths of the new segment's files; `path` as in CleanedSegmentTerms."""
    return [path + suffix + CLEANED_SUFFIX for suffix in SEGMENT_SUFFIXES]


def remove_cleaned_files(files: Files, path: str) -> None:
    """Remove the files of an unfinished cleaning. Raises OSError."""
    for cleaned in cleaned_paths(path):
        with suppress(FileNotFoundError):
            files.unlink(cleaned)
