"""Buffers of one size that are used again: the outputs of LZ4 blocks, which have 64 KiB at most.

Called by `records.compression` on any thread: network threads, request handlers, the cleaner, clients. A `deque` holds
the idle buffers; its `append` and `pop` are atomic on every build of Python, so there is no lock.

A new buffer is zeroed first: a third of the time that a batch of 300 bytes takes to decompress, a tenth of that of 4 KB
(benchmarks/recycled_outputs.py). A buffer that is used again holds what its last user has written: whoever takes one
reads only what it has written itself. For zstd and snappy, whose outputs differ in size, such buffers gained nothing.

Kafka: BatchMemoryPool, in the place of BufferSupplier. None of them bounds what is in use: the number of threads does.
"""

from __future__ import annotations

from collections import deque


class RecyclingMemoryPool:
    """A pool of buffers of `buffer_bytes`, of which at most `kept_buffers` are kept while nobody uses them."""

    __slots__ = ("_idle", "buffer_bytes")

    def __init__(self, buffer_bytes: int, kept_buffers: int) -> None:
        self.buffer_bytes = buffer_bytes
        # The deque drops its oldest entry, the one that is coldest in the processor's cache, for a new one.
        self._idle: deque[bytearray] = deque(maxlen=kept_buffers)

    @property
    def idle_buffers(self) -> int:
        """The number of buffers that wait for a user."""
        return len(self._idle)

    def allocate(self, size: int) -> bytearray:
        """Return a buffer of `buffer_bytes`, the one used last. Raises ValueError: when `size` is larger than that."""
        if size > self.buffer_bytes:
            raise ValueError(f"{size} bytes asked from a pool whose buffers have {self.buffer_bytes}")
        try:
            return self._idle.pop()
        except IndexError:
            return bytearray(self.buffer_bytes)

    def release(self, buffer: bytearray) -> None:
        """Take a buffer back, to be called once by its user; one of another size is left to the garbage collector."""
        if len(buffer) == self.buffer_bytes:
            self._idle.append(buffer)
