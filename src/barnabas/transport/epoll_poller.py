"""The Poller on Linux's epoll, edge-triggered: one `epoll_ctl` when a descriptor comes, none per request.

Owned by the thread of its Selector; no lock. Registering interest per request, as java.nio does on mute and unmute,
would be two more system calls per request, each releasing the GIL (measured).
"""

from __future__ import annotations

import select
from collections.abc import Callable
from functools import partial

_EVENTS_AT_ONCE = 256  # bounds the array epoll allocates for each call


class EpollPoller:
    """A Poller on epoll."""

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
