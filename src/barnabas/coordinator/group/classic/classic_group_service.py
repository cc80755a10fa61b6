"""The classic group protocol: JoinGroup, SyncGroup, Heartbeat and LeaveGroup, and the life of classic groups.

Called by the handlers, by the loader, and by the services that delete groups or change their protocol, on any thread.
A call looks the group up, lets the pure group decide under its lock (`classic.requests`), and has `ClassicGroupChanges`
carry that out. Requests about groups that speak the consumer protocol (KIP-848) go to
`ConsumerGroupClassicMembers`. Owns no lock. Kafka: GroupCoordinator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from barnabas.coordinator.group.classic.classic_group import ClassicGroup
from barnabas.coordinator.group.classic.classic_group_changes import ClassicGroupChanges
from barnabas.coordinator.group.classic.classic_group_member import (
    UNKNOWN_MEMBER_ID,
    JoinAnswer,
    JoinReply,
    JoinTerms,
    LeaveAnswer,
    LeavingMember,
    LeftMember,
    SyncAnswer,
    SyncReply,
    SyncTerms,
)
from barnabas.coordinator.group.classic.requests import heartbeat, join, leave, sync
from barnabas.coordinator.group.group import Group
from barnabas.coordinator.group.group_environment import GroupEnvironment
from barnabas.coordinator.group.offsets_topic import CLASSIC_GROUP_ERRORS
from barnabas.protocol.errors import ApiError, ErrorCode

LeaveReply = Callable[[LeaveAnswer], None]

_NONE: Final = ErrorCode.NONE
LONGEST_ID_PREFIX: Final = 8_000
"""The most characters of the client id or group instance id that a member id begins with.

A string of the protocol has 32,767 bytes at most, and a character up to four of them."""


class ClassicProtocolRequests(Protocol):
    """The four requests of the classic protocol, about classic groups or about consumer groups.

    Implemented by `ClassicGroupService` and `ConsumerGroupClassicMembers`, which hand over to each other: a group may
    change its protocol at any time (KIP-848). All methods are called without any lock.
    """

    def join_group(self, terms: JoinTerms, on_complete: JoinReply) -> None:
        """Let a member join; answered at once, or when the group has agreed on a generation."""

    def sync_group(self, terms: SyncTerms, on_complete: SyncReply) -> None:
        """Let a member ask for its assignment; answered at once, or when the leader's assignment is stored."""

    def heartbeat(self, group_id: str, member_id: str, group_instance_id: str | None, generation: int) -> ErrorCode:
        """Restart the member's session; REBALANCE_IN_PROGRESS asks the member to join again."""

    def leave_group(self, group_id: str, members: Sequence[LeavingMember], on_complete: LeaveReply) -> None:
        """Remove members, at their own or an administrator's request."""


class ClassicGroupService:
    """The service of classic groups. Implements ClassicProtocolRequests, and MembershipService for these groups.

    consumer_groups: returns the service of consumer groups, which the first call makes. random_uuid: makes the last
    part of new member ids.
    """

    def __init__(
        self,
        environment: GroupEnvironment,
        changes: ClassicGroupChanges,
        consumer_groups: Callable[[], ClassicProtocolRequests],
        random_uuid: Callable[[], str],
    ) -> None:
        self._environment = environment
        self._config = environment.config
        self._partitions = environment.partitions
        self._table = environment.table
        self._changes = changes
        self._consumer_groups = consumer_groups
        self._random_uuid = random_uuid

    # -- requests

    def join_group(self, terms: JoinTerms, on_complete: JoinReply) -> None:
        """Let a member join, or join again. Answered at once, or when the group has agreed on a generation."""
        error = self._check(terms.group_id)
        shortest_ms, longest_ms = self._config.min_session_timeout_ms, self._config.max_session_timeout_ms
        if error is ErrorCode.NONE and not shortest_ms <= terms.session_timeout_ms <= longest_ms:
            error = ErrorCode.INVALID_SESSION_TIMEOUT
        if error is not ErrorCode.NONE:
            on_complete(JoinAnswer(error, terms.member_id))
            return
        # Only a member without an id may create a group: a member with an id has been in the group before.
        is_new = terms.member_id == UNKNOWN_MEMBER_ID
        follow_up = None
        try:
            with self._table.locked_or_new(terms.group_id) if is_new else self._table.locked(terms.group_id) as group:
                if group is not None:
                    classic = self._membership_to_join(group, is_new)
                    if classic is not None:
                        member_id = self._new_member_id(terms) if is_new else terms.member_id
                        join(classic, terms, on_complete, self._config, member_id)
                        follow_up = self._changes.write(group, classic)
        except ApiError as failure:  # the group may have moved to another broker since the check above
            on_complete(JoinAnswer(failure.code, terms.member_id))
            return
        if follow_up is not None:
            self._changes.finish(follow_up)
        elif group is None:
            on_complete(JoinAnswer(ErrorCode.UNKNOWN_MEMBER_ID, terms.member_id))
        else:
            self._consumer_groups().join_group(terms, on_complete)

    def sync_group(self, terms: SyncTerms, on_complete: SyncReply) -> None:
        """Let a member ask for its assignment, or bring all. Answered at once, or when the leader's is stored."""
        error = self._check(terms.group_id)
        if error is not ErrorCode.NONE:
            # The rebalance is lost with the former coordinator, so the members have to join again. Older clients would
            # not understand that the group is being loaded.
            is_loading = error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            on_complete(SyncAnswer(ErrorCode.REBALANCE_IN_PROGRESS if is_loading else error))
            return
        follow_up = None
        with self._table.locked(terms.group_id) as group:
            if group is not None and isinstance(group.membership, ClassicGroup):
                sync(group.membership, terms, on_complete)
                follow_up = self._changes.write(group, group.membership)
        if follow_up is not None:
            self._changes.finish(follow_up)
        elif group is None:
            on_complete(SyncAnswer(ErrorCode.UNKNOWN_MEMBER_ID))
        else:
            self._consumer_groups().sync_group(terms, on_complete)

    def heartbeat(self, group_id: str, member_id: str, group_instance_id: str | None, generation: int) -> ErrorCode:
        """Restart the member's session. Cheap: a heartbeat moves a deadline, and has no outcome to carry out."""
        error = self._partitions.check(group_id) if group_id else ErrorCode.INVALID_GROUP_ID
        if error is not _NONE:
            if error is not ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                return error
            # Kafka answers NONE to a heartbeat it cannot check yet: the member keeps its partitions and its id.
            self._heartbeat_while_loading(group_id, member_id)
            return _NONE
        with self._table.locked(group_id) as group:
            if group is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            classic = group.membership
            if isinstance(classic, ClassicGroup):
                return heartbeat(classic, member_id, group_instance_id, generation)
        return self._consumer_groups().heartbeat(group_id, member_id, group_instance_id, generation)

    def leave_group(self, group_id: str, members: Sequence[LeavingMember], on_complete: LeaveReply) -> None:
        """Remove members, at their own or an administrator's request."""
        error = self._check(group_id)
        if error is not ErrorCode.NONE:
            on_complete(LeaveAnswer(error))
            return
        follow_up = None
        # One outcome and one lock for all members of the request, so that a group that shrinks rebalances once.
        errors: Sequence[ErrorCode] = [ErrorCode.UNKNOWN_MEMBER_ID] * len(members)
        with self._table.locked(group_id) as group:
            if group is not None and isinstance(group.membership, ClassicGroup):
                classic = group.membership
                errors = [leave(classic, each) for each in members]
                follow_up = self._changes.write(group, classic)
        if follow_up is not None:
            self._changes.finish(follow_up)
        elif group is not None:
            self._consumer_groups().leave_group(group_id, members, on_complete)
            return
        left = zip(members, errors, strict=True)
        on_complete(
            LeaveAnswer(
                ErrorCode.NONE, tuple(LeftMember(each.member_id, each.group_instance_id, error) for each, error in left)
            )
        )

    def member_count(self, group_id: str) -> int:
        """Return how many members a group has about now, 0 if it does not exist; takes no lock."""
        group = self._table.get(group_id)
        return 0 if group is None else group.membership.member_count

    # -- the life of a group

    def restored(self, group: Group) -> None:
        """Begin the sessions of a group that was loaded (MembershipService); rebalance if the group is too large."""
        classic = group.membership
        if not isinstance(classic, ClassicGroup) or not classic.has_members:
            return
        with group.lock:
            if len(classic.members) > self._config.max_size:
                # The limit was lowered. The members that join again first stay, and the others are refused.
                classic.rebalance(f"freshly loaded group is over capacity ({self._config.max_size})")
            # The sessions began when the record was decoded. The rest of the loading must not count against them.
            classic.members.refresh_all_sessions()
            follow_up = self._changes.write(group, classic)
        self._changes.finish(follow_up)

    def unloaded(self, group: Group) -> None:
        """Answer the pending requests of a group that moved to another broker (MembershipService), or was deleted."""
        if isinstance(group.membership, ClassicGroup):
            self._end(group, group.membership, ErrorCode.NOT_COORDINATOR)

    def replaced(self, group: Group, old: ClassicGroup) -> None:
        """Have the members of `old` join again: the group has become a consumer group. The caller holds no lock."""
        self._end(group, old, ErrorCode.REBALANCE_IN_PROGRESS)

    def begin_sessions(self, group: Group, reason: str | None) -> None:
        """Begin the sessions of a consumer group that has become a classic one. The caller holds no lock.

        reason: why the group must rebalance; None: it need not.
        """
        with group.lock:
            classic = group.membership
            if group.is_removed or not isinstance(classic, ClassicGroup):
                return
            classic.members.refresh_all_sessions()
            if reason is not None:
                classic.rebalance(reason)
            follow_up = self._changes.write(group, classic)
        self._changes.finish(follow_up)

    def shutdown(self) -> None:
        """Answer all pending requests. The coordinator serves no group by now."""
        # First: no timeout may remove a member, and write that to the log, while the requests are answered.
        self._changes.stop()
        for group in self._table.entries():
            if group.membership.has_members:
                self.unloaded(group)
        self._changes.shutdown()

    def _end(self, group: Group, classic: ClassicGroup, error: ErrorCode) -> None:
        with group.lock:
            classic.end(error)
            follow_up = self._changes.write(group, classic)
        self._changes.finish(follow_up)

    # -- parts of requests

    def _check(self, group_id: str) -> ErrorCode:
        return self._partitions.check(group_id) if group_id else ErrorCode.INVALID_GROUP_ID

    def _membership_to_join(self, group: Group, is_new: bool) -> ClassicGroup | None:
        """Return the group's membership if it speaks the classic protocol, or if it can from now on.

        A consumer group without members becomes a classic group for a new member. Raises ApiError when the log refuses
        the tombstones of the consumer group.
        """
        membership = group.membership
        if isinstance(membership, ClassicGroup):
            return membership
        if membership.has_members or not is_new:
            return None
        removal = self._environment.log.append(group.partition, membership.tombstones(), CLASSIC_GROUP_ERRORS)
        if removal.position < 0:
            raise ApiError(removal.error)
        # With too few replicas the tombstones are in the log all the same, so the group goes by the log.
        classic = ClassicGroup(group.group_id, self._environment.clock)
        group.membership = classic
        return classic

    def _heartbeat_while_loading(self, group_id: str, member_id: str) -> None:
        """Restart the member's session if its group is loaded already, while the partition is not."""
        with self._table.locked(group_id) as group:
            if group is not None and isinstance(group.membership, ClassicGroup):
                group.membership.members.refresh_session(member_id)

    def _new_member_id(self, terms: JoinTerms) -> str:
        prefix = terms.client_id if terms.group_instance_id is None else terms.group_instance_id
        return f"{prefix[:LONGEST_ID_PREFIX]}-{self._random_uuid()}"
