"""The memory of one Selector's channels, where it is limited: who holds some, who waits for some, who is given up.

Owned by the Selector's thread; the MemoryPool below it is shared by all Selectors, and its wake-up is the only call
from elsewhere. Kafka: the memory check of Selector.poll and KafkaChannel's mute for lack of memory. Two things Kafka
does not do: those who wait are served in order; and when there is not enough, and channels that hold some make no use
of it, the slowest are given up. Otherwise frames that were half received, and answers that nobody reads, could hold
all the memory for good.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import Final, TypeAlias

from barnabas.transport.channel_memory import ChannelMemory
from barnabas.transport.frame_buffer_pool import FrameBufferPool
from barnabas.transport.kafka_channel import KafkaChannel
from barnabas.transport.memory_pool import MemoryLease, MemoryPool

SILENCE_NS: Final = 500_000_000
"""How long a channel that holds memory may move nothing at all, while others wait for some. (Longer than any round
trip.)"""
PATIENCE_NS: Final = 1_000_000_000
"""How long a channel that moves is watched before it can be called slow."""
SLOW_SECONDS: Final = 10.0
"""A channel is slow if, at its pace, it would hold its memory for longer than this."""
LOOK_EVERY_NS: Final = 100_000_000
"""How often holders are looked at while memory is short."""
OVERDRAFT_SHARE: Final = 8
"""One part in so many of the pool may be charged beyond its limit, before the slowest must go however fast it is."""


_Memory: TypeAlias = ChannelMemory[KafkaChannel]


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
        # In order of arrival; bytes. Large frames wait apart, so that those who want little pass them.
        self._waiting: dict[_Memory, int] = {}
        self._waiting_for_much: dict[_Memory, int] = {}
        self._holders: dict[_Memory, None] = {}
        self._next_look_ns = 0
        self._now_ns = 0

    def for_channel(self) -> ChannelMemory[KafkaChannel] | None:
        """Make the account of a new channel."""
        return ChannelMemory(self)

    # -- called for a channel ----------------------------------------------------------------------------------------

    def allocate(self, memory: _Memory, size: int) -> MemoryLease | None:
        """A lease, or a place in the queue. Raises ValueError for a size that the pool never gives."""
        waiting = self._waiting_for_much if self.pool.is_large(size) else self._waiting
        if not waiting:
            lease = self.pool.try_allocate(size)
            if lease is not None:
                return lease
        if memory not in waiting:
            self.pool.begin_waiting(size, self._wake)
            waiting[memory] = size
        return None

    def holds(self, memory: _Memory) -> None:
        """It holds some memory of the pool."""
        if memory not in self._holders:
            self._holders[memory] = None
            memory.mark(self._now_ns)

    def holds_nothing(self, memory: _Memory) -> None:
        """It holds none any more."""
        self._holders.pop(memory, None)

    def forget(self, memory: _Memory) -> None:
        """Its channel is closed."""
        for waiting in (self._waiting, self._waiting_for_much):
            size = waiting.pop(memory, None)
            if size is not None:
                self.pool.end_waiting(size, self._wake)
        lease, memory.granted = memory.granted, None
        if lease is not None:
            self.pool.release(lease)
        self._holders.pop(memory, None)

    # -- called once a poll ------------------------------------------------------------------------------------------

    def granted(self, now_ns: int) -> list[KafkaChannel]:
        """Channels that have got what they waited for, and are to be read again. Keeps idle buffers within bounds."""
        self._now_ns = now_ns
        spare = self.pool.available_memory
        if self._buffers.idle_bytes > spare:
            self._buffers.trim(max(spare, 0))
        channels: list[KafkaChannel] = []
        for waiting in (self._waiting, self._waiting_for_much):
            if waiting:
                self._grant(waiting, channels)
        return channels

    def _grant(self, waiting: dict[_Memory, int], channels: list[KafkaChannel]) -> None:
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

    def too_slow(self, now_ns: int) -> list[KafkaChannel]:
        """Whom to give up, the slowest first, while the pool is short: each if it still `would_help`.

        To be called when what has arrived has been received: we may be the slow ones.
        """
        pool = self.pool
        if not (pool.shortage or pool.large_shortage) or not self._holders:
            return []
        if pool.available_memory < -(pool.size // OVERDRAFT_SHARE):
            unread = self._longest_silent()
            if unread:
                return unread
        if now_ns < self._next_look_ns:
            return []
        self._next_look_ns = now_ns + LOOK_EVERY_NS
        slow: list[tuple[float, KafkaChannel]] = []
        for memory in self._holders:
            channel = memory.channel
            watched_ns = now_ns - memory.mark_ns
            if channel is None or watched_ns < SILENCE_NS or not (memory.waits_for_peer and self._would_help(memory)):
                continue
            seconds_left = memory.seconds_left(now_ns)
            if seconds_left == inf:
                slow.append((inf, channel))
            elif watched_ns >= PATIENCE_NS:
                memory.mark(now_ns)
                if seconds_left > SLOW_SECONDS:
                    slow.append((seconds_left, channel))
        slow.sort(key=lambda each: each[0], reverse=True)
        return [channel for _, channel in slow]

    def would_help(self, channel: KafkaChannel) -> bool:
        """Whether others get memory now if this channel is given up."""
        return channel.memory is not None and self._would_help(channel.memory)

    def _would_help(self, memory: _Memory) -> bool:
        pool = self.pool
        # Large frames may be short of the part that is theirs while there is enough for all others.
        return bool(pool.shortage or (pool.large_shortage and pool.is_large(memory.leased)))

    def _longest_silent(self) -> list[KafkaChannel]:
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

    def for_channel(self) -> ChannelMemory[KafkaChannel] | None:
        """None: nothing is charged."""
        return None

    def granted(self, now_ns: int) -> Sequence[KafkaChannel]:
        """No channel waits."""
        return ()

    def too_slow(self, now_ns: int) -> Sequence[KafkaChannel]:
        """No channel is given up."""
        return ()

    def would_help(self, channel: KafkaChannel) -> bool:
        """No channel keeps memory from others."""
        return False


MemoryLimit: TypeAlias = MemoryKeeper | UnlimitedMemory
UNLIMITED: Final = UnlimitedMemory()
