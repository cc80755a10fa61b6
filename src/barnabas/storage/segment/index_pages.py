"""The recently read pages of all segments' indexes, in bounded memory.

One per log manager; any thread; `_lock` guards the order. Kafka maps its indexes into memory instead. Here that is out
of the question: a full disk under a mapping kills the process.
"""

from __future__ import annotations

import threading

PAGE_ENTRIES = 512
DEFAULT_LIMIT_PAGES = 2048
"""8 to 12 MiB when full: pages of 4 KiB (offset indexes) and 6 KiB (time indexes)."""


class IndexPages:
    """Recently used pages, by the number of their index and their place in it."""

    __slots__ = ("_limit", "_lock", "_next_number", "_pages")

    def __init__(self, limit_pages: int = DEFAULT_LIMIT_PAGES) -> None:
        self._limit = limit_pages
        self._lock = threading.Lock()
        self._pages: dict[tuple[int, int], bytes] = {}
        self._next_number = 0

    def new_number(self) -> int:
        """Return a number for an index. An index that drops its pages takes another one, and the old pages expire."""
        with self._lock:
            self._next_number += 1
            return self._next_number

    def get(self, index_number: int, page_number: int) -> bytes | None:
        """Return the page, if it is in the cache, and count it as used."""
        key = (index_number, page_number)
        with self._lock:
            # Dictionaries keep the order of insertion: a page that is taken out and put back is the newest one.
            page = self._pages.pop(key, None)
            if page is not None:
                self._pages[key] = page
            return page

    def put(self, index_number: int, page_number: int, page: bytes) -> None:
        """Keep a page, and drop the page that was unused longest if there are too many."""
        with self._lock:
            self._pages[(index_number, page_number)] = page
            if len(self._pages) > self._limit:
                del self._pages[next(iter(self._pages))]
