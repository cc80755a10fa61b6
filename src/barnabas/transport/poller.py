"""The readiness of descriptors, as the Selector needs it: each registered once, and reported only when it changes.

Called only by the thread that owns the Selector; other threads wake it through a registered `Wakeup`. No lock. The
constants are Linux's poll bits; portable pollers translate to them. Kafka: none; its Selector uses java.nio's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

READABLE = 0x001
WRITABLE = 0x004
ERROR = 0x008
HANGUP = 0x010
READ_HANGUP = 0x2000  # the peer will send nothing more, but may still read
BROKEN = ERROR | HANGUP


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
