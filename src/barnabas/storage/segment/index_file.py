"""A file of fixed-size entries whose first and second fields only rise: the base of both indexes of a segment.

Appended to under the log's lock, searched by any thread; `IndexFile._lock` guards entries and tail. New entries stay in
memory until they fill a page, or the segment is flushed, rolled or closed; then they are written by pwrite. After a
crash, entries that were not written are rebuilt from the log. Entries that are not in memory are read page by page
through a bounded cache, IndexPages.

Kafka: AbstractIndex, which maps its file into memory. Here that is out of the question: a full disk under a mapping
kills the process.
"""

from __future__ import annotations

import logging
from array import array
from bisect import bisect_right
from typing import TYPE_CHECKING, Final

from barnabas.records.fixed_fields import ENTRY_STRUCTS, entries_up_to, entry_at
from barnabas.runtime.locks import Lock
from barnabas.storage.segment.file import SegmentFile

if TYPE_CHECKING:
    from mypy_extensions import i64

logger = logging.getLogger(__name__)

PAGE_ENTRIES: Final = 512
DEFAULT_LIMIT_PAGES: Final = 2048
"""8 to 12 MiB when full: pages of 4 KiB (offset indexes) and 6 KiB (time indexes)."""
WRITE_AT_ENTRIES: Final = PAGE_ENTRIES
KEEP_ENTRIES: Final = PAGE_ENTRIES
"""Written entries that are kept in memory as well: most readers are at the end of the log."""
_PAGE_BITS: Final = 24


class CorruptIndex(Exception):
    """The index cannot belong to its segment and must be rebuilt from it."""


class IndexPages:
    """The recently read pages of all segments' indexes, by the number of their index and their place in it.

    One per log manager; any thread. `_lock` guards the numbers and the exchange of the two dictionaries: when there are
    many pages newly read, those that were not used since the last time are dropped as a whole. A look-up needs no lock.
    """

    __slots__ = ("_limit", "_lock", "_next_number", "_older", "_pages")

    def __init__(self, limit_pages: int = DEFAULT_LIMIT_PAGES) -> None:
        self._limit = max(limit_pages // 2, 1)
        self._lock = Lock()
        self._pages: dict[int, bytes] = {}
        self._older: dict[int, bytes] = {}
        self._next_number = 0

    def new_number(self) -> int:
        """Return a number for an index. An index that drops its pages takes another one, and the old pages expire."""
        with self._lock:
            self._next_number += 1
            return self._next_number

    def get(self, index_number: i64, page_number: i64) -> bytes | None:
        """Return the page, if it is in the cache, and count it as used."""
        key: int = index_number << _PAGE_BITS | page_number
        page = self._pages.get(key)
        if page is None:
            page = self._older.get(key)
            if page is not None:
                self._pages[key] = page
        return page

    def put(self, index_number: i64, page_number: i64, page: bytes) -> None:
        """Keep a page."""
        with self._lock:
            if len(self._pages) >= self._limit:
                self._older = self._pages
                self._pages = {}
            self._pages[index_number << _PAGE_BITS | page_number] = page


class _Tail:
    """The newest entries, from number `start` on, as two columns. Numbers count all entries of the index."""

    __slots__ = ("keys", "start", "values")

    def __init__(self, entry_format: str) -> None:
        self.keys = array(entry_format[1])
        self.values = array(entry_format[2])
        self.start = 0

    def drop_front(self, start: int) -> None:
        """Keep the entries from number `start` on, all of which are in the file or in here."""
        surplus = start - self.start
        if surplus > 0:
            del self.keys[:surplus], self.values[:surplus]
            self.start = start

    def cut_at(self, end: int) -> None:
        """Keep the entries below number `end`."""
        kept = max(0, end - self.start)
        del self.keys[kept:], self.values[kept:]
        self.start = min(self.start, end)


# Where the entries of an index are
#
#     number   0 ......... start ......... written ......... entries
#     file     |---------------------------|                          written a page of 512 entries at a time
#     memory               |---------------------------------|        the tail, which is searched first
#
# Worked example: 1,300 entries were appended. The entries 0 to 511 were written when the 512th came, 512 to 1,023 when
# the 1,024th came; 1,024 to 1,299 are pending. The tail begins at 512, because the last page that was written is kept.
# A search for the key of entry 1,100 bisects the tail. A search for that of entry 100 reads page 0 through the cache.
# A crash loses the 276 pending entries; the recovery of the segment makes them again from the batches.


class IndexFile:
    """Entries of two numbers. `entry_format` is that of their struct: ">ii" or ">qi".

    max_bytes: the size at which the segment rolls (`segment.index.bytes`); the file is never larger than its entries.
    is_new: there is no file yet, or a stale one. Every method that touches the file raises OSError.
    """

    __slots__ = (
        "_entries",
        "_entry_size",
        "_last_key",
        "_last_page",
        "_last_value",
        "_lock",
        "_number",
        "_pages",
        "_tail",
        "_unsynced",
        "_written",
        "base_offset",
        "file",
        "max_entries",
    )

    def __init__(
        self,
        file: SegmentFile,
        base_offset: int,
        max_bytes: int,
        entry_format: str,
        pages: IndexPages,
        *,
        is_new: bool = False,
    ) -> None:
        self.base_offset: i64 = base_offset
        self._entry_size: i64 = 8 if entry_format == ">ii" else 12
        self.max_entries: i64 = max_bytes // self._entry_size
        self.file = file
        self._pages = pages
        self._lock = Lock()
        self._number: i64 = pages.new_number()
        self._tail = _Tail(entry_format)
        self._entries: i64 = 0 if is_new else -1  # -1: the file has not been looked at yet
        self._written: i64 = 0
        # The last entry, if there is one.
        self._last_key: i64 = 0
        self._last_value: i64 = 0
        self._last_page: i64 = 0
        """The page where a search ended last: the next one is mostly of the same reader, who reads on."""
        self._unsynced = False

    @property
    def path(self) -> str:
        """The path of the file, which may not exist yet."""
        return self.file.path

    @property
    def entries(self) -> int:
        """Number of entries."""
        with self._lock:
            self._load()
            return self._entries

    def entry_at(self, number: i64) -> tuple[i64, i64]:
        """Return the entry of this number, as stored. Raises IndexError when there is no such entry."""
        with self._lock:
            self._load()
            if not 0 <= number < self._entries:
                raise IndexError(number)
            return self._stored_entry(number)

    def write_pending(self) -> None:
        """Write the entries that are only in memory; afterwards the file exists, even if it is empty."""
        with self._lock:
            self._load()
            self._write_pending()

    def sync(self) -> None:
        """Write the entries that are only in memory, and return when all are on stable storage."""
        with self._lock:
            self._load()
            self._write_pending()
            unsynced, self._unsynced = self._unsynced, False
        # Without the lock: searches go on during an fsync. Entries that are written then set the flag again.
        if unsynced:
            self.file.sync()

    def forget_tail(self) -> None:
        """Write the entries that are only in memory and keep none there: the segment is closed for appends."""
        with self._lock:
            self._load()
            self._write_pending()
            self._tail.drop_front(self._entries)

    def reset(self) -> None:
        """Drop all entries."""
        with self._lock:
            if self.file.exists():
                self.file.truncate(0)
                self._unsynced = True
            self._cut_to(0)

    def close(self) -> None:
        """Bring the entries that are only in memory to stable storage, and close the file."""
        # An index that was never looked at has nothing to write: a shutdown does not read those of old segments for it.
        with self._lock:
            untouched = self._entries < 0
        if not untouched:
            self.forget_tail()
            self.sync()
        self.file.close()

    def _load(self) -> None:
        """Read the number of entries from the file, once.

        The preallocated index of a crashed Kafka broker ends in zeros, which the sanity checks find.
        """
        if self._entries >= 0:
            return
        self._entries = self._written = self._tail.start = self.file.size() // self._entry_size
        if self._entries:
            self._last_key, self._last_value = self._stored_entry(self._entries - 1)

    def _check_size(self) -> None:
        """Check that the file holds whole entries. Raises CorruptIndex, OSError."""
        size = self.file.size()
        if size % self._entry_size:
            raise CorruptIndex(
                f"index file {self.path} has {size} bytes, which is not a multiple of {self._entry_size}"
            )

    def _append(self, key: i64, value: i64) -> None:
        """Add an entry. A failed write is no error: the entry stays in memory and is written with the next ones."""
        self._tail.keys.append(key)
        self._tail.values.append(value)
        self._last_key = key
        self._last_value = value
        self._entries += 1
        if self._entries - self._written >= WRITE_AT_ENTRIES:
            try:
                self._write_pending()
            except OSError:
                logger.warning("Could not write index %s, will try again", self.path, exc_info=True)

    def _write_pending(self) -> None:
        """Append the entries that are only in memory to the file. Raises OSError; the entries then stay in memory."""
        written = self._written
        pending = self._entries - written
        if pending or not self.file.exists():
            tail = self._tail
            first = written - tail.start
            pack = ENTRY_STRUCTS[self._entry_size].pack
            data = b"".join(map(pack, tail.keys[first:], tail.values[first:]))
            # By position and not at the end of the file: an entry's place follows from its number, whatever an earlier
            # write that failed has left behind.
            self.file.write((data,), written * self._entry_size, create=True)
            self._written = self._entries
            self._unsynced = True
        self._tail.drop_front(self._entries - KEEP_ENTRIES)

    def _search(self, target: i64) -> i64:
        """Return the number of the last entry whose key is at most `target`; -1 when there is none."""
        self._load()
        if self._entries and self._last_key <= target:
            return self._entries - 1
        return self._number_of_last(0, target)

    def _number_of_last(self, field: i64, target: i64) -> i64:
        """Return the number of the last entry whose field 0 or 1 is at most `target`; -1 when there is none."""
        tail = self._tail
        column = tail.values if field else tail.keys
        if column and column[0] <= target:
            return tail.start + bisect_right(column, target) - 1
        return self._search_stored(field, target, tail.start)

    def _search_stored(self, field: i64, target: i64, count: i64) -> i64:
        """Search the first `count` entries, which are in the file, as `_number_of_last` does."""
        if count == 0:
            return -1
        last_page = (count - 1) // PAGE_ENTRIES
        page_number = min(self._last_page, last_page)
        there = self._entries_of_page(page_number, count)
        place = self._search_page(page_number, field, target, there)
        if (place == 0 and page_number) or (place == there and page_number < last_page):
            # In another page. A binary search over the first entries of pages finds it: of an index of 10 MiB, which
            # has 2,560 pages, about twelve pages are read, and the same ones by most searches.
            low, high = (0, page_number - 1) if place == 0 else (page_number, last_page)
            while low < high:
                middle = (low + high + 1) // 2
                if self._search_page(middle, field, target, 1):
                    low = middle
                else:
                    high = middle - 1
            self._last_page = page_number = low
            place = self._search_page(low, field, target, self._entries_of_page(low, count))
        return page_number * PAGE_ENTRIES + place - 1

    @staticmethod
    def _entries_of_page(page_number: i64, count: i64) -> i64:
        """Return how many of the first `count` entries lie in a page."""
        left = count - page_number * PAGE_ENTRIES
        return min(PAGE_ENTRIES, left)

    def _search_page(self, page_number: i64, field: i64, target: i64, count: i64) -> i64:
        """Return how many of the first `count` entries of a page have a field of at most `target`."""
        return entries_up_to(self._page(page_number), self._entry_size, field, target, count)

    def _stored_entry(self, number: i64) -> tuple[i64, i64]:
        """Return an entry that exists, from memory or from the file. Raises OSError, CorruptIndex."""
        tail = self._tail
        if number >= tail.start and tail.keys:
            place = number - tail.start
            return tail.keys[place], tail.values[place]
        return entry_at(self._page(number // PAGE_ENTRIES), self._entry_size, number % PAGE_ENTRIES)

    def _page(self, page_number: i64) -> bytes:
        """Return a page of the file, at least as long as the part of it that is written.

        Raises CorruptIndex when the file is shorter than it was.
        """
        size = self._entry_size
        needed = self._entries_of_page(page_number, self._written) * size
        # A cached page may be shorter than needed: it was read when fewer entries were written.
        page = self._pages.get(self._number, page_number)
        if page is None or len(page) < needed:
            page = self.file.read(page_number * PAGE_ENTRIES * size, needed)
            if len(page) < needed:
                raise CorruptIndex(
                    f"index file {self.path} has lost its end: page {page_number} has {len(page)} bytes of {needed}"
                )
            self._pages.put(self._number, page_number, page)
        return page

    def _cut_to(self, entries: i64) -> None:
        """Forget the entries from number `entries` on; the caller cuts the file."""
        self._tail.cut_at(entries)
        self._entries = entries
        self._written = min(self._written, entries)
        # The cache has pages of the old content under the old number; no search asks for them.
        self._number = self._pages.new_number()
        if entries:
            self._last_key, self._last_value = self._stored_entry(entries - 1)

    def _truncate_to_entries(self, entries: i64) -> None:
        """Keep the first `entries` entries. Raises OSError; then all of them are kept."""
        # The file first: entries that are gone from memory, but not from the file, would come back at the next start.
        if entries < self._written:
            self.file.truncate(entries * self._entry_size)
            self._unsynced = True
        if entries < self._entries:
            self._cut_to(entries)
