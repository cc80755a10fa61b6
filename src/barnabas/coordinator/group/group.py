"""A group as the coordinator holds it: its lock, its committed offsets, and its membership, of either protocol.

Made by `GroupTable`; used by the services of this package on handler, processor and executor threads. `lock` (rank
GROUP, the outermost) guards everything in it. A group that was removed from the table has `is_removed` set under its
lock: a thread that waited for the lock meanwhile looks the group up again (`GroupTable.locked`). When a group changes
its protocol (KIP-848) only `membership` is replaced: offsets and lock stay.
Kafka: GroupMetadata (lock and offsets), org.apache.kafka.coordinator.group.Group.
"""

from __future__ import annotations

from enum import Enum
from typing import Protocol

from barnabas.coordinator.group.committed_offsets import CommittedOffsets
from barnabas.coordinator.runtime.record import CoordinatorRecord
from barnabas.protocol.errors import ErrorCode
from barnabas.runtime.lock_order import LockRank, ranked_lock


class GroupType(Enum):
    """The protocol of a group, in the words of ListGroups (KIP-848)."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


class Membership(Protocol):
    """The members of a group, and the state of the group.

    Implemented by `ClassicGroup` and `ConsumerGroup`, both pure; called under the group's lock by the offset service,
    the administration of groups and the expiry of offsets.
    """

    @property
    def group_type(self) -> GroupType:
        """The protocol of the group."""

    @property
    def state_name(self) -> str:
        """The state in Kafka's words ("Stable", "Empty", "Dead", ...)."""

    @property
    def protocol_type(self) -> str:
        """The protocol type of the members: "consumer", "connect", or "" before the first member."""

    @property
    def has_members(self) -> bool:
        """Whether the group has members, or is in a rebalance."""

    @property
    def member_count(self) -> int:
        """The number of members; also read without the group's lock."""

    @property
    def empty_since_ms(self) -> int | None:
        """The wall clock time since which offsets may expire (Kafka: currentStateTimestamp, of an empty group).

        None if the group has members, or if the time is not known: then each offset's own commit time counts.
        """

    @property
    def keeps_all_offsets(self) -> bool:
        """Whether no offset may expire now: there are members, and the topics that they read are not known."""

    def check_offset_commit(
        self, member_id: str, group_instance_id: str | None, generation: int, *, is_transactional: bool
    ) -> ErrorCode:
        """Return NONE if the client may commit, or an error.

        generation: of the classic protocol, or the member epoch of KIP-848; -1 of a client without membership.
        """

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        """Return NONE if a client that names this member may read offsets. member_id None: the client names none."""

    def is_subscribed_to(self, topic: str) -> bool:
        """Return whether a member reads the topic: then its offsets neither expire nor can they be deleted.

        True of every topic if the group is a classic one whose members' subscriptions cannot be read.
        """

    def deletion_error(self) -> ErrorCode:
        """Return why the group cannot be deleted (NON_EMPTY_GROUP), or NONE."""

    def tombstones(self) -> list[CoordinatorRecord]:
        """Return the records that remove this membership from `__consumer_offsets`."""


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
