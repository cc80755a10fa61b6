"""The transactional ids that this broker coordinates.

Used by the services of this package on every thread. `_lock` guards the maps and is held for single steps of them only;
it comes after an entry's lock in the lock order. Kafka: TransactionStateManager.transactionMetadataCache.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

from barnabas.coordinator.runtime.partitions import CoordinatorPartitions
from barnabas.coordinator.transaction.entry import TransactionEntry
from barnabas.coordinator.transaction.metadata import TransactionMetadata
from barnabas.protocol.errors import ApiError, ErrorCode


class TransactionTable:
    """The entries, by transactional id and by partition of `__transaction_state`."""

    def __init__(self, partitions: CoordinatorPartitions) -> None:
        self._partitions = partitions
        self._lock = threading.Lock()
        self._entries: dict[str, TransactionEntry] = {}
        self._by_partition: dict[int, dict[str, TransactionEntry]] = {}

    def get(self, transactional_id: str) -> TransactionEntry | None:
        """Return the entry of an id, or None if there is none.

        Raises ApiError: NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS or COORDINATOR_NOT_AVAILABLE.
        """
        error = self._partitions.check(transactional_id)
        if error is not ErrorCode.NONE:
            raise ApiError(error)
        return self._entries.get(transactional_id)

    def get_or_add(self, metadata: TransactionMetadata) -> TransactionEntry:
        """Return the entry of an id, made of `metadata` if there is none. Raises ApiError as `get` does."""
        transactional_id = metadata.transactional_id
        partition = self._partitions.partition_for(transactional_id)
        with self._lock:
            # `take_all` holds this lock, too: no entry is left in the table when its partition has been given up.
            error = self._partitions.check(transactional_id)
            status = self._partitions.status(partition)
            if error is not ErrorCode.NONE or status is None:
                raise ApiError(ErrorCode.NOT_COORDINATOR if error is ErrorCode.NONE else error)
            entry = self._entries.get(transactional_id)
            if entry is None:
                entry = TransactionEntry(metadata, partition, status.leader_epoch)
                self._insert(entry)
            return entry

    def add_loaded(self, entries: Iterable[TransactionEntry]) -> None:
        """Add entries that were loaded."""
        with self._lock:
            for entry in entries:
                self._insert(entry)

    def entries(self, partition: int | None = None) -> list[TransactionEntry]:
        """Return the present entries of one partition, or all."""
        with self._lock:
            found = self._entries if partition is None else self._by_partition.get(partition, {})
            return list(found.values())

    def remove(self, entry: TransactionEntry) -> None:
        """Remove an entry. The caller holds its lock."""
        entry.is_removed = True
        with self._lock:
            if self._entries.get(entry.transactional_id) is entry:
                del self._entries[entry.transactional_id]
                del self._by_partition[entry.partition][entry.transactional_id]

    def take_all(self, partition: int) -> list[TransactionEntry]:
        """Remove and return all entries of a partition; the caller marks each as removed, under its lock."""
        with self._lock:
            taken = self._by_partition.pop(partition, {})
            for transactional_id in taken:
                del self._entries[transactional_id]
            return list(taken.values())

    def _insert(self, entry: TransactionEntry) -> None:
        self._entries[entry.transactional_id] = entry
        self._by_partition.setdefault(entry.partition, {})[entry.transactional_id] = entry
