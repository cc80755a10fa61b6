"""How much memory the bytes of clients may take: what a Selector asks of a pool, and the pool without a limit.

`queued.max.request.bytes` chooses one (`broker` makes it, the SocketServer hands it to every Selector). Any thread may
call; each implementation has its own lock. Kafka: MemoryPool, whose `tryAllocate` hands out the buffer itself. Ours
hands out a lease, because a receive buffer grows with the bytes received, never because of a length prefix.

Two kinds of use are counted: leases, for frames of 64 KiB and more, asked for before they are received; and charges,
for bytes that are there already: what was received and not taken yet, and answers that have not left.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol


class MemoryLease:
    """So many bytes of a pool, until they are released: exactly once, by whoever has finished with the frame."""

    __slots__ = ("__weakref__", "buffer", "number", "released", "size")

    def __init__(self, size: int, buffer: bytearray | None = None) -> None:
        self.size = size
        self.buffer = buffer
        """The memory itself, where the pool keeps buffers; None: the holder has its own."""
        self.released = False
        self.number = 0
        """What its pool knows it by."""


class MemoryPool(Protocol):
    """Sizes in bytes."""

    @property
    def request_expansion(self) -> int:
        """How many times its frame a request below 64 KiB is counted, for it takes more once it is parsed."""

    @property
    def size(self) -> int:
        """What it may hand out in all."""

    @property
    def available_memory(self) -> int:
        """What is left; below zero when more is in use than there should be."""

    @property
    def is_out_of_memory(self) -> bool:
        """Whether nothing is left."""

    @property
    def shortage(self) -> int:
        """What is missing now: for those who wait, and for what was charged beyond the limit. Zero: all is well."""

    @property
    def large_shortage(self) -> int:
        """What is missing for large frames that wait, of the part of the pool that is theirs."""

    @property
    def depleted_ns(self) -> int:
        """How long it has been refusing, in all (Kafka: MemoryPoolDepletedTimeTotal)."""

    def try_allocate(self, size: int) -> MemoryLease | None:
        """A lease of `size` bytes; None for lack of memory. Raises ValueError for a size it never hands out."""

    def release(self, lease: MemoryLease) -> None:
        """Take a lease back. Raises ValueError the second time."""

    def charge(self, count: int) -> None:
        """Count bytes that are there already, whatever is left; a negative count gives them back."""

    def is_large(self, size: int) -> bool:
        """Whether a frame is so large, for this pool, that it waits apart from the others."""

    def begin_waiting(self, size: int, wake: Callable[[], None]) -> None:
        """Somebody waits for `size` bytes: `wake` is called, on any thread, whenever memory comes back.

        Raises ValueError for a size it never hands out.
        """

    def end_waiting(self, size: int, wake: Callable[[], None]) -> None:
        """He waits no more, one way or the other."""


class UnlimitedMemoryPool:
    """Kafka's MemoryPool.NONE: counts nothing and refuses nobody. A Selector that is given it does not even ask."""

    request_expansion: Final = 1
    size: Final = (1 << 63) - 1
    available_memory: Final = (1 << 63) - 1
    is_out_of_memory: Final = False
    shortage: Final = 0
    large_shortage: Final = 0
    depleted_ns: Final = 0

    def try_allocate(self, size: int) -> MemoryLease | None:
        """Always a lease."""
        return MemoryLease(size)

    def release(self, lease: MemoryLease) -> None:
        """Nothing to count."""

    def charge(self, count: int) -> None:
        """Nothing to count."""

    def is_large(self, size: int) -> bool:
        """None is."""
        return False

    def begin_waiting(self, size: int, wake: Callable[[], None]) -> None:
        """Nobody has to wait."""

    def end_waiting(self, size: int, wake: Callable[[], None]) -> None:
        """Nobody has to wait."""


NONE: Final[MemoryPool] = UnlimitedMemoryPool()
