"""The wake-up of a Selector's wait, from any thread, with a system call only if there is a wait to interrupt.

`wake` may be called by any thread, the rest by the Selector's. The lock is a test-and-set, held while the Selector is
awake: the Selector releases it before it waits, so the first waker gets it, and writes to the descriptor; later wakers
find it held and write nothing. Kafka: Selector.wakeup, which is java.nio's.
"""

from __future__ import annotations

import threading

from barnabas.runtime.wakeup import Wakeup
from barnabas.transport.poller import READABLE, Poller


class PollWakeup:
    """The wake-up for the waits on one Poller."""

    def __init__(self, poller: Poller, wakeup: Wakeup | None = None) -> None:
        self._poller = poller
        self._poll = poller.poll
        self._wakeup = wakeup if wakeup is not None else Wakeup()
        # Reading an eventfd makes it writable again, which would end the next wait for nothing.
        poller.register(self._wakeup.fileno(), reads_only=True)
        self._awake = threading.Lock()
        self._awake.acquire()
        self._requested = False

    def wake(self) -> None:
        """Make the current wait, or else the next one, end at once."""
        self._requested = True
        if self._awake.acquire(blocking=False):
            self._wakeup.wake()

    def wait(self, timeout_ms: float) -> list[tuple[int, int]]:
        """Wait for events of the Poller, at most `timeout_ms` and until woken, and return them. 0 does not wait."""
        if timeout_ms <= 0:
            self._requested = False
            return self._poll(0)
        # A waker that comes after this line finds the lock free, and writes to the descriptor; one that came before has
        # set `_requested`, which is read below. The other order would lose a wake-up in between.
        self._awake.release()
        timeout = 0.0 if self._requested else timeout_ms / 1000
        try:
            return self._poll(timeout)
        finally:
            self._requested = False
            # If this fails, a waker has taken the lock. Its write wakes the next poll without need, which is harmless.
            self._awake.acquire(False)

    def drain(self, fd: int) -> None:
        """Take an event of a descriptor that is no connection's, and read the bytes of the wakers."""
        if fd == self._wakeup.fileno():
            self._wakeup.drain()
            if self._poller.needs_rearm:
                self._poller.rearm(fd, READABLE)

    def close(self) -> None:
        """Close the descriptor."""
        self._wakeup.close()
