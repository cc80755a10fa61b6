"""Bounds the number of files that a log manager keeps open: those unused longest are closed, and opened on demand.

One per log manager, shared by all its logs; any thread. `_lock` guards the order; it is never held while a file is
opened or closed, and inside it no other lock is taken.
"""

from __future__ import annotations

import threading
from typing import Protocol

from barnabas.runtime.files import Files

DEFAULT_LIMIT = 4096


class Closable(Protocol):
    """A file that can do without its descriptor for a while."""

    recently_used: bool

    def release_descriptor(self) -> None:
        """Give up the descriptor; readers that still hold it keep it open until they release it."""


class OpenFiles:
    """The files that hold a descriptor, oldest first; a file that was used since it came here gets a second chance.

    limit: descriptors held at most, beside those that answers on their way to a socket keep open.
    """

    __slots__ = ("_holding", "_lock", "files", "limit")

    def __init__(self, files: Files, limit: int = DEFAULT_LIMIT) -> None:
        self.files = files
        self.limit = limit
        self._lock = threading.Lock()
        self._holding: dict[Closable, None] = {}

    def __len__(self) -> int:
        with self._lock:
            return len(self._holding)

    def opened(self, file: Closable) -> None:
        """Note that `file` has opened its descriptor, and close others if there are too many.

        Call without any file's lock.
        """
        victims: list[Closable] = []
        with self._lock:
            # Second chance, with a dictionary as the queue. Worked example, limit 3: A, B, C hold descriptors, A was
            # used since it came in. D opens: A is oldest, loses its mark and goes to the end; B, next, has no mark and
            # is the victim. The queue is C, D, A. `chances` ends the search when every file has a mark: the oldest goes
            # then.
            holding = self._holding
            holding[file] = None
            chances = len(holding)
            while len(holding) > self.limit:
                oldest = next(iter(holding))
                del holding[oldest]
                if chances > 0 and (oldest.recently_used or oldest is file):
                    oldest.recently_used = False
                    holding[oldest] = None
                    chances -= 1
                else:
                    victims.append(oldest)
        # Without the lock: `release_descriptor` takes the file's lock, under which other threads may wait for ours.
        for victim in victims:
            victim.release_descriptor()

    def closed(self, file: Closable) -> None:
        """Note that `file` has closed its descriptor."""
        with self._lock:
            self._holding.pop(file, None)
