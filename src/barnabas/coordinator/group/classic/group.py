"""A group of the classic protocol: its state, its generation, and how it gets from one to the next.

Made by `GroupTable` (empty) and `classic.restore`; guarded by the group's lock. Members' requests come by
`classic.join` and `classic.requests`, time-outs from `ClassicGroupService`, commits from the offset service. Pure: time
is a Clock, and what has to be done outside (answers, timers, records) is collected in `actions`, which the caller takes
and carries out.

What moves it from one state to another is the table of `classic.states`; `_move` looks it up and runs its effects.
Kafka: GroupMetadata, with the rules of GroupCoordinator.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial

from barnabas.coordinator.group.classic.actions import ClassicActions, StoreGroup, WaitForJoins, WaitForSyncs
from barnabas.coordinator.group.classic.first_joins import FirstJoins
from barnabas.coordinator.group.classic.member import NO_ASSIGNMENT, ClassicMember, JoinReply
from barnabas.coordinator.group.classic.members import ClassicMembers
from barnabas.coordinator.group.classic.record import classic_group_record, classic_group_tombstone
from barnabas.coordinator.group.classic.session import Session
from barnabas.coordinator.group.classic.states import (
    COMMIT_REFUSALS,
    DELETION_ERRORS,
    ClassicEffect,
    ClassicEvent,
    ClassicState,
    classic_transition,
)
from barnabas.coordinator.group.classic.terms import (
    UNKNOWN_MEMBER_ID,
    JoinAnswer,
    JoinedMember,
    SyncAnswer,
)
from barnabas.coordinator.group.log.record import GroupRecord
from barnabas.coordinator.group.membership import GroupType
from barnabas.protocol.consumer_protocol import PROTOCOL_TYPE as CONSUMER
from barnabas.protocol.errors import DecodeError, ErrorCode
from barnabas.runtime.clock import NANOSECONDS_PER_MILLISECOND, Clock

logger = logging.getLogger(__name__)

NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000
"""How long a new member's join may wait in all: it cannot send heartbeats, and may have gone (Kafka: five minutes)."""
SHORTEST_FURTHER_WAIT_MS = 1_000
"""For members that had their time and did not join, whatever rebalance timeout they named."""


class ClassicGroup:
    """See the module.

    generation: 0 until the first rebalance is over. subscribed_topics: None while nobody can tell.
    state_since_ms: wall clock, None where the record did not say. join_round: the number of the current wait for joins.
    """

    group_type = GroupType.CLASSIC

    def __init__(self, group_id: str, clock: Clock) -> None:
        self.group_id = group_id
        self.clock = clock
        self.state = ClassicState.EMPTY
        self.state_since_ms: int | None = clock.milliseconds()
        self.generation = 0
        self.kind: str | None = None
        self.protocol_name: str | None = None
        self.subscribed_topics: frozenset[str] | None = None
        self.members = ClassicMembers()
        self.join_round = 0
        self._first_joins: FirstJoins | None = None
        self._stored_generation: int | None = None
        self.actions = ClassicActions()

    # What everybody may ask (Membership).

    @property
    def state_name(self) -> str:
        """See Membership."""
        return self.state.value

    @property
    def protocol_type(self) -> str:
        """See Membership."""
        return self.kind or ""

    @property
    def has_members(self) -> bool:
        """See Membership."""
        return self.state not in {ClassicState.EMPTY, ClassicState.DEAD}

    @property
    def member_count(self) -> int:
        """See Membership."""
        return len(self.members)

    @property
    def empty_since_ms(self) -> int | None:
        """See Membership. None as well for a group that nobody ever joined: its offsets' own commit times count."""
        return self.state_since_ms if self.state is ClassicState.EMPTY and self.kind else None

    @property
    def keeps_all_offsets(self) -> bool:
        """See Membership: with members, unless it is stable and what they read is known."""
        knows = self.state is ClassicState.STABLE and self.kind == CONSUMER and self.subscribed_topics is not None
        return self.has_members and not knows

    def check_offset_commit(
        self, member_id: str, group_instance_id: str | None, generation: int, *, is_transactional: bool
    ) -> ErrorCode:
        """See Membership."""
        if self.state is ClassicState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if generation < 0 and self.state is ClassicState.EMPTY:
            return ErrorCode.NONE
        if generation < 0 and member_id == UNKNOWN_MEMBER_ID and group_instance_id is None:
            # Transactions of older clients do not name the member.
            return ErrorCode.NONE if is_transactional else ErrorCode.UNKNOWN_MEMBER_ID
        error = self.check_member(member_id, group_instance_id, generation)
        return COMMIT_REFUSALS[self.state] if error is ErrorCode.NONE and not is_transactional else error

    def offset_committed(self, member_id: str) -> None:
        """A member that commits lives (Kafka: a commit counts as a heartbeat)."""
        self.note_life(member_id)

    def note_life(self, member_id: str) -> None:
        """Something was heard of a member, if it is one."""
        member = self.members.by_id.get(member_id)
        if member is not None:
            self.refresh(member)

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        """See Membership: everybody may, as there is no member epoch."""
        return ErrorCode.NONE

    def is_subscribed_to(self, topic: str) -> bool:
        """See Membership."""
        if not self.has_members:
            return False
        return self.subscribed_topics is None or topic in self.subscribed_topics

    def deletion_error(self) -> ErrorCode:
        """See Membership."""
        return DELETION_ERRORS[self.state]

    def tombstones(self) -> list[GroupRecord]:
        """See Membership. A group that only ever kept offsets has no record of its own."""
        return [classic_group_tombstone(self.group_id)] if self.generation > 0 else []

    # Time.

    def joins_expired(self, round_number: int) -> None:
        """The time for this round of joins is over."""
        if self.state is not ClassicState.PREPARING_REBALANCE or round_number != self.join_round:
            return
        further_ms = None if self._first_joins is None else self._first_joins.further_ms()
        if further_ms is not None:
            self._begin_round()
            self._wait_for_joins(further_ms)
            return
        self._finish_joins()

    def is_waiting_for_joins(self, round_number: int) -> bool:
        """Whether this round of joins is still going on."""
        return self.state is ClassicState.PREPARING_REBALANCE and round_number == self.join_round

    def syncs_expired(self, generation: int) -> None:
        """Members that have not asked for their assignment in time are given up."""
        if not self.is_waiting_for_syncs(generation):
            return
        late = sorted(self.members.pending_syncs)
        for member_id in late:
            self.remove_member(self.members.by_id[member_id])
        self.rebalance(f"removing {', '.join(late)}: no SyncGroup in time")

    def is_waiting_for_syncs(self, generation: int) -> bool:
        """Whether members of this generation have not asked for their assignment yet."""
        has_generation = self.state in {ClassicState.COMPLETING_REBALANCE, ClassicState.STABLE}
        return has_generation and generation == self.generation and bool(self.members.pending_syncs)

    def session_expired(self, session: Session) -> None:
        """A member was silent until now, unless `session` says that it has more time by now."""
        now_ns = self.clock.nanoseconds()
        if session.is_over or session.expires_ns > now_ns:
            return
        member = self.members.by_id.get(session.member_id)
        if member is None:
            logger.info("Pending member %s of group %s was given up", session.member_id, self.group_id)
            self.forget_pending(session.member_id)
        elif member.is_waiting and not member.is_new:
            self.refresh(member)
        else:
            logger.info("Member %s of group %s has failed", member.member_id, self.group_id)
            self.remove_member(member)
            self.rebalance(f"removing member {member.member_id} on heartbeat expiration")

    # Steps that requests are made of (`classic.join`, `classic.requests`).

    def check_member(self, member_id: str, group_instance_id: str | None, generation: int) -> ErrorCode:
        """Is this a member, and of the current generation?"""
        error = self.members.check(member_id, group_instance_id)
        if error is ErrorCode.NONE and generation != self.generation:
            return ErrorCode.ILLEGAL_GENERATION
        return error

    def add_member(self, member: ClassicMember, reply: JoinReply | None) -> None:
        """Let a member in; with `reply` its join waits. The caller rebalances."""
        if not self.members.by_id:
            self.kind = member.protocol_type
        if self._first_joins is not None and self.generation == 0:
            self._first_joins.has_more = True
        self.members.add(member)
        self.members.set_join_reply(member, reply)
        self.actions.sessions_begun.append(member.session)

    def remove_member(self, member: ClassicMember) -> None:
        """Take a member out; what waits of it is told that it is not known any more. The caller rebalances."""
        unknown = ErrorCode.UNKNOWN_MEMBER_ID
        self.answer_join(member, JoinAnswer(unknown, UNKNOWN_MEMBER_ID))
        self.answer_sync(member, SyncAnswer(unknown))
        self.members.remove(member)
        self.end_session(member.session)

    def promise_place(self, session: Session) -> None:
        """Remember a member that is told its id, and shall come again with it."""
        self.members.pending[session.member_id] = session
        self.actions.sessions_begun.append(session)

    def forget_pending(self, member_id: str) -> None:
        """A promised place is not needed any more; the joins may be complete without it."""
        self.end_session(self.members.pending.pop(member_id))
        self.complete_joins()

    def complete_joins(self) -> None:
        """Whoever was waited for may be there now, or gone."""
        if self.state is ClassicState.PREPARING_REBALANCE:
            self._move(ClassicEvent.MEMBERS_CHANGED)

    def new_session(self, member_id: str, session_timeout_ms: int) -> Session:
        """A session that begins now."""
        return Session(
            member_id, self.clock.nanoseconds() + session_timeout_ms * NANOSECONDS_PER_MILLISECOND, session_timeout_ms
        )

    def end_session(self, session: Session) -> None:
        """Nobody needs to watch it any more."""
        session.is_over = True
        self.actions.sessions_over.append(session)

    def replace_session(self, member: ClassicMember) -> None:
        """The member's session begins anew: it has another id, or less time than it had."""
        self.end_session(member.session)
        member.session = self.new_session(member.member_id, member.session_timeout_ms)
        self.actions.sessions_begun.append(member.session)

    def refresh(self, member: ClassicMember) -> None:
        """The member has shown that it lives. (An attribute is moved; the timer finds it when it gets there.)"""
        timeout_ns = member.session_timeout_ms * NANOSECONDS_PER_MILLISECOND
        member.session.expires_ns = self.clock.nanoseconds() + timeout_ns

    def answer_join(self, member: ClassicMember, answer: JoinAnswer) -> bool:
        """Answer the member's join if it waits."""
        reply = member.join_reply
        if reply is None:
            return False
        self.members.set_join_reply(member, None)
        self.actions.answers.append(partial(reply, answer))
        return True

    def answer_sync(self, member: ClassicMember, answer: SyncAnswer) -> bool:
        """Answer the member's sync if it waits."""
        reply = member.sync_reply
        if reply is None:
            return False
        member.sync_reply = None
        self.actions.answers.append(partial(reply, answer))
        return True

    def fence(self, member: ClassicMember) -> None:
        """Another one takes the static member's place: what waits of it is refused."""
        self.answer_join(member, JoinAnswer(ErrorCode.FENCED_INSTANCE_ID, member.member_id))
        self.answer_sync(member, SyncAnswer(ErrorCode.FENCED_INSTANCE_ID))

    def joined(self, member_id: str, *, leader: str | None = None, skip_assignment: bool = False) -> JoinAnswer:
        """What a member of the current generation is told; the group if it leads. leader: named instead of the real."""
        leads = member_id == self.members.leader_id and leader is None
        return JoinAnswer(
            ErrorCode.NONE,
            member_id,
            self.generation,
            self.kind,
            self.protocol_name,
            self.members.leader_id if leader is None else leader,
            self._joined_members() if leads else (),
            skip_assignment and leads,
        )

    def rebalance(self, reason: str, initial_delay_ms: int = 0) -> None:
        """Members must agree anew; of a group that does so already: whether the joins are complete now."""
        if self.state is not ClassicState.PREPARING_REBALANCE:
            logger.info(
                "Preparing to rebalance group %s in state %s with old generation %d (reason: %s)",
                self.group_id,
                self.state.value,
                self.generation,
                reason,
            )
        self._move(ClassicEvent.MEMBERS_CHANGED, initial_delay_ms=initial_delay_ms)

    def end(self, error: ErrorCode = ErrorCode.NOT_COORDINATOR) -> None:
        """The group is no longer here, or no longer this: whoever waits is told why."""
        if self.state is not ClassicState.DEAD:
            self._move(ClassicEvent.ENDED, error=error)

    def take_actions(self) -> ClassicActions:
        """What has to be done by now; it is the caller's from here on."""
        actions, self.actions = self.actions, ClassicActions()
        return actions

    def assignment_of(self, member: ClassicMember) -> SyncAnswer:
        """The member's part, of a stable group."""
        return SyncAnswer(ErrorCode.NONE, self.kind, self.protocol_name, member.assignment)

    def note_sync(self, member: ClassicMember) -> None:
        """The member has asked for its assignment."""
        self.members.pending_syncs.discard(member.member_id)
        if not self.members.pending_syncs:
            self.actions.syncs_over = True

    def store_assignment(self, assignments: Mapping[str, bytes]) -> None:
        """The leader has assigned; it is handed out when it is stored. One assignment a generation: should the leader
        say another before that, two would be in the log, and the next coordinator would read the other one."""
        if self._stored_generation != self.generation:
            self._stored_generation = self.generation
            on_stored = partial(self._on_assignment_stored, self.generation, assignments)
            self.store(assignments, on_stored, completes_rebalance=True)

    def store(
        self,
        assignments: Mapping[str, bytes],
        on_stored: Callable[[ErrorCode], None],
        *,
        completes_rebalance: bool = False,
    ) -> None:
        """Have the group written to the log with these assignments, one for each member."""
        record = classic_group_record(
            self.group_id,
            protocol_type=self.kind,
            generation=self.generation,
            protocol_name=self.protocol_name,
            leader_id=self.members.leader_id,
            state_since_ms=self.state_since_ms,
            members=self.members.by_id.values(),
            assignments=assignments,
        )
        self.actions.stores.append(StoreGroup(record, on_stored, completes_rebalance))

    def _on_assignment_stored(self, generation: int, assignments: Mapping[str, bytes], error: ErrorCode) -> None:
        """The leader's assignment is in the log, or could not be put there; meanwhile all may have become different."""
        if self.state is not ClassicState.COMPLETING_REBALANCE or generation != self.generation:
            return
        if error is not ErrorCode.NONE:
            logger.warning("The assignment of group %s could not be stored: %s", self.group_id, error.name)
            self._move(ClassicEvent.ASSIGNMENT_LOST, error=error)
            return
        for member in self.members.by_id.values():
            member.assignment = assignments.get(member.member_id, NO_ASSIGNMENT)
        self._move(ClassicEvent.ASSIGNMENT_STORED)

    def find_subscribed_topics(self) -> None:
        """Look into the members' metadata for what they read."""
        self.subscribed_topics = None
        if self.kind == CONSUMER:
            try:
                self.subscribed_topics = self.members.subscribed_topics(self.protocol_name)
            except DecodeError as error:
                logger.warning("What group %s is subscribed to cannot be read: %s", self.group_id, error)

    def restore_member(self, member: ClassicMember) -> None:
        """A member that is known already, to this broker or an earlier one."""
        self.members.add(member)
        self.actions.sessions_begun.append(member.session)

    # The table's effects.

    def _move(
        self,
        event: ClassicEvent,
        *,
        error: ErrorCode = ErrorCode.REBALANCE_IN_PROGRESS,
        initial_delay_ms: int = 0,
    ) -> None:
        """Let `event` happen. error: for whoever is refused by it. initial_delay_ms: of a group's first joins."""
        state, effects = classic_transition(self.state, event)
        if state is not self.state:
            self.state = state
            self.state_since_ms = self.clock.milliseconds()
        for effect in effects:
            match effect:
                case ClassicEffect.REFUSE_SYNCS:
                    self._refuse_syncs(error)
                case ClassicEffect.WAIT_FOR_FIRST_MEMBERS:
                    self._wait_for_first_members(initial_delay_ms)
                case ClassicEffect.WAIT_FOR_JOINS:
                    self._wait_for_joins_of_all()
                case ClassicEffect.WAIT_ONCE_MORE:
                    self._wait_once_more()
                case ClassicEffect.COMPLETE_JOINS:
                    self._complete_joins()
                case ClassicEffect.START_GENERATION:
                    self._start_generation()
                case ClassicEffect.START_EMPTY_GENERATION:
                    self._start_empty_generation()
                case ClassicEffect.HAND_OUT_ASSIGNMENT:
                    self._hand_out_assignment()
                case ClassicEffect.REFUSE_EVERYBODY:
                    self._refuse_everybody(error)

    def _refuse_syncs(self, error: ErrorCode) -> None:
        for member in self.members.by_id.values():
            member.assignment = NO_ASSIGNMENT
            if self.answer_sync(member, SyncAnswer(error)):
                self.refresh(member)

    def _refuse_everybody(self, error: ErrorCode) -> None:
        for member in self.members.by_id.values():
            self.answer_join(member, JoinAnswer(error, member.member_id))
            self.answer_sync(member, SyncAnswer(error))
            self.end_session(member.session)
        for session in self.members.pending.values():
            self.end_session(session)
        self.actions.joins_over = self.actions.syncs_over = True

    def _wait_for_first_members(self, initial_delay_ms: int) -> None:
        self._first_joins = FirstJoins(initial_delay_ms, self.members.rebalance_timeout_ms)
        self._begin_round()
        if initial_delay_ms > 0:
            self._wait_for_joins(initial_delay_ms)
        else:
            self._finish_joins()

    def _wait_for_joins_of_all(self) -> None:
        delay_ms = self.members.rebalance_timeout_ms
        self._begin_round()
        if delay_ms > 0 and not self.members.all_have_joined:
            self._wait_for_joins(delay_ms)
        else:
            self._finish_joins()

    def _wait_once_more(self) -> None:
        self._begin_round()
        self._wait_for_joins(max(self.members.rebalance_timeout_ms, SHORTEST_FURTHER_WAIT_MS))

    def _begin_round(self) -> None:
        """Whatever was waited for before is over."""
        self.members.pending_syncs.clear()
        self.actions.syncs_over = self.actions.joins_over = True
        self.join_round += 1

    def _wait_for_joins(self, delay_ms: int) -> None:
        self.actions.waits.append(WaitForJoins(self.join_round, delay_ms))

    def _complete_joins(self) -> None:
        if self._first_joins is None and self.members.all_have_joined:
            self._finish_joins()

    def _finish_joins(self) -> None:
        """Go on with those who have joined; static members may be late, others are members no more."""
        self._first_joins = None
        for member in list(self.members.by_id.values()):
            if member.join_reply is None and member.group_instance_id is None:
                logger.info("Group %s: member %s has not joined in time", self.group_id, member.member_id)
                self.remove_member(member)
        if not self.members.by_id:
            self._move(ClassicEvent.NOBODY_LEFT)
        elif not self.members.elect_joined_leader():
            logger.warning("Group %s cannot complete its rebalance: no member has joined", self.group_id)
            self._move(ClassicEvent.NOBODY_JOINED)
        else:
            self._move(ClassicEvent.JOINS_OVER)

    def _start_generation(self) -> None:
        self._next_generation(self.members.select_protocol())
        for member in self.members.by_id.values():
            self.answer_join(member, self.joined(member.member_id))
            self.refresh(member)
            member.is_new = False
            self.members.pending_syncs.add(member.member_id)
        self.actions.waits.append(WaitForSyncs(self.generation, self.members.rebalance_timeout_ms))

    def _start_empty_generation(self) -> None:
        self._next_generation(None)
        self.store({}, self._on_empty_group_stored)

    def _next_generation(self, protocol_name: str | None) -> None:
        self.actions.joins_over = True
        self.join_round += 1
        self.generation += 1
        self.protocol_name = protocol_name
        self.find_subscribed_topics()
        self.members.pending_syncs.clear()
        logger.info("Group %s: generation %d with %d members", self.group_id, self.generation, len(self.members))

    def _on_empty_group_stored(self, error: ErrorCode) -> None:
        # Should the broker fail now, the generation before comes back, and its members' sessions run out.
        if error is not ErrorCode.NONE:
            logger.warning("That group %s is empty could not be stored: %s", self.group_id, error.name)

    def _hand_out_assignment(self) -> None:
        for member in self.members.by_id.values():
            if self.answer_sync(member, self.assignment_of(member)):
                # Its session may have run out while it waited, which did not count.
                self.refresh(member)

    def _joined_members(self) -> tuple[JoinedMember, ...]:
        name = self.protocol_name
        assert name is not None
        return tuple(
            JoinedMember(member.member_id, member.group_instance_id, member.metadata(name))
            for member in self.members.by_id.values()
        )
