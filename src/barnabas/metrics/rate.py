"""Sums, rates and means over a sliding window of samples, and the growth of a count over the last half minute.

Owned by the part that measures (a quota sensor, a client's metric), under its lock or on its thread; the time comes
with each call, in milliseconds for all but RecentRate.

Kafka: org.apache.kafka.common.metrics.stats.SampledStat and WindowedSum, sample for sample; Rate, SimpleRate, Avg.
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple


class SampleWindow(NamedTuple):
    """The length of a window: `samples` of `sample_ms` each, the newest of them incomplete."""

    samples: int
    sample_ms: int

    @property
    def duration_ms(self) -> int:
        """The length of the whole window."""
        return self.samples * self.sample_ms


class _Sample:
    __slots__ = ("events", "last_event_ms", "start_ms", "total")

    def __init__(self, now_ms: int) -> None:
        self.reset(now_ms)

    def reset(self, now_ms: int) -> None:
        self.events = 0
        self.total = 0.0
        self.start_ms = self.last_event_ms = now_ms


class SampledTotal:
    """Values and events of the last `window`. Later samples begin only when something is recorded."""

    __slots__ = ("_current", "_samples", "window")

    def __init__(self, window: SampleWindow) -> None:
        self.window = window
        self._samples: list[_Sample] = []
        self._current = 0

    def record(self, value: float, now_ms: int) -> None:
        """Add `value` to the current sample, or to the next one if its time is over."""
        samples = self._samples
        if not samples:
            samples.append(_Sample(now_ms))
        sample = samples[self._current]
        if now_ms - sample.start_ms >= self.window.sample_ms:
            sample = self._advance(now_ms)
        sample.total += value
        sample.events += 1
        sample.last_event_ms = now_ms

    def measure(self, now_ms: int) -> tuple[float, int]:
        """Return the sum and number of the values recorded within the window."""
        self._purge(now_ms)
        return sum(sample.total for sample in self._samples), sum(sample.events for sample in self._samples)

    def oldest_start_ms(self, now_ms: int) -> int:
        """Return when the oldest sample began that still counts. The first call begins the first sample."""
        self._purge(now_ms)
        if not self._samples:
            self._samples.append(_Sample(now_ms))
        return min(sample.start_ms for sample in self._samples)

    def _advance(self, now_ms: int) -> _Sample:
        # One more than the window has: the oldest one reaches into the window from before it.
        self._current = (self._current + 1) % (self.window.samples + 1)
        if self._current >= len(self._samples):
            self._samples.append(_Sample(now_ms))
        else:
            self._samples[self._current].reset(now_ms)
        return self._samples[self._current]

    def _purge(self, now_ms: int) -> None:
        """Empty the samples whose last event lies before the window."""
        duration_ms = self.window.duration_ms
        for sample in self._samples:
            # By the last event, not the start: Kafka keeps a sample as long as anything in it lies within the window.
            if now_ms - sample.last_event_ms >= duration_ms:
                sample.reset(now_ms)


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
