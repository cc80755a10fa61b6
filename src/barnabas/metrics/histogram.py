"""Histograms and timers: numbers counted by size, with their percentiles, as Kafka shows them.

`update` is for one thread, or for several under a lock of theirs; any thread reads, a moment late at worst. Ticked by
MetricsRegistry on the scheduler's thread; `_lock` keeps a tick and a reader apart. The network layer counts requests
in plain tables of its own (`network.request_metrics`), which cost less than a call.
Kafka: Histogram and DurationTimer of com.yammer.metrics.
"""

from __future__ import annotations

import threading

from barnabas.metrics.buckets import BUCKETS, DURATION_SHIFT, DURATION_UNIT_MS, INDEX, INDEXED, bucket_of
from barnabas.metrics.distribution import Distribution, RecentWeights, distribution
from barnabas.metrics.meter import Meter


class Histogram:
    """A histogram of whole numbers: sizes, counts, milliseconds."""

    unit = 1.0
    """The value of 1 in the buckets, in the unit of the metric."""

    def __init__(self) -> None:
        self.counts = [0] * BUCKETS
        self._recent = RecentWeights()
        self._lock = threading.Lock()

    def update(self, value: int) -> None:
        """Count one value."""
        self.counts[INDEX[value] if 0 <= value < INDEXED else bucket_of(value)] += 1

    def tick(self, elapsed_seconds: float) -> None:
        """Let older values weigh less."""
        with self._lock:
            self._recent.tick(self.counts.copy(), elapsed_seconds)

    def distribution(self) -> Distribution:
        """Return the current distribution."""
        with self._lock:
            # A copy, since `update` runs without the lock: sum and percentiles must come from the same counts.
            counts = self.counts.copy()
            return distribution(counts, self._recent.now(counts), self.unit)


class DurationHistogram(Histogram):
    """A histogram of durations: takes nanoseconds, shows milliseconds with their fractions (Kafka's are whole)."""

    unit = DURATION_UNIT_MS

    def update(self, value: int) -> None:
        """Count a duration in nanoseconds."""
        super().update(value >> DURATION_SHIFT)


class DurationTimer:
    """Kafka's timer: durations, and how many there are a second (LeaderElectionRateAndTimeMs)."""

    def __init__(self) -> None:
        self.durations = DurationHistogram()
        self.meter = Meter()

    def update(self, nanoseconds: int) -> None:
        """Count a duration. For one thread, or several under a lock of theirs."""
        self.durations.update(nanoseconds)
        self.meter.count += 1

    def tick(self, elapsed_seconds: float) -> None:
        """Bring rates and weights up to date."""
        self.durations.tick(elapsed_seconds)
        self.meter.tick(elapsed_seconds)


class SharedTimer(DurationTimer):
    """A timer that any thread may update: for operations whose cost makes that of a lock negligible, such as fsync."""

    def __init__(self) -> None:
        super().__init__()
        self._update_lock = threading.Lock()

    def update(self, nanoseconds: int) -> None:
        """Count a duration."""
        with self._update_lock:
            super().update(nanoseconds)
