"""Recycled receive buffers for frames of 64 KiB and more.

A fresh `bytearray(1 MB)` per frame costs more than all other work on the frame: its pages are faulted in and zeroed
each time (a factor of three at 100 KB and more). So buffers are used again, the one used last first, as its pages are
most likely in the CPU's cache.

Each Selector has a pool, or where memory is limited all Selectors share one. `take` is called by a Selector's thread,
`give_back` by the thread that has finished with a frame; a lock guards the list, taken once per large frame. The
MemoryPool decides whether a frame may have a buffer at all. Kafka: the producer's BufferPool is similar; Kafka's broker
allocates a buffer for every frame.
"""

from __future__ import annotations

import contextlib
import logging
import threading

from barnabas.transport.memory_pool import MemoryLease, MemoryPool

logger = logging.getLogger(__name__)

FIRST_BYTES = 128 * 1024
"""The size of a new buffer. A buffer grows with the bytes received, never because of a length prefix."""


class FrameBufferPool:
    """The idle buffers, last in first out, bounded in bytes. A buffer larger than `largest_bytes` is not kept."""

    __slots__ = (
        "_idle",
        "_idle_bytes",
        "_lock",
        "_unused",
        "fail_on_leak",
        "keep_bytes",
        "largest_bytes",
        "leaked",
        "recycled",
    )

    def __init__(
        self,
        *,
        keep_bytes: int = 32 * 1024 * 1024,
        largest_bytes: int = 16 * 1024 * 1024,
        fail_on_leak: bool = False,
    ) -> None:
        self.keep_bytes = keep_bytes
        self.largest_bytes = largest_bytes
        self.fail_on_leak = fail_on_leak
        self.leaked = 0
        self.recycled = 0
        self._idle: list[bytearray] = []
        self._idle_bytes = 0
        self._unused = 0  # how many of the coldest were not needed since the last `drop_unused`
        self._lock = threading.Lock()

    def take(self) -> bytearray:
        """Return the buffer used last, or a new one of `FIRST_BYTES`."""
        with self._lock:
            if self._idle:
                buffer = self._idle.pop()
                self._idle_bytes -= len(buffer)
                self.recycled += 1
                self._unused = min(self._unused, len(self._idle))
                return buffer
        return bytearray(FIRST_BYTES)

    def give_back(self, buffer: bytearray) -> None:
        """Keep `buffer` for another frame.

        A buffer that still has views is left to the garbage collector and counted, for its frame must not be
        overwritten. Raises BufferError for such a buffer with `fail_on_leak` (tests).
        """
        # A bytearray with views cannot be resized, so a resize proves that there is none. Taking one byte off and
        # putting it back copies nothing, so the proof is cheap enough to be made always.
        try:
            last = buffer.pop()
            buffer.append(last)
        except BufferError:
            self.leaked += 1
            if self.fail_on_leak:
                raise
            if self.leaked == 1:  # one line reports the bug; the counter says how often
                logger.warning("A receive buffer still has views after its release and is not recycled (logged once)")
            return
        size = len(buffer)
        if size > self.largest_bytes:
            return
        with self._lock:
            if self._idle_bytes + size <= self.keep_bytes:
                self._idle.append(buffer)
                self._idle_bytes += size

    @property
    def idle_bytes(self) -> int:
        """The size of all idle buffers in bytes."""
        return self._idle_bytes

    def drop_unused(self) -> None:
        """Free the buffers that were not needed since the last call, so that those of a burst do not stay for ever."""
        with self._lock:
            for buffer in self._idle[: self._unused]:
                self._idle_bytes -= len(buffer)
            del self._idle[: self._unused]
            self._unused = len(self._idle)

    def trim(self, keep_bytes: int) -> None:
        """Free idle buffers, the longest unused first, until at most `keep_bytes` bytes are kept."""
        with self._lock:
            while self._idle and self._idle_bytes > keep_bytes:
                self._idle_bytes -= len(self._idle.pop(0))
            self._unused = min(self._unused, len(self._idle))


class PooledFrame:
    """One frame in a buffer of the pool. `release` gives back the buffer, and the frame's lease if there is one."""

    __slots__ = ("_buffer", "_lease", "_memory", "_pool", "view")

    def __init__(
        self,
        pool: FrameBufferPool,
        buffer: bytearray,
        size: int,
        lease: MemoryLease | None = None,
        memory: MemoryPool | None = None,
    ) -> None:
        """lease: the frame's lease of `memory`; None where memory is not limited."""
        self._pool = pool
        self._buffer: bytearray | None = buffer
        self._lease = lease
        self._memory = memory
        self.view = memoryview(buffer)[:size]

    def release(self) -> None:
        """Give the buffer back. No slice of the frame may be used afterwards. A second call is harmless."""
        buffer = self._buffer
        if buffer is not None:
            self._buffer = None
            with contextlib.suppress(BufferError):  # a slice of the view is still in use: `give_back` finds out
                self.view.release()
            self._pool.give_back(buffer)
            lease, self._lease = self._lease, None
            if lease is not None and self._memory is not None:
                self._memory.release(lease)
