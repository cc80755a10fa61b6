"""The deadlines of a member: its next heartbeat, and its user's next poll. Pure.

Guarded by the coordinator channel's lock; times are passed in. The coordinator sets the interval, with each answer.
Kafka: AbstractHeartbeatRequestManager.HeartbeatRequestState.
"""

from __future__ import annotations

from barnabas.clients.consumer.group.config import GroupRebalanceConfig
from barnabas.rpc.exponential_backoff import ExponentialBackoff
from barnabas.rpc.metadata_updater import FOREVER_MS


class HeartbeatSchedule:
    """Deadlines in monotonic milliseconds. At most one heartbeat is in flight."""

    def __init__(self, config: GroupRebalanceConfig, backoff: ExponentialBackoff, now_ms: int) -> None:
        self.is_in_flight = False
        self._backoff = backoff
        self._max_poll_interval_ms = config.max_poll_interval_ms
        # The first heartbeat goes out at once, and brings the interval.
        self._interval_ms = 0
        self._next_ms = now_ms
        self._failures = 0
        self._retry_ms = now_ms
        self._poll_end_ms = now_ms + config.max_poll_interval_ms

    def polled(self, now_ms: int) -> None:
        """Put off the deadline for the user's next poll."""
        self._poll_end_ms = now_ms + self._max_poll_interval_ms

    def expedite(self, now_ms: int) -> None:
        """Make the next heartbeat due now, backoffs aside."""
        self._next_ms = min(self._next_ms, now_ms)

    def sent(self, now_ms: int) -> None:
        """Note that a heartbeat is sent."""
        self.is_in_flight = True
        self._next_ms = now_ms + self._interval_ms

    def answered(self, interval_ms: int, now_ms: int) -> None:
        """Note that the heartbeat was answered. The next one follows after the interval in the answer."""
        self._failures = 0
        # An interval of 0 would make a loop of heartbeats without a pause.
        interval_ms = max(interval_ms, 1)
        if interval_ms != self._interval_ms:
            self._interval_ms = interval_ms
            self._next_ms = now_ms + interval_ms

    def failed(self, now_ms: int) -> None:
        """Note that the heartbeat failed: the next one follows after a backoff."""
        self._retry_ms = self._next_ms = now_ms + self._backoff.after(self._failures)
        self._failures += 1

    def retry_at_once(self, now_ms: int) -> None:
        """Drop the backoff, because the next heartbeat has another addressee or another purpose."""
        self._failures = 0
        self._retry_ms = self._next_ms = now_ms

    def is_due(self, now_ms: int, *, is_urgent: bool) -> bool:
        """Return whether to send a heartbeat. An urgent one waits for backoffs only."""
        return not self.is_in_flight and now_ms >= self._due_ms(is_urgent=is_urgent)

    def is_poll_overdue(self, now_ms: int) -> bool:
        """Return whether the user has not polled for `max_poll_interval_ms`."""
        return now_ms >= self._poll_end_ms

    def next_event_ms(self, now_ms: int, *, is_urgent: bool, has_to_poll: bool) -> int:
        """Return the milliseconds until the first deadline. While a heartbeat is in flight, no other is sent."""
        event_ms = self._poll_end_ms if has_to_poll else now_ms + FOREVER_MS
        if not self.is_in_flight:
            event_ms = min(event_ms, self._due_ms(is_urgent=is_urgent))
        return max(event_ms - now_ms, 0)

    def _due_ms(self, *, is_urgent: bool) -> int:
        return self._retry_ms if is_urgent else max(self._next_ms, self._retry_ms)
