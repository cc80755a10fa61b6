"""How fast a count has grown lately: over the last half minute, as Kafka's rates do (two samples of 30 s there).

Belongs to whoever ticks and reads it, under its owner's lock. Kafka: org.apache.kafka.common.metrics.stats.Rate.
"""

from __future__ import annotations

from collections import deque
from typing import Final

TICKS_REMEMBERED: Final = 6
"""Of `TICK_INTERVAL_MS` each."""


class RecentRate:
    """Of one count. Times are monotonic nanoseconds."""

    __slots__ = ("_seen",)

    def __init__(self, total: int, now_ns: int) -> None:
        self._seen = deque([(total, now_ns)], TICKS_REMEMBERED)

    def tick(self, total: int, now_ns: int) -> None:
        """Remember what the count is now."""
        self._seen.append((total, now_ns))

    def per_second(self, total: int, now_ns: int) -> float:
        """Growth a second up to now, when the count is `total`."""
        before, then_ns = self._seen[0]
        return (total - before) * 1e9 / (now_ns - then_ns) if now_ns > then_ns else 0.0
