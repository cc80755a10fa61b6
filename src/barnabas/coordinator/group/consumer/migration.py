"""The change of a working group's protocol (KIP-848): classic groups become consumer groups, and back.

Called by `ConsumerGroupService` and `consumer.classic_requests` under the group's lock. Pure. A classic group becomes a
consumer group when a member joins it by the new protocol. Its other members go on as they are, each with its
partitions. The group becomes a classic one again when the last member of the new protocol leaves.
`group.consumer.migration.policy` says which way is open.
Kafka: GroupMetadataManager.convertToConsumerGroup and convertToClassicGroup, ConsumerGroup.fromClassicGroup,
ClassicGroup.fromConsumerGroup.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet

from barnabas.coordinator.group.classic.classic_group import ClassicGroup
from barnabas.coordinator.group.classic.classic_group_member import NO_ASSIGNMENT, ClassicMember, MemberTerms
from barnabas.coordinator.group.classic.states import ClassicState
from barnabas.coordinator.group.consumer.consumer_group import ConsumerGroup
from barnabas.coordinator.group.consumer.consumer_group_member import (
    ClassicMetadata,
    ConsumerGroupMember,
    ReconciliationState,
)
from barnabas.coordinator.group.consumer.consumer_group_records import (
    ConsumerGroupKind,
    ConsumerGroupMetadataValue,
    GroupKey,
    MemberKey,
    TargetAssignmentMetadataValue,
    record,
    target_partitions,
)
from barnabas.coordinator.group.consumer.topics.group_topics import ClusterTopics
from barnabas.coordinator.group.group_config import GroupCoordinatorConfig
from barnabas.coordinator.runtime.record import CoordinatorRecord
from barnabas.protocol.consumer_protocol import (
    PROTOCOL_TYPE,
    Assignment,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    subscription_version,
)
from barnabas.protocol.errors import ApiError, DecodeError, ErrorCode
from barnabas.runtime.clock import Clock

logger = logging.getLogger(__name__)

_UPGRADING = ("upgrade", "bidirectional")
_DOWNGRADING = ("downgrade", "bidirectional")
_CUSTOM_ASSIGNOR_HINT = (
    " Please refer to the documentation or switch to a default assignor before re-attempting the upgrade."
)


def upgraded(
    classic: ClassicGroup, config: GroupCoordinatorConfig, topics: ClusterTopics
) -> tuple[ConsumerGroup, list[CoordinatorRecord]]:
    """Return the consumer group that a classic group becomes, and the records that make it one.

    Raises ApiError: GROUP_ID_NOT_FOUND when the policy, the protocol type, the size, or a member's metadata forbids it.
    """
    group_id = classic.group_id
    if config.consumer.migration_policy not in _UPGRADING:
        raise _not_upgradable(group_id, "online upgrade is disabled")
    if classic.protocol_type != PROTOCOL_TYPE:
        raise _not_upgradable(group_id, "the group does not use the consumer embedded protocol")
    if len(classic.members) > config.consumer.max_size:
        raise _not_upgradable(group_id, "the group size exceeds the consumer group maximum size")
    # The generation becomes the epoch. It must not fall, or members with their old generation would not be fenced.
    group = ConsumerGroup(group_id)
    group.group_epoch = group.target.epoch = classic.generation
    try:
        for member in classic.members.by_id.values():
            consumer = _consumer_member(member, classic, topics)
            group.target.put(consumer.member_id, consumer.assigned_partitions)
            group.put_member(consumer)
    # StopIteration is from `ClassicMember.metadata`: the member does not know the group's protocol.
    except (DecodeError, StopIteration) as error:
        logger.warning("Cannot upgrade classic group %s to consumer group: %s.", group_id, error)
        raise _not_upgradable(group_id, "the embedded consumer protocol is malformed") from error
    group.metadata_hash = topics.hash_of(group.topics.names())
    logger.info("[GroupId %s] Converted the classic group to a consumer group.", group_id)
    return group, [*classic.tombstones(), *_records(group)]


def can_downgrade_without(
    group: ConsumerGroup, leaving: Collection[ConsumerGroupMember], config: GroupCoordinatorConfig
) -> bool:
    """Return whether the group becomes a classic one when these members leave."""
    left = len(group.members) - len(leaving)
    return group.are_all_classic_without(leaving) and left > 0 and _may_downgrade(group.group_id, left, config)


def can_downgrade_replacing(
    group: ConsumerGroup, replaced: ConsumerGroupMember, config: GroupCoordinatorConfig
) -> bool:
    """Return whether the group becomes a classic one when a static member is back by the classic protocol."""
    is_last = group.classic_member_count == len(group.members) - 1 and replaced.classic is None
    return is_last and _may_downgrade(group.group_id, len(group.members), config)


def downgraded(
    group: ConsumerGroup,
    leaving: Iterable[ConsumerGroupMember],
    joining: ConsumerGroupMember | None,
    clock: Clock,
    topics: ClusterTopics,
) -> tuple[ClassicGroup, list[CoordinatorRecord]]:
    """Return the classic group that a consumer group becomes, and the records that make it one.

    The classic group is stable at the group's epoch. joining: a static member that is back by the classic protocol; it
    takes the target of the member that it replaces. Raises ApiError: GROUP_ID_NOT_FOUND for unreadable metadata.
    """
    replaced = None if joining is None else group.static_member(joining.instance_id)
    gone = {member.member_id for member in leaving}
    stays = [member for member in group.members.values() if member.member_id not in gone and member is not replaced]
    if joining is not None:
        stays.append(joining)
    classic = ClassicGroup(group.group_id, clock)
    classic.state = ClassicState.STABLE
    # Not the assignment's epoch, which may be lower: members with an older epoch have to be fenced by their generation.
    classic.generation = group.group_epoch
    classic.kind = PROTOCOL_TYPE
    for member in stays:
        classic.members.add(_classic_member(member, classic))
    classic.protocol_name = classic.members.select_protocol()
    classic.find_subscribed_topics()
    _assign_targets(classic, group, topics)
    # The update has replaced the static member already, in the records before these: the tombstones are of its new id.
    ids = [
        joining.member_id if joining is not None and member is replaced else member_id
        for member_id, member in group.members.items()
    ]
    stored = classic.record({key: member.assignment for key, member in classic.members.by_id.items()})
    logger.info("[GroupId %s] Converted the consumer group to a classic group.", group.group_id)
    return classic, [*group.tombstones_of(ids), stored]


def _assign_targets(classic: ClassicGroup, group: ConsumerGroup, topics: ClusterTopics) -> None:
    """Give each member of the classic group its target. Raises ApiError: GROUP_ID_NOT_FOUND for unreadable metadata."""
    try:
        for member in classic.members.by_id.values():
            target = group.target_of(member.member_id, member.group_instance_id)
            metadata = member.metadata(classic.protocol_name or "")
            member.assignment = encode_partitions(target, metadata, topics)
    except DecodeError as error:
        logger.warning("Cannot downgrade the consumer group %s: %s.", group.group_id, error)
        raise ApiError(
            ErrorCode.GROUP_ID_NOT_FOUND, f"Cannot downgrade the classic group {group.group_id}: {error}."
        ) from error


def encode_partitions(
    partitions: Mapping[bytes, AbstractSet[int] | Mapping[int, int]], metadata: bytes, topics: ClusterTopics
) -> bytes:
    """Encode an assignment for a classic member, in the version of its subscription.

    Raises DecodeError when the metadata has no version.
    """
    return encode_assignment(Assignment(topics.by_name(partitions)), subscription_version(metadata))


def _consumer_member(member: ClassicMember, classic: ClassicGroup, topics: ClusterTopics) -> ConsumerGroupMember:
    """Return the member with its partitions, at the group's generation.

    Raises ApiError: GROUP_ID_NOT_FOUND when a custom assignor has added data of its own to the assignment, which the
    coordinator could not make. Raises DecodeError when the member's metadata cannot be read.
    """
    assigned: dict[bytes, frozenset[int]] = {}
    if member.assignment != NO_ASSIGNMENT:
        assignment = decode_assignment(member.assignment)
        if assignment.user_data:
            reason = "an unsupported custom assignor is in use"
            raise _not_upgradable(classic.group_id, reason, _CUSTOM_ASSIGNOR_HINT)
        assigned = topics.by_id(assignment.partitions)
    subscription = decode_subscription(member.metadata(classic.protocol_name or ""))
    epoch = classic.generation
    return ConsumerGroupMember(
        member.member_id,
        member_epoch=epoch,
        previous_member_epoch=epoch,
        state=ReconciliationState.STABLE,
        instance_id=member.group_instance_id,
        rack_id=subscription.rack_id,
        rebalance_timeout_ms=member.terms.rebalance_timeout_ms,
        client_id=member.terms.client_id,
        client_host=member.terms.client_host,
        subscribed_topic_names=frozenset(subscription.topics),
        assigned_partitions={topic_id: dict.fromkeys(numbers, epoch) for topic_id, numbers in assigned.items()},
        classic=ClassicMetadata(member.terms.session_timeout_ms, member.terms.protocols),
    )


def _classic_member(member: ConsumerGroupMember, classic: ClassicGroup) -> ClassicMember:
    """Return the member as one of the classic group.

    Raises ValueError for a member of the new protocol: the caller has checked that there is none.
    """
    kept = member.classic
    if kept is None:
        raise ValueError(f"{member.member_id} does not speak the classic protocol")
    terms = MemberTerms(
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        kept.session_timeout_ms,
        kept.supported_protocols,
    )
    session = classic.members.new_session(member.member_id, kept.session_timeout_ms)
    return ClassicMember(member.member_id, member.instance_id, terms, session)


def _records(group: ConsumerGroup) -> Iterable[CoordinatorRecord]:
    """Yield the records of a whole group, in Kafka's order."""
    group_key = GroupKey(group.group_id)
    for member in group.members.values():
        yield member.metadata_record(group.group_id)
    value = ConsumerGroupMetadataValue(epoch=group.group_epoch, metadata_hash=group.metadata_hash)
    yield record(ConsumerGroupKind.GROUP_METADATA, group_key, value)
    for member_id in group.members:
        key = MemberKey(group.group_id, member_id)
        yield record(ConsumerGroupKind.TARGET_ASSIGNMENT_MEMBER, key, target_partitions(group.target_of(member_id)))
    target = TargetAssignmentMetadataValue(assignment_epoch=group.assignment_epoch)
    yield record(ConsumerGroupKind.TARGET_ASSIGNMENT_METADATA, group_key, target)
    for member in group.members.values():
        yield member.assignment_record(group.group_id)


def _may_downgrade(group_id: str, members: int, config: GroupCoordinatorConfig) -> bool:
    reason = None
    if config.consumer.migration_policy not in _DOWNGRADING:
        reason = "the online downgrade is disabled"
    elif members > config.max_size:
        reason = "its group size is greater than classic group max size"
    if reason is not None:
        logger.info("Cannot downgrade consumer group %s to classic group because %s.", group_id, reason)
    return reason is None


def _not_upgradable(group_id: str, reason: str, hint: str = "") -> ApiError:
    message = f"Cannot upgrade classic group {group_id} to consumer group because {reason}.{hint}"
    logger.info("%s", message)
    return ApiError(ErrorCode.GROUP_ID_NOT_FOUND, message)
