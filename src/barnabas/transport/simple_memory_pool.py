"""A MemoryPool that is a number: nothing is allocated in advance, what is in use is subtracted from the limit.

Shared by all Selectors of a SocketServer; any thread may call. One lock guards the numbers; Selectors that wait are
woken after the lock is released. Kafka: SimpleMemoryPool. A pool that is not strict (the broker's is not) hands out a
lease while anything at all is left, so that small frames cannot starve a large one; the overshoot is one frame at most.
Kafka has no `large_bytes`: frames above that size have only half of the pool together, though always one of them, so
that they cannot shut out all others.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from barnabas.transport.memory_pool import MemoryLease


class SimpleMemoryPool:
    """A MemoryPool of `size` bytes."""

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
        """Raises ValueError unless 0 < max_allocation_bytes <= size.

        max_allocation_bytes: the largest lease. now: nanoseconds. strict: hand out only what is left in full.
        large_bytes: a lease of more is large; None: no lease is. request_expansion: as in MemoryPool.
        """
        if not 0 < max_allocation_bytes <= size:
            raise ValueError(
                "must provide a positive size and max single allocation size smaller than size."
                f"provided {size} and {max_allocation_bytes} respectively"
            )
        self.size = size
        self.request_expansion = request_expansion
        self._max_allocation_bytes = max_allocation_bytes
        self._strict = strict
        self._now = now
        self._lock = threading.Lock()
        self._available = size
        self._leases_given = 0
        self._large_bytes = large_bytes if large_bytes is not None else size
        self._large_in_use = 0
        self._waiting_bytes = 0
        self._large_waiting_bytes = 0
        self._wakes: dict[Callable[[], None], int] = {}  # how many frames wait behind each
        self._depleted_ns = 0
        self._depleted_since_ns: int | None = None

    @property
    def available_memory(self) -> int:
        """What is left; below zero while charges overdraw the pool."""
        return self._available

    @property
    def is_out_of_memory(self) -> bool:
        """Whether nothing is left."""
        return self.available_memory <= 0

    @property
    def shortage(self) -> int:
        """What is missing for the frames that wait and for the overdraft."""
        return max(self._waiting_bytes - self.available_memory, 0)

    @property
    def large_shortage(self) -> int:
        """What is missing for large frames that wait, of their half of the pool."""
        if not (self._large_waiting_bytes and self._large_in_use):
            return 0  # one is always let in, as far as this part goes
        return max(self._large_waiting_bytes + self._large_in_use - self.size // 2, 0)

    @property
    def depleted_ns(self) -> int:
        """How long the pool has been refusing leases, in all."""
        with self._lock:
            since_ns = self._depleted_since_ns
            return self._depleted_ns + (0 if since_ns is None else self._now() - since_ns)

    def try_allocate(self, size: int) -> MemoryLease | None:
        """Return a lease, or None for lack of memory. Raises ValueError for a size never handed out."""
        self._check(size)
        with self._lock:
            too_many_large = (
                self.is_large(size) and self._large_in_use > 0 and self._large_in_use + size > self.size // 2
            )
            if too_many_large or self._available < (size if self._strict else 1):
                if self._depleted_since_ns is None:
                    self._depleted_since_ns = self._now()
                return None
            self._available -= size
            self._leases_given = number = self._leases_given + 1
            if self.is_large(size):
                self._large_in_use += size
            self._end_dry_spell()
        lease = MemoryLease(size)
        lease.number = number
        return lease

    def release(self, lease: MemoryLease) -> None:
        """Take a lease back. Raises ValueError for a lease that was released before."""
        with self._lock:
            if lease.released:
                raise ValueError(f"A lease of {lease.size} bytes was released twice")
            lease.released = True
        self._give_back(lease.size, is_lease=True)

    def charge(self, count: int) -> None:
        """Count bytes that are there already; a negative count gives them back."""
        if count < 0:
            self._give_back(-count)
        else:
            with self._lock:
                self._available -= count

    def begin_waiting(self, size: int, wake: Callable[[], None]) -> None:
        """Call `wake` whenever memory comes back. Raises ValueError for a size never handed out."""
        self._check(size)
        with self._lock:
            self._waiting_bytes += size
            if self.is_large(size):
                self._large_waiting_bytes += size
            self._wakes[wake] = self._wakes.get(wake, 0) + 1

    def end_waiting(self, size: int, wake: Callable[[], None]) -> None:
        """Undo one `begin_waiting` of the same arguments."""
        with self._lock:
            self._waiting_bytes -= size
            if self.is_large(size):
                self._large_waiting_bytes -= size
            self._wakes[wake] -= 1
            if not self._wakes[wake]:
                del self._wakes[wake]

    def is_large(self, size: int) -> bool:
        """Whether a lease of `size` bytes counts against the half of large frames."""
        return size > self._large_bytes

    def _check(self, size: int) -> None:
        if size < 1:
            raise ValueError(f"requested size {size}<=0")
        if size > self._max_allocation_bytes:
            raise ValueError(
                f"requested size {size} is larger than maxSingleAllocationSize {self._max_allocation_bytes}"
            )

    def _give_back(self, count: int, *, is_lease: bool = False) -> None:
        with self._lock:
            self._available += count
            if is_lease and self.is_large(count):
                self._large_in_use -= count
            self._end_dry_spell()
            wakes = list(self._wakes) if self._wakes and self._available > 0 else ()
        for wake in wakes:
            wake()

    def _end_dry_spell(self) -> None:
        if self._depleted_since_ns is not None:
            self._depleted_ns += self._now() - self._depleted_since_ns
            self._depleted_since_ns = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.size - self.available_memory}/{self.size} bytes used)"
