"""A count, a total and a largest value whose rates and averages cost nothing until metrics are read.

Owned by the thread that records (a NetworkClient's, a consumer's). Other threads may read, perhaps a moment late: what
they read of the past is one immutable tuple. No lock and no clock. Kafka: SampledStat, which does its work with each
value. Here a value costs three assignments, and the owner rolls the meter every `ROLL_MS`.

Two marks are kept, so a rate covers the last 30 to 60 s, as Kafka's do, and longer after a time without a roll.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

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
