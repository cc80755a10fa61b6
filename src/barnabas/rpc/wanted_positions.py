"""The positions that a follower wants to fetch from, and what has changed about them since its last request.

Owned by one fetcher thread, which puts and drops positions; its connection takes the changes. No lock. With it neither
of them looks at the partitions that stay as they are: in a session only changes are sent (KIP-227).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from barnabas.protocol.topic_partition import TopicPartition
from barnabas.rpc.fetch_request import FetchPosition


class PositionChanges(NamedTuple):
    """The positions that are new or other than before, and the partitions that are wanted no more."""

    changed: list[FetchPosition]
    gone: list[TopicPartition]


class WantedPositions:
    """A position for each partition. Iterating gives all of them."""

    __slots__ = ("_all", "_touched")

    def __init__(self) -> None:
        self._all: dict[TopicPartition, FetchPosition] = {}
        self._touched: dict[TopicPartition, FetchPosition | None] = {}
        """What the last request said of the partitions that were put or dropped since."""

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[FetchPosition]:
        return iter(self._all.values())

    def put(self, position: FetchPosition) -> None:
        """Want a partition from this position on."""
        partition = position.topic_partition
        self._touched.setdefault(partition, self._all.get(partition))
        self._all[partition] = position

    def drop(self, partition: TopicPartition) -> None:
        """Want a partition no more."""
        before = self._all.pop(partition, None)
        if before is not None:
            self._touched.setdefault(partition, before)

    def take_changes(self) -> PositionChanges:
        """Return what has changed since the last call."""
        touched, self._touched = self._touched, {}
        changed, gone = [], []
        for partition, before in touched.items():
            now = self._all.get(partition)
            if now is None:
                if before is not None:
                    gone.append(partition)
            elif now != before:
                changed.append(now)
        return PositionChanges(changed, gone)
