"""The classic group protocol: JoinGroup, SyncGroup, Heartbeat and LeaveGroup, and the times they wait for.

Called by the handlers through `GroupCoordinator`, by the loader, and by the purgatories' timeouts, on any thread. Each
call looks the group up, lets the request happen to it under its lock (`classic.join`, `classic.requests`), appends the
records that this makes, and lets go; then it answers whoever is to be answered and starts or ends the waiting. It owns
no lock.

Kafka: GroupCoordinator, with the purgatories "Heartbeat" and "Rebalance".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple, Protocol

from barnabas.coordinator.group.classic.actions import ClassicActions, StoreGroup, WaitForJoins, WaitForSyncs
from barnabas.coordinator.group.classic.delayed_heartbeat import DelayedHeartbeat
from barnabas.coordinator.group.classic.delayed_rebalance import DelayedJoin, DelayedRebalance, DelayedSync
from barnabas.coordinator.group.classic.group import ClassicGroup
from barnabas.coordinator.group.classic.join import join
from barnabas.coordinator.group.classic.member import JoinReply, SyncReply
from barnabas.coordinator.group.classic.requests import heartbeat, leave, sync
from barnabas.coordinator.group.classic.session import Session
from barnabas.coordinator.group.classic.terms import (
    UNKNOWN_MEMBER_ID,
    JoinAnswer,
    JoinTerms,
    LeaveAnswer,
    LeavingMember,
    LeftMember,
    SyncAnswer,
    SyncTerms,
)
from barnabas.coordinator.group.environment import GroupEnvironment
from barnabas.coordinator.group.group import Group
from barnabas.coordinator.group.log.writer import StoredAppend, StoredFor
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.purgatory.purgatory import DelayedOperationPurgatory

LeaveReply = Callable[[LeaveAnswer], None]

LONGEST_ID_PREFIX: Final = 8_000
"""Characters of a client id or group instance id that a member id begins with; an id has 32,767 bytes at most."""


class ClassicMembersOfConsumerGroups(Protocol):
    """Members that speak the classic protocol in groups that do not (KIP-848). All calls without any lock."""

    def join_group(self, terms: JoinTerms, on_complete: JoinReply) -> None:
        """See ClassicGroupService."""

    def sync_group(self, terms: SyncTerms, on_complete: SyncReply) -> None:
        """See ClassicGroupService."""

    def heartbeat(self, group_id: str, member_id: str, group_instance_id: str | None, generation: int) -> ErrorCode:
        """See ClassicGroupService."""

    def leave_group(self, group_id: str, members: Sequence[LeavingMember], on_complete: LeaveReply) -> None:
        """See ClassicGroupService."""


class FollowUp(NamedTuple):
    """What a group wants done, and its records on their way, one append for each of its `stores`."""

    group: Group
    classic: ClassicGroup
    actions: ClassicActions
    appends: list[StoredAppend]


class ClassicGroupService:
    """See the module.

    consumer_groups: where requests go whose group turns out to be a consumer group; made with the first of them.
    count_rebalance: told when a leader has assigned a generation. random_uuid: what new members' ids end with.
    """

    def __init__(
        self,
        environment: GroupEnvironment,
        heartbeats: DelayedOperationPurgatory[DelayedHeartbeat],
        rebalances: DelayedOperationPurgatory[DelayedRebalance],
        consumer_groups: Callable[[], ClassicMembersOfConsumerGroups],
        *,
        count_rebalance: Callable[[], None],
        random_uuid: Callable[[], str],
    ) -> None:
        self._environment = environment
        self._config = environment.config
        self._partitions = environment.partitions
        self._table = environment.table
        self._heartbeats = heartbeats
        self._rebalances = rebalances
        self._consumer_groups = consumer_groups
        self._count_rebalance = count_rebalance
        self._random_uuid = random_uuid
        self._is_active = True

    # Requests.

    def join_group(self, terms: JoinTerms, on_complete: JoinReply) -> None:
        """Join, or join again. Answered at once, or when the group has agreed on a generation."""
        error = self._check(terms.group_id)
        shortest_ms, longest_ms = self._config.min_session_timeout_ms, self._config.max_session_timeout_ms
        if error is ErrorCode.NONE and not shortest_ms <= terms.session_timeout_ms <= longest_ms:
            error = ErrorCode.INVALID_SESSION_TIMEOUT
        if error is not ErrorCode.NONE:
            on_complete(JoinAnswer(error, terms.member_id))
            return
        is_new = terms.member_id == UNKNOWN_MEMBER_ID
        follow_up = None
        try:
            with self._table.locked_or_new(terms.group_id) if is_new else self._table.locked(terms.group_id) as group:
                if group is not None:
                    classic = self._membership_to_join(group, is_new)
                    if classic is not None:
                        member_id = self._new_member_id(terms) if is_new else terms.member_id
                        join(classic, terms, on_complete, self._config, member_id)
                        follow_up = self._written(group, classic)
        except ApiError as failure:  # perhaps the group was given up between the check and here
            on_complete(JoinAnswer(failure.code, terms.member_id))
            return
        if follow_up is not None:
            self._carry_out(follow_up)
        elif group is None:
            on_complete(JoinAnswer(ErrorCode.UNKNOWN_MEMBER_ID, terms.member_id))
        else:
            self._consumer_groups().join_group(terms, on_complete)

    def sync_group(self, terms: SyncTerms, on_complete: SyncReply) -> None:
        """Ask for the assignment, or bring it. Answered at once, or when the leader's is stored."""
        error = self._check(terms.group_id)
        if error is not ErrorCode.NONE:
            # What the group was doing is lost with its former coordinator, so it has to begin with the joins again;
            # older clients would not understand that the group is being loaded.
            is_loading = error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            on_complete(SyncAnswer(ErrorCode.REBALANCE_IN_PROGRESS if is_loading else error))
            return
        follow_up = None
        with self._table.locked(terms.group_id) as group:
            if group is not None and isinstance(group.membership, ClassicGroup):
                sync(group.membership, terms, on_complete)
                follow_up = self._written(group, group.membership)
        if follow_up is not None:
            self._carry_out(follow_up)
        elif group is None:
            on_complete(SyncAnswer(ErrorCode.UNKNOWN_MEMBER_ID))
        else:
            self._consumer_groups().sync_group(terms, on_complete)

    def heartbeat(self, group_id: str, member_id: str, group_instance_id: str | None, generation: int) -> ErrorCode:
        """A member lives. Cheap: it moves a deadline."""
        error = self._check(group_id)
        if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            self._note_while_loading(group_id, member_id)
            return ErrorCode.NONE
        if error is not ErrorCode.NONE:
            return error
        with self._table.locked(group_id) as group:
            if group is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            classic = group.membership
            if isinstance(classic, ClassicGroup):
                return heartbeat(classic, member_id, group_instance_id, generation)
        return self._consumer_groups().heartbeat(group_id, member_id, group_instance_id, generation)

    def leave_group(self, group_id: str, members: Sequence[LeavingMember], on_complete: LeaveReply) -> None:
        """Members go, or are sent away."""
        error = self._check(group_id)
        if error is not ErrorCode.NONE:
            on_complete(LeaveAnswer(error))
            return
        follow_up = None
        errors: Sequence[ErrorCode] = [ErrorCode.UNKNOWN_MEMBER_ID] * len(members)
        with self._table.locked(group_id) as group:
            if group is not None and isinstance(group.membership, ClassicGroup):
                classic = group.membership
                errors = [leave(classic, each) for each in members]
                follow_up = self._written(group, classic)
        if follow_up is not None:
            self._carry_out(follow_up)
        elif group is not None:
            self._consumer_groups().leave_group(group_id, members, on_complete)
            return
        left = zip(members, errors, strict=True)
        on_complete(
            LeaveAnswer(
                ErrorCode.NONE,
                tuple(LeftMember(each.member_id, each.group_instance_id, error) for each, error in left),
            )
        )

    def member_count(self, group_id: str) -> int:
        """Return how many members a group has about now, 0 if it does not exist; takes no lock."""
        group = self._table.get(group_id)
        return 0 if group is None else group.membership.member_count

    # The coordinator's life.

    def restored(self, group: Group) -> None:
        """See MembershipService: the members' sessions begin now. Too many, since the limit was lowered: rebalance."""
        classic = group.membership
        if not isinstance(classic, ClassicGroup) or not classic.has_members:
            return
        with group.lock:
            if len(classic.members) > self._config.max_size:
                classic.rebalance(f"freshly loaded group is over capacity ({self._config.max_size})")
            for member in classic.members.by_id.values():
                classic.refresh(member)
            follow_up = self._written(group, classic)
        self._carry_out(follow_up)

    def unloaded(self, group: Group) -> None:
        """See MembershipService: whoever waits has to find the coordinator again."""
        if isinstance(group.membership, ClassicGroup):
            self._end(group, group.membership, ErrorCode.NOT_COORDINATOR)

    def removed(self, group: Group) -> None:
        """The group was deleted, or had nothing left that it was kept for. Without any lock."""
        self.unloaded(group)

    def replaced(self, group: Group, old: ClassicGroup) -> None:
        """The group speaks another protocol now (KIP-848): whoever waits has to join again. Without any lock."""
        self._end(group, old, ErrorCode.REBALANCE_IN_PROGRESS)

    def adopted(self, group: Group, reason: str | None) -> None:
        """The group has come to speak the classic protocol, with the members it had. Without any lock.

        reason: why it must rebalance; None: it goes on as it is.
        """
        with group.lock:
            classic = group.membership
            if group.is_removed or not isinstance(classic, ClassicGroup):
                return
            for member in classic.members.by_id.values():
                classic.refresh(member)
            if reason is not None:
                classic.rebalance(reason)
            follow_up = self._written(group, classic)
        self._carry_out(follow_up)

    def shutdown(self) -> None:
        """Nobody is given up any more, and nobody waits. The coordinator answers for no group by now."""
        self._is_active = False
        for group in self._table.groups():
            if group.membership.has_members:
                self.unloaded(group)
        self._heartbeats.shutdown()
        self._rebalances.shutdown()

    # Time.

    def _session_expired(self, group: Group, classic: ClassicGroup, session: Session) -> None:
        with group.lock:
            if group.is_removed or group.membership is not classic:
                session.is_over = True
                return
            classic.session_expired(session)
            follow_up = self._written(group, classic)
        self._carry_out(follow_up)

    def _joins_expired(self, group: Group, classic: ClassicGroup, round_number: int) -> None:
        self._happen(group, classic, partial(classic.joins_expired, round_number))

    def _syncs_expired(self, group: Group, classic: ClassicGroup, generation: int) -> None:
        self._happen(group, classic, partial(classic.syncs_expired, generation))

    def _happen(self, group: Group, classic: ClassicGroup, event: Callable[[], None]) -> None:
        """Let something happen to the group, unless it is not the same any more; the caller holds no lock."""
        if not self._is_active:
            return
        with group.lock:
            if group.is_removed or group.membership is not classic:
                return
            event()
            follow_up = self._written(group, classic)
        self._carry_out(follow_up)

    # What follows.

    def _membership_to_join(self, group: Group, is_new: bool) -> ClassicGroup | None:
        """The group's members, if they speak the classic protocol; if there are none they do so from now on.

        ApiError: that could not be written down.
        """
        membership = group.membership
        if isinstance(membership, ClassicGroup):
            return membership
        if membership.has_members or not is_new:
            return None
        removal = self._environment.log.append(group.partition, membership.tombstones(), StoredFor.CLASSIC_GROUP)
        if removal.position < 0:  # with too few replicas it is in the log all the same: then the group goes by the log
            raise ApiError(removal.error)
        classic = ClassicGroup(group.group_id, self._environment.clock)
        group.membership = classic
        return classic

    def _end(self, group: Group, classic: ClassicGroup, error: ErrorCode) -> None:
        with group.lock:
            classic.end(error)
            follow_up = self._written(group, classic)
        self._carry_out(follow_up)

    def _written(self, group: Group, classic: ClassicGroup) -> FollowUp:
        """What is to be done, its records in the log already: under the group's lock, so that they lie in order."""
        actions = classic.take_actions()
        append = self._environment.log.append
        appends = [append(group.partition, (store.record,), StoredFor.CLASSIC_GROUP) for store in actions.stores]
        return FollowUp(group, classic, actions, appends)

    def _carry_out(self, follow_up: FollowUp) -> None:
        """Answer, wait, and wake those that wait; the caller holds no lock."""
        group, classic, actions, appends = follow_up
        for answer in actions.answers:
            answer()
        for store, append in zip(actions.stores, appends, strict=True):
            if store.completes_rebalance:
                self._count_rebalance()
            append.when_replicated(partial(self._stored, group, classic, store))
        for session in actions.sessions_over:
            self._heartbeats.check_and_complete(session)
        for session in actions.sessions_begun:
            self._watch(group, classic, session)
        for wait in actions.waits:
            self._wait(group, classic, wait)
        if actions.joins_over:
            self._rebalances.check_and_complete(_join_key(group))
        if actions.syncs_over:
            self._rebalances.check_and_complete(_sync_key(group))

    def _stored(self, group: Group, classic: ClassicGroup, store: StoreGroup, error: ErrorCode) -> None:
        self._happen(group, classic, partial(store.on_stored, error))

    def _watch(self, group: Group, classic: ClassicGroup, session: Session) -> None:
        environment = self._environment
        delayed = DelayedHeartbeat(
            session,
            environment.clock,
            environment.timer,
            partial(self._session_expired, group, classic, session),
            lambda: self._is_active,
        )
        self._heartbeats.try_complete_else_watch(delayed, (session,))

    def _wait(self, group: Group, classic: ClassicGroup, wait: WaitForJoins | WaitForSyncs) -> None:
        delayed: DelayedRebalance
        if isinstance(wait, WaitForJoins):
            number = wait.round_number
            delayed = DelayedJoin(
                wait.delay_ms,
                lambda: not classic.is_waiting_for_joins(number),
                partial(self._joins_expired, group, classic, number),
            )
            self._rebalances.try_complete_else_watch(delayed, (_join_key(group),))
        else:
            generation = wait.generation
            delayed = DelayedSync(
                wait.delay_ms,
                lambda: not classic.is_waiting_for_syncs(generation),
                partial(self._syncs_expired, group, classic, generation),
            )
            self._rebalances.try_complete_else_watch(delayed, (_sync_key(group),))

    def _note_while_loading(self, group_id: str, member_id: str) -> None:
        """The group may have been read already, and its members' sessions run, when the rest takes long."""
        with self._table.locked(group_id) as group:
            if group is not None and isinstance(group.membership, ClassicGroup):
                group.membership.note_life(member_id)

    def _check(self, group_id: str) -> ErrorCode:
        return self._partitions.check(group_id) if group_id else ErrorCode.INVALID_GROUP_ID

    def _new_member_id(self, terms: JoinTerms) -> str:
        prefix = terms.client_id if terms.group_instance_id is None else terms.group_instance_id
        return f"{prefix[:LONGEST_ID_PREFIX]}-{self._random_uuid()}"


def _join_key(group: Group) -> tuple[str, str]:
    return "join", group.group_id


def _sync_key(group: Group) -> tuple[str, str]:
    return "sync", group.group_id
