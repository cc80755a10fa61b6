"""Recycled receive buffers for frames of 64 KiB and more.

A fresh `bytearray(1 MB)` per frame costs more than everything else that happens to it: its pages are faulted in and
zeroed each time (a factor of three at 100 KB and more). So a buffer is used again, the warmest first.

One pool per Selector, or one for all of them where memory is limited. `take` is called by a Selector's thread,
`give_back` by whichever thread has finished with a frame; a lock guards the list (taken once per large frame).
Which frame may have a buffer at all is the MemoryPool's business.
"""

from __future__ import annotations

import contextlib
import logging
import threading

from barnabas.transport.memory_pool import MemoryLease, MemoryPool

logger = logging.getLogger(__name__)

FIRST_BYTES = 128 * 1024
"""What a new buffer holds; it grows with the bytes received, never because of a length prefix."""


class FrameBufferPool:
    """Idle buffers, last in first out, bounded in bytes. Larger ones than `largest_bytes` are not kept at all."""

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
        self._unused = 0  # so many of the coldest have not been needed since the last look
        self._lock = threading.Lock()

    def take(self) -> bytearray:
        """The buffer used last, or a new one of `FIRST_BYTES`."""
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

        Proves first that nobody still has a view of it: a bytearray with views cannot be resized. Taking one byte
        off and putting it back moves nothing, so the proof is made always; `fail_on_leak` (tests) raises BufferError,
        otherwise the buffer is left to the garbage collector and counted, for its frame must not be overwritten.
        """
        try:
            last = buffer.pop()
            buffer.append(last)
        except BufferError:
            self.leaked += 1
            if self.fail_on_leak:
                raise
            if self.leaked == 1:  # one line tells of the bug; the counter, how often
                logger.warning("A receive buffer still has views after its release: not recycled, here and from now on")
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
        """What is kept for the next frames."""
        return self._idle_bytes

    def drop_unused(self) -> None:
        """Let those go that were not needed since the last call: a burst's buffers are not kept for ever."""
        with self._lock:
            for buffer in self._idle[: self._unused]:
                self._idle_bytes -= len(buffer)
            del self._idle[: self._unused]
            self._unused = len(self._idle)

    def trim(self, keep_bytes: int) -> None:
        """Let the coldest idle buffers go until at most so many bytes are kept: the memory is needed elsewhere."""
        with self._lock:
            while self._idle and self._idle_bytes > keep_bytes:
                self._idle_bytes -= len(self._idle.pop(0))
            self._unused = min(self._unused, len(self._idle))


class PooledFrame:
    """One frame in a buffer of the pool; `release` gives the buffer back, and the lease if it has one, once."""

    __slots__ = ("_buffer", "_lease", "_memory", "_pool", "view")

    def __init__(
        self,
        pool: FrameBufferPool,
        buffer: bytearray,
        size: int,
        lease: MemoryLease | None = None,
        memory: MemoryPool | None = None,
    ) -> None:
        """lease: of `memory`, for the frame."""
        self._pool = pool
        self._buffer: bytearray | None = buffer
        self._lease = lease
        self._memory = memory
        self.view = memoryview(buffer)[:size]

    def release(self) -> None:
        """Give the buffer back: no slice of the frame may be used afterwards. A second call is harmless."""
        buffer = self._buffer
        if buffer is not None:
            self._buffer = None
            with contextlib.suppress(BufferError):  # somebody exports it: the pool finds out
                self.view.release()
            self._pool.give_back(buffer)
            lease, self._lease = self._lease, None
            if lease is not None and self._memory is not None:
                self._memory.release(lease)
