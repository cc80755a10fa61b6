"""The time that partitions took to load, for the coordinators' metrics. Immutable."""

from __future__ import annotations

from typing import NamedTuple


class LoadTimes(NamedTuple):
    """The time that one partition took to load (Kafka: partition-load-time). ended_ns: monotonic time."""

    partition: int
    milliseconds: int
    record_count: int
    ended_ns: int
