"""The groups with offsets of open transactions: where a marker in `__consumer_offsets` finds them.

Called by the service of transactional commits on handler threads, and by `PartitionLoader` on its own. `_lock` guards
the tables. It comes after a group's lock, and is held for single steps only; a marker is applied to a group under the
group's lock alone.

A marker that comes while its partition is loaded is kept until the groups are there: the loader may have read the log
up to a point before the marker. It may have read the marker as well; then the transaction is gone, and applying the
marker again changes nothing, because it ends only commits that lie before it in the log.

Kafka: GroupMetadataManager (openGroupsForProducer, handleTxnCompletion).
"""

from __future__ import annotations

import threading
from typing import NamedTuple

from barnabas.coordinator.group.table import GroupTable


class EndedGroupTransaction(NamedTuple):
    """The end of a producer's transaction. position: of its marker in the partition of `__consumer_offsets`."""

    producer_id: int
    is_committed: bool
    position: int


class OpenTransactions:
    """The open transactions of each partition of `__consumer_offsets`. table: the groups of this broker."""

    def __init__(self, table: GroupTable) -> None:
        self._table = table
        self._lock = threading.Lock()
        self._groups: dict[int, dict[int, set[str]]] = {}
        """Group ids by partition and producer id."""
        self._late: dict[int, list[EndedGroupTransaction]] = {}
        """The markers that came since a loading began, by partition."""

    # -- groups

    def begin(self, partition: int, producer_id: int, group_id: str) -> None:
        """Note that a group is about to get offsets of the producer's transaction. Under the group's lock."""
        with self._lock:
            self._groups.setdefault(partition, {}).setdefault(producer_id, set()).add(group_id)

    def forget(self, partition: int, producer_id: int, group_id: str) -> None:
        """Note that a group has no offset of the producer's transaction any more. Under the group's lock."""
        with self._lock:
            producers = self._groups.get(partition, {})
            groups = producers.get(producer_id, set())
            groups.discard(group_id)
            if not groups:
                producers.pop(producer_id, None)

    def groups_of(self, partition: int, producer_id: int) -> set[str]:
        """Return the groups with offsets of the producer's open transaction."""
        with self._lock:
            return set(self._groups.get(partition, {}).get(producer_id, ()))

    # -- markers

    def end_transaction(self, partition: int, ended: EndedGroupTransaction) -> None:
        """Let the offsets of a transaction count, or drop them. The caller holds no lock."""
        with self._lock:
            late = self._late.get(partition)
            if late is not None:
                late.append(ended)
                return
        for group_id in self.groups_of(partition, ended.producer_id):
            with self._table.locked(group_id) as group:
                if group is None:
                    # Its partition is coordinated elsewhere now, or it was deleted, and its offsets with it.
                    self.forget(partition, ended.producer_id, group_id)
                    continue
                offsets = group.offsets
                offsets.end_transaction(ended.producer_id, is_committed=ended.is_committed, before=ended.position)
                if not offsets.has_transaction(ended.producer_id):
                    self.forget(partition, ended.producer_id, group_id)

    # -- loading

    def begin_loading(self, partition: int) -> None:
        """Keep the markers that come from now on. Before the end of the log is looked up that is loaded."""
        with self._lock:
            self._late[partition] = []

    def end_loading(self, partition: int) -> None:
        """Apply the markers that came meanwhile: the groups are in the table. The caller holds no lock."""
        with self._lock:
            late = self._late.pop(partition, [])
        for ended in late:
            self.end_transaction(partition, ended)

    def drop(self, partition: int) -> None:
        """Forget a partition that this broker does not coordinate any more."""
        with self._lock:
            self._groups.pop(partition, None)
            self._late.pop(partition, None)
