"""The groups that this broker coordinates, by their ids.

Used by the services of this package on every thread. `CoordinatedTable` says what its lock guards; a look-up takes no
lock. The caller that reads or changes a group takes the group's own lock, by `locked` or `locked_or_new`. Both look the
group up again if it was removed while they waited for the lock: a removed group is never used.

Kafka: GroupMetadataManager.groupMetadataCache.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType

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
