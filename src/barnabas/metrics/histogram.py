"""Histograms and timers: numbers counted by size in buckets, with their percentiles, as Kafka shows them.

`update` is for one thread, or for several under a lock of theirs; any thread reads, a moment late at worst. Ticked by
MetricsRegistry on the scheduler's thread; `_lock` keeps a tick and a reader apart. The network layer counts requests
in plain tables of its own (`network.requests.request_metrics`), which cost less than a call; buckets, RecentWeights and
`distribution` serve both.

The tables of buckets are made at import and immutable since (hot path: `INDEX[value]` while `value < INDEXED`, else
`bucket_of(value)`). Numbers are whole and not negative; durations are counted in units of 1,024 ns
(`nanoseconds >> DURATION_SHIFT`), since a shift is cheaper than a division.

Up to 15 each number has a bucket of its own; from there on every power of two is cut into eight. A bucket's middle is
therefore at most 1/16 (6.25 %) off what fell into it, at any size. Example: 100 lies in 96..103, the fifth eighth of
64..127; its middle is 99.5. Kafka's sample costs a lock, a random number and a tree per value. As with Kafka's,
percentiles favour the last five minutes, everything else is since the start.

Kafka: Histogram, DurationTimer, ExponentiallyDecayingSample of com.yammer.metrics.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from barnabas.metrics.meter import Meter

DURATION_SHIFT: Final = 10
DURATION_UNIT_MS: Final = (1 << DURATION_SHIFT) / 1e6
INDEXED: Final = 1 << 16
"""Numbers below this are looked up: durations of up to 67 ms, frames of up to 64 KiB."""
_MOST_BITS: Final = 33
_LARGEST: Final = (1 << _MOST_BITS) - 1  # 2.4 hours; 8 GiB. Larger numbers count as this one
_CUTS: Final = 8
_EXACT_BITS: Final = 4


def bucket_of(number: int) -> int:
    """Return the bucket of any number; below zero (a clock that went back) counts as zero."""
    if number < _CUTS:
        return max(number, 0)
    number = min(number, _LARGEST)
    extra_bits = number.bit_length() - _EXACT_BITS
    if extra_bits <= 0:
        return number
    return extra_bits * _CUTS + (number >> extra_bits)


BUCKETS: Final = bucket_of(_LARGEST) + 1


def _lowest_of(bucket: int) -> int:
    """Return the smallest number of a bucket."""
    if bucket < 2 * _CUTS:
        return bucket
    extra_bits = bucket // _CUTS - 1
    return (bucket - extra_bits * _CUTS) << extra_bits


LOWEST: Final = tuple(map(_lowest_of, range(BUCKETS)))
HIGHEST: Final = (*(lowest - 1 for lowest in LOWEST[1:]), _LARGEST)
_MIDDLE: Final = tuple((lowest + highest) / 2 for lowest, highest in zip(LOWEST, HIGHEST, strict=True))
# Bucket by bucket: asking `bucket_of` for each of 65,536 numbers would be a tenth of the CPU time of a broker's start.
INDEX: Final = b"".join(
    bytes((bucket,)) * (HIGHEST[bucket] - LOWEST[bucket] + 1) for bucket in range(bucket_of(INDEXED - 1) + 1)
)

PERCENTILES: Final = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)
DECAY_PER_SECOND: Final = 0.015
"""Kafka's decay: a value five minutes old weighs a hundredth of a new one."""
_NOTHING: Final = (0,) * BUCKETS


@dataclass(frozen=True, slots=True)
class Distribution:
    """Values in the unit of the metric: milliseconds, bytes. All but `count` are at most 1/16 off."""

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
    """The weight of each bucket now, where older values weigh less.

    No lock: the owner ticks and reads the weights under a lock of its own.
    """

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
    return _DURATIONS if unit == DURATION_UNIT_MS else tuple(middle * unit for middle in _MIDDLE)


# A duration below one unit shows as 0: so do the stages that a request run at once does not have.
_DURATIONS: Final = (0.0, *((middle + 0.5) * DURATION_UNIT_MS for middle in _MIDDLE[1:]))


def _percentiles(weights: Sequence[float], middle: Sequence[float]) -> list[float]:
    up_to = list(accumulate(weights))
    found, bucket = [], 0
    for share in PERCENTILES:
        wanted = up_to[-1] * share * (1 - 1e-12)  # sums of floats: the whole must be reached
        while up_to[bucket] < wanted or not weights[bucket]:
            bucket += 1
        found.append(middle[bucket])
    return found


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
        """Let older values weigh less from now on. Called by one thread."""
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
