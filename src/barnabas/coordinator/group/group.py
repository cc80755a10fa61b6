"""A group as the coordinator holds it: its lock, its committed offsets, and its membership.

Made by `GroupTable`; used by the services of this package on handler, processor and executor threads. `lock` (rank
GROUP, the outermost) guards everything in it. A group that was removed from the table has `is_removed` set under its
lock: a thread that waited for the lock meanwhile looks the group up again (`GroupTable.locked`). When a group changes
its protocol (KIP-848) only `membership` is replaced: offsets and lock stay. Kafka: GroupMetadata (lock and offsets).
"""

from __future__ import annotations

from barnabas.coordinator.group.committed_offsets import CommittedOffsets
from barnabas.coordinator.group.membership import Membership
from barnabas.runtime.lock_order import LockRank, ranked_lock


class Group:
    """One group. partition: of `__consumer_offsets`, which has the group's records."""

    __slots__ = ("group_id", "is_removed", "lock", "membership", "offsets", "partition")

    def __init__(self, group_id: str, partition: int, membership: Membership, offsets: CommittedOffsets) -> None:
        self.group_id = group_id
        self.partition = partition
        self.lock = ranked_lock(LockRank.GROUP)
        self.membership = membership
        self.offsets = offsets
        self.is_removed = False

    @property
    def coordinated_id(self) -> str:
        """The id, as `CoordinatedTable` asks for it."""
        return self.group_id
