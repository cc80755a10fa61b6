"""The requests of classic members to a consumer group: JoinGroup, SyncGroup, Heartbeat, LeaveGroup (KIP-848).

Called by `ConsumerGroupClassicMembers` under the group's lock. Pure: a group and a request give records and an answer.
To such a member the coordinator is a leader that has decided already. Its JoinGroup is answered at once, with the
member epoch as the generation, and its SyncGroup with its partitions. When there are partitions to give up or to get, a
heartbeat answers REBALANCE_IN_PROGRESS, and the member joins again with the partitions that it owns.

A classic member X whose target is partitions 0 and 1, while another member still owns 1:

    request of X        answer                   why
    JoinGroup           generation 5             the member epoch; X goes on without partition 1
    SyncGroup           partition 0              the partitions that X has for now
    Heartbeat           NONE                     partition 1 is not released
    Heartbeat           REBALANCE_IN_PROGRESS    partition 1 is released; X has to join in time (TimerKind.JOIN)
    JoinGroup           generation 5             X gets partition 1, and has to sync in time (TimerKind.SYNC)
    SyncGroup           partitions 0 and 1       the whole target

Kafka: GroupMetadataManager.classicGroup{Join,Sync,Heartbeat,Leave}ToConsumerGroup of 4.3.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from barnabas.coordinator.group.classic.classic_group_member import (
    UNKNOWN_MEMBER_ID,
    JoinAnswer,
    JoinTerms,
    LeaveAnswer,
    LeavingMember,
    LeftMember,
    SyncAnswer,
    SyncTerms,
)
from barnabas.coordinator.group.consumer.consumer_group import ConsumerGroup
from barnabas.coordinator.group.consumer.consumer_group_member import (
    ClassicMetadata,
    ConsumerGroupMember,
    ReconciliationState,
    TimerKind,
)
from barnabas.coordinator.group.consumer.consumer_group_outcome import ConsumerOutcome, T, TimerChange
from barnabas.coordinator.group.consumer.heartbeat import known_static_member
from barnabas.coordinator.group.consumer.migration import (
    can_downgrade_replacing,
    can_downgrade_without,
    downgraded,
    encode_partitions,
)
from barnabas.coordinator.group.consumer.topics.group_topics import ClusterTopics
from barnabas.coordinator.group.consumer.update import ConsumerGroupUpdate, RegexChange, UpdateContext
from barnabas.protocol.consumer_protocol import PROTOCOL_TYPE, Subscription, decode_subscription
from barnabas.protocol.errors import ApiError, DecodeError, ErrorCode

logger = logging.getLogger(__name__)


def join(group: ConsumerGroup, terms: JoinTerms, context: UpdateContext, new_id: str) -> ConsumerOutcome[JoinAnswer]:
    """Let a classic member join, or join again. new_id: the id to give to a member that has none yet.

    Raises ApiError: INCONSISTENT_GROUP_PROTOCOL, GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID when
    the member cannot join, UNKNOWN_SERVER_ERROR when its subscription cannot be read or the assignor fails,
    GROUP_ID_NOT_FOUND when the group has to become a classic one, and metadata cannot be read.
    """
    update = ConsumerGroupUpdate(group, context)
    member_id = terms.member_id or new_id
    _check_join(update, terms, member_id)
    if not terms.member_id and terms.group_instance_id is None and terms.needs_known_member_id:
        return ConsumerOutcome(JoinAnswer(ErrorCode.MEMBER_ID_REQUIRED, member_id), group)
    existing = group.static_member(terms.group_instance_id)
    member = _joining_member(update, terms, member_id)
    subscription = _subscription(terms)
    updated = _updated(member, terms, subscription)
    names_changed = update.change_member(member, updated)
    is_changed = update.change_regex(member, updated) is not RegexChange.NONE or names_changed
    if is_changed or update.are_topics_outdated:
        update.update_epoch(is_changed, member, updated)
    owned = context.topics.by_id(subscription.owned_partitions)
    if existing is not None and can_downgrade_replacing(group, existing, context.config):
        return _downgrade(update, updated, subscription_changed=is_changed, owned=owned)
    target = update.update_target(member, updated)
    after = update.reconcile(updated, target, subscription_changed=is_changed, owned=owned)
    update.timers += [
        TimerChange(TimerKind.JOIN, member_id, None),
        TimerChange(TimerKind.SESSION, member_id, terms.session_timeout_ms),
        TimerChange(TimerKind.SYNC, member_id, terms.rebalance_timeout_ms),
    ]
    return update.outcome(_joined(after))


def _check_join(update: ConsumerGroupUpdate, terms: JoinTerms, member_id: str) -> None:
    """Check that a member can join the group.

    Raises ApiError: INCONSISTENT_GROUP_PROTOCOL when the policy or the member's protocols forbid it,
    GROUP_MAX_SIZE_REACHED when the group is full.
    """
    group = update.group
    if update.context.config.consumer.migration_policy == "disabled":
        raise ApiError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            f"Cannot join the consumer group {group.group_id} with the classic protocol because the group migration is "
            "disabled.",
        )
    update.check_size(member_id)
    if not group.supports_classic_protocols(terms.protocol_type, [name for name, _ in terms.protocols]):
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"Member {member_id}'s protocols are not supported.")


def sync(group: ConsumerGroup, terms: SyncTerms, topics: ClusterTopics) -> ConsumerOutcome[SyncAnswer]:
    """Return the member's assignment.

    REBALANCE_IN_PROGRESS is returned in the answer. Raises ApiError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID,
    ILLEGAL_GENERATION, INCONSISTENT_GROUP_PROTOCOL, or UNKNOWN_SERVER_ERROR for metadata that cannot be read.
    """
    member, classic = _classic_member(group, terms.member_id, terms.group_instance_id)
    _check_generation(member, terms.generation)
    if terms.protocol_type is not None and terms.protocol_type != PROTOCOL_TYPE:
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    name, metadata = classic.supported_protocols[0]
    if terms.protocol_name is not None and terms.protocol_name != name:
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    # A member that is behind because it has partitions to give up has joined already. It needs this answer first, to
    # learn which partitions it keeps, and joins again when it has given up the others.
    if member.state is not ReconciliationState.UNREVOKED_PARTITIONS and _is_behind(group, member):
        return ConsumerOutcome(SyncAnswer(ErrorCode.REBALANCE_IN_PROGRESS), group, timers=[_join_deadline(member)])
    try:
        assignment = encode_partitions(member.assigned_partitions, metadata, topics)
    except DecodeError as error:
        raise ApiError(
            ErrorCode.UNKNOWN_SERVER_ERROR, "Malformed embedded consumer protocol in version deserialization."
        ) from error
    timers = [
        TimerChange(TimerKind.SYNC, member.member_id, None),
        TimerChange(TimerKind.SESSION, member.member_id, classic.session_timeout_ms),
    ]
    answer = SyncAnswer(ErrorCode.NONE, terms.protocol_type, terms.protocol_name, assignment)
    return ConsumerOutcome(answer, group, timers=timers)


def heartbeat(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int
) -> ConsumerOutcome[ErrorCode]:
    """Restart the member's session; REBALANCE_IN_PROGRESS in the answer asks it to join again.

    Raises ApiError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION.
    """
    member, classic = _classic_member(group, member_id, instance_id)
    _check_generation(member, generation)
    timers = [TimerChange(TimerKind.SESSION, member.member_id, classic.session_timeout_ms)]
    is_free = member.state is ReconciliationState.UNRELEASED_PARTITIONS and not group.waits_for_partitions(member)
    if _is_behind(group, member) or member.state is ReconciliationState.UNREVOKED_PARTITIONS or is_free:
        timers.append(_join_deadline(member))
        return ConsumerOutcome(ErrorCode.REBALANCE_IN_PROGRESS, group, timers=timers)
    return ConsumerOutcome(ErrorCode.NONE, group, timers=timers)


def leave(
    group: ConsumerGroup, leaving: Sequence[LeavingMember], context: UpdateContext
) -> ConsumerOutcome[LeaveAnswer]:
    """Remove members of either protocol, at their own or an administrator's request.

    Raises ApiError: GROUP_ID_NOT_FOUND when the group has to become a classic one, and metadata cannot be read.
    """
    answers: list[LeftMember] = []
    gone: dict[str, ConsumerGroupMember] = {}
    for each in leaving:
        error = ErrorCode.NONE
        try:
            member = _leaving_member(group, each)
        except ApiError as refused:
            error = refused.code
        else:
            gone[member.member_id] = member
            logger.info(
                "[GroupId %s] Member %s with instance id %s has left group through explicit `LeaveGroup` request; "
                "client reason: %s",
                group.group_id,
                member.member_id,
                each.group_instance_id,
                each.reason or "not provided",
            )
        answers.append(LeftMember(each.member_id, each.group_instance_id, error))
    answer = LeaveAnswer(ErrorCode.NONE, tuple(answers))
    return fence(group, list(gone.values()), answer, context)


def fence(
    group: ConsumerGroup, members: Sequence[ConsumerGroupMember], answer: T, context: UpdateContext
) -> ConsumerOutcome[T]:
    """Remove these members; the group goes on without them, perhaps as a classic group.

    Raises ApiError: GROUP_ID_NOT_FOUND when the group cannot be downgraded, because metadata cannot be read.
    """
    if not members:
        return ConsumerOutcome(answer, group)
    if can_downgrade_without(group, members, context.config):
        classic, records = downgraded(group, members, None, context.clock, context.topics)
        reason = f"Downgrade group {group.group_id} from consumer to classic for member leaving."
        return ConsumerOutcome(answer, group, records, downgraded=classic, rebalance_reason=reason)
    update = ConsumerGroupUpdate(group, context)
    update.fence_members(members)
    return update.outcome(answer)


def _downgrade(
    update: ConsumerGroupUpdate,
    updated: ConsumerGroupMember,
    *,
    subscription_changed: bool,
    owned: Mapping[bytes, AbstractSet[int]],
) -> ConsumerOutcome[JoinAnswer]:
    """Return the outcome that makes the group a classic one: its last member of the new protocol is a classic one now.

    Raises ApiError: GROUP_ID_NOT_FOUND when the metadata of a member cannot be read.
    """
    group, topics = update.group, update.context.topics
    reason = None
    # A target of an earlier epoch lacks this request's changes, so the classic group begins with a rebalance.
    if group.assignment_epoch < update.group_epoch:
        reason = f"Downgrade group {group.group_id} from consumer to classic with stale assignment."
    else:
        target = group.assignment_epoch, group.target_of(updated.member_id, updated.instance_id)
        updated = update.reconcile(updated, target, subscription_changed=subscription_changed, owned=owned)
    classic, records = downgraded(group, (), updated, update.context.clock, topics)
    records = [*update.records, *records]
    return ConsumerOutcome(_joined(updated), group, records, downgraded=classic, rebalance_reason=reason)


def _joining_member(update: ConsumerGroupUpdate, terms: JoinTerms, member_id: str) -> ConsumerGroupMember:
    """Return the member as it was, or a new one. Raises ApiError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID."""
    group = update.group
    if terms.group_instance_id is None:
        return group.members.get(member_id) or ConsumerGroupMember(member_id)
    if terms.member_id != UNKNOWN_MEMBER_ID:
        return known_static_member(group, member_id, terms.group_instance_id)
    existing = group.static_member(terms.group_instance_id)
    return ConsumerGroupMember(member_id) if existing is None else update.replace_static_member(existing, member_id)


def _subscription(terms: JoinTerms) -> Subscription:
    """Return the subscription, which is the same in all of a member's protocols.

    Raises ApiError: UNKNOWN_SERVER_ERROR when it cannot be read.
    """
    try:
        return decode_subscription(terms.protocols[0][1])
    except DecodeError as error:
        raise ApiError(
            ErrorCode.UNKNOWN_SERVER_ERROR, "Malformed embedded consumer protocol in subscription deserialization."
        ) from error


def _updated(member: ConsumerGroupMember, terms: JoinTerms, subscription: Subscription) -> ConsumerGroupMember:
    # A timeout of -1, and a subscription of a version without a rack, leave the member's values as they were.
    timeout_ms = terms.rebalance_timeout_ms
    return replace(
        member,
        instance_id=terms.group_instance_id or member.instance_id,
        rack_id=subscription.rack_id or member.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        subscribed_topic_names=frozenset(subscription.topics),
        subscribed_topic_regex="",
        client_id=terms.client_id,
        client_host=terms.client_host,
        classic=ClassicMetadata(terms.session_timeout_ms, terms.protocols),
    )


def _joined(member: ConsumerGroupMember) -> JoinAnswer:
    name = None if member.classic is None else member.classic.supported_protocols[0][0]
    # Without a leader and without a list of members: the coordinator assigns, so no member has to.
    return JoinAnswer(ErrorCode.NONE, member.member_id, member.member_epoch, PROTOCOL_TYPE, name)


def _classic_member(
    group: ConsumerGroup, member_id: str, instance_id: str | None
) -> tuple[ConsumerGroupMember, ClassicMetadata]:
    """Return the member and its classic part. Raises ApiError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID."""
    member = group.member(member_id) if instance_id is None else known_static_member(group, member_id, instance_id)
    if member.classic is None:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member.member_id} does not use the classic protocol.")
    return member, member.classic


def _leaving_member(group: ConsumerGroup, leaving: LeavingMember) -> ConsumerGroupMember:
    """Return the member to remove; an administrator may name a static member by its instance id alone.

    Raises ApiError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
    """
    if leaving.group_instance_id is None:
        return group.member(leaving.member_id)
    member = group.static_member(leaving.group_instance_id)
    if member is not None and leaving.member_id == UNKNOWN_MEMBER_ID:
        return member
    return known_static_member(group, leaving.member_id, leaving.group_instance_id)


def _check_generation(member: ConsumerGroupMember, generation: int) -> None:
    """Check the generation of a request. Raises ApiError: ILLEGAL_GENERATION unless it is the member's epoch."""
    if generation != member.member_epoch:
        raise ApiError(
            ErrorCode.ILLEGAL_GENERATION,
            f"The request generation id {generation} is not equal to the member epoch {member.member_epoch} of member "
            f"{member.member_id}.",
        )


def _is_behind(group: ConsumerGroup, member: ConsumerGroupMember) -> bool:
    """Return whether there is another assignment for the member, or would be if it joined.

    The latter counts only without members of the new protocol, which would compute the assignment with their next
    heartbeat. (In Kafka 4.3 such a group, if it may not be downgraded, waits for ever.)
    """
    if member.member_epoch < group.assignment_epoch:
        return True
    return group.group_epoch > group.assignment_epoch and group.classic_member_count == len(group.members)


def _join_deadline(member: ConsumerGroupMember) -> TimerChange:
    return TimerChange(TimerKind.JOIN, member.member_id, member.rebalance_timeout_ms, only_if_absent=True)
