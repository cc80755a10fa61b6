"""A transactional id as the coordinator holds it: its lock, its metadata, and what is being stored; the table of ids.

Made by `TransactionTable`; used by the services of this package on handler, marker and scheduler threads. `lock` (rank
GROUP: the same place in the lock order, and never held together with a group's) guards everything in it. An entry that
was removed from the table has `is_removed` set under its lock. Kafka: TransactionMetadata (lock, pendingState),
TransactionStateManager.transactionMetadataCache.
"""

from __future__ import annotations

from typing import Protocol

from barnabas.coordinator.runtime.coordinated_table import CoordinatedTable
from barnabas.coordinator.transaction.decisions import Known
from barnabas.coordinator.transaction.transaction_metadata import TransactionMetadata, TransactionState
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.runtime.lock_order import LockRank, ranked_lock


class TransitionWaiter(Protocol):
    """A request that is refused because of the entry's state, and that may be made again after a transition."""

    @property
    def is_ended(self) -> bool:
        """Whether the request has stopped waiting, so that `again` would do nothing."""

    def again(self) -> None:
        """Say that there was a transition. Called on any thread, without locks."""


class TransactionEntry:
    """One transactional id. partition: of `__transaction_state`, which has its records.

    coordinator_epoch: the leader epoch of that partition since this broker coordinates the id.
    """

    __slots__ = (
        "coordinator_epoch",
        "has_failed_fence",
        "is_removed",
        "lock",
        "metadata",
        "partition",
        "pending",
        "transactional_id",
        "waiters",
    )

    def __init__(self, metadata: TransactionMetadata, partition: int, coordinator_epoch: int) -> None:
        self.transactional_id = metadata.transactional_id
        self.partition = partition
        self.coordinator_epoch = coordinator_epoch
        self.lock = ranked_lock(LockRank.GROUP)
        self.metadata = metadata
        self.pending: TransactionState | None = None
        """The state that is being stored; no other transition begins meanwhile."""
        self.has_failed_fence = False
        """Whether the epoch was raised to fence a producer, and the abort could not be stored."""
        self.is_removed = False
        self.waiters: list[TransitionWaiter] = []
        """The requests that wait for the next transition."""

    @property
    def coordinated_id(self) -> str:
        """The id, as `CoordinatedTable` asks for it."""
        return self.transactional_id

    @property
    def known(self) -> Known:
        """What decisions are made from. The caller holds the lock."""
        return Known(self.metadata, self.pending, self.has_failed_fence)

    def add_waiter(self, waiter: TransitionWaiter) -> None:
        """Keep a request until the next transition. The caller holds the lock."""
        # While no transition comes, producers give up and send new requests.
        self.waiters = [each for each in self.waiters if not each.is_ended]
        self.waiters.append(waiter)

    def wake_waiters(self) -> None:
        """Tell the waiting requests of a transition. The caller holds no lock."""
        if not self.waiters:
            return
        with self.lock:
            waiters, self.waiters = self.waiters, []
        for waiter in waiters:
            waiter.again()


class TransactionTable(CoordinatedTable[TransactionEntry]):
    """The ids that this broker coordinates: entries by transactional id and by partition of `__transaction_state`.

    Used on every thread. `CoordinatedTable` says what its lock guards.
    """

    def get(self, transactional_id: str) -> TransactionEntry | None:
        """Return the entry of an id; None for an unknown id.

        Raises ApiError: NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS or COORDINATOR_NOT_AVAILABLE.
        """
        error = self._partitions.check(transactional_id)
        if error is not ErrorCode.NONE:
            raise ApiError(error)
        return self._entries.get(transactional_id)

    def get_or_add(self, metadata: TransactionMetadata) -> TransactionEntry:
        """Return the entry of an id; make it of `metadata` for an unknown id. Raises ApiError as `get` does."""
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
