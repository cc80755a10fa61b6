"""The ranges that filters leave: smaller, and never without a row that the filters want."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
)

from barnabas.protocol.topic_partition import TopicPartition
from barnabas_spark.reading.batch_reader import within_bounds
from barnabas_spark.reading.offset_ranges import OffsetRange
from barnabas_spark.reading.row_bounds import bounds_of
from barnabas_spark.topic_offsets import Offsets

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)

COMPARISONS: dict[type[Filter], Callable[[Any, Any], bool]] = {
    EqualTo: lambda field, value: field == value,
    EqualNullSafe: lambda field, value: field == value,
    GreaterThan: lambda field, value: field > value,
    GreaterThanOrEqual: lambda field, value: field >= value,
    LessThan: lambda field, value: field < value,
    LessThanOrEqual: lambda field, value: field <= value,
    In: lambda field, value: field in value,
}


class Row(NamedTuple):
    """The columns of a record that filters can choose by."""

    topic: str
    partition: int
    offset: int
    timestamp: dt.datetime


class FilledBroker:
    """Finds records by time, as a broker does, in the order of the log."""

    def __init__(self, rows: list[Row]) -> None:
        self._rows = rows

    def at_timestamps(self, timestamps_ms: Mapping[TopicPartition, int]) -> Offsets:
        assert min(timestamps_ms.values()) >= 0, "such a time has a meaning of its own"
        return {
            key: min(
                (row.offset for row in self._rows if row[:2] == key and row.timestamp >= at(timestamp_ms)), default=-1
            )
            for key, timestamp_ms in timestamps_ms.items()
        }


def at(timestamp_ms: float) -> dt.datetime:
    return EPOCH + dt.timedelta(milliseconds=timestamp_ms)


def matches(each: Filter, row: Row) -> bool:
    if isinstance(each, Not):
        return not matches(each.child, row)
    if isinstance(each, IsNotNull):
        return True
    field = getattr(row, each.attribute[0])
    return COMPARISONS[type(each)](field, each.value)


def filters_of(name: str, values: st.SearchStrategy[Any]) -> st.SearchStrategy[Filter]:
    column = (name,)
    compared = st.sampled_from([kind for kind in COMPARISONS if kind is not In])
    simple = st.builds(lambda kind, value: kind(column, value), compared, values)
    listed = st.builds(lambda some: In(column, tuple(some)), st.lists(st.none() | values, min_size=1, max_size=3))
    plain = simple | listed | st.just(IsNotNull(column))
    return plain | plain.map(Not)


# Times from before 1970 on, of records without one (-1), and between two milliseconds.
milliseconds = st.integers(-1, 40)
times = st.sampled_from([-500.0, -1.0, 0.0, 0.5, 7.999, 20.0, 39.0, 40.0, 90.0]).map(at)
filters = st.lists(
    filters_of("topic", st.sampled_from(["a", "b", "c"]))
    | filters_of("partition", st.integers(-1, 3))
    | filters_of("offset", st.integers(-3, 30) | st.sampled_from([-(1 << 63), (1 << 63) - 1]))
    | filters_of("timestamp", times),
    max_size=4,
)
logs = st.dictionaries(
    st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 2)), st.lists(milliseconds, max_size=12), max_size=4
)


@settings(max_examples=200, deadline=None)
@given(filters, logs, st.integers(0, 6), st.integers(0, 30))
def test_no_row_that_is_wanted_is_left_out(
    chosen: list[Filter], stamps: dict[tuple[str, int], list[int]], first: int, last: int
) -> None:
    """Every second offset holds a record, as after a compaction; the query begins and ends somewhere among them."""
    rows = [
        Row(topic, partition, 2 * index, at(stamp))
        for (topic, partition), log in stamps.items()
        for index, stamp in enumerate(log)
    ]
    ranges = [
        OffsetRange(topic, partition, first, min(2 * len(log), last))
        for (topic, partition), log in sorted(stamps.items())
        if first < min(2 * len(log), last)
    ]
    left = within_bounds(ranges, bounds_of(chosen), FilledBroker(rows).at_timestamps)

    def inside(row: Row, some: list[OffsetRange]) -> bool:
        return any((row.topic, row.partition) == each[:2] and each[2] <= row.offset < each[3] for each in map(of, some))

    for row in rows:
        if inside(row, ranges) and all(matches(each, row) for each in chosen):
            assert inside(row, left), row
        assert inside(row, ranges) or not inside(row, left)
    assert all(each.start < each.end for each in left)


def of(each: OffsetRange) -> tuple[str, int, int, int]:
    return each.topic, each.partition, each.start, each.end


def test_ranges_shrink() -> None:
    rows = [Row("a", partition, offset, at(10 * offset)) for partition in range(3) for offset in range(20)]
    ranges = [OffsetRange("a", partition, 0, 20) for partition in range(3)]

    def left(*chosen: Filter) -> list[tuple[int, int, int]]:
        return [of(each)[1:] for each in within_bounds(ranges, bounds_of(chosen), FilledBroker(rows).at_timestamps)]

    partition, offset, timestamp = ("partition",), ("offset",), ("timestamp",)
    assert left(EqualTo(partition, 1)) == [(1, 0, 20)]
    assert left(GreaterThan(partition, 0), LessThan(partition, 2)) == [(1, 0, 20)]
    assert left(In(partition, (0, 2, None)), In(partition, (1, 2))) == [(2, 0, 20)]
    assert left(EqualTo(partition, 0), GreaterThan(offset, 3), LessThanOrEqual(offset, 7)) == [(0, 4, 8)]
    assert left(EqualTo(partition, 0), In(offset, (5, 9, None))) == [(0, 5, 10)]
    assert left(EqualTo(partition, 2), GreaterThan(timestamp, at(95))) == [(2, 10, 20)]
    assert left(GreaterThanOrEqual(timestamp, at(1000))) == []
    assert left(EqualTo(("topic",), "b")) == []
    assert len(left(LessThan(timestamp, at(5)))) == 3
