"""What a JoinGroup does to a classic group.

Called by `ClassicGroupService` under the group's lock. Pure: functions of the group and the request's terms; whoever
joins is answered through the group's actions, at once or when the rebalance is over.
Kafka: GroupCoordinator.handleJoinGroup and what it calls.
"""

from __future__ import annotations

from functools import partial

from barnabas.coordinator.group.classic.group import NEW_MEMBER_JOIN_TIMEOUT_MS, ClassicGroup
from barnabas.coordinator.group.classic.member import ClassicMember, JoinReply
from barnabas.coordinator.group.classic.states import ClassicState
from barnabas.coordinator.group.classic.terms import UNKNOWN_MEMBER_ID, JoinAnswer, JoinTerms, Protocols
from barnabas.coordinator.group.group_config import GroupCoordinatorConfig
from barnabas.protocol.errors import ErrorCode
from barnabas.runtime.clock import NANOSECONDS_PER_MILLISECOND


def join(
    group: ClassicGroup, terms: JoinTerms, reply: JoinReply, config: GroupCoordinatorConfig, new_member_id: str
) -> None:
    """Let a member join, new or known. new_member_id: for one that has no id yet."""
    member_id = terms.member_id
    if not _has_room(group, member_id, config.max_size):
        _turn_out(group, member_id)
        _refuse(group, reply, ErrorCode.GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID)
    elif group.state is ClassicState.DEAD:
        _refuse(group, reply, ErrorCode.COORDINATOR_NOT_AVAILABLE, member_id)
    elif not _can_work_with(group, terms):
        _refuse(group, reply, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id)
    elif member_id != UNKNOWN_MEMBER_ID:
        _join_known(group, terms, reply, config)
    elif terms.group_instance_id is not None:
        _join_static(group, terms, reply, config, new_member_id)
    elif terms.needs_known_member_id:
        group.promise_place(group.new_session(new_member_id, terms.session_timeout_ms))
        _refuse(group, reply, ErrorCode.MEMBER_ID_REQUIRED, new_member_id)
    else:
        _add(group, new_member_id, terms, reply, config)


def _has_room(group: ClassicGroup, member_id: str, max_size: int) -> bool:
    """Whether the group takes this member. While it rebalances those count that have joined: should there be too many
    members, since the limit was lowered, the last ones to join are turned out."""
    members = group.members
    if group.state in {ClassicState.EMPTY, ClassicState.DEAD}:
        return True
    if group.state is ClassicState.PREPARING_REBALANCE:
        member = members.by_id.get(member_id)
        return (member is not None and member.join_reply is not None) or members.waiting < max_size
    return member_id in members.by_id or len(members) < max_size


def _turn_out(group: ClassicGroup, member_id: str) -> None:
    member = group.members.by_id.get(member_id)
    if member is not None:
        group.remove_member(member)
        group.complete_joins()
    elif member_id in group.members.pending:
        group.forget_pending(member_id)


def _can_work_with(group: ClassicGroup, terms: JoinTerms) -> bool:
    if group.state is ClassicState.EMPTY:
        return bool(terms.protocol_type) and bool(terms.protocols)
    return group.kind == terms.protocol_type and group.members.can_all(name for name, _ in terms.protocols)


def _refuse(group: ClassicGroup, reply: JoinReply, error: ErrorCode, member_id: str) -> None:
    group.actions.answers.append(partial(reply, JoinAnswer(error, member_id)))


def _add(
    group: ClassicGroup, member_id: str, terms: JoinTerms, reply: JoinReply, config: GroupCoordinatorConfig
) -> None:
    """A new member: the group rebalances, if it does not already."""
    session = group.new_session(member_id, terms.session_timeout_ms)
    session.expires_ns = group.clock.nanoseconds() + NEW_MEMBER_JOIN_TIMEOUT_MS * NANOSECONDS_PER_MILLISECOND
    member = ClassicMember(
        member_id,
        terms.group_instance_id,
        terms.client_id,
        terms.client_host,
        terms.rebalance_timeout_ms,
        terms.session_timeout_ms,
        terms.protocol_type,
        terms.protocols,
        session,
    )
    member.is_new = True
    group.add_member(member, reply)
    group.rebalance(
        f"adding new member {member_id}; client reason: {_reason(terms)}", config.initial_rebalance_delay_ms
    )


def _join_known(group: ClassicGroup, terms: JoinTerms, reply: JoinReply, config: GroupCoordinatorConfig) -> None:
    """A member that was told its id: it comes for the first time, or again."""
    members, member_id = group.members, terms.member_id
    pending = members.pending.get(member_id)
    if pending is not None:
        if terms.group_instance_id is not None:  # ids are promised to dynamic members only
            _refuse(group, reply, ErrorCode.UNKNOWN_SERVER_ERROR, UNKNOWN_MEMBER_ID)
            return
        group.end_session(members.pending.pop(member_id))
        _add(group, member_id, terms, reply, config)
        return
    error = members.check(member_id, terms.group_instance_id)
    if error is not ErrorCode.NONE:
        _refuse(group, reply, error, member_id)
        return
    member = members.by_id[member_id]
    is_same = member.protocols == terms.protocols
    leads = members.leader_id == member_id
    if (group.state is ClassicState.COMPLETING_REBALANCE and is_same) or (
        group.state is ClassicState.STABLE and is_same and not leads
    ):
        # It has not got its answer, perhaps; of a stable group it has nothing new to say. A leader that joins a stable
        # group again wants a rebalance: what it assigns has changed.
        group.actions.answers.append(partial(reply, group.joined(member_id)))
        return
    has_less_time = terms.session_timeout_ms < member.session_timeout_ms
    _update(group, member, terms, reply)
    if has_less_time:
        group.replace_session(member)  # whoever watches it would look too late
    group.rebalance(f"member {member_id} joins again; client reason: {_reason(terms)}")


def _update(group: ClassicGroup, member: ClassicMember, terms: JoinTerms, reply: JoinReply) -> None:
    """Take over what the member says of itself; its join waits."""
    group.members.set_protocols(member, terms.protocols)
    member.rebalance_timeout_ms = terms.rebalance_timeout_ms
    member.session_timeout_ms = terms.session_timeout_ms
    # An earlier join of it that waits was given up by whoever sent it, or a message is lost; nobody waits forever.
    group.answer_join(member, JoinAnswer(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))
    group.members.set_join_reply(member, reply)


def _join_static(
    group: ClassicGroup, terms: JoinTerms, reply: JoinReply, config: GroupCoordinatorConfig, new_member_id: str
) -> None:
    """A static member without an id: a new one, or one that was restarted and takes its own place (KIP-345)."""
    assert terms.group_instance_id is not None
    old_member_id = group.members.static_ids.get(terms.group_instance_id)
    if old_member_id is None:
        _add(group, new_member_id, terms, reply, config)
        return
    member = group.members.by_id[old_member_id]
    before = _Before(member, group.members.leader_id or "")
    group.fence(member)
    group.members.rename(member, new_member_id)
    _update(group, member, terms, reply)
    group.replace_session(member)
    if group.state is ClassicState.PREPARING_REBALANCE:
        group.complete_joins()
        return
    if group.state is ClassicState.STABLE and group.members.select_protocol() == group.protocol_name:
        # Nobody else need know: the member goes on with the assignment it had, once its new id is stored.
        assignments = {each.member_id: each.assignment for each in group.members.by_id.values()}
        group.store(assignments, partial(_on_replacement_stored, group, member, before, terms, reply))
        return
    # A leader that assigns just now knows it by its old id only; or another protocol would be chosen with it.
    group.rebalance(
        f"static member {terms.group_instance_id} was restarted as {new_member_id}; client reason: {_reason(terms)}"
    )


class _Before:
    """What a static member was before another one took its place."""

    __slots__ = ("leader_id", "member_id", "protocols", "rebalance_timeout_ms", "session_timeout_ms")

    def __init__(self, member: ClassicMember, leader_id: str) -> None:
        self.leader_id = leader_id
        self.member_id = member.member_id
        self.protocols: Protocols = member.protocols
        self.rebalance_timeout_ms = member.rebalance_timeout_ms
        self.session_timeout_ms = member.session_timeout_ms


def _on_replacement_stored(
    group: ClassicGroup,
    member: ClassicMember,
    before: _Before,
    terms: JoinTerms,
    reply: JoinReply,
    error: ErrorCode,
) -> None:
    """Answer the replacement, or undo it. If a rebalance has begun meanwhile, that one answers it."""
    if member.join_reply is not reply or group.state is not ClassicState.STABLE:
        return
    if error is not ErrorCode.NONE:
        refusal = group.joined(member.member_id, leader=before.leader_id)
        group.answer_join(member, refusal._replace(error=error, member_id=UNKNOWN_MEMBER_ID))
        group.members.set_protocols(member, before.protocols)
        member.rebalance_timeout_ms = before.rebalance_timeout_ms
        member.session_timeout_ms = before.session_timeout_ms
        group.members.rename(member, before.member_id)
        group.replace_session(member)
    elif terms.can_skip_assignment:
        # It leads again, and is told to assign nothing: a stable group would not take the assignment (KIP-814).
        group.answer_join(member, group.joined(member.member_id, skip_assignment=True))
    else:
        # Without that it must not know that it leads, so its old id is named as the leader's.
        group.answer_join(member, group.joined(member.member_id, leader=before.leader_id))


def _reason(terms: JoinTerms) -> str:
    return terms.reason or "not provided"
