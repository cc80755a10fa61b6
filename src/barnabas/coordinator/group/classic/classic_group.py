"""A group of the classic protocol: its state, its generation, and how it gets from one generation to the next.

Made by `GroupTable` (empty) and `restore`; guarded by the group's lock. Members' requests come through
`classic.requests`, timeouts through `ClassicGroupChanges`, commits through the offset service. Pure: time is a Clock,
and work outside of the group (answers, timers, records) is collected in an outcome, which the service takes and carries
out. Kafka: GroupMetadata, with the rules of GroupCoordinator.

The table of `classic.states` says which state follows an event, and with which effects; `_move` looks it up and runs
them. A rebalance of two members, A (the leader) and B:

    event                       state                 outcome
    A joins                     PreparingRebalance    wait 3 s for more members (WAIT_FOR_FIRST_MEMBERS)
    B joins                     PreparingRebalance    a further step of 3 s, for B is new
    6 s are over                CompletingRebalance   generation 1; both joins are answered, A's with the list of
                                                      members; wait for their SyncGroups (START_GENERATION)
    B syncs                     CompletingRebalance   B's SyncGroup waits: A's assignment is not there yet
    A syncs, with assignments   CompletingRebalance   the record of generation 1 is appended to the log
    the record is replicated    Stable                both syncs are answered (HAND_OUT_ASSIGNMENT)
    C joins                     PreparingRebalance    wait for A and B to join again (WAIT_FOR_JOINS); they learn of it
                                                      by REBALANCE_IN_PROGRESS, the answer to their heartbeats

Two rules are easy to miss. An assignment counts when its record is replicated, not when the leader sends it, and
anything may have happened in between: `_on_assignment_stored` compares the generation. And a static member that does
not join again in time stays in the group until its session expires, so a rebalance can end with a member missing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from barnabas.coordinator.group.classic.classic_group_member import (
    NO_ASSIGNMENT,
    UNKNOWN_MEMBER_ID,
    ClassicMember,
    JoinAnswer,
    JoinedMember,
    JoinReply,
    Session,
    SyncAnswer,
)
from barnabas.coordinator.group.classic.classic_group_members import (
    ClassicMembers,
    ClassicOutcome,
    JoinRounds,
    StoreGroup,
    WaitForJoins,
    WaitForSyncs,
)
from barnabas.coordinator.group.classic.states import (
    COMMIT_REFUSALS,
    DELETION_ERRORS,
    ClassicEffect,
    ClassicEvent,
    ClassicState,
    classic_transition,
)
from barnabas.coordinator.group.group import GroupType
from barnabas.coordinator.group.offsets_topic import NO_TIMESTAMP, GroupMetadataValue, group_key, group_value
from barnabas.coordinator.runtime.record import CoordinatorRecord
from barnabas.protocol.consumer_protocol import PROTOCOL_TYPE as CONSUMER
from barnabas.protocol.errors import DecodeError, ErrorCode
from barnabas.runtime.clock import Clock

logger: Final = logging.getLogger(__name__)

_NONE: Final = ErrorCode.NONE
_STABLE: Final = ClassicState.STABLE
_DEAD: Final = ClassicState.DEAD
SHORTEST_FURTHER_WAIT_MS: Final = 1_000
"""The shortest wait for static members that did not join in time.

With a rebalance timeout of 0 the waits would follow each other without a pause until the members' sessions expire."""


class ClassicGroup:
    """The members and the state of one group. Implements Membership.

    state_since_ms: wall clock, None if the record did not say. generation: 0 until the first rebalance is over.
    kind: the protocol type, None before the first member. protocol_name, subscribed_topics: of the present generation;
    subscribed_topics is None while they are not known. rounds: the waits for joins.
    """

    def __init__(self, group_id: str, clock: Clock) -> None:
        self.group_id = group_id
        self._milliseconds = clock.milliseconds
        self.state = ClassicState.EMPTY
        self.state_since_ms: int | None = clock.milliseconds()
        self.generation = 0
        self.kind: str | None = None
        self.protocol_name: str | None = None
        self.subscribed_topics: frozenset[str] | None = None
        self.outcome = ClassicOutcome()
        self.members = ClassicMembers(clock, self.outcome)
        self.rounds = JoinRounds()
        self._stored_generation: int | None = None

    # -- Membership

    @property
    def group_type(self) -> GroupType:
        """The protocol: the classic one."""
        return GroupType.CLASSIC

    @property
    def state_name(self) -> str:
        """The state in Kafka's words."""
        return self.state.value

    @property
    def protocol_type(self) -> str:
        """The protocol type of the members, "" before the first one."""
        return self.kind or ""

    @property
    def has_members(self) -> bool:
        """Whether the group has members, or did when it rebalanced last."""
        return self.state not in {ClassicState.EMPTY, ClassicState.DEAD}

    @property
    def member_count(self) -> int:
        """The number of members."""
        return len(self.members)

    @property
    def empty_since_ms(self) -> int | None:
        """The time when the last member left, None if the group has members or never had one.

        With None each offset's own commit time counts.
        """
        return self.state_since_ms if self.state is ClassicState.EMPTY and self.kind else None

    @property
    def keeps_all_offsets(self) -> bool:
        """Whether there are members, and the topics that they read are not known."""
        is_known = self.state is ClassicState.STABLE and self.kind == CONSUMER and self.subscribed_topics is not None
        return self.has_members and not is_known

    def check_offset_commit(
        self, member_id: str, group_instance_id: str | None, generation: int, *, is_transactional: bool
    ) -> ErrorCode:
        """Return NONE if a member of this generation may commit, or a client without membership (generation -1)."""
        state = self.state
        if state is _DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        # Clients that assign partitions themselves have no generation. They may use a group that has no members only.
        if generation < 0 and state is ClassicState.EMPTY:
            return _NONE
        if generation < 0 and member_id == UNKNOWN_MEMBER_ID and group_instance_id is None:
            # TxnOffsetCommit before v3 cannot name the member (KIP-447).
            return ErrorCode.NONE if is_transactional else ErrorCode.UNKNOWN_MEMBER_ID
        error = self.check_member(member_id, group_instance_id, generation)
        if error is not _NONE or is_transactional or state is _STABLE:
            return error
        return COMMIT_REFUSALS[state]

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        """Return NONE: the classic protocol has no member epoch to check."""
        return ErrorCode.NONE

    def is_subscribed_to(self, topic: str) -> bool:
        """Return whether a member reads the topic, or may: the subscriptions may be unknown."""
        if not self.has_members:
            return False
        return self.subscribed_topics is None or topic in self.subscribed_topics

    def deletion_error(self) -> ErrorCode:
        """Return why the group cannot be deleted, or NONE."""
        return DELETION_ERRORS[self.state]

    def tombstones(self) -> list[CoordinatorRecord]:
        """Return the tombstone of the group's record. A group that only ever kept offsets has none."""
        return [CoordinatorRecord(group_key(self.group_id), None)] if self.generation > 0 else []

    # -- expirations

    def joins_expired(self, round_number: int) -> None:
        """End this wait for joins, unless it is over already or the first members wait for a further step."""
        if not self.is_waiting_for_joins(round_number):
            return
        further_ms = self.rounds.next_step_ms()
        if further_ms is not None:
            self._begin_round()
            self._wait_for_joins(further_ms)
            return
        self._finish_joins()

    def is_waiting_for_joins(self, round_number: int) -> bool:
        """Return whether this wait for joins goes on."""
        return self.state is ClassicState.PREPARING_REBALANCE and round_number == self.rounds.number

    def syncs_expired(self, generation: int) -> None:
        """Remove the members that have not asked for their assignment in time."""
        if not self.is_waiting_for_syncs(generation):
            return
        late = sorted(self.members.pending_syncs)
        for member_id in late:
            self.members.remove(self.members.by_id[member_id])
        self.rebalance(f"removing {', '.join(late)}: no SyncGroup within the rebalance timeout")

    def is_waiting_for_syncs(self, generation: int) -> bool:
        """Return whether members of this generation have not asked for their assignment yet."""
        has_generation = self.state in {ClassicState.COMPLETING_REBALANCE, ClassicState.STABLE}
        return has_generation and generation == self.generation and bool(self.members.pending_syncs)

    def session_expired(self, session: Session, now_ns: int) -> None:
        """Remove a member that was silent until now, unless its session has been extended."""
        if session.is_over or session.expires_ns > now_ns:
            return
        member = self.members.by_id.get(session.member_id)
        if member is None:
            logger.info("Group %s: pending member %s has not joined in time", self.group_id, session.member_id)
            self.members.remove_pending(session.member_id)
            self.complete_joins()
        elif member.is_waiting and not member.is_new:
            # A member sends no heartbeats while its request waits. A new member has a limit of its own
            # (`NEW_MEMBER_JOIN_TIMEOUT_MS`): its client may be gone, and nothing else would tell.
            self.members.refresh_session(member.member_id)
        else:
            logger.info("Group %s: the session of member %s has expired", self.group_id, member.member_id)
            self.members.remove(member)
            self.rebalance(f"removing member {member.member_id} on heartbeat expiration")

    # -- steps that requests are made of (`classic.requests`)

    def check_member(self, member_id: str, group_instance_id: str | None, generation: int) -> ErrorCode:
        """Return NONE for a member of the current generation, or an error."""
        error = self.members.check(member_id, group_instance_id)
        if error is _NONE and generation != self.generation:
            return ErrorCode.ILLEGAL_GENERATION
        return error

    def add_member(self, member: ClassicMember, protocol_type: str, reply: JoinReply | None) -> None:
        """Add a member; with `reply` its JoinGroup waits. The caller rebalances."""
        if not self.members.by_id:
            self.kind = protocol_type
        # Kafka extends the first wait in a group's first generation only (addMemberAndRebalance).
        if self.rounds.is_first and self.generation == 0:
            self.rounds.note_new_member()
        self.members.add(member)
        self.members.set_join_reply(member, reply)

    def complete_joins(self) -> None:
        """End the wait for joins if every member has joined."""
        if self.state is ClassicState.PREPARING_REBALANCE:
            self._move(ClassicEvent.MEMBERS_CHANGED)

    def rebalance(self, reason: str, initial_delay_ms: int = 0) -> None:
        """Have the members join again. If the group waits for joins already, end that wait if no member is missing."""
        if self.state is not ClassicState.PREPARING_REBALANCE:
            logger.info(
                "Preparing to rebalance group %s in state %s with old generation %d (reason: %s)",
                self.group_id,
                self.state.value,
                self.generation,
                reason,
            )
        self._move(ClassicEvent.MEMBERS_CHANGED, initial_delay_ms=initial_delay_ms)

    def end(self, error: ErrorCode) -> None:
        """Answer all pending requests with `error`: the group was deleted, moved away, or changed its protocol."""
        if self.state is not ClassicState.DEAD:
            self._move(ClassicEvent.ENDED, error=error)

    def take_outcome(self) -> ClassicOutcome:
        """Return the collected outcome and begin a new one."""
        outcome = self.outcome
        self.outcome = self.members.outcome = ClassicOutcome()
        return outcome

    # -- answers

    def answer_at_once(self, answer: Callable[[], None]) -> None:
        """Add an answer to a request that does not wait."""
        self.outcome.answers.append(answer)

    def joined(self, member_id: str, *, leader: str | None = None, skip_assignment: bool = False) -> JoinAnswer:
        """Return the answer to a JoinGroup of the current generation; the leader's has the list of members.

        leader: the member id to name as the leader instead of the real one; then the list is left out.
        """
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

    def _joined_members(self) -> tuple[JoinedMember, ...]:
        name = self.protocol_name
        assert name is not None
        return tuple(
            JoinedMember(member.member_id, member.group_instance_id, member.metadata(name))
            for member in self.members.by_id.values()
        )

    def assignment_of(self, member: ClassicMember) -> SyncAnswer:
        """Return the answer to a SyncGroup of a stable group."""
        return SyncAnswer(ErrorCode.NONE, self.kind, self.protocol_name, member.assignment)

    # -- assignments and records

    def note_sync(self, member: ClassicMember) -> None:
        """Record that a member has sent its SyncGroup; the last one of the generation ends the wait for them."""
        self.members.pending_syncs.discard(member.member_id)
        if not self.members.pending_syncs:
            self.outcome.syncs_over = True

    def store_assignment(self, assignments: Mapping[str, bytes]) -> None:
        """Store the leader's assignment; the members get it when it is replicated.

        A generation has one assignment: a second one, sent before the first is replicated, is ignored. With two of them
        in the log the next coordinator would read the other one.
        """
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
        """Have the group appended to the log with these assignments, one for each member."""
        self.outcome.stores.append(StoreGroup(self.record(assignments), on_stored, completes_rebalance))

    def record(self, assignments: Mapping[str, bytes]) -> CoordinatorRecord:
        """Return the group's record with these assignments, one for each member."""
        protocol_name = self.protocol_name or ""  # empty only in a group without members
        value = GroupMetadataValue(
            protocol_type=self.kind or "",
            generation=self.generation,
            protocol=self.protocol_name,
            leader=self.members.leader_id,
            current_state_timestamp=NO_TIMESTAMP if self.state_since_ms is None else self.state_since_ms,
            members=[each.stored(protocol_name, assignments[each.member_id]) for each in self.members.by_id.values()],
        )
        return CoordinatorRecord(group_key(self.group_id), group_value(value))

    def _on_assignment_stored(self, generation: int, assignments: Mapping[str, bytes], error: ErrorCode) -> None:
        """Hand out the assignment that is replicated now, or rebalance if it is lost."""
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
        """Read the subscribed topics from the members' metadata."""
        self.subscribed_topics = None
        if self.kind == CONSUMER:
            try:
                self.subscribed_topics = self.members.subscribed_topics(self.protocol_name)
            except DecodeError as error:
                logger.warning("The subscriptions of group %s cannot be read: %s", self.group_id, error)

    # -- effects of the table

    def _move(
        self, event: ClassicEvent, *, error: ErrorCode = ErrorCode.REBALANCE_IN_PROGRESS, initial_delay_ms: int = 0
    ) -> None:
        """Move to the state that follows the event, and run the effects.

        error: the answer to requests that an effect rejects. initial_delay_ms: of an empty group's first joins.
        """
        state, effects = classic_transition(self.state, event)
        # The state changes before the effects, because an effect may be the next event.
        if state is not self.state:
            self.state = state
            self.state_since_ms = self._milliseconds()
        for effect in effects:
            match effect:
                case ClassicEffect.REJECT_SYNCS:
                    self._reject_syncs(error)
                case ClassicEffect.WAIT_FOR_FIRST_MEMBERS:
                    self._wait_for_first_members(initial_delay_ms)
                case ClassicEffect.WAIT_FOR_JOINS:
                    self._wait_for_joins_of_all()
                case ClassicEffect.WAIT_ONCE_MORE:
                    self._wait_for_more_joins()
                case ClassicEffect.COMPLETE_JOINS:
                    self._complete_joins()
                case ClassicEffect.START_GENERATION:
                    self._start_generation()
                case ClassicEffect.START_EMPTY_GENERATION:
                    self._start_empty_generation()
                case ClassicEffect.HAND_OUT_ASSIGNMENT:
                    self._hand_out_assignment()
                case ClassicEffect.REJECT_ALL:
                    self._reject_all(error)

    def _reject_syncs(self, error: ErrorCode) -> None:
        for member in self.members.by_id.values():
            # The generation ends without an assignment: an older one must not be handed out in its place.
            member.assignment = NO_ASSIGNMENT
            if self.members.answer_sync(member, SyncAnswer(error)):
                self.members.refresh_session(member.member_id)

    def _reject_all(self, error: ErrorCode) -> None:
        for member in self.members.by_id.values():
            self.members.answer(member, error, member.member_id)
            self.members.end_session(member.session)
        for session in self.members.pending.values():
            self.members.end_session(session)
        self.outcome.joins_over = self.outcome.syncs_over = True

    def _wait_for_first_members(self, initial_delay_ms: int) -> None:
        self._end_waits()
        self.rounds.begin_first(initial_delay_ms, self.members.rebalance_timeout_ms)
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

    def _wait_for_more_joins(self) -> None:
        self._begin_round()
        self._wait_for_joins(max(self.members.rebalance_timeout_ms, SHORTEST_FURTHER_WAIT_MS))

    def _begin_round(self) -> None:
        self._end_waits()
        self.rounds.begin()

    def _end_waits(self) -> None:
        """End all waits for joins and syncs that are still going on."""
        # The flags only have the waits looked at, in the service's third step. Each wait compares its number with the
        # group's, so a wait that began later goes on.
        self.members.pending_syncs.clear()
        self.outcome.syncs_over = self.outcome.joins_over = True

    def _wait_for_joins(self, delay_ms: int) -> None:
        self.outcome.waits.append(WaitForJoins(self.rounds.number, delay_ms))

    def _complete_joins(self) -> None:
        if not self.rounds.is_first and self.members.all_have_joined:
            self._finish_joins()

    def _finish_joins(self) -> None:
        """Go on with the members that have joined. The others are removed, except static ones, which may be late."""
        # The table may send the group three ways from here, each by a further event within this one.
        self.rounds.end()
        for member in list(self.members.by_id.values()):
            if member.join_reply is None and member.group_instance_id is None:
                logger.info("Group %s: member %s has not joined in time", self.group_id, member.member_id)
                self.members.remove(member)
        if not self.members.by_id:
            self._move(ClassicEvent.NO_MEMBER_LEFT)
        elif not self.members.elect_joined_leader():
            logger.warning("Group %s cannot complete its rebalance: no member has joined", self.group_id)
            self._move(ClassicEvent.NO_MEMBER_JOINED)
        else:
            self._move(ClassicEvent.JOINS_OVER)

    def _start_generation(self) -> None:
        # The leader's answer has the list of all members, so it costs the most; the order of the answers does not
        # matter. Every session restarts: heartbeats could not come while the joins waited.
        self._next_generation(self.members.select_protocol())
        for member in self.members.by_id.values():
            self.members.answer_join(member, self.joined(member.member_id))
            self.members.refresh_session(member.member_id)
            member.is_new = False
            self.members.pending_syncs.add(member.member_id)
        self.outcome.waits.append(WaitForSyncs(self.generation, self.members.rebalance_timeout_ms))

    def _start_empty_generation(self) -> None:
        # Stored, so that the next coordinator does not wait for members that have left.
        self._next_generation(None)
        self.store({}, self._on_empty_group_stored)

    def _next_generation(self, protocol_name: str | None) -> None:
        self.outcome.joins_over = True
        self.rounds.begin()
        self.generation += 1
        self.protocol_name = protocol_name
        self.find_subscribed_topics()
        self.members.pending_syncs.clear()
        logger.info("Group %s: generation %d with %d members", self.group_id, self.generation, len(self.members))

    def _on_empty_group_stored(self, error: ErrorCode) -> None:
        # If the broker fails now, the generation before comes back, and its members' sessions expire.
        if error is not ErrorCode.NONE:
            logger.warning("The empty group %s could not be stored: %s", self.group_id, error.name)

    def _hand_out_assignment(self) -> None:
        for member in self.members.by_id.values():
            if self.members.answer_sync(member, self.assignment_of(member)):
                # Its session may have expired while the SyncGroup waited, which did not count.
                self.members.refresh_session(member.member_id)
