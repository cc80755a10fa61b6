"""Accepted connections of addresses that connect too often: each is closed, without being served, after its delay.

Owned by one Acceptor's thread; no lock. Kafka: DelayedCloseSocket and throttledSockets of SocketServer.Acceptor. The
delay slows a client that reconnects in a loop, which an immediate close would not.
"""

from __future__ import annotations

import heapq
import itertools
from typing import Any


class ThrottledConnections:
    """The sockets by the time at which each is to be closed, in nanoseconds."""

    __slots__ = ("_heap", "_numbers")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Any]] = []
        self._numbers = itertools.count()  # equal times must not compare sockets

    def add(self, close_ns: int, accepted: Any) -> None:
        """Close `accepted` at `close_ns`."""
        heapq.heappush(self._heap, (close_ns, next(self._numbers), accepted))

    def close_due(self, now_ns: int) -> None:
        """Close the sockets whose delay is over."""
        while self._heap and self._heap[0][0] <= now_ns:
            heapq.heappop(self._heap)[2].close()

    def seconds_left(self, now_ns: int, at_most: float) -> float:
        """Return the seconds until the next socket is due, but no more than `at_most`."""
        if not self._heap:
            return at_most
        return min(max(self._heap[0][0] - now_ns, 0) / 1e9, at_most)

    def close_all(self) -> None:
        """Close every socket now."""
        while self._heap:
            self._heap.pop()[2].close()
