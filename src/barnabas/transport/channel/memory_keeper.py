"""The limited memory of one Selector's channels: the channels that hold some, that wait, that are closed to free it.

Called by the Selector in every poll, and by the `ChannelMemory` of each channel. Owned by the Selector's thread; no
lock. The MemoryPool below it is shared by all Selectors and has its own lock; its wake-up is the only call that comes
from another thread. Kafka: Selector (its memory check in poll, and KafkaChannel.maybeUnmute).

Kafka gives memory that comes back to any channel, and never takes memory from a channel. Here channels that wait are
served in order; and while memory is short, channels that hold some and make no progress are closed ("given up"), the
slowest first. Otherwise half-received frames and answers that no client reads could hold all the memory for good.

Example, with a pool of 100 MB, of which a frame above 1/16 is large (6.25 MB):

    time     event                                    left     what follows
    0 s      A begins a frame of 90 MB: 8 KiB come    10 MB    A has a lease for all of it
    0.1 s    B begins a frame of 20 MB                10 MB    large frames share half the pool, and A's alone is more:
                                                               B waits, among the large ones, and is not received
    0.1 s    C sends a frame of 5 MB                   5 MB    not large: C passes B, and has its lease
    0.2 s    C's request has been handled             10 MB    its lease comes back
    0.5 s    A has sent nothing for half a second    100 MB    A holds what B waits for: A is given up (OUT_OF_MEMORY)
    0.5 s    the next poll                            80 MB    B has its lease, and is received again
    0.7 s    D does not read an answer of 85 MB       -5 MB    a charge cannot be refused: the pool is overdrawn
    1.2 s    D has taken nothing for half a second    80 MB    D is given up, though no frame waits: the limit holds

While memory is not short D may keep its answer for as long as it likes. A channel is never given up while its request
is being handled, or while it waits for memory itself: then its peer is not the slow side.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import Final, TypeAlias

from barnabas.transport.channel.kafka_channel import ChannelMemory, KafkaChannel
from barnabas.transport.frame_buffer_pool import FrameBufferPool
from barnabas.transport.memory_pool import MemoryLease, MemoryPool

SILENCE_NS: Final = 500_000_000
"""How long a channel that holds memory may move no bytes while others wait for memory. No round trip takes as long."""
WATCH_NS: Final = 1_000_000_000
"""How long a channel that moves bytes is watched before it counts as slow."""
SLOW_SECONDS: Final = 10.0
"""A channel is slow if, at its pace, it would hold its memory for longer than this."""
LOOK_EVERY_NS: Final = 100_000_000
"""The interval of checks of the holders while memory is short."""
OVERDRAFT_SHARE: Final = 8
"""The largest overdraft, as a divisor of the pool's size: beyond 1/8 of it the slowest reader is closed without a
watch."""


class MemoryKeeper:
    """The accounts of all channels, the queues of those that wait, and the holders that may be given up."""

    is_limited: Final = True

    def __init__(self, pool: MemoryPool, buffers: FrameBufferPool, wake: Callable[[], None]) -> None:
        """`buffers`: the receive buffers, whose idle ones must fit into what the pool has left.

        `wake` interrupts the Selector's poll; any thread may call it.
        """
        self.pool = pool
        self._buffers = buffers
        self._wake = wake
        # In order of arrival; bytes. Large frames wait apart, so that frames that need little pass them.
        self._waiting: dict[ChannelMemory, int] = {}
        self._waiting_for_much: dict[ChannelMemory, int] = {}
        self._holders: dict[ChannelMemory, None] = {}
        self._next_look_ns = 0
        self._now_ns = 0

    def for_channel(self) -> ChannelMemory | None:
        """Return a new account for a channel."""
        return ChannelMemory(self)

    # -- called for a channel

    def allocate(self, memory: ChannelMemory, size: int) -> MemoryLease | None:
        """Return a lease, or put the channel into the queue. Raises ValueError for a size that the pool never gives."""
        waiting = self._waiting_for_much if self.pool.is_large(size) else self._waiting
        # A new frame may not overtake waiting ones, even if it would fit: otherwise a larger one might wait for ever.
        if not waiting:
            lease = self.pool.try_allocate(size)
            if lease is not None:
                return lease
        if memory not in waiting:
            self.pool.begin_waiting(size, self._wake)
            waiting[memory] = size
        return None

    def begin_holding(self, memory: ChannelMemory) -> None:
        """Note that a channel holds memory of the pool, and begin to watch how fast it moves."""
        if memory not in self._holders:
            self._holders[memory] = None
            memory.mark(self._now_ns)

    def stop_holding(self, memory: ChannelMemory) -> None:
        """Note that a channel has given back all memory of the pool."""
        self._holders.pop(memory, None)

    def forget(self, memory: ChannelMemory) -> None:
        """Take back a closed channel's lease and its place in the queue."""
        for waiting in (self._waiting, self._waiting_for_much):
            size = waiting.pop(memory, None)
            if size is not None:
                self.pool.end_waiting(size, self._wake)
        lease, memory.granted = memory.granted, None
        if lease is not None:
            self.pool.release(lease)
        self._holders.pop(memory, None)

    # -- called once a poll

    def granted(self, now_ns: int) -> list[KafkaChannel]:
        """Return the channels that have got their lease and are to be read again. Also trims idle buffers."""
        self._now_ns = now_ns
        # Idle receive buffers are memory too, though no channel is charged for them: they must fit into the rest.
        spare = self.pool.available_memory
        if self._buffers.idle_bytes > spare:
            self._buffers.trim(max(spare, 0))
        channels: list[KafkaChannel] = []
        for waiting in (self._waiting, self._waiting_for_much):
            if waiting:
                self._grant(waiting, channels)
        return channels

    def _grant(self, waiting: dict[ChannelMemory, int], channels: list[KafkaChannel]) -> None:
        while waiting:
            memory, size = next(iter(waiting.items()))
            lease = self.pool.try_allocate(size)
            if lease is None:
                return
            del waiting[memory]
            self.pool.end_waiting(size, self._wake)
            memory.granted = lease
            if memory.channel is not None:
                channels.append(memory.channel)

    # Three tests, the costliest last. The overdraft first, and in every poll: a charge cannot be refused, so an
    # overdraft grows as fast as answers are made, and in a tenth of a second it may be beyond the machine's memory.
    # Then silence, which needs no measurement: nothing has moved since the mark. Then the pace, which does: a channel
    # with 60 MB to send has moved 4 MB in the second since its mark, so it would take 15 s more, and is given up; at
    # 8 MB in that second it would take 7.5 s, keeps its memory, and is marked again. The mark moves on, so that a
    # client that was fast for an hour and then stalls is measured by its last second.
    #
    # The result is only a proposal: the caller asks `would_free_memory` before each close, because the first one may
    # have ended the shortage. The pool's numbers are read without its lock, so two Selectors may each give up a channel
    # where one was enough; the opposite, that none does, lasts until the next look.

    def slow_channels(self, now_ns: int) -> list[KafkaChannel]:
        """Return the channels to give up while memory is short, slowest first.

        The caller checks `would_free_memory` for each.

        Call this after reading: until the bytes that have arrived are received, this thread may be the slow side.
        """
        pool = self.pool
        if not (pool.shortage or pool.large_shortage) or not self._holders:
            return []
        if pool.available_memory < -(pool.size // OVERDRAFT_SHARE):
            unread = self._unread_longest_first()
            if unread:
                return unread
        if now_ns < self._next_look_ns:
            return []
        self._next_look_ns = now_ns + LOOK_EVERY_NS
        slow: list[tuple[float, KafkaChannel]] = []
        for memory in self._holders:
            channel = memory.channel
            watched_ns = now_ns - memory.mark_ns
            if (
                channel is None
                or watched_ns < SILENCE_NS
                or not (memory.waits_for_peer and self._would_free_memory(memory))
            ):
                continue
            seconds_left = memory.seconds_left(now_ns)
            if seconds_left == inf:
                slow.append((inf, channel))
            elif watched_ns >= WATCH_NS:
                memory.mark(now_ns)
                if seconds_left > SLOW_SECONDS:
                    slow.append((seconds_left, channel))
        slow.sort(key=lambda each: each[0], reverse=True)
        return [channel for _, channel in slow]

    def would_free_memory(self, channel: KafkaChannel) -> bool:
        """Return whether another channel would get memory now if this one were given up."""
        return channel.memory is not None and self._would_free_memory(channel.memory)

    def _would_free_memory(self, memory: ChannelMemory) -> bool:
        pool = self.pool
        # Large frames may lack memory of their half of the pool while there is enough for all others.
        return bool(pool.shortage or (pool.large_shortage and pool.is_large(memory.leased)))

    def _unread_longest_first(self) -> list[KafkaChannel]:
        # Far beyond the limit there is no time to watch channels. Charges are mostly answers, so the clients that do
        # not read theirs are the slow ones.
        unread = [
            memory.channel
            for memory in self._holders
            if memory.channel is not None and memory.charged and memory.channel.outgoing.unsent
        ]
        unread.sort(key=lambda channel: channel.last_active_ns)
        return unread


class UnlimitedMemory:
    """The keeper where memory is not limited: no channel has an account, none waits, none is given up."""

    is_limited: Final = False

    def for_channel(self) -> ChannelMemory | None:
        """Return None: nothing is charged."""
        return None

    def granted(self, now_ns: int) -> Sequence[KafkaChannel]:
        """Return nothing: no channel waits."""
        return ()

    def slow_channels(self, now_ns: int) -> Sequence[KafkaChannel]:
        """Return nothing: no channel is given up."""
        return ()

    def would_free_memory(self, channel: KafkaChannel) -> bool:
        """Return False: no channel keeps memory from others."""
        return False


MemoryLimit: TypeAlias = MemoryKeeper | UnlimitedMemory
UNLIMITED: Final = UnlimitedMemory()
