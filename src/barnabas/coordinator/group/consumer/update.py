"""The steps by which requests change a consumer group (KIP-848), for heartbeats and for classic members' JoinGroups.

An update is made for one request, under the group's lock. It reads the group, and collects the records that will change
it. Pure, apart from log lines. Kafka: GroupMetadataManager of 4.3. The target assignment is made at once with the
group's epoch, as in all releases before 4.3, which can delay it by group.consumer.assignment.interval.ms.

Three epochs follow each other: the group's, the target assignment's, and each member's. Member A owns partitions 0 and
1 of a topic at epoch 1, when B joins and later asks again:

    request       group  target         A                            B
    (before)      1      1: A 0,1       epoch 1, owns 0,1
    B joins       2      2: A 0, B 1    epoch 1, owns 0,1            epoch 2, owns nothing: UNRELEASED_PARTITIONS
    A heartbeats  2      2              epoch 1, owns 0, gives up 1  (UNREVOKED_PARTITIONS for A)
    A says: 0     2      2              epoch 2, owns 0: STABLE      (partition 1 is free now)
    B heartbeats  2      2              epoch 2                      epoch 2, owns 1: STABLE

`update_epoch` raises the group's epoch, `update_target` makes the assignment, `reconcile` takes the member's step. A
member that has to give something up stays at its old epoch, so that its commits are still valid; a member that waits
goes on to the new one. All of it is records until `ConsumerGroupChanges` has appended them: if the log refuses them,
the group is as it was.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from enum import Enum
from functools import lru_cache
from typing import Final, NamedTuple

from barnabas.coordinator.group.assignors.assignor import (
    Assignment,
    ConsumerGroupPartitionAssignor,
    GroupSpec,
    GroupSubscriptionType,
    MemberSpec,
    PartitionAssignorError,
)
from barnabas.coordinator.group.consumer.consumer_group import ConsumerGroup
from barnabas.coordinator.group.consumer.consumer_group_member import (
    ConsumerGroupMember,
    ReconciliationState,
    TimerKind,
)
from barnabas.coordinator.group.consumer.consumer_group_outcome import ConsumerOutcome, T, TimerChange
from barnabas.coordinator.group.consumer.consumer_group_records import (
    ConsumerGroupKind,
    ConsumerGroupMetadataValue,
    GroupKey,
    MemberKey,
    RegularExpressionKey,
    RegularExpressionValue,
    TargetAssignmentMetadataValue,
    record,
    target_partitions,
    tombstone,
)
from barnabas.coordinator.group.consumer.member_reconciliation import Reconciliation
from barnabas.coordinator.group.consumer.topics.group_topics import (
    ClusterTopics,
    ResolvedRegularExpression,
    SubscribedTopics,
)
from barnabas.coordinator.group.group_config import GroupCoordinatorConfig
from barnabas.coordinator.runtime.partitions import hash_code
from barnabas.coordinator.runtime.record import CoordinatorRecord
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.runtime.clock import Clock

logger = logging.getLogger(__name__)

REGEX_REFRESH_MIN_INTERVAL_MS: Final = 10_000
"""The shortest time between two resolutions of a group's expressions, however often topics are created."""


class RegexChange(Enum):
    """The change that a request makes to the member's regular expression."""

    NONE = "unchanged"
    CHANGED = "another expression, which is not resolved yet"
    CHANGED_AND_RESOLVED = "another expression, whose topics are known; or none any more"


class UpdateContext(NamedTuple):
    """The inputs of an update beside the group.

    config, clock: for the group that changes its protocol. assignors: by name, the first is the default. now_ms: wall
    clock. newest_topics_version: the metadata version in which a topic was created last. check_regex: raises ApiError:
    INVALID_REGULAR_EXPRESSION.
    """

    topics: ClusterTopics
    config: GroupCoordinatorConfig
    clock: Clock
    assignors: Mapping[str, ConsumerGroupPartitionAssignor]
    now_ms: int
    newest_topics_version: int
    check_regex: Callable[[str], None]


class ConsumerGroupUpdate:
    """The work on one change of a group.

    records, timers: in the order in which they will take effect. regexes: the expressions to resolve.
    """

    def __init__(self, group: ConsumerGroup, context: UpdateContext) -> None:
        self.group = group
        self.context = context
        self.records: list[CoordinatorRecord] = []
        self.timers: list[TimerChange] = []
        self.regexes: frozenset[str] = frozenset()
        self._checked_image: object = None
        self._is_rebalance = False
        self.group_epoch = group.group_epoch
        self._subscription_type: GroupSubscriptionType | None = None

    def outcome(self, answer: T) -> ConsumerOutcome[T]:
        """Return the collected changes, with the answer to the request."""
        return ConsumerOutcome(
            answer, self.group, self.records, self.timers, self.regexes, self._checked_image, self._is_rebalance
        )

    # -- members

    def check_size(self, member_id: str) -> None:
        """Check that the group has room for the member. Raises ApiError: GROUP_MAX_SIZE_REACHED when it has none."""
        most = self.context.config.consumer.max_size
        if len(self.group.members) >= most and member_id not in self.group.members:
            raise ApiError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The consumer group has reached its maximum capacity of {most} members.",
            )

    def replace_static_member(self, old: ConsumerGroupMember, member_id: str) -> ConsumerGroupMember:
        """Let a static member that is back under a new id take the place, and the target, of the old one."""
        # At epoch 0 it is reconciled from the beginning. The records are needed even if nothing else changes: a
        # coordinator that loads the group must not find the old id.
        new = replace(old, member_id=member_id, member_epoch=0, previous_member_epoch=0)
        self.remove_member(old.member_id)
        self.records += [
            new.metadata_record(self.group.group_id),
            self._target_record(member_id, self.group.target_of(old.member_id)),
            new.assignment_record(self.group.group_id),
        ]
        return new

    def remove_member(self, member_id: str) -> None:
        """Remove all records of the member, in the order that a replay needs."""
        key = MemberKey(self.group.group_id, member_id)
        self.records += [
            tombstone(ConsumerGroupKind.CURRENT_MEMBER_ASSIGNMENT, key),
            tombstone(ConsumerGroupKind.TARGET_ASSIGNMENT_MEMBER, key),
            tombstone(ConsumerGroupKind.MEMBER_METADATA, key),
        ]

    def fence_members(self, members: Iterable[ConsumerGroupMember]) -> None:
        """Remove these members; the group goes on without them in a new epoch."""
        after = self.group.topics.copy()
        for member in members:
            self.remove_member(member.member_id)
            after.replace_member(member, None)
            self.timers += [TimerChange(kind, member.member_id, None) for kind in TimerKind]
        self.records += [self._regex_tombstone(regex) for regex in after.forget_unused()]
        # The next heartbeat of a member finds the new epoch, and makes the assignment: one for all members that went.
        self._bump_epoch(self.context.topics.hash_of(after.names()))

    def change_member(self, old: ConsumerGroupMember, new: ConsumerGroupMember) -> bool:
        """Record the member's new metadata; return whether it names other topics."""
        if new is old or new == old:
            return False
        self.records.append(new.metadata_record(self.group.group_id))
        return new.subscribed_topic_names != old.subscribed_topic_names

    # -- regular expressions

    def change_regex(self, old: ConsumerGroupMember, new: ConsumerGroupMember) -> RegexChange:
        """Record the member's regular expression, and have the group's expressions resolved if it is time.

        Raises ApiError: INVALID_REGULAR_EXPRESSION when the new one is malformed.
        """
        topics = self.group.topics
        before, now = old.subscribed_topic_regex or "", new.subscribed_topic_regex or ""
        change = RegexChange.NONE
        is_wanted = False
        if old.subscribed_topic_regex != new.subscribed_topic_regex:
            change = RegexChange.CHANGED
            if before and topics.members_by_regex[before] == 1:
                self.records.append(self._regex_tombstone(before))
            # An expression that another member uses has been checked, and is resolved or about to be.
            if now and not topics.members_by_regex[now]:
                self.context.check_regex(now)
                is_wanted = True
            elif now in topics.resolved or (before and not now):
                change = RegexChange.CHANGED_AND_RESOLVED
        if is_wanted or topics.members_by_regex:
            self._refresh_regexes(old, new, is_wanted)
        return change

    def _refresh_regexes(self, old: ConsumerGroupMember, new: ConsumerGroupMember, is_wanted: bool) -> None:
        """Have all expressions resolved, if one is not, if topics were created, or if the last time is long ago.

        The expressions of a group are resolved together.
        """
        # Without the minimum interval a cluster that creates topics all the time would resolve without a pause.
        topics, now_ms = self.group.topics, self.context.now_ms
        last = next(iter(topics.resolved.values()), None)
        if last is not None and now_ms <= last.timestamp_ms + REGEX_REFRESH_MIN_INTERVAL_MS:
            return
        members_by_regex = topics.members_by_regex.copy()
        if old.subscribed_topic_regex:
            members_by_regex[old.subscribed_topic_regex] -= 1
        if new.subscribed_topic_regex:
            members_by_regex[new.subscribed_topic_regex] += 1
        regexes = frozenset(regex for regex, count in members_by_regex.items() if count > 0)
        if (
            is_wanted
            or len(regexes) != len(topics.resolved)
            or last is None
            or last.version < self.context.newest_topics_version
            or now_ms > last.timestamp_ms + self.context.config.consumer.regex_refresh_interval_ms
        ):
            self.regexes = regexes

    def resolve_regexes(self, resolved: Mapping[str, ResolvedRegularExpression]) -> None:
        """Record the topics that expressions match. Expressions that no member uses are skipped."""
        group = self.group
        after = group.topics.copy()
        is_new = False
        for regex, found in resolved.items():
            if not group.topics.members_by_regex[regex]:
                continue
            before = group.topics.resolved.get(regex)
            # An expression without a match counts, too: a member that has changed to it may still have a target for the
            # topics that it read before. (In Kafka 4.3 no member would read those any more.)
            is_new = is_new or before is None or found.topics != before.topics
            after.resolve(regex, found)
            self.records.append(self._regex_record(regex, found))
        metadata_hash = self.context.topics.hash_of(after.names())
        if is_new or metadata_hash != group.metadata_hash:
            self._bump_epoch(metadata_hash)
            self._is_rebalance = True
            self._checked_image = self.context.topics.image

    # -- epochs

    @property
    def are_topics_outdated(self) -> bool:
        """Whether the group's topics have not been compared with the present metadata image yet."""
        return self.group.checked_image is not self.context.topics.image

    def update_epoch(self, is_changed: bool, old: ConsumerGroupMember, new: ConsumerGroupMember) -> None:
        """Begin a new epoch if the group needs a new assignment: it has changed, or the metadata of its topics has."""
        after = self._topics_with(old, new)
        metadata_hash = self.context.topics.hash_of(after.names())
        self._subscription_type = after.subscription_type(self._member_count_with(new))
        if is_changed or metadata_hash != self.group.metadata_hash:
            self._bump_epoch(metadata_hash)
            self._is_rebalance = True
        # Left by Kafka 4.0, which kept the metadata where later releases keep a hash.
        if self.group.has_partition_metadata:
            self.records.append(tombstone(ConsumerGroupKind.PARTITION_METADATA, GroupKey(self.group.group_id)))
        self._checked_image = self.context.topics.image

    def _bump_epoch(self, metadata_hash: int) -> None:
        self.group_epoch += 1
        value = ConsumerGroupMetadataValue(epoch=self.group_epoch, metadata_hash=metadata_hash)
        self.records.append(record(ConsumerGroupKind.GROUP_METADATA, GroupKey(self.group.group_id), value))
        logger.info(
            "[GroupId %s] Bumped group epoch to %d with metadata hash %d.",
            self.group.group_id,
            self.group_epoch,
            metadata_hash,
        )

    def _topics_with(self, old: ConsumerGroupMember, new: ConsumerGroupMember) -> SubscribedTopics:
        after = self.group.topics.copy()
        after.replace_member(old, new)
        after.forget_unused()
        return after

    def _member_count_with(self, new: ConsumerGroupMember) -> int:
        is_there = new.member_id in self.group.members or self.group.static_member(new.instance_id) is not None
        return len(self.group.members) + (not is_there)

    # -- assignments

    def update_target(self, old: ConsumerGroupMember, new: ConsumerGroupMember) -> tuple[int, Assignment]:
        """Return the epoch of the target assignment, and the member's part of it.

        A new assignment is made if its epoch is behind the group's. Raises ApiError: UNKNOWN_SERVER_ERROR when the
        assignor fails.
        """
        group = self.group
        if self.group_epoch <= group.assignment_epoch:
            return group.assignment_epoch, group.target_of(new.member_id, new.instance_id)
        assignors = self.context.assignors
        name = group.preferred_assignor(old, new)
        assignor = assignors.get(name or "") or next(iter(assignors.values()))
        try:
            target = assignor.assign(self._group_spec(old, new), self.context.topics)
        except PartitionAssignorError as error:
            message = f"Failed to compute a new target assignment for epoch {self.group_epoch}: {error}"
            logger.warning("[GroupId %s] %s.", group.group_id, message)
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, message) from error
        replaced = self._replaced_by(new)
        # Only the parts that changed are written: in a large group a rebalance moves few of them.
        for member_id in {**group.members, new.member_id: new}:
            if member_id == replaced:
                continue
            if (now := target.get(member_id, {})) != group.target.by_member.get(member_id):
                self.records.append(self._target_record(member_id, now))
        value = TargetAssignmentMetadataValue(
            assignment_epoch=self.group_epoch, assignment_timestamp=self.context.now_ms
        )
        self.records.append(record(ConsumerGroupKind.TARGET_ASSIGNMENT_METADATA, GroupKey(group.group_id), value))
        logger.info(
            "[GroupId %s] Computed a new target assignment for epoch %d with '%s' assignor.",
            group.group_id,
            self.group_epoch,
            assignor.name,
        )
        return self.group_epoch, target.get(new.member_id, {})

    def _group_spec(self, old: ConsumerGroupMember, new: ConsumerGroupMember) -> GroupSpec:
        group, topics = self.group, self.context.topics
        replaced = self._replaced_by(new)
        after = self._topics_with(old, new)
        specs: dict[str, MemberSpec] = {}
        # Looked up once for each distinct subscription: most groups have one for all members.
        ids: dict[frozenset[str], frozenset[bytes]] = {}
        members = {**group.members, new.member_id: new}
        for member_id in _hash_order(members):
            if member_id == replaced:
                continue
            member = members[member_id]
            names = group.topics.names_of(member)
            if names not in ids:
                ids[names] = topics.ids(names)
            target = group.target_of(replaced if member is new and replaced else member_id)
            specs[member_id] = MemberSpec(ids[names], target, member.instance_id, member.rack_id)
        kind = self._subscription_type or after.subscription_type(len(specs))
        return GroupSpec(specs, kind, group.target.owners)

    def _replaced_by(self, member: ConsumerGroupMember) -> str | None:
        """Return the id that the static member had before it came back as `member`, or None."""
        before = self.group.static_members.get(member.instance_id or "")
        return None if before == member.member_id else before

    def reconcile(
        self,
        member: ConsumerGroupMember,
        target: tuple[int, Assignment],
        *,
        subscription_changed: bool,
        owned: Mapping[bytes, AbstractSet[int]] | None,
    ) -> ConsumerGroupMember:
        """Take the member one step towards its target; set the deadline for partitions that it has to give up.

        Raises ApiError: FENCED_MEMBER_EPOCH when a later release left the member in an unknown state.
        """
        group = self.group
        if not subscription_changed and member.is_reconciled_to(target[0]):
            return member
        subscribed = self.context.topics.ids(group.topics.names_of(member))
        step = Reconciliation(target[0], target[1], subscribed, subscription_changed, owned, group.partition_epoch)
        after = step.next_state(member)
        if after == member:
            return member
        self.records.append(after.assignment_record(group.group_id))
        # Classic members have a deadline for their next JoinGroup instead, set by their heartbeats and SyncGroups.
        if after.classic is None:
            must_revoke = after.state is ReconciliationState.UNREVOKED_PARTITIONS
            delay_ms = after.rebalance_timeout_ms if must_revoke else None
            self.timers.append(
                TimerChange(TimerKind.REBALANCE, after.member_id, delay_ms, member_epoch=after.member_epoch)
            )
        return after

    # -- records

    def _target_record(self, member_id: str, partitions: Assignment) -> CoordinatorRecord:
        key = MemberKey(self.group.group_id, member_id)
        return record(ConsumerGroupKind.TARGET_ASSIGNMENT_MEMBER, key, target_partitions(partitions))

    def _regex_record(self, regex: str, found: ResolvedRegularExpression) -> CoordinatorRecord:
        key = RegularExpressionKey(self.group.group_id, regex)
        value = RegularExpressionValue(topics=sorted(found.topics), version=found.version, timestamp=found.timestamp_ms)
        return record(ConsumerGroupKind.REGULAR_EXPRESSION, key, value)

    def _regex_tombstone(self, regex: str) -> CoordinatorRecord:
        return tombstone(ConsumerGroupKind.REGULAR_EXPRESSION, RegularExpressionKey(self.group.group_id, regex))


# -- the order of members

_SMALLEST_TABLE: Final = 16
_REMEMBERED_HASHES: Final = 1 << 16


def _hash_order(keys: Collection[str]) -> list[str]:
    """Return the keys in the order of a HashMap of Java; keys that share a bucket keep their order.

    The order in which Kafka assigns members (TargetAssignmentBuilder's memberSpecs): it does not depend on when members
    joined or were loaded.
    """
    # A HashMap doubles its table when it is fuller than 3/4; the number of keys alone decides its size.
    size = _SMALLEST_TABLE
    while 4 * len(keys) > 3 * size:
        size *= 2
    return sorted(keys, key=lambda key: _spread_hash(key) & (size - 1))


@lru_cache(_REMEMBERED_HASHES)
def _spread_hash(text: str) -> int:
    """Return String.hashCode with its upper half mixed into the lower (HashMap.hash), as an unsigned number."""
    value = hash_code(text)
    return value ^ value >> 16
