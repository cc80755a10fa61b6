"""The work after the decisions of classic groups: records, answers, sessions, waits and their timeouts.

Used by `ClassicGroupService` on any thread, and by the purgatories' timeouts. An event takes three steps:

1. decide, under the group's lock: the pure group changes, and collects a `ClassicOutcome`;
2. `write`, under the same lock: its records are appended, so that the log has them in the order of the changes;
3. `finish`, without any lock: requests are answered, records wait for their replicas, sessions and waits are watched.

`ConsumerGroupChanges` does the same for consumer groups. Owns no lock.
Kafka: GroupCoordinator (doSyncGroup's callbacks), and its purgatories' DelayedHeartbeat, DelayedJoin, DelayedSync.

**Why the third step has no lock.** What it calls may ask for a group's lock, of this group or of another: an operation
that completes runs on the thread that looks at it, and a record that needs no other replica counts as replicated within
the call of `when_replicated`, whose event begins its own three steps there. So `DelayedOperation.force_complete` must
not be called under a ranked lock (tests check it). The other way round, `try_complete` runs under its operation's lock,
so it reads single attributes of the group and never asks for the group's lock.

**Third steps overtake each other.** As soon as the lock is free another thread may change the group, and be through
with its third step first. M, the last member that is missing, joins while thread 1 still carries out the rebalance:

    thread 1, under the lock     PreparingRebalance; its outcome has WaitForJoins(round 5)
    thread 2, under the lock     M joins: CompletingRebalance, generation 3; its outcome has joins_over and
                                 WaitForSyncs(generation 3)
    thread 2, finish             answers the joins, and watches for SyncGroups; it finds no wait for joins to end
    thread 1, finish             watches round 5: `is_waiting_for_joins(5)` is false, so the wait is complete at once
                                 and never reaches the timer

Three properties make every order harmless. A wait has a number (round or generation) and a session a mark `is_over`:
both only ever go one way, so what is over stays over. A purgatory looks at an operation again after it has listed it:
an end that came before is seen then, and a later one finds the operation in the list. And each timeout and each
replication is an event of its own: `_run` takes the lock, and the group compares the number once more. Nothing is
carried over from the look without a lock.

A member that leaves before its session is watched is the same case, with the session as the operation's key. So is a
group that is deleted or changes its protocol: `_run` drops events about a membership that is no longer the group's.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from barnabas.coordinator.group.classic.classic_group import ClassicGroup
from barnabas.coordinator.group.classic.classic_group_member import Session
from barnabas.coordinator.group.classic.classic_group_members import (
    ClassicOutcome,
    StoreGroup,
    WaitForJoins,
    WaitForSyncs,
)
from barnabas.coordinator.group.group import Group
from barnabas.coordinator.group.group_environment import GroupEnvironment
from barnabas.coordinator.group.offsets_topic import CLASSIC_GROUP_ERRORS
from barnabas.coordinator.runtime.coordinator_log import StoredAppend
from barnabas.protocol.errors import ErrorCode
from barnabas.purgatory.delayed_operation import DelayedOperation
from barnabas.purgatory.purgatory import DelayedOperationPurgatory
from barnabas.purgatory.timer import SystemTimer
from barnabas.runtime.clock import NANOSECONDS_PER_MILLISECOND, Clock


class DelayedHeartbeat(DelayedOperation):
    """The watch over one session, in the purgatory "Heartbeat". It ends in one of two cases.

    1. The session is over: the member left, another session replaced this one, or the group is gone.
    2. The member was silent for too long: `on_expired` tells the group, which may give the member more time.

    A heartbeat does not touch the watch: the heartbeat moves the session's deadline, and when the timer reaches the old
    one the watch is armed again for the time that is left. So a member has one entry in the timer, which moves once or
    twice in a session timeout, however many heartbeats the member sends. (In Kafka every heartbeat makes a new one.)

    is_active: false once the coordinator stops; from then on no member is removed.
    """

    __slots__ = ("_clock", "_is_active", "_on_expired", "_session", "_timer")

    def __init__(
        self,
        session: Session,
        clock: Clock,
        timer: SystemTimer,
        on_expired: Callable[[], None],
        is_active: Callable[[], bool],
    ) -> None:
        self._session = session
        self._clock = clock
        self._timer = timer
        self._on_expired = on_expired
        self._is_active = is_active
        super().__init__(self._left_ms())

    def try_complete(self) -> bool:
        """Complete the watch in case 1."""
        # Read without the group's lock: `is_over` turns true once and never back.
        return self._session.is_over and self.force_complete()

    def on_complete(self) -> None:
        """Do nothing: the caller that ended the session has done the work."""

    def expire(self) -> None:
        """Tell the group if the deadline has not moved (case 2); else wait for the rest. Called by the timer."""
        if self._is_active() and not self._session.is_over:
            # Looked at without the group's lock. A heartbeat that comes now moves the deadline too late for this look,
            # so the group looks again under its lock (`ClassicGroup.session_expired`).
            if self._session.expires_ns <= self._clock.nanoseconds():
                self._on_expired()
            if not self._session.is_over:
                self.delay_ms = self._left_ms()
                self.start_timer(self._timer)
                return
        self.force_complete()

    def _left_ms(self) -> int:
        """Return the time until the deadline, but no more than a session timeout (see Session)."""
        # Rounded up, and 1 at least: a timer that fires before the deadline would only be armed again.
        left_ns = self._session.expires_ns - self._clock.nanoseconds()
        return max(1, -(-min(left_ns, self._session.timeout_ns) // NANOSECONDS_PER_MILLISECOND))


class DelayedRebalance(DelayedOperation):
    """A wait of a group for its members, in the purgatory "Rebalance". It ends in one of two cases.

    1. The group waits no longer: its members have joined (or synced), or it has begun another wait.
    2. The time is over.

    After the time of a wait for joins (Kafka's DelayedJoin and InitialDelayedJoin) the group goes on with those that
    have joined; after that of a wait for SyncGroups (DelayedSync) it removes the members that sent none. The group
    itself decides, under its lock, whether it has to wait; this operation only keeps the time. is_over: reads
    attributes of the group without its lock. on_timeout: tells the group, and takes the lock for that.
    """

    __slots__ = ("_is_over", "_on_timeout")

    def __init__(self, delay_ms: int, is_over: Callable[[], bool], on_timeout: Callable[[], None]) -> None:
        super().__init__(delay_ms)
        self._is_over = is_over
        self._on_timeout = on_timeout

    def try_complete(self) -> bool:
        """Complete the wait in case 1."""
        return self._is_over() and self.force_complete()

    def on_complete(self) -> None:
        """Do nothing: the group has done the work."""

    def on_expiration(self) -> None:
        """Tell the group that the time is over."""
        self._on_timeout()


class ClassicFollowUp(NamedTuple):
    """The work that `write` leaves to `finish`. appends: one for each of the outcome's `stores`."""

    group: Group
    classic: ClassicGroup
    outcome: ClassicOutcome
    appends: list[StoredAppend]


class ClassicGroupChanges:
    """The writer of classic groups' records, and the watch over their sessions and waits.

    count_rebalance: called when a leader has assigned a generation.
    """

    def __init__(
        self,
        environment: GroupEnvironment,
        heartbeats: DelayedOperationPurgatory[DelayedHeartbeat],
        rebalances: DelayedOperationPurgatory[DelayedRebalance],
        count_rebalance: Callable[[], None],
    ) -> None:
        self._clock = environment.clock
        self._timer = environment.timer
        self._log = environment.log
        self._heartbeats = heartbeats
        self._rebalances = rebalances
        self._count_rebalance = count_rebalance
        self._is_active = True

    def write(self, group: Group, classic: ClassicGroup) -> ClassicFollowUp:
        """Append the records of what the group has decided. The caller holds the group's lock."""
        outcome = classic.take_outcome()
        append = self._log.append
        appends = [append(group.partition, (store.record,), CLASSIC_GROUP_ERRORS) for store in outcome.stores]
        return ClassicFollowUp(group, classic, outcome, appends)

    def finish(self, follow_up: ClassicFollowUp) -> None:
        """Answer, watch new sessions and waits, and end those that are over. The caller holds no lock."""
        group, classic, outcome, appends = follow_up
        # Answers come first: a client that is told to join again does so while the rest is carried out.
        for answer in outcome.answers:
            answer()
        for store, append in zip(outcome.stores, appends, strict=True):
            if store.completes_rebalance:
                self._count_rebalance()
            append.when_replicated(partial(self._stored, group, classic, store))
        # Ended sessions before new ones: a replaced session and its successor are of one member, with one watch each.
        for session in outcome.ended_sessions:
            self._heartbeats.check_and_complete(session)
        for session in outcome.new_sessions:
            self._watch(group, classic, session)
        for wait in outcome.waits:
            self._wait(group, classic, wait)
        # New waits are watched before the old ones are looked at: both have the same key, and only those whose number
        # has passed complete.
        if outcome.joins_over:
            self._rebalances.check_and_complete(_join_key(group))
        if outcome.syncs_over:
            self._rebalances.check_and_complete(_sync_key(group))

    def stop(self) -> None:
        """Ignore timeouts and replicated records from now on."""
        self._is_active = False

    def shutdown(self) -> None:
        """End all watches; `stop` was called before, and no request waits."""
        self._heartbeats.shutdown()
        self._rebalances.shutdown()

    # -- later events: replication and timeouts

    def _stored(self, group: Group, classic: ClassicGroup, store: StoreGroup, error: ErrorCode) -> None:
        self._run(group, classic, partial(store.on_stored, error))

    def _run(self, group: Group, classic: ClassicGroup, event: Callable[[], None]) -> None:
        """Take the three steps for an event, unless the group was removed or replaced. The caller holds no lock."""
        if not self._is_active:
            return
        with group.lock:
            # The group may have been removed, and another one may have its id by now; or it has changed its protocol.
            # The event is about neither.
            if group.is_removed or group.membership is not classic:
                return
            event()
            follow_up = self.write(group, classic)
        self.finish(follow_up)

    def _session_expired(self, group: Group, classic: ClassicGroup, session: Session) -> None:
        with group.lock:
            if group.is_removed or group.membership is not classic:
                # Without this mark the watch would arm its timer again, and would never end.
                session.is_over = True
                return
            classic.session_expired(session, self._clock.nanoseconds())
            follow_up = self.write(group, classic)
        self.finish(follow_up)

    # -- watches

    def _watch(self, group: Group, classic: ClassicGroup, session: Session) -> None:
        delayed = DelayedHeartbeat(
            session,
            self._clock,
            self._timer,
            partial(self._session_expired, group, classic, session),
            lambda: self._is_active,
        )
        self._heartbeats.try_complete_else_watch(delayed, (session,))

    def _wait(self, group: Group, classic: ClassicGroup, wait: WaitForJoins | WaitForSyncs) -> None:
        is_waiting: Callable[[int], bool]
        expired: Callable[[int], None]
        if isinstance(wait, WaitForJoins):
            key, number = _join_key(group), wait.round_number
            is_waiting, expired = classic.is_waiting_for_joins, classic.joins_expired
        else:
            key, number = _sync_key(group), wait.generation
            is_waiting, expired = classic.is_waiting_for_syncs, classic.syncs_expired
        delayed = DelayedRebalance(
            wait.delay_ms, lambda: not is_waiting(number), lambda: self._run(group, classic, partial(expired, number))
        )
        self._rebalances.try_complete_else_watch(delayed, (key,))


def _join_key(group: Group) -> tuple[str, str]:
    return "join", group.group_id


def _sync_key(group: Group) -> tuple[str, str]:
    return "sync", group.group_id
