"""Heartbeat, SyncGroup and LeaveGroup of a classic group.

Called by `ClassicGroupService` under the group's lock. Pure: functions of the group and the request. SyncGroups are
answered through the group's outcome. Kafka: GroupCoordinator.handleHeartbeat, handleSyncGroup, handleLeaveGroup.
"""

from __future__ import annotations

from functools import partial

from barnabas.coordinator.group.classic.group import ClassicGroup
from barnabas.coordinator.group.classic.member import NO_ASSIGNMENT, SyncReply
from barnabas.coordinator.group.classic.states import HEARTBEAT_ANSWERS, SYNC_REFUSALS, ClassicState
from barnabas.coordinator.group.classic.terms import UNKNOWN_MEMBER_ID, LeavingMember, SyncAnswer, SyncTerms
from barnabas.protocol.errors import ErrorCode


def heartbeat(group: ClassicGroup, member_id: str, group_instance_id: str | None, generation: int) -> ErrorCode:
    """Restart the member's session; the answer tells the member of a rebalance."""
    # With COORDINATOR_NOT_AVAILABLE the client looks for the coordinator again, and keeps its member id.
    if group.state is ClassicState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    error = group.check_member(member_id, group_instance_id, generation)
    if error is not ErrorCode.NONE:
        return error
    group.members.refresh_session(member_id)
    return HEARTBEAT_ANSWERS[group.state]


def sync(group: ClassicGroup, terms: SyncTerms, reply: SyncReply) -> None:
    """Let a member ask for its assignment. The leader's SyncGroup brings the assignments of all members."""
    error = _check_sync(group, terms)
    if error is not ErrorCode.NONE:
        group.answer_at_once(partial(reply, SyncAnswer(error)))
        return
    members = group.members
    member = members.by_id[terms.member_id]
    group.note_sync(member)
    if group.state is ClassicState.STABLE:
        group.answer_at_once(partial(reply, group.assignment_of(member)))
        members.refresh_session(member.member_id)
        return
    # The client gave up its earlier SyncGroup, or a message was lost; no request may wait for ever.
    members.answer_sync(member, SyncAnswer(ErrorCode.REBALANCE_IN_PROGRESS))
    member.sync_reply = reply
    if members.leader_id == member.member_id:
        # Members that the leader left out get an empty assignment, and ids that are no members are dropped.
        group.store_assignment({each: terms.assignments.get(each, NO_ASSIGNMENT) for each in members.by_id})


def _check_sync(group: ClassicGroup, terms: SyncTerms) -> ErrorCode:
    if group.state is ClassicState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    error = group.check_member(terms.member_id, terms.group_instance_id, terms.generation)
    if error is not ErrorCode.NONE:
        return error
    if terms.protocol_type is not None and terms.protocol_type != group.kind:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if terms.protocol_name is not None and terms.protocol_name != group.protocol_name:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return SYNC_REFUSALS[group.state]


def leave(group: ClassicGroup, leaving: LeavingMember) -> ErrorCode:
    """Remove a member, or a pending member id. An administrator may name a static member by its instance id alone."""
    members, member_id, group_instance_id = group.members, leaving.member_id, leaving.group_instance_id
    if member_id == UNKNOWN_MEMBER_ID:
        current = None if group_instance_id is None else members.static_ids.get(group_instance_id)
        if current is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        # The member id is the present one by definition, so there is nothing to compare it with.
        member_id, group_instance_id = current, None
    if member_id in members.pending:
        members.remove_pending(member_id)
        group.complete_joins()
        return ErrorCode.NONE
    error = members.check(member_id, group_instance_id)
    if error is ErrorCode.NONE:
        members.remove(members.by_id[member_id])
        group.rebalance(f"removing member {member_id} on LeaveGroup; client reason: {leaving.reason or 'not provided'}")
    return error
