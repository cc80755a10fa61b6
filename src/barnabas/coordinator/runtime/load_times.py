"""The time that partitions took to load, for the coordinators' metrics. Pure; the values are immutable."""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

from barnabas.runtime.clock import NANOSECONDS_PER_MILLISECOND

_WINDOW_NS: Final = 30_000 * NANOSECONDS_PER_MILLISECOND
"""The time for which a loading counts after its end."""


class LoadTimes(NamedTuple):
    """The time that one partition took to load (Kafka: partition-load-time). ended_ns: monotonic time."""

    partition: int
    milliseconds: int
    record_count: int
    ended_ns: int


class RecentLoads(NamedTuple):
    """The loadings of the last half minute; 0 when there was none."""

    longest_ms: int
    mean_ms: float


def recent_loads(load_times: deque[LoadTimes], now_ns: int) -> RecentLoads:
    """Return what the partitions that were loaded lately took. The loading thread may append meanwhile."""
    since_ns = now_ns - _WINDOW_NS
    lately = [each.milliseconds for each in load_times.copy() if each.ended_ns >= since_ns]
    return RecentLoads(max(lately, default=0), sum(lately) / len(lately) if lately else 0)
