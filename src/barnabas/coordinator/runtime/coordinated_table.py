"""What a coordinator keeps for each id that it coordinates: a group, or the metadata of a transactional id.

The base of `GroupTable` and `TransactionTable`, whose services use it on every thread. `_lock` guards the maps and is
held for single steps of them only. It comes after the lock of an entry in the lock order: no code holds the table's
lock and asks for an entry's.
Kafka: GroupMetadataManager.groupMetadataCache, TransactionStateManager.transactionMetadataCache.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Generic, Protocol, TypeVar

from barnabas.coordinator.runtime.partitions import CoordinatorPartitions


class Coordinated(Protocol):
    """An entry. partition: of the coordinator's topic, which has the records of the id."""

    partition: int
    is_removed: bool
    """Whether the entry has left the table; set under the entry's lock."""

    @property
    def coordinated_id(self) -> str:
        """The id of the group, or the transactional id."""


E = TypeVar("E", bound=Coordinated)


class CoordinatedTable(Generic[E]):
    """The entries of this broker, by id and by partition of the coordinator's topic.

    partitions: tell whether this broker coordinates an id.
    """

    def __init__(self, partitions: CoordinatorPartitions) -> None:
        self._partitions = partitions
        self._lock = threading.Lock()
        self._entries: dict[str, E] = {}
        self._by_partition: dict[int, dict[str, E]] = {}

    def entries(self, partition: int | None = None) -> list[E]:
        """Return the present entries of one partition, or all."""
        with self._lock:
            return list(self._entries.values() if partition is None else self._by_partition.get(partition, {}).values())

    def add_loaded(self, entries: Iterable[E]) -> None:
        """Add entries that were loaded."""
        with self._lock:
            for entry in entries:
                self._insert(entry)

    def remove(self, entry: E) -> None:
        """Remove an entry. The caller holds its lock."""
        entry.is_removed = True
        with self._lock:
            # Another entry of the id may have been loaded meanwhile: that one stays.
            if self._entries.get(entry.coordinated_id) is entry:
                del self._entries[entry.coordinated_id]
                del self._by_partition[entry.partition][entry.coordinated_id]

    def take_all(self, partition: int) -> list[E]:
        """Remove and return all entries of a partition that this broker no longer coordinates.

        The caller marks each as removed, under its lock.
        """
        # The entries' own locks are not taken here: they come before the table's in the lock order.
        with self._lock:
            taken = self._by_partition.pop(partition, {})
            for coordinated_id in taken:
                del self._entries[coordinated_id]
            return list(taken.values())

    def _insert(self, entry: E) -> None:
        """Add or replace an entry. The caller holds `_lock`."""
        self._entries[entry.coordinated_id] = entry
        self._by_partition.setdefault(entry.partition, {})[entry.coordinated_id] = entry
