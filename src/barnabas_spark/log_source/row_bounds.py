"""Which rows a query's filters leave, as far as partitions, offsets and timestamps decide it.

Made by `pushed_filters` on the driver, used by the planner. Immutable; no lock.
"""

from __future__ import annotations

from typing import NamedTuple

from barnabas.protocol.topic_partition import TopicPartition

MAX_OFFSET = (1 << 63) - 2


class RowBounds(NamedTuple):
    """Bounds outside of which there is no row that the query wants. Rows inside may be unwanted, too."""

    topics: frozenset[str] | None = None
    """None: all."""
    partitions: frozenset[int] | None = None
    first_offset: int = 0
    last_offset: int = MAX_OFFSET
    first_timestamp_ms: int | None = None

    def may_hold_partition(self, key: TopicPartition) -> bool:
        """Return whether the partition may hold a row that is wanted."""
        return (self.topics is None or key.topic in self.topics) and (
            self.partitions is None or key.partition in self.partitions
        )


ALL_ROWS = RowBounds()
