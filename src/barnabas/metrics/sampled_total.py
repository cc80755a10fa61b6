"""A sum over a sliding window that is made of samples, each of which covers a part of it.

Used by `Rate` and `Average`, under their owner's lock; no thread of its own and no clock: every call states the time
(milliseconds of a clock that does not go back).

Kafka: org.apache.kafka.common.metrics.stats.SampledStat and WindowedSum, sample for sample.
"""

from __future__ import annotations

from typing import NamedTuple


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
