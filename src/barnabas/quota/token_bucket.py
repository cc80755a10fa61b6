"""Credits that come back at a steady rate, up to a burst.

Owned by a quota sensor, under its lock; milliseconds come with each call. Unlike with a sampled rate, a burst costs the
wait until its credits have come back, not until its sample leaves the window. With 10 credits a second and a window of
11 s, a burst of 130 leaves -20: the client waits 2 s.

Kafka: org.apache.kafka.common.metrics.stats.TokenBucket.
"""

from __future__ import annotations

from barnabas.metrics.sampled_total import SampleWindow


class TokenBucket:
    """Full at first: `bound` credits a second, for the whole window. The bound may change between calls."""

    __slots__ = ("_tokens", "_updated_ms", "_window_seconds")

    def __init__(self, window: SampleWindow, bound: float, now_ms: int) -> None:
        self._window_seconds = window.duration_ms / 1000
        self._tokens = bound * self._window_seconds
        self._updated_ms = now_ms

    def record(self, value: float, bound: float, now_ms: int) -> None:
        """Take `value` credits; the rest may be below zero."""
        self._refill(bound, now_ms)
        # A negative value returns credits: not more than the bucket holds.
        self._tokens = min(bound * self._window_seconds, self._tokens - value)

    def measure(self, bound: float, now_ms: int) -> float:
        """Return the credits now; below zero the quota is exceeded."""
        self._refill(bound, now_ms)
        return self._tokens

    def _refill(self, bound: float, now_ms: int) -> None:
        elapsed_seconds = (now_ms - self._updated_ms) / 1000
        self._tokens = min(bound * self._window_seconds, self._tokens + bound * elapsed_seconds)
        self._updated_ms = now_ms
