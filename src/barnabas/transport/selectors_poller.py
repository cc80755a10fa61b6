"""The portable Poller: the standard library's `selectors` (kqueue, poll, select), made to look edge-triggered.

Owned by the thread of its Selector; no lock. A reported direction is disarmed until `rearm`, otherwise a
level-triggered call would report a muted channel for ever. This costs system calls per request; Linux uses EpollPoller.
"""

from __future__ import annotations

import selectors
from collections.abc import Callable

from barnabas.transport.poller import READABLE, WRITABLE

_BOTH = READABLE | WRITABLE


class SelectorsPoller:
    """A Poller on `selectors.DefaultSelector`."""

    needs_rearm = True
    poll: Callable[[float], list[tuple[int, int]]]

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._armed: dict[int, int] = {}
        self.poll = self._poll

    def register(self, fd: int, *, reads_only: bool = False) -> None:
        """Report both directions of `fd` from now on, or only that it can be read."""
        self._armed[fd] = 0
        self.rearm(fd, READABLE if reads_only else _BOTH)

    def unregister(self, fd: int) -> None:
        """Forget `fd`; it is still open."""
        if self._armed.pop(fd):
            self._selector.unregister(fd)

    def rearm(self, fd: int, events: int) -> None:
        """Report these directions of `fd` again."""
        self._arm(fd, self._armed[fd] | events)

    def close(self) -> None:
        """Close the underlying selector."""
        self._selector.close()

    def _poll(self, timeout_seconds: float) -> list[tuple[int, int]]:
        events = []
        for key, ready in self._selector.select(timeout_seconds):
            bits = (READABLE if ready & selectors.EVENT_READ else 0) | (
                WRITABLE if ready & selectors.EVENT_WRITE else 0
            )
            events.append((key.fd, bits))
            self._arm(key.fd, self._armed[key.fd] & ~bits)
        return events

    def _arm(self, fd: int, wanted: int) -> None:
        before = self._armed[fd]
        if wanted == before:
            return
        self._armed[fd] = wanted
        interest = (selectors.EVENT_READ if wanted & READABLE else 0) | (
            selectors.EVENT_WRITE if wanted & WRITABLE else 0
        )
        if not before:
            self._selector.register(fd, interest)
        elif not interest:
            self._selector.unregister(fd)
        else:
            self._selector.modify(fd, interest)
