"""A MemoryPool of buffers that are all of one size, used again and again. It refuses nobody and limits what it keeps.

For peers whose frames have a known largest size; a larger one is an error. Any thread may call; a lock guards the idle
buffers. Kafka: BatchMemoryPool.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from barnabas.transport.memory_pool import MemoryLease


class RecyclingMemoryPool:
    """Buffers of `batch_size` bytes, of which at most `max_retained` are kept while nobody needs them."""

    request_expansion: Final = 1
    available_memory: Final = (1 << 63) - 1
    is_out_of_memory: Final = False
    shortage: Final = 0
    large_shortage: Final = 0
    depleted_ns: Final = 0

    def __init__(self, max_retained: int, batch_size: int) -> None:
        self._max_retained = max_retained
        self._batch_size = batch_size
        self._lock = threading.Lock()
        self._idle: list[bytearray] = []
        self._buffers = 0

    @property
    def size(self) -> int:
        """Bytes of the buffers that exist, in use or kept."""
        return self._buffers * self._batch_size

    def try_allocate(self, size: int) -> MemoryLease | None:
        """A lease of a whole buffer. Raises ValueError for more than the batch size."""
        if size > self._batch_size:
            raise ValueError(f"Cannot allocate buffers larger than max batch size of {self._batch_size}")
        with self._lock:
            if self._idle:
                buffer = self._idle.pop()
            else:
                buffer = bytearray(self._batch_size)
                self._buffers += 1
        return MemoryLease(self._batch_size, buffer)

    def release(self, lease: MemoryLease) -> None:
        """Keep the buffer for another, unless enough are kept, or somebody still has a view of it."""
        buffer = lease.buffer
        with self._lock:
            if lease.released or buffer is None or len(buffer) != self._batch_size:
                raise ValueError(f"A lease of {lease.size} bytes was released twice, or never given by this pool")
            lease.released = True
            lease.buffer = None
            if len(self._idle) < self._max_retained and _has_no_views(buffer):
                self._idle.append(buffer)
            else:
                self._buffers -= 1

    def release_retained(self) -> None:
        """Let the idle buffers go."""
        with self._lock:
            self._buffers -= len(self._idle)
            self._idle.clear()

    def charge(self, count: int) -> None:
        """Nothing is limited."""

    def is_large(self, size: int) -> bool:
        """None is."""
        return False

    def begin_waiting(self, size: int, wake: Callable[[], None]) -> None:
        """Nobody has to wait."""

    def end_waiting(self, size: int, wake: Callable[[], None]) -> None:
        """Nobody has to wait."""


def _has_no_views(buffer: bytearray) -> bool:
    """A bytearray with views cannot be resized; see FrameBufferPool.give_back."""
    try:
        last = buffer.pop()
        buffer.append(last)
    except BufferError:
        return False
    return True
