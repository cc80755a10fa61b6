"""A consumer group whose assignment is made by the coordinator (KIP-848): members, epochs, target assignment.

Held by a `Group`, guarded by its lock. Pure, and changed by the replay of records alone (`consumer.replay`), at
run time as when loading: the requests' logic (`consumer.update`) only reads it, and says which records to write.
The group's epoch grows when its assignment must be made anew, the assignment's epoch follows when it was made, and
members follow one by one; a partition's epoch is its present owner's.

Kafka: org.apache.kafka.coordinator.group.modern.consumer.ConsumerGroup, ModernGroup of 4.3.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from barnabas.coordinator.group.assignors.assignor import Assignment
from barnabas.coordinator.group.consumer.heartbeat_terms import PartitionEpochs
from barnabas.coordinator.group.consumer.member import ConsumerGroupMember, ReconciliationState
from barnabas.coordinator.group.consumer.member_deadline import MemberDeadline, TimerKind
from barnabas.coordinator.group.consumer.records import (
    ConsumerGroupKind,
    GroupKey,
    MemberKey,
    RegularExpressionKey,
    tombstone,
)
from barnabas.coordinator.group.consumer.topics.subscribed import SubscribedTopics
from barnabas.coordinator.group.log.record import GroupRecord
from barnabas.coordinator.group.membership import GroupType
from barnabas.protocol.consumer_protocol import PROTOCOL_TYPE
from barnabas.protocol.errors import ApiError, ErrorCode

NO_EPOCH: Final = -1
FIRST_EPOCH: Final = 1
"""Of a group that nobody has joined yet, and of its (empty) assignment."""
_NOTHING: Final[Assignment] = {}


class ConsumerGroup:
    """Implements Membership.

    assignment_epoch: of the target assignment, -1 when that was deleted. metadata_hash: what the topics looked like
    at group_epoch. has_partition_metadata: a record of Kafka 4.0 (kind 4) is to be removed.
    checked_image: the metadata image that the topics were last compared with. deadlines: of what members are waited
    for, by kind and member id. Both are soft state, changed by `ConsumerGroupService`.
    """

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.group_epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.assignment_epoch = FIRST_EPOCH
        self.assignment_timestamp_ms = 0
        self.has_partition_metadata = False
        self.checked_image: object = None
        self.deadlines: dict[tuple[TimerKind, str], MemberDeadline] = {}
        self.topics = SubscribedTopics()
        self.members: dict[str, ConsumerGroupMember] = {}
        self.static_members: dict[str, str] = {}
        self.target: dict[str, Assignment] = {}
        self.target_owners: dict[bytes, dict[int, str]] = {}
        """Topic id -> partition -> who shall have it."""
        self.target_size = 0
        """How many partitions are in the targets of all members."""
        self._partition_epochs: dict[bytes, dict[int, int]] = {}
        self._server_assignors: Counter[str] = Counter()
        self._classic_members = 0
        self._classic_protocols: Counter[str] = Counter()

    # -- asked by everybody (Membership)

    @property
    def group_type(self) -> GroupType:
        """See Membership."""
        return GroupType.CONSUMER

    @property
    def state_name(self) -> str:
        """Empty, Assigning, Reconciling or Stable."""
        if not self.members:
            return "Empty"
        if self.group_epoch > self.assignment_epoch:
            return "Assigning"
        epoch = self.assignment_epoch
        return "Stable" if all(member.is_reconciled_to(epoch) for member in self.members.values()) else "Reconciling"

    @property
    def protocol_type(self) -> str:
        """See Membership."""
        return PROTOCOL_TYPE

    @property
    def has_members(self) -> bool:
        """See Membership."""
        return bool(self.members)

    @property
    def member_count(self) -> int:
        """See Membership."""
        return len(self.members)

    @property
    def empty_since_ms(self) -> int | None:
        """Never known: offsets expire by their own commit time."""
        return None

    @property
    def keeps_all_offsets(self) -> bool:
        """Never: offsets of topics that nobody subscribes to expire."""
        return False

    def check_offset_commit(
        self, member_id: str, group_instance_id: str | None, generation: int, *, is_transactional: bool
    ) -> ErrorCode:
        """See Membership. Nobody in particular may commit while the group is empty."""
        if generation < 0 and not self.members:
            return ErrorCode.NONE
        if is_transactional and generation == NO_EPOCH and not member_id and group_instance_id is None:
            return ErrorCode.NONE
        return self._check_epoch(member_id, generation)

    def check_members_commit(
        self, member_id: str, generation: int, partitions: Iterable[tuple[bytes, int]], *, names_epochs: bool
    ) -> ErrorCode:
        """May a member commit offsets of these partitions (by topic id)? In its epoch; or in an earlier one if it has
        had them all since then at least: it may not have heard of its new one (KIP-1251).

        names_epochs: the request's version knows member epochs; otherwise it is for classic members only.
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
        """See Membership."""
        if member_id is None and member_epoch < 0:
            return ErrorCode.NONE
        return self._check_epoch(member_id or "", member_epoch)

    def is_subscribed_to(self, topic: str) -> bool:
        """See Membership."""
        return self.topics.contains(topic)

    def deletion_error(self) -> ErrorCode:
        """See Membership."""
        return ErrorCode.NON_EMPTY_GROUP if self.members else ErrorCode.NONE

    def tombstones(self) -> list[GroupRecord]:
        """See Membership."""
        return self.tombstones_of(self.members)

    def tombstones_of(self, member_ids: Iterable[str]) -> list[GroupRecord]:
        """The same, as if these were its members. The order matters to whoever replays them."""
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

    # -- asked by the requests' logic

    def member(self, member_id: str) -> ConsumerGroupMember:
        """A member. UNKNOWN_MEMBER_ID: there is none."""
        found = self.members.get(member_id)
        if found is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.group_id}.")
        return found

    def static_member(self, instance_id: str | None) -> ConsumerGroupMember | None:
        """The member with a group.instance.id; None if there is none."""
        member_id = None if instance_id is None else self.static_members.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def target_of(self, member_id: str, instance_id: str | None = None) -> Assignment:
        """What a member shall have; of a static one that comes back under a new id, what the old one should."""
        if instance_id is not None:
            member_id = self.static_members.get(instance_id, member_id)
        return self.target.get(member_id, _NOTHING)

    def partition_epoch(self, topic_id: bytes, partition: int) -> int:
        """The epoch of a partition's present owner, -1 if it has none."""
        return self._partition_epochs.get(topic_id, {}).get(partition, NO_EPOCH)

    def preferred_assignor(
        self, old: ConsumerGroupMember | None = None, new: ConsumerGroupMember | None = None
    ) -> str | None:
        """The assignor that most members ask for, as if `new` were there instead of `old`; None: nobody asks."""
        counts = self._server_assignors.copy()
        _count(counts, _assignor(old), ())
        others = set(counts)
        counts.update(_assignor(new))
        # Of as many votes: what nobody else asks for; else "uniform". So Kafka's hash tables have it.
        return max(counts, key=lambda name: (counts[name], name not in others, name), default=None)

    @property
    def classic_member_count(self) -> int:
        """How many members speak the classic protocol."""
        return self._classic_members

    def supports_classic_protocols(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Whether every classic member knows one of these assignors too."""
        if protocol_type != PROTOCOL_TYPE:
            return False
        if not self.members:
            return any(True for _ in names)
        return any(self._classic_protocols[name] == self._classic_members for name in names)

    def are_all_classic_without(self, members: Iterable[ConsumerGroupMember]) -> bool:
        """Whether only classic members are left when these are gone."""
        gone = list(members)
        classic_gone = sum(member.classic is not None for member in gone)
        return self._classic_members - classic_gone == len(self.members) - len(gone)

    def waits_for_partitions(self, member: ConsumerGroupMember) -> bool:
        """Whether somebody else still has something of what this member shall have."""
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
        """A new member, or what has become of one."""
        old = self.members.get(member.member_id)
        self.members[member.member_id] = member
        self._recount(old, member)
        if old is not None and old.instance_id != member.instance_id:
            self._forget_instance(old)
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id

    def remove_member(self, member_id: str) -> None:
        """A member that is gone; nothing happens if it was not there."""
        old = self.members.pop(member_id, None)
        self._recount(old, None)
        if old is not None:
            self._forget_instance(old)
        if not self.members:
            # Offsets may keep the group for days: it shall not keep a whole image of the metadata as well.
            self.checked_image = None

    def put_target(self, member_id: str, assignment: Mapping[bytes, Iterable[int]]) -> None:
        """What a member shall have; an empty mapping: nothing."""
        new = {topic_id: frozenset(numbers) for topic_id, numbers in assignment.items()}
        self._move_owner(member_id, self.target.get(member_id, _NOTHING), new)
        self.target[member_id] = new

    def remove_target(self, member_id: str) -> None:
        """The member is gone."""
        self._move_owner(member_id, self.target.pop(member_id, _NOTHING), _NOTHING)

    def _move_owner(self, member_id: str, old: Assignment, new: Assignment) -> None:
        for topic_id in {**old, **new}:
            owners = self.target_owners.setdefault(topic_id, {})
            before, after = old.get(topic_id, frozenset()), new.get(topic_id, frozenset())
            self.target_size += len(after) - len(before)
            for number in before - after:
                # The record of who has got it meanwhile may have been replayed before this one.
                if owners.get(number) == member_id:
                    del owners[number]
            owners.update(dict.fromkeys(after - before, member_id))
            if not owners:
                del self.target_owners[topic_id]

    def _forget_instance(self, member: ConsumerGroupMember) -> None:
        """Unless another member has taken its place."""
        if member.instance_id is not None and self.static_members.get(member.instance_id) == member.member_id:
            del self.static_members[member.instance_id]

    def _recount(self, old: ConsumerGroupMember | None, new: ConsumerGroupMember | None) -> None:
        self.topics.replace_member(old, new)
        _count(self._server_assignors, _assignor(old), _assignor(new))
        if old is not None:
            self._drop_epochs(old.assigned_partitions, old.member_epoch)
            self._drop_epochs(old.partitions_pending_revocation, old.member_epoch)
            if old.classic is not None:
                self._classic_members -= 1
                _count(self._classic_protocols, old.classic.protocol_names, ())
        if new is not None:
            self._note_epochs(new.assigned_partitions, new.member_epoch)
            self._note_epochs(new.partitions_pending_revocation, new.member_epoch)
            if new.classic is not None:
                self._classic_members += 1
                _count(self._classic_protocols, (), new.classic.protocol_names)

    def _drop_epochs(self, partitions: PartitionEpochs, epoch: int) -> None:
        for topic_id, numbers in partitions.items():
            epochs = self._partition_epochs.get(topic_id, {})
            for number in numbers:
                # After compaction the new owner's record may come first: it has a higher epoch, which stays.
                if epochs.get(number) == epoch:
                    del epochs[number]
            if not epochs:
                self._partition_epochs.pop(topic_id, None)

    def _note_epochs(self, partitions: PartitionEpochs, epoch: int) -> None:
        for topic_id, numbers in partitions.items():
            epochs = self._partition_epochs.setdefault(topic_id, {})
            for number in numbers:
                present = epochs.get(number)
                if present is None or present < epoch:
                    epochs[number] = epoch

    def _check_epoch(self, member_id: str, epoch: int) -> ErrorCode:
        member = self.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if epoch == member.member_epoch:
            return ErrorCode.NONE
        return ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION


def _assignor(member: ConsumerGroupMember | None) -> tuple[str, ...]:
    return () if member is None or member.server_assignor is None else (member.server_assignor,)


def _count(counts: Counter[str], gone: Iterable[str], come: Iterable[str]) -> None:
    for name in gone:
        counts[name] -= 1
        if counts[name] <= 0:
            del counts[name]
    counts.update(come)
