"""A consumer group whose assignment is made by the coordinator (KIP-848): members, epochs, target assignment.

Held by a `Group`, guarded by its lock. Pure, and changed by the replay of records alone (`consumer.replay`), at run
time as when loading: the logic of requests (`consumer.update`) only reads the group, and says which records to write.
The group's epoch grows when it needs a new assignment. The assignment's epoch follows when it is made, and the
members' epochs follow one by one. A partition's epoch is that of the member that owns it now.
Kafka: org.apache.kafka.coordinator.group.modern.consumer.ConsumerGroup, ModernGroup of 4.3.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from barnabas.coordinator.group.assignors.assignor import Assignment
from barnabas.coordinator.group.consumer.consumer_group_member import (
    ConsumerGroupMember,
    MemberDeadline,
    PartitionEpochs,
    ReconciliationState,
    TimerKind,
)
from barnabas.coordinator.group.consumer.consumer_group_records import (
    ConsumerGroupKind,
    GroupKey,
    MemberKey,
    RegularExpressionKey,
    tombstone,
)
from barnabas.coordinator.group.consumer.topics.group_topics import SubscribedTopics
from barnabas.coordinator.group.group import GroupType
from barnabas.coordinator.runtime.record import CoordinatorRecord
from barnabas.protocol.consumer_protocol import PROTOCOL_TYPE
from barnabas.protocol.errors import ApiError, ErrorCode

NO_EPOCH: Final = -1
FIRST_EPOCH: Final = 1
"""The epoch of a group before its first member, and of its empty assignment."""


class _MemberCounts:
    """The numbers of members by assignor and classic protocol, so that a request need not look at every member.

    classic: members that speak the classic protocol. classic_protocols: classic members by protocol name.
    Kafka: serverAssignors, numClassicProtocolMembers, classicProtocolMembersSupportedProtocols.
    """

    __slots__ = ("_assignors", "classic", "classic_protocols")

    def __init__(self) -> None:
        self._assignors: Counter[str] = Counter()
        self.classic = 0
        self.classic_protocols: Counter[str] = Counter()

    def replace_member(self, old: ConsumerGroupMember | None, new: ConsumerGroupMember | None) -> None:
        """Count `new` instead of `old`. None stands for a member that joins (`old`) or leaves (`new`)."""
        _count(self._assignors, _assignor(old), _assignor(new))
        if old is not None and old.classic is not None:
            self.classic -= 1
            _count(self.classic_protocols, old.classic.protocol_names, ())
        if new is not None and new.classic is not None:
            self.classic += 1
            _count(self.classic_protocols, (), new.classic.protocol_names)

    def preferred_assignor(self, old: ConsumerGroupMember | None, new: ConsumerGroupMember | None) -> str | None:
        """Return the assignor that most members ask for, as if `new` replaced `old`; None: no member asks for one.

        With equal votes the assignor wins that only `new` asks for, then the name that is last in the alphabet: the
        order in which Kafka's hash table happens to hold "uniform" and "range".
        """
        counts = self._assignors.copy()
        _count(counts, _assignor(old), ())
        others = set(counts)
        counts.update(_assignor(new))
        return max(counts, key=lambda name: (counts[name], name not in others, name), default=None)


def _assignor(member: ConsumerGroupMember | None) -> tuple[str, ...]:
    return () if member is None or member.server_assignor is None else (member.server_assignor,)


def _count(counts: Counter[str], gone: Iterable[str], come: Iterable[str]) -> None:
    for name in gone:
        counts[name] -= 1
        if counts[name] <= 0:
            del counts[name]
    counts.update(come)


class _CurrentPartitionEpochs:
    """The member epoch of each partition's owner. A partition that its owner has to give up is still owned.

    Kafka: currentPartitionEpoch.
    """

    __slots__ = ("_epochs",)

    def __init__(self) -> None:
        self._epochs: dict[bytes, dict[int, int]] = {}

    def of(self, topic_id: bytes, partition: int) -> int:
        """Return the epoch of a partition's owner, -1 if it has none."""
        return self._epochs.get(topic_id, {}).get(partition, NO_EPOCH)

    def replace_member(self, old: ConsumerGroupMember | None, new: ConsumerGroupMember | None) -> None:
        """Set the epochs of the partitions of `new` instead of `old`. None stands for a member that joins or leaves."""
        # The old ones first: a partition that the member keeps would otherwise be dropped with its new epoch.
        if old is not None:
            self._drop(old.assigned_partitions, old.member_epoch)
            self._drop(old.partitions_pending_revocation, old.member_epoch)
        if new is not None:
            self._add(new.assigned_partitions, new.member_epoch)
            self._add(new.partitions_pending_revocation, new.member_epoch)

    def _drop(self, partitions: PartitionEpochs, epoch: int) -> None:
        for topic_id, numbers in partitions.items():
            epochs = self._epochs.get(topic_id, {})
            for number in numbers:
                # After compaction the new owner's record may come first: its epoch is higher, and stays.
                if epochs.get(number) == epoch:
                    del epochs[number]
            if not epochs:
                self._epochs.pop(topic_id, None)

    def _add(self, partitions: PartitionEpochs, epoch: int) -> None:
        for topic_id, numbers in partitions.items():
            epochs = self._epochs.setdefault(topic_id, {})
            for number in numbers:
                present = epochs.get(number)
                # The records of the old and the new owner may be replayed in either order: the higher epoch stays.
                if present is None or present < epoch:
                    epochs[number] = epoch


_NO_PARTITIONS: Final[Assignment] = {}


class TargetAssignment:
    """The partitions that each member is to have: assignments by member, and the members by partition.

    epoch: the group epoch that the assignment was made for, -1 when it was deleted. timestamp_ms: when it was made.
    owners: topic id -> partition -> member id. size: the number of partitions of all members.
    Kafka: targetAssignment, invertedTargetAssignment, targetAssignmentEpoch.
    """

    __slots__ = ("by_member", "epoch", "owners", "size", "timestamp_ms")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.timestamp_ms = 0
        self.by_member: dict[str, Assignment] = {}
        self.owners: dict[bytes, dict[int, str]] = {}
        self.size = 0

    def of(self, member_id: str) -> Assignment:
        """Return the member's part of the assignment."""
        return self.by_member.get(member_id, _NO_PARTITIONS)

    def put(self, member_id: str, assignment: Mapping[bytes, Iterable[int]]) -> None:
        """Set the member's part. An empty mapping leaves the member without partitions."""
        new = {topic_id: frozenset(numbers) for topic_id, numbers in assignment.items()}
        self._move(member_id, self.of(member_id), new)
        self.by_member[member_id] = new

    def remove(self, member_id: str) -> None:
        """Remove the part of a member that is gone."""
        self._move(member_id, self.by_member.pop(member_id, _NO_PARTITIONS), _NO_PARTITIONS)

    def _move(self, member_id: str, old: Assignment, new: Assignment) -> None:
        for topic_id in {**old, **new}:
            owners = self.owners.setdefault(topic_id, {})
            before, after = old.get(topic_id, frozenset()), new.get(topic_id, frozenset())
            self.size += len(after) - len(before)
            for number in before - after:
                # The record of the partition's new owner may have been replayed before this one.
                if owners.get(number) == member_id:
                    del owners[number]
            owners.update(dict.fromkeys(after - before, member_id))
            if not owners:
                del self.owners[topic_id]


class ConsumerGroup:
    """The members, the epochs and the target assignment of one group. Implements Membership.

    metadata_hash: of the subscribed topics at group_epoch. has_partition_metadata: a record of Kafka 4.0 (kind 4) is to
    be removed. checked_image: the metadata image that the topics were last compared with. deadlines: of members, by
    kind and member id. checked_image and deadlines are soft state, changed by the service; records change all else.
    """

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.group_epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.has_partition_metadata = False
        self.checked_image: object = None
        self.deadlines: dict[tuple[TimerKind, str], MemberDeadline] = {}
        self.topics = SubscribedTopics()
        self.members: dict[str, ConsumerGroupMember] = {}
        self.static_members: dict[str, str] = {}
        """Member id by instance id."""
        self.target = TargetAssignment(FIRST_EPOCH)
        self._epochs = _CurrentPartitionEpochs()
        self._counts = _MemberCounts()

    # -- Membership

    @property
    def group_type(self) -> GroupType:
        """The protocol: KIP-848's."""
        return GroupType.CONSUMER

    @property
    def state_name(self) -> str:
        """The state in Kafka's words: Empty, Assigning, Reconciling or Stable."""
        if not self.members:
            return "Empty"
        epoch = self.target.epoch
        if self.group_epoch > epoch:
            return "Assigning"
        return "Stable" if all(member.is_reconciled_to(epoch) for member in self.members.values()) else "Reconciling"

    @property
    def protocol_type(self) -> str:
        """The protocol type that consumers name."""
        return PROTOCOL_TYPE

    @property
    def has_members(self) -> bool:
        """Whether the group has members."""
        return bool(self.members)

    @property
    def member_count(self) -> int:
        """The number of members."""
        return len(self.members)

    @property
    def empty_since_ms(self) -> int | None:
        """None: offsets expire by their own commit time."""
        return None

    @property
    def keeps_all_offsets(self) -> bool:
        """False: the offsets of topics without a subscriber expire."""
        return False

    def check_offset_commit(
        self, member_id: str, group_instance_id: str | None, generation: int, *, is_transactional: bool
    ) -> ErrorCode:
        """Return NONE for a member of this epoch; while the group is empty, also for a client without membership."""
        if generation < 0 and not self.members:
            return ErrorCode.NONE
        # TxnOffsetCommit need not name the member (KIP-447): only what a client names is checked.
        if is_transactional and generation == NO_EPOCH and not member_id and group_instance_id is None:
            return ErrorCode.NONE
        return self._check_epoch(member_id, generation)

    def check_members_commit(
        self, member_id: str, generation: int, partitions: Iterable[tuple[bytes, int]], *, names_epochs: bool
    ) -> ErrorCode:
        """Return NONE if a member may commit offsets of these partitions (by topic id).

        The member commits in its epoch, or in an earlier one if it has owned all the partitions since: it may not have
        heard of its new epoch (KIP-1251). names_epochs: the request's version knows member epochs; the versions before
        are for classic members only.
        """
        member = self.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if member.classic is None and not names_epochs:
            return ErrorCode.UNSUPPORTED_VERSION
        if generation < member.member_epoch:
            since = [member.assignment_epoch(*partition) for partition in partitions]
            if all(epoch is not None and epoch <= generation for epoch in since):
                return ErrorCode.NONE
        return self._check_epoch(member_id, generation)

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        """Return NONE for a member of this epoch, and for a client without membership."""
        if member_id is None and member_epoch < 0:
            return ErrorCode.NONE
        return self._check_epoch(member_id or "", member_epoch)

    def is_subscribed_to(self, topic: str) -> bool:
        """Return whether a member reads the topic."""
        return self.topics.contains(topic)

    def deletion_error(self) -> ErrorCode:
        """Return NON_EMPTY_GROUP while there are members."""
        return ErrorCode.NON_EMPTY_GROUP if self.members else ErrorCode.NONE

    def tombstones(self) -> list[CoordinatorRecord]:
        """Return the tombstones of all records of the group."""
        return self.tombstones_of(self.members)

    def tombstones_of(self, member_ids: Iterable[str]) -> list[CoordinatorRecord]:
        """Return the tombstones of a group with these members, in the order that a replay needs."""
        keys = [MemberKey(self.group_id, member_id) for member_id in member_ids]
        group_key = GroupKey(self.group_id)
        return [
            *(tombstone(ConsumerGroupKind.CURRENT_MEMBER_ASSIGNMENT, key) for key in keys),
            *(tombstone(ConsumerGroupKind.TARGET_ASSIGNMENT_MEMBER, key) for key in keys),
            tombstone(ConsumerGroupKind.TARGET_ASSIGNMENT_METADATA, group_key),
            *(tombstone(ConsumerGroupKind.MEMBER_METADATA, key) for key in keys),
            *(
                tombstone(ConsumerGroupKind.REGULAR_EXPRESSION, RegularExpressionKey(self.group_id, regex))
                for regex in self.topics.resolved
            ),
            tombstone(ConsumerGroupKind.PARTITION_METADATA, group_key),
            tombstone(ConsumerGroupKind.GROUP_METADATA, group_key),
        ]

    # -- read by the logic of requests

    def member(self, member_id: str) -> ConsumerGroupMember:
        """Return the member with this id. Raises ApiError: UNKNOWN_MEMBER_ID when the group has none."""
        found = self.members.get(member_id)
        if found is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.group_id}.")
        return found

    def is_quiet(
        self,
        member_id: str,
        member_epoch: int,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        image: object,
    ) -> bool:
        """Return whether a heartbeat without values changes nothing: `heartbeat` would write no record for it.

        image: the present metadata image, whose topics the group must have been compared with.
        """
        member, epoch = self.members.get(member_id), self.target.epoch
        if (
            member is None
            or self.checked_image is not image
            or self.group_epoch > epoch
            or not 0 < member_epoch == epoch
            or not member.is_reconciled_to(epoch)
        ):
            return False
        return (
            member.client_id == client_id
            and member.client_host == client_host
            and (instance_id is None or self.static_member(instance_id) is member)
            and member.classic is None
            and not self.topics.members_by_regex  # they are resolved again from time to time
            and not member_id.isspace()  # refused, though a member may have joined so
        )

    def static_member(self, instance_id: str | None) -> ConsumerGroupMember | None:
        """Return the member with this instance id (group.instance.id), or None."""
        member_id = None if instance_id is None else self.static_members.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def target_of(self, member_id: str, instance_id: str | None = None) -> Assignment:
        """Return the member's target. A static member that is back under a new id inherits the old one's target."""
        if instance_id is not None:
            member_id = self.static_members.get(instance_id, member_id)
        return self.target.of(member_id)

    def partition_epoch(self, topic_id: bytes, partition: int) -> int:
        """Return the epoch of a partition's present owner, -1 if it has none."""
        return self._epochs.of(topic_id, partition)

    @property
    def assignment_epoch(self) -> int:
        """The epoch of the target assignment."""
        return self.target.epoch

    def preferred_assignor(
        self, old: ConsumerGroupMember | None = None, new: ConsumerGroupMember | None = None
    ) -> str | None:
        """Return the assignor that most members ask for, as if `new` replaced `old`; None: no member asks for one."""
        return self._counts.preferred_assignor(old, new)

    @property
    def classic_member_count(self) -> int:
        """The number of members that speak the classic protocol."""
        return self._counts.classic

    def supports_classic_protocols(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Return whether every classic member knows one of these assignors too."""
        if protocol_type != PROTOCOL_TYPE:
            return False
        if not self.members:
            return any(True for _ in names)
        return any(self._counts.classic_protocols[name] == self._counts.classic for name in names)

    def are_all_classic_without(self, members: Iterable[ConsumerGroupMember]) -> bool:
        """Return whether only classic members are left when these are gone."""
        gone = list(members)
        classic_gone = sum(member.classic is not None for member in gone)
        return self._counts.classic - classic_gone == len(self.members) - len(gone)

    def waits_for_partitions(self, member: ConsumerGroupMember) -> bool:
        """Return whether another member still owns a partition of this member's target."""
        if member.state is not ReconciliationState.UNRELEASED_PARTITIONS:
            return False
        return any(
            number not in member.assigned_partitions.get(topic_id, ())
            and self.partition_epoch(topic_id, number) != NO_EPOCH
            for topic_id, numbers in self.target_of(member.member_id).items()
            for number in numbers
        )

    # -- changed by the replay of records

    def put_member(self, member: ConsumerGroupMember) -> None:
        """Add a member, or replace it by its new state."""
        old = self.members.get(member.member_id)
        self.members[member.member_id] = member
        self._recount(old, member)
        if old is not None and old.instance_id != member.instance_id:
            self._forget_instance(old)
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id

    def remove_member(self, member_id: str) -> None:
        """Remove a member, if it exists."""
        old = self.members.pop(member_id, None)
        self._recount(old, None)
        if old is not None:
            self._forget_instance(old)
        if not self.members:
            # Committed offsets may keep the group for days, and the group would keep a metadata image for as long.
            self.checked_image = None

    def _forget_instance(self, member: ConsumerGroupMember) -> None:
        """Remove the member's instance id, unless another member has taken its place."""
        if member.instance_id is not None and self.static_members.get(member.instance_id) == member.member_id:
            del self.static_members[member.instance_id]

    def _recount(self, old: ConsumerGroupMember | None, new: ConsumerGroupMember | None) -> None:
        self.topics.replace_member(old, new)
        self._counts.replace_member(old, new)
        self._epochs.replace_member(old, new)

    def _check_epoch(self, member_id: str, epoch: int) -> ErrorCode:
        member = self.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if epoch == member.member_epoch:
            return ErrorCode.NONE
        # Clients of the classic protocol do not know STALE_MEMBER_EPOCH.
        return ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION
