"""ConsumerGroupHeartbeat (KIP-848): a member joins, reports its partitions, gets its assignment, or leaves.

Called by `ConsumerGroupService` under the group's lock. Pure: a group and a request give records and an answer; the
group does not change before the records are in the log. Error texts are Kafka's. Kafka: GroupMetadataManager
(consumerGroupHeartbeat, consumerGroupLeave), GroupCoordinatorService (throwIfConsumerGroupHeartbeatRequestIsInvalid).
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace

from barnabas.coordinator.group.consumer.consumer_group import ConsumerGroup
from barnabas.coordinator.group.consumer.consumer_group_member import (
    LEAVE_GROUP_EPOCH,
    LEAVE_GROUP_STATIC_EPOCH,
    ConsumerGroupMember,
    HeartbeatAnswer,
    HeartbeatTerms,
    PartitionEpochs,
    TimerKind,
    keeps_all_values,
)
from barnabas.coordinator.group.consumer.consumer_group_outcome import ConsumerOutcome, TimerChange
from barnabas.coordinator.group.consumer.update import ConsumerGroupUpdate, RegexChange, UpdateContext
from barnabas.protocol.errors import ApiError, ErrorCode

logger = logging.getLogger(__name__)


def check_heartbeat(terms: HeartbeatTerms, assignors: Collection[str]) -> None:
    """Check a request without its group.

    Raises ApiError: INVALID_REQUEST or UNSUPPORTED_ASSIGNOR when the request is wrong for every group.
    """
    if terms.needs_member_id or terms.member_epoch > 0 or terms.member_epoch == LEAVE_GROUP_EPOCH:
        _refuse_blank(terms.member_id, "MemberId can't be empty.")
    _refuse_blank(terms.group_id, "GroupId can't be empty.")
    _refuse_blank(terms.instance_id, "InstanceId can't be empty.")
    _refuse_blank(terms.rack_id, "RackId can't be empty.")
    if terms.member_epoch == 0:
        if terms.rebalance_timeout_ms == -1:
            raise _invalid("RebalanceTimeoutMs must be provided in first request.")
        if terms.owned is None or terms.owned:
            raise _invalid("TopicPartitions must be empty when (re-)joining.")
        if terms.subscribed_topic_names is None and terms.subscribed_topic_regex is None:
            raise _invalid("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")
    elif terms.member_epoch == LEAVE_GROUP_STATIC_EPOCH:
        if terms.instance_id is None:
            raise _invalid("InstanceId can't be null.")
    elif terms.member_epoch < LEAVE_GROUP_STATIC_EPOCH:
        raise _invalid("MemberEpoch is invalid.")
    if terms.server_assignor is not None and terms.server_assignor not in assignors:
        raise ApiError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {terms.server_assignor} is not supported. Supported assignors: {', '.join(assignors)}.",
        )


def is_leave(terms: HeartbeatTerms) -> bool:
    """Return whether the member leaves, for good or, as a static member, for a while."""
    return terms.member_epoch in (LEAVE_GROUP_EPOCH, LEAVE_GROUP_STATIC_EPOCH)


def heartbeat(group: ConsumerGroup, terms: HeartbeatTerms, context: UpdateContext) -> ConsumerOutcome[HeartbeatAnswer]:
    """Let a member join or stay; `terms` has its id, which the caller may have made.

    Raises ApiError: GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, FENCED_INSTANCE_ID,
    UNRELEASED_INSTANCE_ID, INVALID_REQUEST or INVALID_REGULAR_EXPRESSION when the group rejects the member;
    UNKNOWN_SERVER_ERROR when the assignor fails.
    """
    update = ConsumerGroupUpdate(group, context)
    update.check_size(terms.member_id)
    member = _member(update, terms)
    updated = _updated(member, terms)
    # The order of the steps is that of the records in the log, and of the epochs: member, group, target, member again.
    names_changed = update.change_member(member, updated)
    regex_change = update.change_regex(member, updated)
    is_changed = names_changed or regex_change is RegexChange.CHANGED_AND_RESOLVED
    if is_changed or update.are_topics_outdated:
        update.update_epoch(is_changed, member, updated)
    target = update.update_target(member, updated)
    reconciled = update.reconcile(
        updated, target, subscription_changed=names_changed or regex_change is not RegexChange.NONE, owned=terms.owned
    )
    update.timers.append(
        TimerChange(TimerKind.SESSION, reconciled.member_id, context.config.consumer.session_timeout_ms)
    )
    # A member that sent all its values has lost track, perhaps with an answer: it gets its assignment in any case.
    needs_assignment = (
        terms.member_epoch == 0 or terms.is_full or member.assigned_partitions != reconciled.assigned_partitions
    )
    answer = HeartbeatAnswer(
        ErrorCode.NONE,
        None,
        reconciled.member_id,
        reconciled.member_epoch,
        context.config.consumer.heartbeat_interval_ms,
        reconciled.assigned_partitions if needs_assignment else None,
    )
    return update.outcome(answer)


def leave(
    group: ConsumerGroup, terms: HeartbeatTerms
) -> tuple[ConsumerGroupMember, ConsumerOutcome[HeartbeatAnswer] | None]:
    """Return the leaving member, and the outcome if it is a static member that leaves for a while.

    Without an outcome the caller fences the member. Raises ApiError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
    """
    if terms.instance_id is None:
        member = group.member(terms.member_id)
        logger.info("[GroupId %s] Member %s left the consumer group.", group.group_id, terms.member_id)
        return member, None
    member = known_static_member(group, terms.member_id, terms.instance_id)
    is_temporary = terms.member_epoch == LEAVE_GROUP_STATIC_EPOCH
    logger.info(
        "[GroupId %s] Static member %s with instance id %s %sleft the consumer group.",
        group.group_id,
        terms.member_id,
        terms.instance_id,
        "temporarily " if is_temporary else "",
    )
    if not is_temporary:
        return member, None
    # The partitions that the member had to give up are free. Its other partitions wait for it, and count as assigned in
    # epoch 0, as in Kafka.
    leaving = replace(
        member,
        member_epoch=LEAVE_GROUP_STATIC_EPOCH,
        assigned_partitions={
            topic_id: dict.fromkeys(epochs, 0) for topic_id, epochs in member.assigned_partitions.items()
        },
        partitions_pending_revocation={},
    )
    answer = HeartbeatAnswer(ErrorCode.NONE, None, member.member_id, LEAVE_GROUP_STATIC_EPOCH)
    return member, ConsumerOutcome(answer, group, [leaving.assignment_record(group.group_id)])


def known_static_member(group: ConsumerGroup, member_id: str, instance_id: str) -> ConsumerGroupMember:
    """Return the static member of this instance.

    Raises ApiError: UNKNOWN_MEMBER_ID when there is none, FENCED_INSTANCE_ID when it has another member id.
    """
    member = group.static_member(instance_id)
    if member is None:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if member.member_id != member_id:
        logger.info(
            "[GroupId %s] Static member %s with instance id %s is fenced by existing member %s.",
            group.group_id,
            member_id,
            instance_id,
            member.member_id,
        )
        raise ApiError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member {member.member_id}.",
        )
    return member


def _member(update: ConsumerGroupUpdate, terms: HeartbeatTerms) -> ConsumerGroupMember:
    """Return the member as it was before the request, or a new one.

    Raises ApiError: UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, FENCED_INSTANCE_ID, UNRELEASED_INSTANCE_ID, or
    INVALID_REQUEST.
    """
    group, joins = update.group, terms.member_epoch == 0
    if terms.instance_id is None:
        found = group.members.get(terms.member_id)
        member = found or (ConsumerGroupMember(terms.member_id) if joins else group.member(terms.member_id))
        _check_epoch(member, terms.member_epoch, terms.owned)
        return member
    if not joins:
        member = known_static_member(group, terms.member_id, terms.instance_id)
        _check_epoch(member, terms.member_epoch, terms.owned)
        return member
    existing = group.static_member(terms.instance_id)
    if existing is None:
        return group.members.get(terms.member_id) or ConsumerGroupMember(terms.member_id)
    # An instance is taken until its member leaves or its session expires, so that two consumers with one instance id do
    # not push each other out for ever. A classic member cannot leave for a while, and is replaced at once.
    if existing.classic is None and existing.member_epoch != LEAVE_GROUP_STATIC_EPOCH:
        raise ApiError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {terms.member_id} with instance id {terms.instance_id} cannot join the group because the "
            f"instance id is owned by {existing.member_id} member.",
        )
    if terms.member_id != existing.member_id and terms.member_id in group.members:
        # No member would then have the target of its own id. (Kafka lets it in, and loses that target.)
        raise _invalid(f"MemberId {terms.member_id} is another member of the group.")
    return update.replace_static_member(existing, terms.member_id)


def _check_epoch(member: ConsumerGroupMember, epoch: int, owned: Mapping[bytes, AbstractSet[int]] | None) -> None:
    """Check the epoch that a member names: its own, or 0 to join again.

    The previous epoch is accepted if the member owns no more than its assignment: an answer was lost. Raises ApiError:
    FENCED_MEMBER_EPOCH for any other epoch.
    """
    if epoch in (0, member.member_epoch):
        return
    is_ahead = epoch > member.member_epoch
    if not is_ahead and epoch == member.previous_member_epoch and _is_part_of(owned, member.assigned_partitions):
        return
    raise ApiError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {'greater' if is_ahead else 'smaller'} member epoch ({epoch}) than the one "
        f"known by the group coordinator ({member.member_epoch}). The member must abandon all its partitions and "
        "rejoin.",
    )


def _is_part_of(owned: Mapping[bytes, AbstractSet[int]] | None, assigned: PartitionEpochs) -> bool:
    if owned is None:
        return False
    return all(topic_id in assigned and numbers <= assigned[topic_id].keys() for topic_id, numbers in owned.items())


def _updated(member: ConsumerGroupMember, terms: HeartbeatTerms) -> ConsumerGroupMember:
    """Return the member with the request's values; a value that the request leaves out stays as it is."""
    if keeps_all_values(terms) and member.classic is None:
        is_the_same = member.client_id == terms.client_id and member.client_host == terms.client_host
        # Nearly every heartbeat ends here: the member is not copied, and no set of topic names is built.
        if is_the_same and terms.instance_id in {None, member.instance_id}:
            return member
    names, regex = terms.subscribed_topic_names, terms.subscribed_topic_regex
    return replace(
        member,
        instance_id=member.instance_id if terms.instance_id is None else terms.instance_id,
        rack_id=member.rack_id if terms.rack_id is None else terms.rack_id,
        rebalance_timeout_ms=(
            member.rebalance_timeout_ms if terms.rebalance_timeout_ms == -1 else terms.rebalance_timeout_ms
        ),
        server_assignor=member.server_assignor if terms.server_assignor is None else terms.server_assignor,
        subscribed_topic_names=member.subscribed_topic_names if names is None else frozenset(names),
        subscribed_topic_regex=member.subscribed_topic_regex if regex is None else regex,
        client_id=terms.client_id,
        client_host=terms.client_host,
        classic=None,
    )


def _refuse_blank(text: str | None, message: str) -> None:
    """Check a text of the request. Raises ApiError: INVALID_REQUEST when it is given and blank."""
    if text is not None and not text.strip():
        raise _invalid(message)


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, message)
