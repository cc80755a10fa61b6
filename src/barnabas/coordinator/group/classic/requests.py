"""The requests of members of a classic group: JoinGroup, SyncGroup, Heartbeat and LeaveGroup.

Called by `ClassicGroupService` under the group's lock. Pure: functions of the group and the request. JoinGroups and
SyncGroups are answered through the group's outcome, at once or when the rebalance is over.
Kafka: GroupCoordinator.handleJoinGroup (and what that calls), handleSyncGroup, handleHeartbeat, handleLeaveGroup.
"""

from __future__ import annotations

from functools import partial
from typing import Final, NamedTuple

from barnabas.coordinator.group.classic.classic_group import ClassicGroup
from barnabas.coordinator.group.classic.classic_group_member import (
    NO_ASSIGNMENT,
    UNKNOWN_MEMBER_ID,
    ClassicMember,
    JoinAnswer,
    JoinReply,
    JoinTerms,
    LeavingMember,
    MemberTerms,
    SyncAnswer,
    SyncReply,
    SyncTerms,
)
from barnabas.coordinator.group.classic.states import HEARTBEAT_ANSWERS, SYNC_REFUSALS, ClassicState
from barnabas.coordinator.group.group_config import GroupCoordinatorConfig
from barnabas.protocol.errors import ErrorCode

_NONE: Final = ErrorCode.NONE
_STABLE: Final = ClassicState.STABLE
_DEAD: Final = ClassicState.DEAD
NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 300_000
"""The longest wait of a new member's join: the member cannot send heartbeats, and may be gone (Kafka: 5 minutes)."""


# -- JoinGroup


def join(
    group: ClassicGroup, terms: JoinTerms, reply: JoinReply, config: GroupCoordinatorConfig, new_member_id: str
) -> None:
    """Let a new or a known member join. new_member_id: the id to give to a member that has none yet."""
    _Join(group, terms, reply, config).run(new_member_id)


class _ReplacedMember(NamedTuple):
    """A static member before a restarted one took its place."""

    member_id: str
    terms: MemberTerms
    leader_id: str


class _Join:
    """The handling of one JoinGroup request, in one of four ways.

    A member id that the group knows joins again (`_join_known`), or for the first time if it was handed out before
    (KIP-394). Without a member id, a static member (KIP-345) takes the place of the one with its instance id, if there
    is one (`_join_static`). A dynamic member is told its id first, from v4 on, or is added.
    """

    def __init__(self, group: ClassicGroup, terms: JoinTerms, reply: JoinReply, config: GroupCoordinatorConfig) -> None:
        self._group = group
        self._members = group.members
        self._terms = terms
        self._reply = reply
        self._config = config

    def run(self, new_member_id: str) -> None:
        group, terms, member_id = self._group, self._terms, self._terms.member_id
        # The order of the checks is Kafka's, since it decides the error of a request with several faults.
        if not self._has_room(member_id):
            self._remove(member_id)
            self._reject(ErrorCode.GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID)
        elif group.state is ClassicState.DEAD:
            self._reject(ErrorCode.COORDINATOR_NOT_AVAILABLE, member_id)
        elif not self._shares_a_protocol():
            self._reject(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id)
        elif member_id != UNKNOWN_MEMBER_ID:
            self._join_known(member_id)
        elif terms.group_instance_id is not None:
            self._join_static(terms.group_instance_id, new_member_id)
        elif terms.needs_known_member_id:
            # KIP-394: a client that never reads its answer would otherwise leave another member behind with each retry.
            self._members.add_pending(self._members.new_session(new_member_id, terms.session_timeout_ms))
            self._reject(ErrorCode.MEMBER_ID_REQUIRED, new_member_id)
        else:
            self._add(new_member_id)

    def _has_room(self, member_id: str) -> bool:
        """Return whether the group takes this member.

        While the group rebalances, the members that have joined count. If the limit was lowered below the number of
        members, the last ones to join are removed.
        """
        members, max_size = self._members, self._config.max_size
        if self._group.state in {ClassicState.EMPTY, ClassicState.DEAD}:
            return True
        if self._group.state is ClassicState.PREPARING_REBALANCE:
            member = members.by_id.get(member_id)
            return (member is not None and member.join_reply is not None) or members.waiting < max_size
        return member_id in members.by_id or len(members) < max_size

    def _remove(self, member_id: str) -> None:
        member = self._members.by_id.get(member_id)
        if member is not None:
            self._members.remove(member)
        elif member_id in self._members.pending:
            self._members.remove_pending(member_id)
        else:
            return
        self._group.complete_joins()

    def _shares_a_protocol(self) -> bool:
        group, terms = self._group, self._terms
        if group.state is ClassicState.EMPTY:
            return bool(terms.protocol_type) and bool(terms.protocols)
        return group.kind == terms.protocol_type and self._members.can_all(name for name, _ in terms.protocols)

    def _reject(self, error: ErrorCode, member_id: str) -> None:
        self._group.answer_at_once(partial(self._reply, JoinAnswer(error, member_id)))

    def _rebalance(self, what: str, initial_delay_ms: int = 0) -> None:
        self._group.rebalance(f"{what}; client reason: {self._terms.reason or 'not provided'}", initial_delay_ms)

    def _add(self, member_id: str) -> None:
        """Add a new member; the group rebalances, if it does not already."""
        terms = self._terms
        session = self._members.new_session(
            member_id, terms.session_timeout_ms, first_timeout_ms=NEW_MEMBER_JOIN_TIMEOUT_MS
        )
        said = MemberTerms(
            terms.client_id, terms.client_host, terms.rebalance_timeout_ms, terms.session_timeout_ms, terms.protocols
        )
        member = ClassicMember(member_id, terms.group_instance_id, said, session)
        member.is_new = True
        self._group.add_member(member, terms.protocol_type, self._reply)
        self._rebalance(f"adding new member {member_id}", self._config.initial_rebalance_delay_ms)

    def _join_known(self, member_id: str) -> None:
        """Let a member join under its id, for the first time or again."""
        group, members, terms = self._group, self._members, self._terms
        if member_id in members.pending:
            if terms.group_instance_id is not None:  # ids are handed out to dynamic members only
                self._reject(ErrorCode.UNKNOWN_SERVER_ERROR, UNKNOWN_MEMBER_ID)
                return
            members.remove_pending(member_id)
            self._add(member_id)
            return
        error = members.check(member_id, terms.group_instance_id)
        if error is not ErrorCode.NONE:
            self._reject(error, member_id)
            return
        member = members.by_id[member_id]
        is_same = member.terms.protocols == terms.protocols
        leads = members.leader_id == member_id
        if (group.state is ClassicState.COMPLETING_REBALANCE and is_same) or (
            group.state is ClassicState.STABLE and is_same and not leads
        ):
            # The answer may have been lost; in a stable group this member has nothing new to say. A leader that joins
            # a stable group again wants a rebalance: the topics that it assigns have changed.
            group.answer_at_once(partial(self._reply, group.joined(member_id)))
            return
        has_less_time = terms.session_timeout_ms < member.terms.session_timeout_ms
        self._update(member)
        if has_less_time:
            members.replace_session(member)  # the watch of the old one would look too late
        self._rebalance(f"member {member_id} joins again")

    def _update(self, member: ClassicMember) -> None:
        """Take over the member's new terms; its JoinGroup waits."""
        terms = self._terms
        self._members.set_terms(
            member,
            member.terms._replace(
                rebalance_timeout_ms=terms.rebalance_timeout_ms,
                session_timeout_ms=terms.session_timeout_ms,
                protocols=terms.protocols,
            ),
        )
        # The client gave up its earlier JoinGroup, or a message was lost; no request may wait for ever.
        self._members.answer_join(member, JoinAnswer(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))
        self._members.set_join_reply(member, self._reply)

    def _join_static(self, group_instance_id: str, new_member_id: str) -> None:
        """Add a static member without an id, or let it take its own place after a restart (KIP-345)."""
        group, members = self._group, self._members
        old_member_id = members.static_ids.get(group_instance_id)
        if old_member_id is None:
            self._add(new_member_id)
            return
        member = members.by_id[old_member_id]
        before = _ReplacedMember(old_member_id, member.terms, members.leader_id or "")
        members.replace(member, new_member_id)
        self._update(member)
        members.replace_session(member)
        if group.state is ClassicState.PREPARING_REBALANCE:
            group.complete_joins()
            return
        if group.state is ClassicState.STABLE and members.select_protocol() == group.protocol_name:
            # The other members need not know: the member keeps its assignment, once its new id is stored.
            assignments = {each.member_id: each.assignment for each in members.by_id.values()}
            group.store(assignments, partial(self._on_replacement_stored, member, before))
            return
        # A leader that assigns at this moment knows the old id only; or the group would now choose another protocol.
        self._rebalance(f"static member {group_instance_id} was restarted as {new_member_id}")

    def _on_replacement_stored(self, member: ClassicMember, before: _ReplacedMember, error: ErrorCode) -> None:
        """Answer the static member that took its place, or undo that. A rebalance meanwhile answers it instead."""
        group, members = self._group, self._members
        if member.join_reply is not self._reply or group.state is not ClassicState.STABLE:
            return
        if error is not ErrorCode.NONE:
            rejection = group.joined(member.member_id, leader=before.leader_id)
            members.answer_join(member, rejection._replace(error=error, member_id=UNKNOWN_MEMBER_ID))
            members.set_terms(member, before.terms)
            members.rename(member, before.member_id)
            members.replace_session(member)
        elif self._terms.can_skip_assignment:
            # The member leads again, and is told to assign nothing: a stable group would ignore it (KIP-814).
            members.answer_join(member, group.joined(member.member_id, skip_assignment=True))
        else:
            # A client that cannot skip the assignment must not know that it leads, so its old id is named instead.
            members.answer_join(member, group.joined(member.member_id, leader=before.leader_id))


# -- Heartbeat, SyncGroup, LeaveGroup


def heartbeat(group: ClassicGroup, member_id: str, group_instance_id: str | None, generation: int) -> ErrorCode:
    """Restart the member's session; the answer tells the member of a rebalance."""
    state = group.state
    # With COORDINATOR_NOT_AVAILABLE the client looks for the coordinator again, and keeps its member id.
    if state is _DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    error = group.check_member(member_id, group_instance_id, generation)
    if error is not _NONE:
        return error
    group.members.refresh_session(member_id)
    # Nearly every heartbeat ends here; an Enum as the key of a dict is hashed by a function of Python.
    return _NONE if state is _STABLE else HEARTBEAT_ANSWERS[state]


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
