"""The replay of records into consumer groups, after an append and when a partition is loaded (KIP-848).

Called by `ConsumerGroupService` under the group's lock, and by the loader, before any request can see the groups. Pure.
Compaction may have dropped any record that a later one of the same key replaced, so every record says all it has to
say, and the order of records of different keys tells nothing. Kafka: GroupMetadataManager.replay.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from barnabas.coordinator.group.consumer.consumer_group import NO_EPOCH, ConsumerGroup
from barnabas.coordinator.group.consumer.consumer_group_member import LEAVE_GROUP_EPOCH, ConsumerGroupMember
from barnabas.coordinator.group.consumer.consumer_group_records import (
    AnyKey,
    AnyValue,
    ConsumerGroupKind,
    ConsumerGroupMetadataValue,
    CurrentMemberAssignmentValue,
    MemberKey,
    MemberMetadataValue,
    RegularExpressionKey,
    RegularExpressionValue,
    TargetAssignmentMemberValue,
    TargetAssignmentMetadataValue,
    decode_key,
    decode_value,
)
from barnabas.coordinator.group.consumer.topics.group_topics import ResolvedRegularExpression
from barnabas.protocol.errors import DecodeError

logger = logging.getLogger(__name__)

RECORDS_PER_STEP = 20
"""The number of records after which the loader may pause."""
# Expressions of an earlier start are resolved again: metadata versions begin at 0 with each start of a broker.
_VERSION_BEFORE_ANY = -1


def replay(group: ConsumerGroup, key: bytes, value: bytes | None) -> None:
    """Apply one record of the group; value None: a tombstone. Raises DecodeError when it cannot be read."""
    kind, decoded_key = decode_key(key)
    if value is None:
        _remove(group, kind, decoded_key)
    else:
        _put(group, decoded_key, decode_value(kind, value))


def restore_consumer_groups(latest: Iterable[tuple[bytes, bytes]]) -> Iterator[Mapping[str, ConsumerGroup]]:
    """Yield the groups made from the newest record of each key, in any order, without tombstones.

    Empty results between steps let the caller pause; the last result has all groups. A record that cannot be read is
    logged and left out.
    """
    groups: dict[str, ConsumerGroup] = {}
    for count, (key, value) in enumerate(latest, 1):
        try:
            _, decoded = decode_key(key)
            replay(groups.setdefault(decoded.group_id, ConsumerGroup(decoded.group_id)), key, value)
        except DecodeError:
            logger.exception("A record of a consumer group cannot be read: its key is %r", key)
        if not count % RECORDS_PER_STEP:
            yield {}
    for group in groups.values():
        for regex, resolved in list(group.topics.resolved.items()):
            group.topics.resolve(regex, replace(resolved, version=_VERSION_BEFORE_ANY))
    yield groups


def _put(group: ConsumerGroup, key: AnyKey, value: AnyValue) -> None:
    if isinstance(value, MemberMetadataValue) and isinstance(key, MemberKey):
        member = group.members.get(key.member_id) or ConsumerGroupMember(key.member_id)
        group.put_member(member.with_metadata(value))
    elif isinstance(value, CurrentMemberAssignmentValue) and isinstance(key, MemberKey):
        member = group.members.get(key.member_id) or ConsumerGroupMember(key.member_id)
        group.put_member(member.with_assignment(value))
    elif isinstance(value, TargetAssignmentMemberValue) and isinstance(key, MemberKey):
        group.target.put(key.member_id, {topic.topic_id: topic.partitions for topic in value.topic_partitions})
    elif isinstance(value, RegularExpressionValue) and isinstance(key, RegularExpressionKey):
        found = ResolvedRegularExpression(frozenset(value.topics), value.version, value.timestamp)
        group.topics.resolve(key.regular_expression, found)
    elif isinstance(value, ConsumerGroupMetadataValue):
        group.group_epoch = value.epoch
        group.metadata_hash = value.metadata_hash
    elif isinstance(value, TargetAssignmentMetadataValue):
        group.target.epoch = value.assignment_epoch
        group.target.timestamp_ms = value.assignment_timestamp
    # Kind 4, of Kafka 4.0: its content is not used. The next change of the group writes its tombstone.
    else:
        group.has_partition_metadata = True


def _remove(group: ConsumerGroup, kind: ConsumerGroupKind, key: AnyKey) -> None:
    if isinstance(key, MemberKey):
        if kind is ConsumerGroupKind.MEMBER_METADATA:
            group.remove_member(key.member_id)
        elif kind is ConsumerGroupKind.TARGET_ASSIGNMENT_MEMBER:
            group.target.remove(key.member_id)
        # The tombstone of kind 8. A member that is gone already must not come back: after compaction the tombstones
        # may come in any order.
        elif key.member_id in group.members:
            gone = replace(
                group.members[key.member_id],
                member_epoch=LEAVE_GROUP_EPOCH,
                previous_member_epoch=LEAVE_GROUP_EPOCH,
                assigned_partitions={},
                partitions_pending_revocation={},
            )
            group.put_member(gone)
    elif isinstance(key, RegularExpressionKey):
        group.topics.resolve(key.regular_expression, None)
    elif kind is ConsumerGroupKind.PARTITION_METADATA:
        group.has_partition_metadata = False
    elif kind is ConsumerGroupKind.TARGET_ASSIGNMENT_METADATA:
        group.target.epoch = NO_EPOCH
        group.target.timestamp_ms = 0
    # A tombstone of the group itself (kind 3) needs nothing here: its writer removes the group from the table.
