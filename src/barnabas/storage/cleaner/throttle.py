"""Limits the cleaner's reading and writing to a number of bytes per second.

Owned by one cleaning, in the cleaner's process; no lock. Kafka: org.apache.kafka.storage.internals.utils.Throttler.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from barnabas.runtime.clock import Clock

CHECK_INTERVAL_NS = 300_000_000
NO_LIMIT = 1e15
"""A rate that no disk reaches: the setting's default, the largest number there is, means no limit."""

LONGEST_SECONDS = 86_400.0
"""The longest sleep. The setting may be 0, which means that nothing is cleaned."""


class CleanerThrottle:
    """Sleeps when more than `bytes_per_second` went by since the last look, which is every 300 ms.

    sleep: takes seconds.
    """

    __slots__ = ("_bytes_so_far", "_clock", "_period_start_ns", "_sleep", "bytes_per_second")

    def __init__(self, bytes_per_second: float, clock: Clock, sleep: Callable[[float], None]) -> None:
        self.bytes_per_second = bytes_per_second
        self._clock = clock
        self._sleep = sleep
        self._period_start_ns = clock.nanoseconds()
        self._bytes_so_far = 0

    def add(self, size: int) -> None:
        """Count `size` bytes that were read or written; return when more may be."""
        if self.bytes_per_second >= NO_LIMIT:
            return
        self._bytes_so_far += size
        elapsed_ns = self._clock.nanoseconds() - self._period_start_ns
        if elapsed_ns > CHECK_INTERVAL_NS and self._bytes_so_far:
            rate = self.bytes_per_second
            wanted_ns = self._bytes_so_far / rate * 1e9 if rate else math.inf
            if wanted_ns > elapsed_ns:
                self._sleep(min((wanted_ns - elapsed_ns) / 1e9, LONGEST_SECONDS))
            self._period_start_ns = self._clock.nanoseconds()
            self._bytes_so_far = 0
