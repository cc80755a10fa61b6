"""The wake-up of a thread that sleeps in a poll: a descriptor that any other thread can make readable.

Owned by the sleeper, which registers `fileno()` and calls `drain()`; any thread may call `wake()`, also after `close`.
A lock keeps a write from racing with the close: the system reuses a descriptor's number at once, and eight stray bytes
would corrupt the file or connection that got it. A wake-up already pending makes further ones harmless. Kafka:
Selector.wakeup.
"""

from __future__ import annotations

import os
import threading

_ONE = (1).to_bytes(8, "little")  # only its being non-zero matters
_DRAIN_BYTES = 4096


class Wakeup:
    """A wake-up descriptor: an eventfd on Linux, a pipe elsewhere (or when `portable` asks for it, as tests do)."""

    __slots__ = ("_lock", "_read_fd", "_write_fd")

    def __init__(self, *, portable: bool = False) -> None:
        self._lock = threading.Lock()
        if hasattr(os, "eventfd") and not portable:
            self._read_fd = self._write_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        else:
            self._read_fd, self._write_fd = os.pipe()
            os.set_blocking(self._read_fd, False)
            os.set_blocking(self._write_fd, False)

    def fileno(self) -> int:
        """Return the descriptor to poll for readability."""
        return self._read_fd

    def wake(self) -> None:
        """Make the descriptor readable. Harmless after `close()`: no thread sleeps then."""
        with self._lock:
            if self._write_fd < 0:
                return
            try:
                os.write(self._write_fd, _ONE)
            except BlockingIOError:
                return  # the counter or the pipe is full: a wake-up is pending already

    def drain(self) -> None:
        """Take every pending wake-up, so that the next poll sleeps again."""
        try:
            while len(os.read(self._read_fd, _DRAIN_BYTES)) == _DRAIN_BYTES:
                pass
        except BlockingIOError:
            return

    def close(self) -> None:
        """Close the descriptors; a second call does nothing."""
        with self._lock:
            read_fd, write_fd = self._read_fd, self._write_fd
            self._read_fd = self._write_fd = -1
        if read_fd >= 0:
            os.close(read_fd)
        if write_fd not in (-1, read_fd):
            os.close(write_fd)
