"""The timers behind the deadlines of the members of consumer groups (KIP-848).

Used by `ConsumerGroupService` under the group's lock; the timer's executor calls back without any lock. A heartbeat
moves a deadline and touches no timer: an entry that fires too early is replaced by one for the rest. Owns no state: the
group holds its deadlines, and an entry that finds another deadline there does nothing. Kafka: CoordinatorTimerImpl.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from barnabas.coordinator.group.consumer.group import ConsumerGroup
from barnabas.coordinator.group.consumer.member_deadline import MemberDeadline, TimerKind
from barnabas.coordinator.group.consumer.outcome import TimerChange
from barnabas.coordinator.group.group import Group
from barnabas.purgatory.timer import Timer
from barnabas.runtime.clock import NANOSECONDS_PER_MILLISECOND, Clock

RETRY_MS: Final = 500
"""The delay after the log refused the records that remove a member (as in Kafka)."""


class ConsumerGroupTimers:
    """The link between the deadlines in the groups and the entries in the timer.

    expired(group, membership, kind, member_id, deadline): called without any lock when a deadline may be over.
    """

    def __init__(
        self,
        clock: Clock,
        timer: Timer,
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
