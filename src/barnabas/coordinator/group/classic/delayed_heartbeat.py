"""The watch over one member's session.

Made by `ClassicGroupChanges`, in the purgatory "Heartbeat", one for each session. A heartbeat does not touch it: the
heartbeat moves the session's deadline, and when the timer reaches the old one it is armed again for the time that is
left. So a member has one entry in the timer, which moves once or twice in a session timeout, however many heartbeats
the member sends. Kafka: DelayedHeartbeat, of which every heartbeat makes a new one.
"""

from __future__ import annotations

from collections.abc import Callable

from barnabas.coordinator.group.classic.session import Session
from barnabas.purgatory.delayed_operation import DelayedOperation
from barnabas.purgatory.timer import Timer
from barnabas.runtime.clock import NANOSECONDS_PER_MILLISECOND, Clock


class DelayedHeartbeat(DelayedOperation):
    """The watch over a session, which ends in one of two cases.

    1. The session is over: the member left, another session replaced this one, or the group is gone.
    2. The member was silent for too long: `on_expired` tells the group, which may give the member more time.

    is_active: false once the coordinator stops; then no member is removed any more.
    """

    __slots__ = ("_clock", "_is_active", "_on_expired", "_session", "_timer")

    def __init__(
        self,
        session: Session,
        clock: Clock,
        timer: Timer,
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
