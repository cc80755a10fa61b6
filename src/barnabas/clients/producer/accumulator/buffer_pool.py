"""The memory that a producer may hold (`buffer.memory`): a budget, because Python allocates the buffers itself.

Threads that call `send` allocate, the sending thread gives back, under one lock. Threads that wait are served in order.
An event loop, which must not wait, watches the pool instead. Kafka: BufferPool.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from barnabas.clients.client_metrics import ClientMeter
from barnabas.clients.errors import BufferExhausted, ClientClosed
from barnabas.runtime.clock import NANOSECONDS_PER_MILLISECOND, Clock, SystemClock

_NANOSECONDS_PER_SECOND = 1_000_000_000


class PoolUse(NamedTuple):
    """The use of a pool. `wait_ratio`: of the last minute, the part in which a thread waited for memory."""

    total_bytes: int
    available_bytes: int
    waiting: int
    wait_ratio: float
    waited_ns: float
    exhausted_rate: float
    exhausted: float


class BufferPool:
    """A budget of `total_bytes`."""

    def __init__(self, total_bytes: int, clock: Clock | None = None) -> None:
        self.total_bytes = total_bytes
        self._clock = clock if clock is not None else SystemClock()
        self._waited_ns = ClientMeter()
        self._exhausted = ClientMeter()
        self._lock = threading.Lock()
        self._available = total_bytes
        self._waiters: deque[threading.Condition] = deque()
        self._watchers: list[Callable[[], None]] = []
        self._closed = False

    @property
    def available_bytes(self) -> int:
        """The bytes that are free."""
        return self._available

    @property
    def waiting(self) -> int:
        """The number of threads and watchers that wait for memory. While there are any, all batches are sent."""
        return len(self._waiters) + len(self._watchers)

    def allocate(self, size: int, timeout_ms: float) -> None:
        """Take `size` bytes, and wait until they are free.

        Raises BufferExhausted after `timeout_ms`, ValueError for more than the whole budget, ClientClosed.
        """
        if size > self.total_bytes:
            raise ValueError(f"Attempt to allocate {size} bytes, but there is a hard limit of {self.total_bytes}")
        with self._lock:
            if self._closed:
                raise ClientClosed("Producer closed while allocating memory")
            if not self._waiters and self._available >= size:
                self._available -= size
                return
            # One condition a waiter, in a queue: with a single condition, small requests would overtake a large one for
            # as long as they keep coming.
            mine = threading.Condition(self._lock)
            self._waiters.append(mine)
            began_ns = self._clock.nanoseconds()
            try:
                granted = mine.wait_for(
                    lambda: self._closed or (self._waiters[0] is mine and self._available >= size), timeout_ms / 1000
                )
                if self._closed:
                    raise ClientClosed("Producer closed while allocating memory")
                if not granted:
                    raise self._exhausted_error(size, timeout_ms)
                self._available -= size
            finally:
                self._waited_ns.record(self._clock.nanoseconds() - began_ns, self._now_ms())
                # Also after a timeout: the memory that was too little for this thread may be enough for the next one.
                self._waiters.remove(mine)
                self._notify_first()

    @contextmanager
    def watch(self, on_change: Callable[[], None]) -> Iterator[None]:
        """Call `on_change()` whenever memory is given back, and when the pool is closed, until the block is left.

        The call is made under the lock, so it must be brief and must not use the pool. The time in the block counts as
        a wait for memory.
        """
        with self._lock:
            self._watchers.append(on_change)
        began_ns = self._clock.nanoseconds()
        try:
            yield
        finally:
            with self._lock:
                self._watchers.remove(on_change)
                self._waited_ns.record(self._clock.nanoseconds() - began_ns, self._now_ms())

    def exhausted(self, size: int, timeout_ms: float) -> BufferExhausted:
        """Count a wait of a watcher that found no memory in time, and return its error."""
        with self._lock:
            return self._exhausted_error(size, timeout_ms)

    def give_back(self, size: int) -> None:
        """Return memory to the budget."""
        with self._lock:
            self._available += size
            self._notify_first()

    def use(self) -> PoolUse:
        """Return how the pool is used now."""
        with self._lock:
            now_ms = self._now_ms()
            return PoolUse(
                self.total_bytes,
                self._available,
                self.waiting,
                self._waited_ns.rate(now_ms) / _NANOSECONDS_PER_SECOND,
                self._waited_ns.total,
                self._exhausted.rate(now_ms),
                self._exhausted.total,
            )

    def close(self) -> None:
        """Fail the threads that wait, and later calls of `allocate`, with ClientClosed."""
        with self._lock:
            self._closed = True
            for waiter in self._waiters:
                waiter.notify()
            self._notify_watchers()

    def _now_ms(self) -> int:
        return self._clock.nanoseconds() // NANOSECONDS_PER_MILLISECOND

    def _notify_first(self) -> None:
        if self._waiters:
            self._waiters[0].notify()
        self._notify_watchers()

    def _notify_watchers(self) -> None:
        for watcher in self._watchers:
            watcher()

    def _exhausted_error(self, size: int, timeout_ms: float) -> BufferExhausted:
        self._exhausted.record(1, self._now_ms())
        return BufferExhausted(
            f"Failed to allocate {size} bytes within the configured max blocking time {timeout_ms:.0f} ms."
            f" Total memory: {self.total_bytes} bytes. Available memory: {self._available} bytes."
        )
