"""The readiness of descriptors, as the Selector needs it: each registered once, and reported only when it changes.

Called only by the thread that owns the Selector, but for the `wake` of `Wakeup` and `PollWakeup`, which any thread may
call to end the wait.
The constants are Linux's poll bits; SelectorsPoller translates to them. Kafka: none; its Selector uses java.nio's.
"""

from __future__ import annotations

import os
import select
import selectors
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from barnabas.runtime.locks import Lock

READABLE: Final = 0x001
WRITABLE: Final = 0x004
ERROR: Final = 0x008
HANGUP: Final = 0x010
READ_HANGUP: Final = 0x2000  # the peer will send nothing more, but may still read
BROKEN: Final = 0x018  # ERROR | HANGUP


class Poller(Protocol):
    """A source of edge-triggered events: an event is reported once, and again only after its caller has used it up.

    An event is used up by a call that would have blocked, or that moved fewer bytes than asked for. The caller tells a
    level-triggered implementation (`needs_rearm`) by `rearm`; with epoll the kernel knows.
    """

    needs_rearm: bool
    poll: Callable[[float], list[tuple[int, int]]]
    """Waits at most the given seconds, and returns `(descriptor, bits)` pairs."""

    def register(self, fd: int, *, reads_only: bool = False) -> None:
        """Report both directions of `fd` from now on, or only that it can be read."""

    def unregister(self, fd: int) -> None:
        """Forget `fd`; it is still open."""

    def rearm(self, fd: int, events: int) -> None:
        """Report these directions of `fd` when they become ready again. The caller has used up their last event."""

    def close(self) -> None:
        """Close the kernel's object."""


_EVENTS_AT_ONCE = 256  # bounds the array epoll allocates for each call


class EpollPoller:
    """A Poller on Linux's epoll, edge-triggered: one `epoll_ctl` when a descriptor comes, none per request.

    Registering interest per request, as java.nio does on mute and unmute, would be two more system calls per request,
    each releasing the GIL (measured).
    """

    needs_rearm = False
    poll: Callable[[float], list[tuple[int, int]]]

    def __init__(self) -> None:
        epoll = self._epoll = select.epoll(flags=select.EPOLL_CLOEXEC)
        self._interest = select.EPOLLIN | select.EPOLLOUT | select.EPOLLRDHUP | select.EPOLLET
        self.poll = partial(epoll.poll, maxevents=_EVENTS_AT_ONCE)  # no Python frame on the way

    def register(self, fd: int, *, reads_only: bool = False) -> None:
        """Report both directions of `fd` from now on, or only that it can be read."""
        self._epoll.register(fd, self._interest & ~select.EPOLLOUT if reads_only else self._interest)

    def unregister(self, fd: int) -> None:
        """Forget `fd`; it is still open."""
        self._epoll.unregister(fd)

    def rearm(self, fd: int, events: int) -> None:
        """Do nothing: the kernel has seen the call that would have blocked."""

    def close(self) -> None:
        """Close epoll's descriptor."""
        self._epoll.close()


_BOTH = READABLE | WRITABLE


class SelectorsPoller:
    """The portable Poller: the standard library's `selectors` (kqueue, poll, select), made to look edge-triggered.

    A reported direction is disarmed until `rearm`, otherwise a level-triggered call would report a muted channel for
    ever. This costs system calls per request.
    """

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


def default_poller(*, portable: bool = False) -> Poller:
    """Make an EpollPoller on Linux; a SelectorsPoller elsewhere, or when `portable` asks for it (tests)."""
    return EpollPoller() if hasattr(select, "epoll") and not portable else SelectorsPoller()


_ONE: Final = (1).to_bytes(8, "little")  # only its being non-zero matters
_DRAIN_BYTES: Final = 4096


class Wakeup:
    """The wake-up of a thread that sleeps in a poll: a descriptor that any other thread can make readable.

    An eventfd on Linux, a pipe elsewhere (or when `portable` asks for it, as tests do). Owned by the sleeper, which
    registers `fileno()` and calls `drain()`; any thread may call `wake()`, also after `close`. A lock keeps a write
    from racing with the close: the system reuses a descriptor's number at once, and eight stray bytes would corrupt the
    file or connection that got it. A wake-up already pending makes further ones harmless. Kafka: Selector.wakeup.
    """

    __slots__ = ("_lock", "_read_fd", "_write_fd")

    def __init__(self, *, portable: bool = False) -> None:
        self._lock = Lock()
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


class PollWakeup:
    """The wake-up for the waits on one Poller, with a system call only if there is a wait to interrupt.

    The lock is a test-and-set, held while the Selector is awake: the Selector releases it before it waits, so the first
    waker gets it, and writes to the descriptor; later wakers find it held and write nothing. Kafka: Selector.wakeup.
    """

    def __init__(self, poller: Poller, wakeup: Wakeup | None = None) -> None:
        self._poller = poller
        self._poll = poller.poll
        self._wakeup = wakeup if wakeup is not None else Wakeup()
        # Reading an eventfd makes it writable again, which would end the next wait for nothing.
        poller.register(self._wakeup.fileno(), reads_only=True)
        self._awake = Lock()
        self._awake.acquire()
        self._requested = False

    def wake(self) -> None:
        """Make the current wait, or else the next one, end at once."""
        self._requested = True
        if self._awake.acquire(False):
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
