"""Units a second and the mean of values over the last samples, and the growth of a count over the last half minute.

Owned by the part that measures (a quota sensor, a client's metric), under its lock or on its thread; the time comes
with each call, in milliseconds for all but RecentRate.

Kafka: org.apache.kafka.common.metrics.stats.Rate, SimpleRate, Avg.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from barnabas.metrics.sampled_total import SampledTotal, SampleWindow


class Rate:
    """Units a second."""

    __slots__ = ("_total",)

    def __init__(self, window: SampleWindow) -> None:
        self._total = SampledTotal(window)

    def record(self, value: float, now_ms: int) -> None:
        """Count `value` units; a negative value takes a count back."""
        self._total.record(value, now_ms)

    def measure(self, now_ms: int) -> float:
        """Return the units a second now."""
        total, _ = self._total.measure(now_ms)
        return total / (self.window_ms(now_ms) / 1000)

    def window_ms(self, now_ms: int) -> int:
        """Return the time that the rate is computed over, at least 1.

        The time is never less than all complete samples of the window plus the elapsed part of the newest: with the
        time since the first event, a rate would be enormous at first. It is more when the oldest sample began before
        the window.
        """
        window = self._total.window
        elapsed_ms = now_ms - self._total.oldest_start_ms(now_ms)
        # The newest sample is not complete, and does not count as missing.
        missing_samples = window.samples - 1 - elapsed_ms // window.sample_ms
        if missing_samples > 0:
            elapsed_ms += missing_samples * window.sample_ms
        return max(elapsed_ms, 1)


class SimpleRate(Rate):
    """Units a second since the oldest sample began, or over one sample while that is less."""

    __slots__ = ()

    def window_ms(self, now_ms: int) -> int:
        """Return the time that the rate is computed over."""
        return max(now_ms - self._total.oldest_start_ms(now_ms), self._total.window.sample_ms)


class Average:
    """The mean of the values of a window."""

    __slots__ = ("_total",)

    def __init__(self, window: SampleWindow) -> None:
        self._total = SampledTotal(window)

    def record(self, value: float, now_ms: int) -> None:
        """Count a value."""
        self._total.record(value, now_ms)

    def measure(self, now_ms: int) -> float:
        """Return the mean now; not a number if there is no value."""
        total, events = self._total.measure(now_ms)
        return total / events if events else float("nan")


TICKS_REMEMBERED: Final = 6
"""The number of ticks that a rate spans, each of `TICK_INTERVAL_MS`."""


class RecentRate:
    """The rate at which one count has grown over the last half minute (Kafka's rates use two samples of 30 s).

    Times are monotonic nanoseconds.
    """

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
