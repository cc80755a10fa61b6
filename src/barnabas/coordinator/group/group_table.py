"""The groups that this broker coordinates, by their ids, and by the open transactions that commit offsets in them.

GroupTable is used by the services of this package on every thread. `CoordinatedTable` says what its lock guards; a
look-up takes no lock. The caller that reads or changes a group takes the group's own lock, by `locked` or
`locked_or_new`. Both look the group up again if it was removed while they waited for the lock: a removed group is never
used. OpenTransactions has a `_lock` of its own, which comes after a group's.
Kafka: GroupMetadataManager (groupMetadataCache, openGroupsForProducer, handleTxnCompletion).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import NamedTuple

from barnabas.coordinator.group.committed_offsets import CommittedOffsets
from barnabas.coordinator.group.group import Group, Membership
from barnabas.coordinator.runtime.coordinated_table import CoordinatedTable
from barnabas.coordinator.runtime.partitions import CoordinatorPartitions
from barnabas.protocol.errors import ApiError, ErrorCode


class GroupTable(CoordinatedTable[Group]):
    """The groups of this broker, by id and by partition of `__consumer_offsets`.

    partitions: tell whether this broker may create a group. new_membership: makes the membership of a new group.
    """

    def __init__(self, partitions: CoordinatorPartitions, new_membership: Callable[[str], Membership]) -> None:
        super().__init__(partitions)
        self._new_membership = new_membership

    def get(self, group_id: str) -> Group | None:
        """Return the group that is in the table now, for reads without its lock."""
        return self._entries.get(group_id)

    def __len__(self) -> int:
        """Return the number of groups."""
        return len(self._entries)

    def locked(self, group_id: str) -> LockedGroup:
        """Return a context manager that holds the group's lock, and gives None if there is no such group."""
        return LockedGroup(self, group_id)

    def locked_or_new(self, group_id: str) -> LockedNewGroup:
        """Return a context manager that holds the group's lock; it makes a group if there is none.

        Entering it raises ApiError: NOT_COORDINATOR, or another error of a group that this broker does not serve.
        """
        return LockedNewGroup(self, group_id)

    def get_or_add(self, group_id: str) -> Group:
        """Return the group, perhaps a new one.

        Raises ApiError: NOT_COORDINATOR, or another error of `CoordinatorPartitions.check`, when this broker does not
        serve the group.
        """
        group = self._entries.get(group_id)
        if group is not None:
            return group
        # Made before the lock is taken, to hold the lock for single steps only. It is dropped if another thread was
        # faster.
        made = Group(
            group_id, self._partitions.partition_for(group_id), self._new_membership(group_id), CommittedOffsets()
        )
        with self._lock:
            # `take_all` holds this lock, too: no group is left in the table when its partition has been given up.
            error = self._partitions.check(group_id)
            if error is not ErrorCode.NONE:
                raise ApiError(error)
            group = self._entries.get(group_id)
            if group is None:
                group = made
                self._insert(group)
            return group

    def new_group(
        self, group_id: str, partition: int, offsets: CommittedOffsets, membership: Membership | None
    ) -> Group:
        """Return a group for `add_loaded`. membership None: the group never had a member."""
        return Group(group_id, partition, membership or self._new_membership(group_id), offsets)


class LockedGroup:
    """A context manager: a group of the table under its lock, or None."""

    __slots__ = ("_group", "_group_id", "_table")

    def __init__(self, table: GroupTable, group_id: str) -> None:
        self._table = table
        self._group_id = group_id
        self._group: Group | None = None

    def __enter__(self) -> Group | None:
        # The group may be removed between the look-up and the lock. A removed group is out of the table, so the next
        # look-up finds its successor or nothing: the loop ends.
        while (group := self._table.get(self._group_id)) is not None:
            group.lock.acquire()
            if not group.is_removed:
                self._group = group
                return group
            group.lock.release()
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._group is not None:
            self._group.lock.release()


class LockedNewGroup:
    """A context manager: a group of the table under its lock, made if there is none."""

    __slots__ = ("_group", "_group_id", "_table")

    def __init__(self, table: GroupTable, group_id: str) -> None:
        self._table = table
        self._group_id = group_id

    def __enter__(self) -> Group:
        # A group that was removed before its lock was taken is looked up or made again, as in `LockedGroup`.
        while True:
            group = self._table.get_or_add(self._group_id)
            group.lock.acquire()
            if not group.is_removed:
                self._group = group
                return group
            group.lock.release()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._group.lock.release()


class EndedGroupTransaction(NamedTuple):
    """The end of a producer's transaction. position: of its marker in the partition of `__consumer_offsets`."""

    producer_id: int
    is_committed: bool
    position: int


class OpenTransactions:
    """The open transactions of each partition of `__consumer_offsets`: where a marker finds its groups.

    Called by the service of transactional commits on handler threads, and by `PartitionLoader` on its own. `_lock` is
    held for single steps only; a marker is applied to a group under the group's lock alone. table: the groups of this
    broker.

    A marker that comes while its partition is loaded is kept until the groups are there: the loader may have read the
    log up to a point before the marker. It may have read the marker as well; then the transaction is gone, and applying
    the marker again changes nothing, because it ends only commits that lie before it in the log.
    """

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
        """Note that a group has no offset left of the producer's transaction. Under the group's lock."""
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
                is_over = True
                # None: its partition is coordinated elsewhere now, or it was deleted, and its offsets with it.
                if group is not None:
                    offsets = group.offsets
                    offsets.end_transaction(ended.producer_id, is_committed=ended.is_committed, before=ended.position)
                    is_over = not offsets.has_transaction(ended.producer_id)
                if is_over:
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
        """Forget a partition that this broker no longer coordinates."""
        with self._lock:
            self._groups.pop(partition, None)
            self._late.pop(partition, None)
