"""The work after the decisions about consumer groups: records into the log, then into the group; timers, answers.

Used by `ConsumerGroupService` and `ConsumerGroupClassicMembers`, in the same three steps as `ClassicGroupChanges`:

1. decide, under the group's lock: the pure modules read the group, and return a `ConsumerOutcome`;
2. `write`, under the same lock: the records are appended, so that the log has them in the order of the changes, and
   then replayed into the group. If the local log refuses them, nothing has happened;
3. `finish`, without any lock: classic groups are told of a change of protocol, the answer waits for the replicas.

The difference to a classic group: a consumer group does not change before its records are in the log. Owns no state:
the group holds its deadlines, too. Kafka: CoordinatorRuntime's write events, CoordinatorTimerImpl.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple, Protocol

from barnabas.coordinator.group.classic.classic_group import ClassicGroup
from barnabas.coordinator.group.consumer.consumer_group import ConsumerGroup
from barnabas.coordinator.group.consumer.consumer_group_member import MemberDeadline, TimerKind
from barnabas.coordinator.group.consumer.consumer_group_outcome import ConsumerOutcome, T, TimerChange
from barnabas.coordinator.group.consumer.replay import replay
from barnabas.coordinator.group.group import Group
from barnabas.coordinator.group.group_environment import GroupEnvironment
from barnabas.coordinator.group.offsets_topic import CONSUMER_GROUP_ERRORS, GROUP_KIND
from barnabas.coordinator.runtime.coordinator_log import StoredAppend
from barnabas.coordinator.runtime.record import CoordinatorRecord, version_of
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.purgatory.timer import SystemTimer
from barnabas.runtime.clock import NANOSECONDS_PER_MILLISECOND, Clock

_SESSION: Final = TimerKind.SESSION
REMOVAL_RETRY_MS: Final = 500
"""The delay after the log refused the records that remove a member (as in Kafka)."""


class ConsumerGroupTimers:
    """The link between the deadlines in the groups and the entries in the timer.

    Used under the group's lock; the timer's executor calls back without any lock. A heartbeat moves a deadline and
    touches no timer: an entry that fires too early is replaced by one for the rest. An entry that finds another
    deadline in the group does nothing.

    expired(group, membership, kind, member_id, deadline): called without any lock when a deadline may be over.
    """

    def __init__(
        self,
        clock: Clock,
        timer: SystemTimer,
        expired: Callable[[Group, ConsumerGroup, TimerKind, str, MemberDeadline], None],
    ) -> None:
        self._clock = clock
        self._timer = timer
        self._expired = expired

    def change(self, group: Group, membership: ConsumerGroup, change: TimerChange) -> None:
        """Set, move or cancel a deadline. The caller holds the group's lock."""
        key = (change.kind, change.member_id)
        deadlines = membership.deadlines
        found = deadlines.get(key)
        if change.delay_ms is None:
            if found is not None:
                del deadlines[key]
                self._cancel(found)
            return
        if found is not None and change.only_if_absent:
            return
        deadline_ns = self._clock.nanoseconds() + change.delay_ms * NANOSECONDS_PER_MILLISECOND
        if found is None:
            found = deadlines[key] = MemberDeadline(deadline_ns, change.member_epoch)
            self._arm(group, membership, key, found)
            return
        # A later deadline leaves the timer alone: its entry fires at the old time, and `take_expired` arms it for the
        # rest. A heartbeat then costs an assignment to an attribute, and a member one firing in a session timeout. Only
        # an earlier deadline needs another entry.
        is_earlier = deadline_ns < found.deadline_ns
        found.deadline_ns, found.member_epoch = deadline_ns, change.member_epoch
        if is_earlier:
            self._cancel(found)
            self._arm(group, membership, key, found)

    def prolong_session(self, membership: ConsumerGroup, member_id: str, timeout_ms: int) -> bool:
        """Move the deadline of a member's session to a later time; return False if it has none. Under the lock."""
        found = membership.deadlines.get((_SESSION, member_id))
        deadline_ns = self._clock.nanoseconds() + timeout_ms * NANOSECONDS_PER_MILLISECOND
        if found is None or deadline_ns < found.deadline_ns:
            return False
        found.deadline_ns, found.member_epoch = deadline_ns, None
        return True

    def take_expired(
        self, group: Group, membership: ConsumerGroup, kind: TimerKind, member_id: str, deadline: MemberDeadline
    ) -> bool:
        """Return whether a deadline has passed, and remove it then. The caller holds the group's lock.

        A deadline that was moved meanwhile gets another entry in the timer.
        """
        key = (kind, member_id)
        if group.is_removed or group.membership is not membership or membership.deadlines.get(key) is not deadline:
            return False
        if deadline.deadline_ns > self._clock.nanoseconds():
            self._arm(group, membership, key, deadline)
            return False
        del membership.deadlines[key]
        return True

    def end_all(self, membership: ConsumerGroup) -> None:
        """Cancel all deadlines of a group. The caller holds its lock."""
        for deadline in membership.deadlines.values():
            self._cancel(deadline)
        membership.deadlines.clear()

    def _arm(
        self, group: Group, membership: ConsumerGroup, key: tuple[TimerKind, str], deadline: MemberDeadline
    ) -> None:
        # Rounded up, and 1 at least: an entry that fires before the deadline would only be replaced by another one.
        rest_ns = deadline.deadline_ns - self._clock.nanoseconds()
        delay_ms = max(1, -(-rest_ns // NANOSECONDS_PER_MILLISECOND))
        deadline.entry = self._timer.add(delay_ms, partial(self._expired, group, membership, *key, deadline))

    def _cancel(self, deadline: MemberDeadline) -> None:
        if deadline.entry is not None:
            self._timer.cancel(deadline.entry)
            deadline.entry = None


class ClassicSuccession(Protocol):
    """The service of classic groups, for groups that change their protocol. Called without any lock."""

    def replaced(self, group: Group, old: ClassicGroup) -> None:
        """Have the members of `old` join again: the group is a consumer group now."""

    def begin_sessions(self, group: Group, reason: str | None) -> None:
        """Serve a consumer group that is a classic one now. reason: why it must rebalance; None: it need not."""


class ConsumerFollowUp(NamedTuple):
    """The work that `write` leaves to `finish`.

    stored: the records; None: there are none. replaced: the classic group that this one took the place of.
    is_downgraded: the group is a classic one now. rebalance_reason: why that one must rebalance, if it must.
    """

    group: Group
    stored: StoredAppend | None
    replaced: ClassicGroup | None = None
    is_downgraded: bool = False
    rebalance_reason: str | None = None


class ConsumerGroupChanges:
    """The writer of consumer groups' records.

    count_rebalance: called for each new target assignment.
    """

    def __init__(
        self,
        environment: GroupEnvironment,
        timers: ConsumerGroupTimers,
        classic_groups: ClassicSuccession,
        count_rebalance: Callable[[], None],
    ) -> None:
        self._environment = environment
        self._timers = timers
        self._classic_groups = classic_groups
        self._count_rebalance = count_rebalance

    def write(self, group: Group, outcome: ConsumerOutcome[T]) -> ConsumerFollowUp:
        """Append the outcome's records, and replay them into the group. The caller holds the group's lock.

        Raises ApiError when the local log refuses the records: then nothing has happened.
        """
        stored = self._append(group, outcome.records)
        if outcome.is_rebalance:
            self._count_rebalance()
        if outcome.downgraded is not None:
            # The classic group is complete already: its records are not replayed. Its members have sessions of another
            # kind, which `begin_sessions` begins.
            self._timers.end_all(outcome.group)
            group.membership = outcome.downgraded
            return ConsumerFollowUp(group, stored, is_downgraded=True, rebalance_reason=outcome.rebalance_reason)
        # Replayed from the bytes that were appended, not from the decision: what this group becomes in memory and what
        # the next coordinator reads cannot differ.
        membership, replaced = outcome.group, None
        if outcome.is_new:
            if isinstance(group.membership, ClassicGroup):
                replaced = group.membership
            membership = group.membership = ConsumerGroup(group.group_id)
        for key, value in outcome.records:
            # The tombstone of the classic group that was there is for the log only: the object itself was replaced.
            if version_of(key) != GROUP_KIND:
                replay(membership, key, value)
        for change in outcome.timers:
            self._timers.change(group, membership, change)
        # Set last: if the log refuses the records, the next heartbeat compares the topics with the image again.
        if outcome.checked_image is not None:
            membership.checked_image = outcome.checked_image
        return ConsumerFollowUp(group, stored, replaced)

    def finish(self, follow_up: ConsumerFollowUp, on_done: Callable[[ErrorCode], None]) -> None:
        """Tell the classic groups, and call `on_done` when the records are replicated. The caller holds no lock."""
        if follow_up.replaced is not None:
            self._classic_groups.replaced(follow_up.group, follow_up.replaced)
        if follow_up.is_downgraded:
            self._classic_groups.begin_sessions(follow_up.group, follow_up.rebalance_reason)
        if follow_up.stored is None:
            on_done(ErrorCode.NONE)
        else:
            follow_up.stored.when_replicated(on_done)

    def _append(self, group: Group, records: list[CoordinatorRecord]) -> StoredAppend | None:
        """Append the records, if there are any. Raises ApiError when the local log refuses them."""
        if not records:
            return None
        stored = self._environment.log.append(group.partition, records, CONSUMER_GROUP_ERRORS)
        if stored.position < 0:
            raise ApiError(stored.error)
        return stored
