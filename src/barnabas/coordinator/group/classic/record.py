"""A classic group as a record of `__consumer_offsets`, and back.

Used by `ClassicGroup`, when a generation is complete, and by whoever loads groups. Pure.
Kafka: GroupMetadataManager.groupMetadataValue and readGroupMessageValue.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from barnabas.coordinator.group.classic.member import ClassicMember
from barnabas.coordinator.group.log.record import GroupRecord
from barnabas.coordinator.group.log.schemas import NO_TIMESTAMP, GroupMetadataValue, group_key, group_value


def classic_group_record(
    group_id: str,
    *,
    protocol_type: str | None,
    generation: int,
    protocol_name: str | None,
    leader_id: str | None,
    state_since_ms: int | None,
    members: Iterable[ClassicMember],
    assignments: Mapping[str, bytes],
) -> GroupRecord:
    """The group with these assignments, one for each member. protocol_name: None only of a group without members."""
    value = GroupMetadataValue(
        protocol_type=protocol_type or "",
        generation=generation,
        protocol=protocol_name,
        leader=leader_id,
        current_state_timestamp=NO_TIMESTAMP if state_since_ms is None else state_since_ms,
        members=[_stored_member(member, protocol_name or "", assignments[member.member_id]) for member in members],
    )
    return GroupRecord(group_key(group_id), group_value(value))


def classic_group_tombstone(group_id: str) -> GroupRecord:
    """The record that removes the group."""
    return GroupRecord(group_key(group_id), None)


def _stored_member(member: ClassicMember, protocol_name: str, assignment: bytes) -> GroupMetadataValue.MemberMetadata:
    return GroupMetadataValue.MemberMetadata(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout=member.rebalance_timeout_ms,
        session_timeout=member.session_timeout_ms,
        subscription=member.metadata(protocol_name),
        assignment=assignment,
    )
