"""The transactional ids that this broker coordinates.

Used by the services of this package on every thread. `CoordinatedTable` says what its lock guards.
Kafka: TransactionStateManager.transactionMetadataCache.
"""

from __future__ import annotations

from barnabas.coordinator.runtime.coordinated_table import CoordinatedTable
from barnabas.coordinator.transaction.entry import TransactionEntry
from barnabas.coordinator.transaction.metadata import TransactionMetadata
from barnabas.protocol.errors import ApiError, ErrorCode


class TransactionTable(CoordinatedTable[TransactionEntry]):
    """The entries, by transactional id and by partition of `__transaction_state`."""

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
