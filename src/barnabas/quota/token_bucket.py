"""Credits that come back at a steady rate, up to a burst.

Owned by a quota sensor, under its lock; milliseconds come with each call. Against a sampled rate it has the advantage
that one burst is paid for by waiting as long as its credits take to come back, not until its sample leaves the window.
Kafka: org.apache.kafka.common.metrics.stats.TokenBucket.
"""

from __future__ import annotations

from barnabas.quota.sampled_total import SampleWindow


class TokenBucket:
    """Full at first: `bound` credits a second, for the whole window. The bound may change between calls."""

    __slots__ = ("_tokens", "_updated_ms", "_window_seconds")

    def __init__(self, window: SampleWindow, bound: float, now_ms: int) -> None:
        self._window_seconds = window.duration_ms / 1000
        self._tokens = bound * self._window_seconds
        self._updated_ms = now_ms

    def record(self, value: float, bound: float, now_ms: int) -> None:
        """Take `value` credits; there may be less than none afterwards."""
        self._refill(bound, now_ms)
        self._tokens = min(bound * self._window_seconds, self._tokens - value)

    def measure(self, bound: float, now_ms: int) -> float:
        """The credits now; below zero the quota is exceeded."""
        self._refill(bound, now_ms)
        return self._tokens

    def _refill(self, bound: float, now_ms: int) -> None:
        elapsed_seconds = (now_ms - self._updated_ms) / 1000
        self._tokens = min(bound * self._window_seconds, self._tokens + bound * elapsed_seconds)
        self._updated_ms = now_ms
