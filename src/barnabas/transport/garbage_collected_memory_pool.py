"""A SimpleMemoryPool that takes back the bytes of leases that were not released before they became garbage.

The broker uses this pool: a frame whose request got lost (a defect of the broker) must not make the pool smaller for
ever. The price is one weak reference per lease, so per frame of 8 KiB and more. Any thread may call; the lock is that
of SimpleMemoryPool. Kafka: GarbageCollectedMemoryPool, a debugging aid with a thread of its own. Here the garbage
collector only notes the loss, since it may run at any time, also while its thread holds the pool's lock; the next call
of the pool takes the bytes back.
"""

from __future__ import annotations

import contextlib
import logging
import weakref
from collections import deque
from collections.abc import Callable

from barnabas.transport.memory_pool import MemoryLease
from barnabas.transport.simple_memory_pool import SimpleMemoryPool

logger = logging.getLogger(__name__)


class GarbageCollectedMemoryPool(SimpleMemoryPool):
    """A SimpleMemoryPool that counts lost leases in `leaked`."""

    def __init__(
        self,
        size: int,
        max_allocation_bytes: int,
        now: Callable[[], int],
        *,
        strict: bool = False,
        large_bytes: int | None = None,
        request_expansion: int = 1,
    ) -> None:
        super().__init__(
            size,
            max_allocation_bytes,
            now,
            strict=strict,
            large_bytes=large_bytes,
            request_expansion=request_expansion,
        )
        self.leaked = 0
        self._in_use: dict[int, weakref.ref[MemoryLease]] = {}  # by the lease's number
        self._lost: deque[tuple[int, int]] = deque()  # number and size: appended by the garbage collector

    @property
    def available_memory(self) -> int:
        """The bytes left, those of lost leases included; below zero while charges overdraw the pool."""
        if self._lost:
            self._reclaim_lost()
        return self._available

    def try_allocate(self, size: int) -> MemoryLease | None:
        """Return a lease, or None for lack of memory. Raises ValueError for a size never handed out."""
        if self._lost:
            self._reclaim_lost()
        lease = super().try_allocate(size)
        if lease is not None:
            number, lost = lease.number, self._lost
            self._in_use[number] = weakref.ref(lease, lambda _: lost.append((number, size)))
        return lease

    def release(self, lease: MemoryLease) -> None:
        """Take a lease back. Raises ValueError for one that was released before, or is of another pool."""
        if self._in_use.pop(lease.number, None) is None:
            raise ValueError(f"A lease of {lease.size} bytes was released twice, or is not from this pool")
        super().release(lease)

    def _reclaim_lost(self) -> None:
        with contextlib.suppress(IndexError):
            while True:
                number, size = self._lost.popleft()
                self._in_use.pop(number, None)
                self.leaked += 1
                self._give_back(size, is_lease=True)
                logger.error("Reclaimed buffer of size %d that was not properly release()ed. This is a bug.", size)
