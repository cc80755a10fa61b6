"""The members of a classic group, the waits for their joins, and the outcome: the work that an event causes.

Held by `ClassicGroup`, guarded by the group's lock; pure. Group and members collect a ClassicOutcome, because no
request is answered and no delayed operation completed under a lock: `ClassicGroupChanges` appends its `stores` to the
log under the same lock, and does the rest without it. (Kafka's GroupCoordinator acts while it holds the group's lock.)
Kafka: GroupMetadata (the members), DelayedJoin, InitialDelayedJoin.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, NamedTuple

from barnabas.coordinator.group.classic.classic_group_member import (
    UNKNOWN_MEMBER_ID,
    ClassicMember,
    JoinAnswer,
    JoinReply,
    MemberTerms,
    Session,
    SyncAnswer,
)
from barnabas.coordinator.runtime.record import CoordinatorRecord
from barnabas.protocol.consumer_protocol import decode_topics
from barnabas.protocol.errors import ErrorCode
from barnabas.runtime.clock import NANOSECONDS_PER_MILLISECOND, Clock

_NONE: Final = ErrorCode.NONE


class WaitForJoins(NamedTuple):
    """A wait of `delay_ms` for the members to join. `round_number` tells this wait from earlier ones of the group."""

    round_number: int
    delay_ms: int


class WaitForSyncs(NamedTuple):
    """A wait of `delay_ms` for the members of `generation` to ask for their assignments."""

    generation: int
    delay_ms: int


class StoreGroup(NamedTuple):
    """A record to append. The service then calls `on_stored` with the result, under the group's lock again.

    completes_rebalance: the record holds a leader's assignment.
    """

    record: CoordinatorRecord
    on_stored: Callable[[ErrorCode], None]
    completes_rebalance: bool = False


class ClassicOutcome:
    """The work of each kind, in the order in which the group asked for it.

    answers: calls that answer a request each. new_sessions: sessions to watch from now on. ended_sessions: sessions
    that need no watch from now on. joins_over, syncs_over: the wait for joins (or syncs) of the group may have ended.
    """

    __slots__ = ("answers", "ended_sessions", "joins_over", "new_sessions", "stores", "syncs_over", "waits")

    def __init__(self) -> None:
        self.answers: list[Callable[[], None]] = []
        self.stores: list[StoreGroup] = []
        self.waits: list[WaitForJoins | WaitForSyncs] = []
        self.new_sessions: list[Session] = []
        self.ended_sessions: list[Session] = []
        self.joins_over = False
        self.syncs_over = False


class JoinRounds:
    """The waits for joins, by number, and how much longer the first members of an empty group wait for others.

    A group with a first member waits for `group.initial.rebalance.delay.ms`, so that one rebalance serves all members
    that start together. If another member joins during that step, a further step of the same length follows. All steps
    together last no longer than the members' rebalance timeout. Times in milliseconds.

    number: tells the present wait from earlier ones. is_first: the members are the first ones of an empty group.
    """

    __slots__ = ("_delay_ms", "_has_new_member", "_remaining_ms", "_step_ms", "is_first", "number")

    def __init__(self) -> None:
        self.number = 0
        self.is_first = False
        self._has_new_member = False
        self._step_ms = self._delay_ms = self._remaining_ms = 0

    def begin(self) -> None:
        """Begin a wait: the next number."""
        self.number += 1

    def begin_first(self, step_ms: int, rebalance_timeout_ms: int) -> None:
        """Begin the wait of the first members: the next number, and a first step of this length."""
        self.number += 1
        self.is_first = True
        self._has_new_member = False
        self._step_ms = self._delay_ms = step_ms
        self._remaining_ms = max(rebalance_timeout_ms - step_ms, 0)

    def note_new_member(self) -> None:
        """Extend the wait of the first members by a step."""
        self._has_new_member = True

    def next_step_ms(self) -> int | None:
        """Return the length of the first members' next step, or None if there is none: the joins end now."""
        if not self.is_first or not self._has_new_member or not self._remaining_ms:
            return None
        self._has_new_member = False
        # As in Kafka's InitialDelayedJoin, the step that is over is subtracted here, and not the one that begins.
        delay_ms = min(self._step_ms, self._remaining_ms)
        self._remaining_ms = max(self._remaining_ms - self._delay_ms, 0)
        self._delay_ms = delay_ms
        return delay_ms

    def end(self) -> None:
        """Mark the wait of the first members as over."""
        self.is_first = False


class ClassicMembers:
    """The members in the order in which they joined; the first one leads until it leaves.

    outcome: the group's; `ClassicGroup.take_outcome` replaces it. pending: sessions of member ids that were handed out
    and have not joined yet (KIP-394). pending_syncs: members of the generation that have not sent a SyncGroup.
    waiting: how many members wait for the answer to their JoinGroup.
    """

    __slots__ = (
        "_nanoseconds",
        "_protocol_counts",
        "by_id",
        "leader_id",
        "outcome",
        "pending",
        "pending_syncs",
        "static_ids",
        "waiting",
    )

    def __init__(self, clock: Clock, outcome: ClassicOutcome) -> None:
        self._nanoseconds = clock.nanoseconds
        self.outcome = outcome
        self.by_id: dict[str, ClassicMember] = {}
        self.static_ids: dict[str, str] = {}
        """Member id by group instance id (KIP-345)."""
        self.pending: dict[str, Session] = {}
        self.pending_syncs: set[str] = set()
        self.leader_id: str | None = None
        self.waiting = 0
        self._protocol_counts: Counter[str] = Counter()

    def __len__(self) -> int:
        """Return the number of members, without the pending ones."""
        return len(self.by_id)

    @property
    def all_have_joined(self) -> bool:
        """Whether every member has joined and no handed out member id is pending."""
        return self.waiting == len(self.by_id) and not self.pending

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of all members, 0 without members."""
        return max((member.terms.rebalance_timeout_ms for member in self.by_id.values()), default=0)

    def check(self, member_id: str, group_instance_id: str | None) -> ErrorCode:
        """Return NONE, UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID when another member took the static member's place."""
        # The instance id decides first: a client that another one with its instance id has replaced must stop, while
        # UNKNOWN_MEMBER_ID would make it join again and fence the other one (KIP-345).
        if group_instance_id is not None:
            current = self.static_ids.get(group_instance_id)
            if current is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if current != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return _NONE if member_id in self.by_id else ErrorCode.UNKNOWN_MEMBER_ID

    # -- joining and leaving

    def add(self, member: ClassicMember) -> None:
        """Add a member whose id and group instance id are free, and have its session watched."""
        assert member.member_id not in self.by_id, member.member_id
        if member.group_instance_id is not None:
            assert member.group_instance_id not in self.static_ids, member.group_instance_id
            self.static_ids[member.group_instance_id] = member.member_id
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.by_id[member.member_id] = member
        self._protocol_counts.update(member.terms.protocol_names)
        self.outcome.new_sessions.append(member.session)

    def remove(self, member: ClassicMember) -> None:
        """Remove a member and answer its pending requests. If it led, the member that joined first leads now."""
        self.answer(member, ErrorCode.UNKNOWN_MEMBER_ID, UNKNOWN_MEMBER_ID)
        del self.by_id[member.member_id]
        self._forget_protocols(member)
        if member.group_instance_id is not None:
            del self.static_ids[member.group_instance_id]
        if self.leader_id == member.member_id:
            self.leader_id = next(iter(self.by_id), None)
        self.pending_syncs.discard(member.member_id)
        self.end_session(member.session)

    def replace(self, member: ClassicMember, member_id: str) -> None:
        """Let a static member go on under a new id, in its old place. Requests under the old id are fenced."""
        self.answer(member, ErrorCode.FENCED_INSTANCE_ID, member.member_id)
        self.rename(member, member_id)

    def rename(self, member: ClassicMember, member_id: str) -> None:
        """Give a static member another id, in the same place."""
        # The dict is rebuilt to keep the member's place: the order decides who leads after the leader.
        old_id = member.member_id
        self.by_id = {member_id if each == old_id else each: value for each, value in self.by_id.items()}
        member.member_id = member_id
        if self.leader_id == old_id:
            self.leader_id = member_id
        if old_id in self.pending_syncs:
            self.pending_syncs.remove(old_id)
            self.pending_syncs.add(member_id)
        assert member.group_instance_id is not None
        self.static_ids[member.group_instance_id] = member_id

    def set_terms(self, member: ClassicMember, terms: MemberTerms) -> None:
        """Replace the terms of a member that joins again."""
        self._forget_protocols(member)
        member.terms = terms
        # The session's watch is armed for the old timeout: that suffices for a longer one, while a shorter one takes
        # another session (`replace_session`).
        member.session.timeout_ns = terms.session_timeout_ms * NANOSECONDS_PER_MILLISECOND
        self._protocol_counts.update(terms.protocol_names)

    def elect_joined_leader(self) -> bool:
        """Make a member that has joined the leader; return False if none has."""
        if self.leader_id is None:
            return False
        if self.by_id[self.leader_id].join_reply is None:
            joined = next((member for member in self.by_id.values() if member.join_reply is not None), None)
            if joined is None:
                return False
            self.leader_id = joined.member_id
        return True

    # -- sessions

    def new_session(self, member_id: str, timeout_ms: int, *, first_timeout_ms: int | None = None) -> Session:
        """Return a session that begins now. first_timeout_ms: until the first sign of life, if that may take longer."""
        first_ms = timeout_ms if first_timeout_ms is None else first_timeout_ms
        expires_ns = self._nanoseconds() + first_ms * NANOSECONDS_PER_MILLISECOND
        return Session(member_id, expires_ns, timeout_ms * NANOSECONDS_PER_MILLISECOND)

    def refresh_session(self, member_id: str) -> None:
        """Restart the session of this member, if it exists."""
        # On the path of every heartbeat and commit: a deadline moves, and no timer (see `DelayedHeartbeat`).
        member = self.by_id.get(member_id)
        if member is not None:
            session = member.session
            session.expires_ns = self._nanoseconds() + session.timeout_ns

    def refresh_all_sessions(self) -> None:
        """Restart the session of every member."""
        for member_id in self.by_id:
            self.refresh_session(member_id)

    def replace_session(self, member: ClassicMember) -> None:
        """Begin another session for a member whose id has changed or whose session timeout has become shorter."""
        self.end_session(member.session)
        member.session = self.new_session(member.member_id, member.terms.session_timeout_ms)
        self.outcome.new_sessions.append(member.session)

    def end_session(self, session: Session) -> None:
        """Mark a session as over, and end its watch."""
        session.is_over = True
        self.outcome.ended_sessions.append(session)

    def add_pending(self, session: Session) -> None:
        """Remember a member id that is handed out, for as long as its session lasts."""
        self.pending[session.member_id] = session
        self.outcome.new_sessions.append(session)

    def remove_pending(self, member_id: str) -> None:
        """Remove a member id that was handed out, and end its session."""
        self.end_session(self.pending.pop(member_id))

    # -- pending requests

    def set_join_reply(self, member: ClassicMember, reply: JoinReply | None) -> None:
        """Set the reply that answers the member's pending JoinGroup, or None when no JoinGroup is pending."""
        self.waiting += (reply is not None) - (member.join_reply is not None)
        member.join_reply = reply

    def answer_join(self, member: ClassicMember, answer: JoinAnswer) -> None:
        """Answer the member's JoinGroup if one is pending."""
        reply = member.join_reply
        if reply is not None:
            self.set_join_reply(member, None)
            self.outcome.answers.append(partial(reply, answer))

    def answer_sync(self, member: ClassicMember, answer: SyncAnswer) -> bool:
        """Answer the member's SyncGroup if one is pending; return whether one was."""
        reply = member.sync_reply
        if reply is None:
            return False
        member.sync_reply = None
        self.outcome.answers.append(partial(reply, answer))
        return True

    def answer(self, member: ClassicMember, error: ErrorCode, named: str) -> None:
        """Answer all pending requests of a member with an error. named: the member id in the JoinGroup's answer."""
        self.answer_join(member, JoinAnswer(error, named))
        self.answer_sync(member, SyncAnswer(error))

    # -- protocols

    def can_all(self, protocol_names: Iterable[str]) -> bool:
        """Return whether one of these protocols is known to every member."""
        # Counted, because a look at the protocols of every member at every join would make a rebalance quadratic.
        return any(self._protocol_counts[name] == len(self.by_id) for name in protocol_names)

    def select_protocol(self) -> str:
        """Return the protocol that most members prefer among those that all know; there is at least one."""
        # Each member votes for the first of its own that all know. With equal votes the protocol wins that an earlier
        # member voted for: the order of `by_id` is that of the votes.
        candidates = {name for name, count in self._protocol_counts.items() if count == len(self.by_id)}
        votes = Counter(member.vote(candidates) for member in self.by_id.values())
        return max(votes, key=votes.__getitem__)

    def subscribed_topics(self, protocol_name: str | None) -> frozenset[str] | None:
        """Return the topics that the members of a consumer group read; None while no protocol is chosen.

        Raises DecodeError when a member's metadata is no subscription.
        """
        if not self.by_id:
            return frozenset()
        if protocol_name is None:
            return None
        return frozenset().union(*(decode_topics(each.metadata(protocol_name)) for each in self.by_id.values()))

    def _forget_protocols(self, member: ClassicMember) -> None:
        self._protocol_counts.subtract(member.terms.protocol_names)
        self._protocol_counts = +self._protocol_counts  # drops the names with a count of 0
