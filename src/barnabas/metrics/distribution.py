"""The published values of a histogram: count, sum, extremes, mean, and the percentiles of recent values.

Computed on the thread that asks, from bucket counts (`buckets`). `RecentWeights` has no lock: its owner ticks and reads
it under its own. Kafka: Histogram and ExponentiallyDecayingSample of com.yammer.metrics: percentiles favour the last
five minutes, everything else is since the start.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from barnabas.metrics.buckets import BUCKETS, DURATION_UNIT_MS, HIGHEST, LOWEST, MIDDLE

PERCENTILES: Final = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)
DECAY_PER_SECOND: Final = 0.015
"""Kafka's decay: a value five minutes old weighs a hundredth of a new one."""
_NOTHING: Final = (0,) * BUCKETS


@dataclass(frozen=True, slots=True)
class Distribution:
    """Values in the unit of the metric: milliseconds, bytes. All but `count` are at most 1/16 off (`buckets`)."""

    count: int = 0
    total: float = 0.0
    minimum: float = 0.0
    maximum: float = 0.0
    percentiles: tuple[float, ...] = (0.0,) * len(PERCENTILES)
    """The values of PERCENTILES, in their order."""

    @property
    def mean(self) -> float:
        """The mean of all values; 0 if there are none."""
        return self.total / self.count if self.count else 0.0


class RecentWeights:
    """The weight of each bucket now, where older values weigh less."""

    __slots__ = ("_counted", "_elapsed_seconds", "_weights")

    def __init__(self) -> None:
        self._counted: Sequence[int] = _NOTHING
        self._weights: Sequence[float] = _NOTHING
        self._elapsed_seconds = 0.0

    def tick(self, counts: Sequence[int], elapsed_seconds: float) -> None:
        """Add the counts since the last tick. Without new values nothing changes, because only shares matter."""
        self._elapsed_seconds += elapsed_seconds
        if counts == self._counted:
            return
        # Ticks without new values returned above; this decay covers their time too.
        kept = math.exp(-DECAY_PER_SECOND * self._elapsed_seconds)
        self._weights = [
            weight * kept + now - before
            for weight, now, before in zip(self._weights, counts, self._counted, strict=True)
        ]
        self._counted = counts
        self._elapsed_seconds = 0.0

    def now(self, counts: Sequence[int]) -> Sequence[float]:
        """Return the weights, including the counts since the last tick."""
        if counts == self._counted:
            return self._weights
        return [weight + now - before for weight, now, before in zip(self._weights, counts, self._counted, strict=True)]


def distribution(counts: Sequence[int], weights: Sequence[float], unit: float) -> Distribution:
    """Compute the distribution of all bucket counts, weighted as of now. unit: what 1 in the buckets stands for."""
    count = sum(counts)
    if not count:
        return Distribution()
    filled = [bucket for bucket, number in enumerate(counts) if number]
    middle = _bucket_middles(unit)
    return Distribution(
        count,
        sum(counts[bucket] * middle[bucket] for bucket in filled),
        LOWEST[filled[0]] * unit,
        HIGHEST[filled[-1]] * unit,
        tuple(_percentiles(weights, middle)),
    )


def _bucket_middles(unit: float) -> Sequence[float]:
    return _DURATIONS if unit == DURATION_UNIT_MS else tuple(middle * unit for middle in MIDDLE)


# A duration below one unit shows as 0: so do the stages that a request run at once does not have.
_DURATIONS: Final = (0.0, *((middle + 0.5) * DURATION_UNIT_MS for middle in MIDDLE[1:]))


def _percentiles(weights: Sequence[float], middle: Sequence[float]) -> list[float]:
    up_to = list(accumulate(weights))
    found, bucket = [], 0
    for share in PERCENTILES:
        wanted = up_to[-1] * share * (1 - 1e-12)  # sums of floats: the whole must be reached
        while up_to[bucket] < wanted or not weights[bucket]:
            bucket += 1
        found.append(middle[bucket])
    return found
