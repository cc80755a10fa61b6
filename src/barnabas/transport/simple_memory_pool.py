"""The MemoryPool of a broker, which only counts: nothing is allocated in advance, the bytes in use are subtracted.

Shared by all Selectors of a SocketServer; any thread may call. One lock guards the numbers; Selectors that wait are
woken after the lock is released. A pool that is not strict (the broker's is not) hands out a lease while anything at
all is left, so that small frames cannot starve a large one; the overshoot is one frame at most. Kafka has no
`large_bytes`: frames above that size have only half of the pool together, though always one of them, so that they
cannot shut out all others.

A lease is lost if it becomes garbage before it was released: a frame whose request got lost (a defect of the broker)
must not make the pool smaller for ever. The pool takes back the bytes of lost leases, and counts these in `leaked`. The
price is one weak reference per lease, so per frame of 8 KiB and more. Kafka's GarbageCollectedMemoryPool is a debugging
aid with a thread of its own. Here the garbage collector only notes the loss, since it may run at any time, also while
its thread holds the pool's lock; the next call of the pool takes the bytes back.

Kafka: SimpleMemoryPool, GarbageCollectedMemoryPool.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import weakref
from collections import deque
from collections.abc import Callable

from barnabas.transport.memory_pool import MemoryLease

logger = logging.getLogger(__name__)


class WaitingFrames:
    """The sizes of the frames that wait for leases of a pool. Guarded by the pool's lock."""

    __slots__ = ("all_bytes", "large_bytes", "wakes")

    def __init__(self) -> None:
        self.all_bytes = 0
        self.large_bytes = 0
        """The part of `all_bytes` that large frames wait for."""
        self.wakes: dict[Callable[[], None], int] = {}
        """The number of frames that wait, by wake-up."""

    def add(self, size: int, is_large: bool, wake: Callable[[], None]) -> None:
        """Count a frame that begins to wait."""
        self.all_bytes += size
        self.large_bytes += size if is_large else 0
        self.wakes[wake] = self.wakes.get(wake, 0) + 1

    def remove(self, size: int, is_large: bool, wake: Callable[[], None]) -> None:
        """Remove a frame from the counts."""
        self.all_bytes -= size
        self.large_bytes -= size if is_large else 0
        self.wakes[wake] -= 1
        if not self.wakes[wake]:
            del self.wakes[wake]


class Depletion:
    """The time during which a pool refused leases. Guarded by the pool's lock."""

    __slots__ = ("_before_ns", "_now", "_since_ns")

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self._before_ns = 0
        self._since_ns: int | None = None

    def begin(self) -> None:
        """Note a refusal; the time runs from the first one on."""
        if self._since_ns is None:
            self._since_ns = self._now()

    def end(self) -> None:
        """Note that memory was handed out, or has come back."""
        if self._since_ns is not None:
            self._before_ns += self._now() - self._since_ns
            self._since_ns = None

    @property
    def total_ns(self) -> int:
        """The nanoseconds of all refusals up to now."""
        return self._before_ns + (0 if self._since_ns is None else self._now() - self._since_ns)


class SimpleMemoryPool:
    """A MemoryPool of `size` bytes. leaked: the number of leases that were lost."""

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
        self._lock = threading.Lock()
        self._available = size
        self._leases_given = 0
        self._large_bytes = large_bytes if large_bytes is not None else size
        self._large_in_use = 0
        self._waiting = WaitingFrames()
        self._depletion = Depletion(now)
        self.leaked = 0
        self._in_use: dict[int, weakref.ref[MemoryLease]] = {}  # by the lease's number
        self._lost: deque[tuple[int, int]] = deque()  # number and size: appended by the garbage collector

    @property
    def available_memory(self) -> int:
        """The bytes left, those of lost leases included; below zero while charges overdraw the pool."""
        if self._lost:
            self._reclaim_lost()
        return self._available

    @property
    def is_out_of_memory(self) -> bool:
        """Whether no byte is left."""
        return self.available_memory <= 0

    @property
    def shortage(self) -> int:
        """The bytes missing for the frames that wait and for the overdraft."""
        return max(self._waiting.all_bytes - self.available_memory, 0)

    @property
    def large_shortage(self) -> int:
        """The bytes missing for large frames that wait, in their half of the pool."""
        if not (self._waiting.large_bytes and self._large_in_use):
            return 0  # one large frame always gets its lease, whatever its size
        return max(self._waiting.large_bytes + self._large_in_use - self.size // 2, 0)

    @property
    def depleted_ns(self) -> int:
        """The nanoseconds during which the pool has been refusing leases."""
        with self._lock:
            return self._depletion.total_ns

    def try_allocate(self, size: int) -> MemoryLease | None:
        """Return a lease, or None for lack of memory. Raises ValueError for a size never handed out."""
        if self._lost:
            self._reclaim_lost()
        self._check(size)
        with self._lock:
            too_many_large = (
                self.is_large(size) and self._large_in_use > 0 and self._large_in_use + size > self.size // 2
            )
            if too_many_large or self._available < (size if self._strict else 1):
                self._depletion.begin()
                return None
            self._available -= size
            self._leases_given = number = self._leases_given + 1
            if self.is_large(size):
                self._large_in_use += size
            self._depletion.end()
        lease, lost = MemoryLease(size, number), self._lost
        self._in_use[number] = weakref.ref(lease, lambda _: lost.append((number, size)))
        return lease

    def release(self, lease: MemoryLease) -> None:
        """Take a lease back. Raises ValueError for one that was released before, or is of another pool."""
        if self._in_use.pop(lease.number, None) is None:
            raise ValueError(f"A lease of {lease.size} bytes was released twice, or is not from this pool")
        self._give_back(lease.size, is_lease=True)

    def charge(self, count: int) -> None:
        """Count bytes that are in memory already; a negative count gives them back."""
        if count < 0:
            self._give_back(-count)
        else:
            with self._lock:
                self._available -= count

    def begin_waiting(self, size: int, wake: Callable[[], None]) -> None:
        """Call `wake` whenever memory comes back. Raises ValueError for a size never handed out."""
        self._check(size)
        with self._lock:
            self._waiting.add(size, self.is_large(size), wake)

    def end_waiting(self, size: int, wake: Callable[[], None]) -> None:
        """Undo one `begin_waiting` of the same arguments."""
        with self._lock:
            self._waiting.remove(size, self.is_large(size), wake)

    def is_large(self, size: int) -> bool:
        """Return whether a lease of `size` bytes counts against the half of large frames."""
        return size > self._large_bytes

    def _check(self, size: int) -> None:
        """Check a size. Raises ValueError for a size that is never handed out."""
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
            self._depletion.end()
            wakes = list(self._waiting.wakes) if self._available > 0 else ()
        # After the pool's lock is released: a wake-up takes a Selector's lock, and none is taken under this one.
        for wake in wakes:
            wake()

    def _reclaim_lost(self) -> None:
        with contextlib.suppress(IndexError):
            while True:
                number, size = self._lost.popleft()
                self._in_use.pop(number, None)
                self.leaked += 1
                self._give_back(size, is_lease=True)
                logger.error("Reclaimed buffer of size %d that was not properly release()ed. This is a bug.", size)

    def __repr__(self) -> str:
        return f"SimpleMemoryPool({self.size - self.available_memory}/{self.size} bytes used)"
