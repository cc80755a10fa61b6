"""Cuts the ranges of a batch query to what its filters leave: whole partitions, ends of ranges, and old records.

Called by the batch reader on the driver, after the ends of the ranges are known; no state, no lock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from barnabas.protocol.topic_partition import TopicPartition
from barnabas_spark.offset_ranges import OffsetRange
from barnabas_spark.row_bounds import RowBounds
from barnabas_spark.topic_offsets import Offsets


class TimestampLookup(Protocol):
    """The part of a broker that finds records by time."""

    def at_timestamps(self, timestamps_ms: Mapping[TopicPartition, int]) -> Offsets:
        """Return the first offset of each partition that is not older than its time; -1 when all are older."""


def within_bounds(ranges: Sequence[OffsetRange], bounds: RowBounds, broker: TimestampLookup) -> list[OffsetRange]:
    """Return the parts of the ranges that may hold rows inside the bounds, without empty ones.

    Raises what the look-up raises, if the bounds have a timestamp.
    """
    offsets = bounds.offsets
    cut = [
        replace(each, start=max(each.start, offsets.first), end=min(each.end, offsets.last + 1))
        for each in ranges
        if bounds.may_hold_partition(TopicPartition(each.topic, each.partition))
    ]
    left = [each for each in cut if each.start < each.end]
    timestamp_ms = bounds.first_timestamp_ms
    # Negative timestamps have meanings of their own in a look-up; and records without a time have -1.
    if timestamp_ms is None or timestamp_ms < 0 or not left:
        return left
    found = broker.at_timestamps({TopicPartition(each.topic, each.partition): timestamp_ms for each in left})
    # Records in front of the first one that is new enough are all too old. Those that came after the ends were asked
    # for do not matter: they lie behind them.
    starts = [(each, found[TopicPartition(each.topic, each.partition)]) for each in left]
    return [replace(each, start=max(each.start, start)) for each, start in starts if 0 <= start < each.end]
