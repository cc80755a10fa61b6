"""Latencies in constant memory: a histogram that is exact to 0.1 %, and the figures made from it.

Filled by one thread at a time; `PerfCounts` guards it with its lock. Kafka: ProducerPerformance.Stats (percentiles of a
sample of at most 500,000 records), EndToEndLatency.

Buckets are those of HdrHistogram. Up to 2,047 us each microsecond has a bucket of its own. Beyond, each doubling has
1,024 buckets: the latency 5,000 us has 13 bits, so its lowest 2 are dropped, and its bucket holds 5,000 to 5,003 us.
"""

from __future__ import annotations

from typing import NamedTuple

_EXACT_BITS = 11
_HALF = 1 << (_EXACT_BITS - 1)
_LONGEST_US = (1 << 40) - 1
"""Twelve days."""


class LatencyFigures(NamedTuple):
    """The figures of a set of latencies, in milliseconds: 0 without any."""

    average_ms: float
    p50_ms: float
    p95_ms: float
    p99_ms: float
    p999_ms: float
    max_ms: float


class LatencyHistogram:
    """The number of latencies of each length."""

    __slots__ = ("_counts", "_sum_us", "count", "max_us")

    def __init__(self) -> None:
        self._counts = [0] * _bucket_after(_LONGEST_US)
        self._sum_us = 0
        self.count = 0
        self.max_us = 0

    def record(self, latency_us: int) -> None:
        """Count one latency. A negative one, which only a clock that went back can give, counts as 0."""
        latency_us = min(max(latency_us, 0), _LONGEST_US)
        self._counts[_bucket(latency_us)] += 1
        self._sum_us += latency_us
        self.count += 1
        self.max_us = max(self.max_us, latency_us)

    def percentile_us(self, percent: float) -> int:
        """Return the latency that `percent` of all do not exceed: the longest of its bucket, at most the longest."""
        wanted = self.count * percent / 100
        seen = 0
        for bucket, count in enumerate(self._counts):
            seen += count
            if count and seen >= wanted:
                return min(_longest_us(bucket), self.max_us)
        return self.max_us

    def figures(self) -> LatencyFigures:
        """Return the figures of all latencies."""
        average_us = self._sum_us / self.count if self.count else 0.0
        p50_ms, p95_ms, p99_ms, p999_ms = (self.percentile_us(percent) / 1000 for percent in (50, 95, 99, 99.9))
        return LatencyFigures(average_us / 1000, p50_ms, p95_ms, p99_ms, p999_ms, self.max_us / 1000)


def _bucket(latency_us: int) -> int:
    dropped_bits = max(latency_us.bit_length() - _EXACT_BITS, 0)
    return _HALF * dropped_bits + (latency_us >> dropped_bits)


def _bucket_after(latency_us: int) -> int:
    return _bucket(latency_us) + 1


def _longest_us(bucket: int) -> int:
    """Return the longest latency of a bucket."""
    dropped_bits = max(bucket // _HALF - 1, 0)
    return ((bucket - _HALF * dropped_bits + 1) << dropped_bits) - 1
