"""The watch over one member's session.

Made by `ClassicGroupService`, in the purgatory "Heartbeat", one for each session. A heartbeat does not touch it: it
moves the session's deadline, and when the timer gets to the old one it is armed again for the time that is left. So a
member has one entry in the timer, which moves once or twice in a session timeout, however many heartbeats it sends.
Kafka: DelayedHeartbeat, of which there is a new one with every heartbeat.
"""

from __future__ import annotations

from collections.abc import Callable

from barnabas.coordinator.group.classic.session import Session
from barnabas.purgatory.delayed_operation import DelayedOperation
from barnabas.purgatory.timer import Timer
from barnabas.runtime.clock import NANOSECONDS_PER_MILLISECOND, Clock


class DelayedHeartbeat(DelayedOperation):
    """Completed when

    1. the session is over: the member left, or goes on under another one, or the group is gone; or
    2. the member was silent for too long: `on_expired` tells the group, which may give it more time.

    is_active: false once the coordinator stops; then nobody is given up any more.
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
        """Case 1."""
        return self._session.is_over and self.force_complete()

    def on_complete(self) -> None:
        """Whoever ended the session has done what there was to do."""

    def expire(self) -> None:
        """The timer's call: case 2 if the deadline has not moved, else wait for the rest."""
        if self._is_active() and not self._session.is_over:
            if self._session.expires_ns <= self._clock.nanoseconds():
                self._on_expired()
            if not self._session.is_over:
                self.delay_ms = self._left_ms()
                self.start_timer(self._timer)
                return
        self.force_complete()

    def _left_ms(self) -> int:
        """Until the deadline, but no longer than a session's time: see Session."""
        left_ns = self._session.expires_ns - self._clock.nanoseconds()
        return max(1, min(-(-left_ns // NANOSECONDS_PER_MILLISECOND), self._session.timeout_ms))
