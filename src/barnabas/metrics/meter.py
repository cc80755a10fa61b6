"""Counters of events, with their rates a second, averaged over the last one, five and fifteen minutes.

The count is a plain attribute: its owner adds to it (one thread, or several under a lock of theirs), any thread reads
it. Rates are computed by `tick`, which `MetricsRegistry` calls every few seconds on the scheduler's thread, so that an
event costs one addition. Kafka: Meter and EWMA of com.yammer.metrics.
"""

from __future__ import annotations

import math
from typing import NamedTuple

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
