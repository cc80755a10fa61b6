"""The account of one channel in a limited MemoryPool, and its pace. Without a limit no channel has an account.

Made by the `MemoryKeeper` of the channel's Selector; called by the channel's FrameReader, the Selector and the
Processor, all on the Selector's thread. No lock. Kafka: NetworkReceive, which counts only the frame being received.
Here everything counts that a client can make the broker keep, except the first `FREE_BYTES`: so a client can send a
small request however much memory the others have used up.
"""

from __future__ import annotations

from math import inf
from typing import Final, Generic, Protocol, TypeVar

from barnabas.transport.memory_pool import MemoryLease, MemoryPool

FREE_BYTES: Final = 32 * 1024
"""The bytes that each channel may keep without being charged."""


class ReceivingHalf(Protocol):
    """The part of a FrameReader that is charged; sizes in bytes."""

    @property
    def bytes_kept(self) -> int:
        """The memory of bytes received and not taken, except those of a frame with a lease."""

    @property
    def missing(self) -> int:
        """The bytes that the frame being received lacks."""

    received: int
    waiting: bool


class SendingHalf(Protocol):
    """The part of a Send that is charged; sizes in bytes."""

    @property
    def memory_bytes(self) -> int:
        """The bytes that are unsent and in memory."""

    @property
    def sent(self) -> int:
        """The bytes that have left, in all."""

    unsent: int


class ChargedChannel(Protocol):
    """A channel whose memory is counted; there is one kind, KafkaChannel."""

    @property
    def reader(self) -> ReceivingHalf:
        """Its receiving half."""

    @property
    def outgoing(self) -> SendingHalf:
        """Its sending half."""

    muted: bool


C = TypeVar("C", bound=ChargedChannel)


class Keeper(Protocol[C]):
    """The part of a Selector's MemoryKeeper that a channel's account uses."""

    pool: MemoryPool

    def allocate(self, memory: ChannelMemory[C], size: int) -> MemoryLease | None:
        """Return a lease, or put the channel into the queue. Raises ValueError for a size that is never given."""

    def begin_holding(self, memory: ChannelMemory[C]) -> None:
        """Note that the channel holds memory of the pool."""

    def stop_holding(self, memory: ChannelMemory[C]) -> None:
        """Note that the channel holds no memory of the pool any more."""

    def forget(self, memory: ChannelMemory[C]) -> None:
        """Forget a channel that is closed."""


class ChannelMemory(Generic[C]):
    """One channel's account: the bytes `charged` beyond the free ones, and the lease of the frame being received."""

    __slots__ = (
        "channel",
        "charged",
        "granted",
        "keeper",
        "leased",
        "mark_moved",
        "mark_ns",
        "request_bytes",
    )

    def __init__(self, keeper: Keeper[C]) -> None:
        self.keeper = keeper
        self.channel: C | None = None
        """None before the channel is made, and once it is closed."""
        self.charged = 0
        self.granted: MemoryLease | None = None
        """The lease that the channel has waited for, until its reader takes it."""
        self.leased = 0
        """The size of the lease of the frame being received; 0 if the frame has none."""
        self.request_bytes = 0
        """The memory of a small request that waits for a handler, or is being handled by one."""
        self.mark_ns = 0
        self.mark_moved = 0

    # -- called by the FrameReader

    def reserve(self, size: int, *, is_small: bool = False) -> MemoryLease | None:
        """Return a lease for a whole frame; None if there is no memory: the Selector reads on when there is.

        Raises ValueError for a size that the pool never gives.
        """
        lease = self.granted
        if lease is not None:
            self.granted = None
        else:
            pool = self.keeper.pool
            wanted = min(size * pool.request_expansion, pool.size) if is_small and pool.request_expansion > 1 else size
            lease = self.keeper.allocate(self, wanted)
        if lease is not None:
            self.leased = lease.size
            self.keeper.begin_holding(self)
        return lease

    def hand_over(self) -> None:
        """Hand the lease over: the frame is whole, and the lease belongs to its request now."""
        self.leased = 0
        if not self.charged:
            self.keeper.stop_holding(self)

    def give_back(self, lease: MemoryLease) -> None:
        """Release the lease of a frame that will never be whole."""
        self.hand_over()
        self.keeper.pool.release(lease)

    # -- called by the Selector and the Processor

    def request_waits(self, size: int) -> None:
        """Count a request whose frame of `size` bytes has no lease, and which is going to wait for a handler."""
        self.request_bytes = size * self.keeper.pool.request_expansion

    def update(self) -> None:
        """Charge the channel's current bytes: received and not taken, of a waiting request, of unsent answers."""
        channel = self.channel
        held = self.request_bytes
        if channel is not None:
            held += channel.reader.bytes_kept + channel.outgoing.memory_bytes
        excess = held - FREE_BYTES if held > FREE_BYTES else 0
        change = excess - self.charged
        if not change:
            return
        self.charged = excess
        self.keeper.pool.charge(change)
        if excess or self.leased:
            self.keeper.begin_holding(self)
        else:
            self.keeper.stop_holding(self)

    def close(self) -> None:
        """Give all memory back: the channel is closed, its reader and its answers have been dropped."""
        self.channel = None
        self.request_bytes = 0
        self.update()
        self.keeper.forget(self)

    # -- how fast it moves

    @property
    def waits_for_peer(self) -> bool:
        """Whether the peer is expected to act: to take its answer, or to send the rest of a frame."""
        channel = self.channel
        return channel is not None and bool(channel.outgoing.unsent or not (channel.muted or channel.reader.waiting))

    @property
    def moved(self) -> int:
        """The bytes received and sent so far."""
        channel = self.channel
        return 0 if channel is None else channel.reader.received + channel.outgoing.sent

    def mark(self, now_ns: int) -> None:
        """Measure the channel's pace from here on."""
        self.mark_ns = now_ns
        self.mark_moved = self.moved

    def seconds_left(self, now_ns: int) -> float:
        """Return how long the channel will hold its memory at the pace since the mark; infinite if it is silent."""
        channel = self.channel
        if channel is None:
            return 0.0
        moved = self.moved - self.mark_moved
        left = channel.outgoing.unsent or channel.reader.missing
        return left * (now_ns - self.mark_ns) / 1e9 / moved if moved > 0 else inf
