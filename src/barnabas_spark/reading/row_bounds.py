"""Which rows a query's filters leave, as far as topics, partitions, offsets and timestamps decide it.

Made by the readers of both sources on the driver, once for a plan, from the filters that Spark pushes down; used by
their planners. Immutable; no lock.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Hashable, Iterable
from typing import NamedTuple, TypeVar

from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, GreaterThanOrEqual, In, LessThan, LessThanOrEqual

from barnabas.protocol.topic_partition import TopicPartition

MAX_OFFSET = (1 << 63) - 2
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MILLISECOND = dt.timedelta(milliseconds=1)

_Value = TypeVar("_Value", bound=Hashable)


class Between(NamedTuple):
    """Whole numbers from `first` to `last`, both included; none if `last` is smaller."""

    first: int = 0
    last: int = MAX_OFFSET

    def narrowed(self, first: int | None = None, last: int | None = None) -> Between:
        """Return the numbers that also lie between these two. None: no bound."""
        return Between(
            self.first if first is None else max(self.first, first), self.last if last is None else min(self.last, last)
        )


class RowBounds(NamedTuple):
    """Bounds of the rows that the query wants. The query wants no row outside; it may not want every row inside."""

    topics: frozenset[str] | None = None
    """None: all."""
    chosen_partitions: frozenset[int] | None = None
    """None: all."""
    partitions: Between = Between()
    offsets: Between = Between()
    first_timestamp_ms: int | None = None

    def may_hold_partition(self, key: TopicPartition) -> bool:
        """Return whether the partition may hold a row that is wanted."""
        return (
            (self.topics is None or key.topic in self.topics)
            and (self.chosen_partitions is None or key.partition in self.chosen_partitions)
            and self.partitions.first <= key.partition <= self.partitions.last
        )


ALL_ROWS = RowBounds()


def bounds_of(filters: Iterable[Filter]) -> RowBounds:
    """Return the bounds that all filters together set. A filter that says nothing about a bound is passed over."""
    bounds = RowBounds()
    for each in filters:
        column = getattr(each, "attribute", ())
        if column == ("topic",):
            bounds = bounds._replace(topics=_among(bounds.topics, each))
        elif column == ("partition",):
            bounds = bounds._replace(
                chosen_partitions=_among(bounds.chosen_partitions, each),
                partitions=_between(bounds.partitions, each),
            )
        elif column == ("offset",):
            bounds = bounds._replace(offsets=_between(bounds.offsets, each))
        elif column == ("timestamp",):
            bounds = bounds._replace(first_timestamp_ms=_first_timestamp_ms(bounds.first_timestamp_ms, each))
    return bounds


def _among(chosen: frozenset[_Value] | None, each: Filter) -> frozenset[_Value] | None:
    """Return which of the chosen values the filter leaves. None: all values."""
    if isinstance(each, EqualTo):
        named = frozenset((each.value,))
    elif isinstance(each, In):
        named = frozenset(each.value)
    else:
        return chosen
    return named if chosen is None else chosen & named


def _between(numbers: Between, each: Filter) -> Between:
    """Return which of the numbers the filter leaves, or more."""
    if isinstance(each, In):
        # NULL in a list matches no row.
        named = [value for value in each.value if value is not None]
        return numbers.narrowed(min(named), max(named)) if named else numbers
    if isinstance(each, EqualTo):
        return numbers.narrowed(each.value, each.value)
    if isinstance(each, GreaterThan | GreaterThanOrEqual):
        return numbers.narrowed(first=each.value + isinstance(each, GreaterThan))
    if isinstance(each, LessThan | LessThanOrEqual):
        return numbers.narrowed(last=each.value - isinstance(each, LessThan))
    return numbers


def _first_timestamp_ms(first_ms: int | None, each: Filter) -> int | None:
    # No upper bound: producers set timestamps, so an old one may follow a new one anywhere in the log.
    if not isinstance(each, EqualTo | GreaterThan | GreaterThanOrEqual):
        return first_ms
    if not isinstance(each.value, dt.datetime) or each.value.tzinfo is None:
        return first_ms
    # Rounded down, because a record's time has milliseconds.
    milliseconds = (each.value - _EPOCH) // _MILLISECOND
    return milliseconds if first_ms is None else max(first_ms, milliseconds)
