"""Turns the filters that Spark pushes down into bounds on partitions, offsets and timestamps.

Called by the reader on the driver, once for a plan. Pure; no lock.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from typing import Any

from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, GreaterThanOrEqual, In, LessThan, LessThanOrEqual

from barnabas_spark.log_source.row_bounds import RowBounds


def bounds_of(filters: Iterable[Filter]) -> RowBounds:
    """Return the bounds that all filters together set. A filter that says nothing about a bound is passed over."""
    bounds = RowBounds()
    for each in filters:
        column = getattr(each, "attribute", ())
        if column == ("partition",):
            bounds = _with_numbers(bounds, each)
        elif column == ("topic",):
            bounds = _with_topics(bounds, each)
        elif column == ("offset",):
            bounds = _with_offsets(bounds, each)
        elif column == ("timestamp",):
            bounds = _with_timestamp(bounds, each)
    return bounds


def _with_numbers(bounds: RowBounds, each: Filter) -> RowBounds:
    chosen = _values(each)
    if chosen is None:
        return bounds
    numbers = frozenset(chosen)
    return bounds._replace(partitions=numbers if bounds.partitions is None else bounds.partitions & numbers)


def _with_topics(bounds: RowBounds, each: Filter) -> RowBounds:
    chosen = _values(each)
    if chosen is None:
        return bounds
    names = frozenset(chosen)
    return bounds._replace(topics=names if bounds.topics is None else bounds.topics & names)


def _values(each: Filter) -> list[Any] | None:
    if isinstance(each, EqualTo):
        return [each.value]
    return list(each.value) if isinstance(each, In) else None


def _with_offsets(bounds: RowBounds, each: Filter) -> RowBounds:
    if isinstance(each, EqualTo | GreaterThan | GreaterThanOrEqual):
        first = each.value + isinstance(each, GreaterThan)
        bounds = bounds._replace(first_offset=max(bounds.first_offset, first))
    if isinstance(each, EqualTo | LessThan | LessThanOrEqual):
        last = each.value - isinstance(each, LessThan)
        bounds = bounds._replace(last_offset=min(bounds.last_offset, last))
    return bounds


def _with_timestamp(bounds: RowBounds, each: Filter) -> RowBounds:
    # No upper bound: producers set timestamps, so an old one may follow a new one anywhere in the log.
    if not isinstance(each, EqualTo | GreaterThan | GreaterThanOrEqual) or not isinstance(each.value, dt.datetime):
        return bounds
    # Rounded down, because a record's time has milliseconds.
    milliseconds = int(each.value.timestamp() * 1000 // 1)
    return bounds._replace(first_timestamp_ms=max(bounds.first_timestamp_ms or 0, milliseconds))
