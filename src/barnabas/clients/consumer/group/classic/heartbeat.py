"""The deadlines of a member: its next heartbeat, its coordinator's next answer, its user's next poll. Pure.

Guarded by the coordinator channel's lock: the user's thread calls `polled`, the channel's thread everything else. Times
are passed in. Kafka: org.apache.kafka.clients.consumer.internals.Heartbeat.
"""

from __future__ import annotations

from barnabas.clients.consumer.group.config import GroupRebalanceConfig
from barnabas.rpc.exponential_backoff import ExponentialBackoff


class Heartbeat:
    """Three deadlines, in monotonic milliseconds: of the next heartbeat, the session, and the user's next poll."""

    def __init__(self, config: GroupRebalanceConfig, backoff: ExponentialBackoff, now_ms: int) -> None:
        self._config = config
        self._backoff = backoff
        self._failures = 0
        self._next_ms = now_ms + config.heartbeat_interval_ms
        self._session_end_ms = now_ms + config.session_timeout_ms
        self._poll_end_ms = now_ms + config.max_poll_interval_ms

    def reset(self, now_ms: int) -> None:
        """Restart all three deadlines, because a generation was joined."""
        self._next_ms = now_ms + self._config.heartbeat_interval_ms
        self._poll_end_ms = now_ms + self._config.max_poll_interval_ms
        self.reset_session(now_ms)

    def reset_session(self, now_ms: int) -> None:
        """Restart the session: the coordinator has answered, or has just been found."""
        self._session_end_ms = now_ms + self._config.session_timeout_ms

    def polled(self, now_ms: int) -> None:
        """Put off the deadline for the user's next poll."""
        self._poll_end_ms = now_ms + self._config.max_poll_interval_ms

    def sent(self, now_ms: int) -> None:
        """Note that a heartbeat is sent."""
        self._next_ms = now_ms + self._config.heartbeat_interval_ms

    def received(self, now_ms: int) -> None:
        """Note that the heartbeat was answered, which restarts the session."""
        self._failures = 0
        self.reset_session(now_ms)

    def failed(self, now_ms: int) -> None:
        """Note that the heartbeat failed: the next one follows after a short backoff."""
        self._next_ms = now_ms + self._backoff.after(self._failures)
        self._failures += 1

    def is_due(self, now_ms: int) -> bool:
        """Return whether it is time for the next heartbeat."""
        return now_ms >= self._next_ms

    def is_session_over(self, now_ms: int) -> bool:
        """Return whether the coordinator has been silent for the session timeout."""
        return now_ms >= self._session_end_ms

    def is_poll_overdue(self, now_ms: int) -> bool:
        """Return whether the user has not polled for `max_poll_interval_ms`."""
        return now_ms >= self._poll_end_ms

    def next_event_ms(self, now_ms: int, *, is_in_flight: bool) -> int:
        """Return the milliseconds until the first deadline. While a heartbeat is in flight, no other is sent."""
        # The session's end counts even with a heartbeat in flight: only that finds out a coordinator that hangs.
        event_ms = min(self._session_end_ms, self._poll_end_ms)
        return max((event_ms if is_in_flight else min(event_ms, self._next_ms)) - now_ms, 0)
