"""Which rows a query's filters leave, as far as topics, partitions, offsets and timestamps decide it.

Made by `pushed_filters` on the driver, used by the planners of both sources. Immutable; no lock.
"""

from __future__ import annotations

from typing import NamedTuple

from barnabas.protocol.topic_partition import TopicPartition

MAX_OFFSET = (1 << 63) - 2


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
