"""The order of channels by idle time, kept without work per request.

Owned by the Selector's thread; no lock. Kafka: Selector.IdleExpiryManager, which moves a channel to the end of a map at
every event. Here an event only stores its time in the channel. A heap holds, for each channel, the time of its last
event as it was when the heap looked. That time is never later than the true one, so the oldest channel is found by
correcting the top of the heap until its entry is true. A closed channel stays in the heap until closed ones are the
majority; then all of them are taken out, so that short-lived connections cost no memory.
"""

from __future__ import annotations

import heapq
import itertools

from barnabas.transport.kafka_channel import KafkaChannel

SWEEP_AT_LEAST = 64
"""The number of closed channels that may stay in the heap; for fewer a sweep is not worth it."""


class IdleExpiry:
    """The channels of a Selector by the time of their last activity."""

    __slots__ = ("_closed", "_heap", "_max_idle_ns", "_order", "next_check_ns")

    def __init__(self, max_idle_ms: float) -> None:
        """`max_idle_ms` below zero: channels never expire."""
        self._max_idle_ns = int(max_idle_ms * 1_000_000)
        self._heap: list[tuple[int, int, KafkaChannel]] = []
        self._closed = 0
        self._order = itertools.count()  # equal times must not compare channels
        self.next_check_ns = 0 if max_idle_ms >= 0 else 1 << 63
        """The time before which no channel can have expired: one comparison per poll."""

    def add(self, channel: KafkaChannel) -> None:
        """Watch a new channel."""
        heapq.heappush(self._heap, (channel.last_active_ns, next(self._order), channel))

    def closed(self) -> None:
        """Count a watched channel that was closed. The time is constant per call, on average."""
        self._closed += 1
        if self._closed > SWEEP_AT_LEAST and self._closed * 2 > len(self._heap):
            self._heap = [entry for entry in self._heap if not entry[2].closed]
            heapq.heapify(self._heap)
            self._closed = 0

    def oldest(self) -> KafkaChannel | None:
        """Return the open channel that has been idle longest."""
        heap = self._heap
        while heap:
            seen_ns, _, channel = heap[0]
            if channel.closed:
                heapq.heappop(heap)
                self._closed -= 1
            elif channel.last_active_ns > seen_ns:
                heapq.heapreplace(heap, (channel.last_active_ns, next(self._order), channel))
            else:
                return channel
        return None

    def expired(self, now_ns: int) -> KafkaChannel | None:
        """Return the channel idle longest if its time is over; the caller closes that channel and calls again."""
        channel = self.oldest()
        if channel is None:
            self.next_check_ns = now_ns + self._max_idle_ns
            return None
        due_ns = channel.last_active_ns + self._max_idle_ns
        if now_ns > due_ns:
            return channel
        self.next_check_ns = due_ns
        return None
