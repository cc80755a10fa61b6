"""The rate at which a count has grown over the last half minute (Kafka's rates use two samples of 30 s).

No lock: its owner ticks and reads it under its own. Kafka: Rate of org.apache.kafka.common.metrics.stats.
"""

from __future__ import annotations

from collections import deque
from typing import Final

TICKS_REMEMBERED: Final = 6
"""The number of ticks that a rate spans, each of `TICK_INTERVAL_MS`."""


class RecentRate:
    """The rate of one count. Times are monotonic nanoseconds."""

    __slots__ = ("_seen",)

    def __init__(self, total: int, now_ns: int) -> None:
        self._seen = deque([(total, now_ns)], TICKS_REMEMBERED)

    def tick(self, total: int, now_ns: int) -> None:
        """Remember the current count."""
        self._seen.append((total, now_ns))

    def per_second(self, total: int, now_ns: int) -> float:
        """Return the growth a second up to now, when the count is `total`."""
        before, then_ns = self._seen[0]
        return (total - before) * 1e9 / (now_ns - then_ns) if now_ns > then_ns else 0.0
