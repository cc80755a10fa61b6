"""Counters of events, with their rates a second, averaged over the last one, five and fifteen minutes.

The count is a plain attribute: its owner adds to it (one thread, or several under a lock of theirs), any thread reads
it. Rates are computed by `tick`, which `MetricsRegistry` calls every few seconds on the scheduler's thread, so that an
event costs one addition. Kafka: Meter and EWMA of com.yammer.metrics.

A `RolledMeter` has a total and a largest value besides, and its rates cost nothing until metrics are read.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

MINUTE_SECONDS = 60.0
NEGLIGIBLE = 1e-9
"""The rate, in events a second, below which a rate counts as zero and is no longer computed."""


class Rates(NamedTuple):
    """Events a second over the last one, five and fifteen minutes, weighted exponentially."""

    one_minute: float = 0.0
    five_minutes: float = 0.0
    fifteen_minutes: float = 0.0


NO_RATES = Rates()


def decayed(rates: Rates, events: int, elapsed_seconds: float) -> Rates:
    """Return the rates after `events` that were spread evenly over the last `elapsed_seconds`."""
    # Most meters of a broker with many topics never change. For those an identity test replaces three exponentials.
    if not events and rates is NO_RATES:
        return rates
    # Kafka's EWMA ticks every 5 s with a constant factor. The factor here follows the time that has passed, so a late
    # tick does not distort the rate.
    now = events / elapsed_seconds
    averages = (
        rate + (1 - math.exp(-elapsed_seconds / (minutes * MINUTE_SECONDS))) * (now - rate)
        for rate, minutes in zip(rates, (1, 5, 15), strict=True)
    )
    updated = Rates(*averages)
    return updated if max(updated) > NEGLIGIBLE else NO_RATES


class Meter:
    """A counter with rates. Add to `count`."""

    __slots__ = ("_counted", "count", "rates")

    def __init__(self) -> None:
        self.count = 0
        self.rates = NO_RATES
        self._counted = 0

    def tick(self, elapsed_seconds: float) -> None:
        """Take the events since the last tick into the rates. For one thread."""
        count = self.count
        events, self._counted = count - self._counted, count
        self.rates = decayed(self.rates, events, elapsed_seconds)


ROLL_MS: Final = 30_000
"""The interval at which an owner rolls its meters: the default of Kafka's metrics.sample.window.ms."""
MARKS: Final = 2
"""The marks that a window has: the default of Kafka's metrics.num.samples."""


class _Mark(NamedTuple):
    """The state of a meter at a moment, in monotonic milliseconds."""

    time_ms: int
    values: int
    total: float


def span_ms(began_ms: int, now_ms: int) -> int:
    """Return the time that a rate since `began_ms` is computed over.

    The span has at least all complete samples of a window, as in Kafka: a rate would be enormous at first.
    """
    elapsed_ms = now_ms - began_ms
    missing = MARKS - 1 - elapsed_ms // ROLL_MS
    return max(elapsed_ms + max(missing, 0) * ROLL_MS, 1)


class Recent(NamedTuple):
    """The number and the sum of the window's values."""

    values: int
    total: float


class RolledMeter:
    """The values of one kind. `count` and `total` are those since the start."""

    __slots__ = ("_largest_before", "_marks", "count", "largest", "total")

    def __init__(self, now_ms: int) -> None:
        self.count = 0
        self.total: float = 0
        self.largest = -math.inf
        """The largest value since the last roll."""
        self._largest_before = -math.inf
        self._marks: tuple[_Mark, ...] = (_Mark(now_ms, 0, 0),)

    def record(self, value: float) -> None:
        """Take note of a value."""
        self.count += 1
        self.total += value
        self.largest = max(self.largest, value)

    def roll(self, now_ms: int) -> None:
        """Begin the next part of the window. Called by the owner."""
        self._marks = (*self._marks, _Mark(now_ms, self.count, self.total))[-MARKS:]
        self._largest_before, self.largest = self.largest, -math.inf

    # -- reading

    def count_rate(self, now_ms: int) -> float:
        """Return the values a second."""
        mark = self._marks[0]
        return (self.count - mark.values) * 1_000 / span_ms(mark.time_ms, now_ms)

    def rate(self, now_ms: int) -> float:
        """Return the units a second."""
        mark = self._marks[0]
        return (self.total - mark.total) * 1_000 / span_ms(mark.time_ms, now_ms)

    def recent(self) -> Recent:
        """Return the number and the sum of the window's values."""
        mark = self._marks[0]
        return Recent(self.count - mark.values, self.total - mark.total)

    def average(self) -> float:
        """Return the mean of the window's values, or not a number without a value."""
        recent = self.recent()
        return recent.total / recent.values if recent.values else math.nan

    def maximum(self) -> float:
        """Return the largest value of the window, or not a number without a value."""
        largest = max(self.largest, self._largest_before)
        return largest if largest > -math.inf else math.nan
