"""A segment's `.txnindex`: the transactions that were aborted by markers in this segment. Kafka's entries, version 0.

Appended to under the log's lock, before the marker itself is written; any thread reads, up to a size that is published
after the entry has been written. There is no file as long as nothing was aborted.

An entry has 34 bytes, big-endian:

    position  size  field
           0     2  version: 0
           2     8  producer id
          10     8  first offset of the transaction, perhaps in an earlier segment
          18     8  offset of the abort marker
          26     8  last stable offset behind the marker: a reader below it needs no later index

Kafka: TransactionIndex, AbortedTxn, TxnIndexSearchResult.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from barnabas.storage.segment.file import SegmentFile
from barnabas.storage.segment.index_file import CorruptIndex

VERSION = 0
_ENTRY = struct.Struct(">hqqqq")
ENTRY_SIZE = _ENTRY.size
"""34 bytes: version, producer id, first, last and last stable offset."""


class AbortedTransactionEntry(NamedTuple):
    """An aborted transaction; `last_offset` is that of its marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int

    def encode(self) -> bytes:
        """Return the 34 bytes of the entry."""
        return _ENTRY.pack(VERSION, *self)


class AbortedSearch(NamedTuple):
    """Aborted transactions that a search found; unless it `is_complete`, the next segment's index may have more."""

    entries: list[AbortedTransactionEntry]
    is_complete: bool


class TransactionIndex:
    """The index of the segment that begins at `base_offset`. Every method that touches the file raises OSError."""

    __slots__ = ("_last_offset", "_size", "_unsynced", "base_offset", "file")

    def __init__(self, file: SegmentFile, base_offset: int, *, is_new: bool) -> None:
        self.base_offset = base_offset
        self.file = file
        self._size = 0 if is_new else file.size() // ENTRY_SIZE * ENTRY_SIZE
        self._last_offset: int | None = None
        self._unsynced = not is_new

    @property
    def path(self) -> str:
        """The path of the file, which may not exist."""
        return self.file.path

    @property
    def is_empty(self) -> bool:
        """Whether no marker of this segment aborted a transaction."""
        return self._size == 0

    # -- writing, under the log's lock

    def append(self, entry: AbortedTransactionEntry) -> None:
        """Add an entry. On an error nothing has changed. Raises ValueError unless the last offset rises."""
        last_offset = self._newest_offset()
        if last_offset is not None and entry.last_offset <= last_offset:
            raise ValueError(
                f"The last offset of appended transactions must increase sequentially, but {entry.last_offset} is not"
                f" greater than current last offset {last_offset} of index {self.path}"
            )
        # The file first: when the write fails, nothing has changed in memory.
        self.file.write((entry.encode(),), self._size, create=True)
        self._unsynced = True
        self._last_offset = entry.last_offset
        # Last: readers take no lock, and read up to this size.
        self._size += ENTRY_SIZE

    def truncate_to(self, offset: int) -> None:
        """Drop the entries of markers at `offset` and behind it."""
        entries = self.entries()
        kept = [entry for entry in entries if entry.last_offset < offset]
        if len(kept) < len(entries):
            self.file.truncate(len(kept) * ENTRY_SIZE)
            self._unsynced = True
            self._size = len(kept) * ENTRY_SIZE
            self._last_offset = kept[-1].last_offset if kept else None

    def reset(self) -> None:
        """Drop all entries and the whole content of the file."""
        self._last_offset = None
        self._size = 0
        if self.file.exists():
            self.file.truncate(0)
            self._unsynced = True

    def _newest_offset(self) -> int | None:
        if self._last_offset is None and self._size:
            self._last_offset = self.entries()[-1].last_offset
        return self._last_offset

    # -- reading, any thread

    def entries(self) -> list[AbortedTransactionEntry]:
        """Return all entries, in the order of their markers. Raises CorruptIndex when a version is unknown."""
        size = self._size
        if not size:
            return []
        entries = []
        for version, *fields in _ENTRY.iter_unpack(self.file.read(0, size)):
            if version > VERSION:
                raise CorruptIndex(
                    f"Unexpected aborted transaction version {version} in transaction index {self.path}, current"
                    f" version is {VERSION}"
                )
            entries.append(AbortedTransactionEntry(*fields))
        return entries

    def collect(self, fetch_offset: int, upper_bound_offset: int) -> AbortedSearch:
        """Return the transactions that overlap the offsets from `fetch_offset` to below `upper_bound_offset`.

        Raises CorruptIndex.
        """
        found = []
        for entry in self.entries():
            if entry.last_offset >= fetch_offset and entry.first_offset < upper_bound_offset:
                found.append(entry)
            # Transactions that were aborted later begin at or behind this offset, so none of them overlaps the range.
            if entry.last_stable_offset >= upper_bound_offset:
                return AbortedSearch(found, True)
        return AbortedSearch(found, False)

    def sanity_check(self) -> None:
        """Check that the file can belong to the segment. Raises CorruptIndex when it cannot."""
        last_offset = self.base_offset - 1
        if self.file.exists() and self.file.size() != self._size:
            raise CorruptIndex(f"transaction index {self.path} ends within an entry")
        for entry in self.entries():
            if entry.last_offset < self.base_offset:
                raise CorruptIndex(
                    f"Last offset of aborted transaction {entry} in index {self.path} is less than start offset"
                    f" {self.base_offset}"
                )
            if entry.last_offset <= last_offset:
                raise CorruptIndex(f"transaction index {self.path} has {entry} after offset {last_offset}")
            last_offset = entry.last_offset

    # -- the file

    def sync(self) -> None:
        """Return when the entries are on stable storage and dropped entries cannot come back."""
        if self._unsynced:
            # Before the sync: an entry that is appended now sets the flag again.
            self._unsynced = False
            try:
                self.file.sync()
            except OSError:
                self._unsynced = True
                raise
