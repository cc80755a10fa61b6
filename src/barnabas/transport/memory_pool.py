"""The limit for the memory of clients' bytes: the Protocol of a pool, and the pool without a limit.

`queued.max.request.bytes` selects the pool; the SocketServer makes it and hands it to every Selector of the data plane.
Any thread may call; each implementation has its own lock. Kafka: MemoryPool, whose `tryAllocate` hands out the buffer
itself. Here `try_allocate` hands out a lease, because a receive buffer grows with the bytes received, never because of
a length prefix.

Two kinds of use are counted:

- A **lease**, for a frame of 8 KiB and more (`frame_reader.LEASED_FRAME_BYTES`). It is asked for when the first 8 KiB
  of the frame are there, counts the whole frame, and is released when the request has been handled. A frame below
  64 KiB counts `request_expansion` times its size, because it takes that much once it is parsed; a larger frame
  consists mostly of records, which are not expanded.
- A **charge**, for bytes that are in memory already: received and not taken yet, a small request in the queue,
  answers that have not left. A charge cannot be rejected; it may overdraw the pool. The first 32 KiB of each channel
  are free (`frame_reader.FREE_BYTES`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol


class MemoryLease:
    """A number of bytes of a pool. The thread that has finished with the frame releases them, exactly once."""

    __slots__ = ("__weakref__", "number", "size")

    def __init__(self, size: int, number: int = 0) -> None:
        """`number`: by which its pool knows the lease."""
        self.size = size
        self.number = number


class MemoryPool(Protocol):
    """A pool of memory; sizes in bytes."""

    @property
    def request_expansion(self) -> int:
        """The factor by which a frame below 64 KiB counts more than its size."""

    @property
    def size(self) -> int:
        """The limit: the bytes that the pool may hand out in all."""

    @property
    def available_memory(self) -> int:
        """The bytes left; below zero while charges overdraw the pool."""

    @property
    def is_out_of_memory(self) -> bool:
        """Whether no byte is left: no frame gets a lease now."""

    @property
    def shortage(self) -> int:
        """The bytes missing now for the frames that wait and for the overdraft; 0 if all can be served."""

    @property
    def large_shortage(self) -> int:
        """The bytes missing for large frames that wait, in the half of the pool that large frames share."""

    @property
    def depleted_ns(self) -> int:
        """The nanoseconds during which the pool has been refusing leases (Kafka: MemoryPoolDepletedTimeTotal)."""

    def try_allocate(self, size: int) -> MemoryLease | None:
        """Return a lease of `size` bytes; None for lack of memory. Raises ValueError for a size never handed out."""

    def release(self, lease: MemoryLease) -> None:
        """Take a lease back. Raises ValueError for a lease that was released before."""

    def charge(self, count: int) -> None:
        """Count bytes that are in memory already, whatever is left; a negative count gives them back."""

    def is_large(self, size: int) -> bool:
        """Return whether a frame of `size` bytes is so large, for this pool, that it waits apart from the others."""

    def begin_waiting(self, size: int, wake: Callable[[], None]) -> None:
        """Note that a frame waits for `size` bytes. `wake` is called, on any thread, whenever memory comes back.

        Raises ValueError for a size never handed out.
        """

    def end_waiting(self, size: int, wake: Callable[[], None]) -> None:
        """Note that a frame waits no longer, because it has its lease or its connection is gone."""


class UnlimitedMemoryPool:
    """The pool without a limit (Kafka: MemoryPool.NONE). A Selector with this pool never calls it."""

    request_expansion: Final = 1
    size: Final = (1 << 63) - 1
    available_memory: Final = (1 << 63) - 1
    is_out_of_memory: Final = False
    shortage: Final = 0
    large_shortage: Final = 0
    depleted_ns: Final = 0

    def try_allocate(self, size: int) -> MemoryLease | None:
        """Return a lease, whatever its size."""
        return MemoryLease(size)

    def release(self, lease: MemoryLease) -> None:
        """Do nothing: nothing was counted."""

    def charge(self, count: int) -> None:
        """Do nothing: nothing is counted."""

    def is_large(self, size: int) -> bool:
        """Return False: no frame waits."""
        return False

    def begin_waiting(self, size: int, wake: Callable[[], None]) -> None:
        """Do nothing: no frame waits."""

    def end_waiting(self, size: int, wake: Callable[[], None]) -> None:
        """Do nothing: no frame waits."""


NONE: Final[MemoryPool] = UnlimitedMemoryPool()
