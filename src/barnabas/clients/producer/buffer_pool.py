"""The memory that a producer may hold (`buffer.memory`): a budget, because Python allocates the buffers itself.

Threads that call `send` allocate, the sending thread gives back, under one lock. Threads that wait are served in order.
Kafka: BufferPool.
"""

from __future__ import annotations

import threading
from collections import deque

from barnabas.clients.errors import BufferExhausted, ClientClosed


class BufferPool:
    """A budget of `total_bytes`."""

    def __init__(self, total_bytes: int) -> None:
        self.total_bytes = total_bytes
        self._lock = threading.Lock()
        self._available = total_bytes
        self._waiters: deque[threading.Condition] = deque()
        self._closed = False

    @property
    def available_bytes(self) -> int:
        """The bytes that are free."""
        return self._available

    @property
    def waiting(self) -> int:
        """The number of threads that wait for memory. While there are any, all batches are sent, full or not."""
        return len(self._waiters)

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
            try:
                granted = mine.wait_for(
                    lambda: self._closed or (self._waiters[0] is mine and self._available >= size), timeout_ms / 1000
                )
                if self._closed:
                    raise ClientClosed("Producer closed while allocating memory")
                if not granted:
                    raise BufferExhausted(
                        f"Failed to allocate {size} bytes within the configured max blocking time {timeout_ms:.0f} ms."
                        f" Total memory: {self.total_bytes} bytes. Available memory: {self._available} bytes."
                    )
                self._available -= size
            finally:
                # Also after a timeout: the memory that was too little for this thread may be enough for the next one.
                self._waiters.remove(mine)
                self._notify_first()

    def give_back(self, size: int) -> None:
        """Return memory to the budget."""
        with self._lock:
            self._available += size
            self._notify_first()

    def close(self) -> None:
        """Fail the threads that wait, and later calls of `allocate`, with ClientClosed."""
        with self._lock:
            self._closed = True
            for waiter in self._waiters:
                waiter.notify()

    def _notify_first(self) -> None:
        if self._waiters:
            self._waiters[0].notify()
