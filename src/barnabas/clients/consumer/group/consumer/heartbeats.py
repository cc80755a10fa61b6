"""A member's heartbeats: their fields, and the deadlines of the next one and of the user's next poll. Pure.

Guarded by the coordinator channel's lock; times are passed in. The coordinator sets the interval, with each answer.
Kafka: ConsumerHeartbeatRequestManager.HeartbeatState, AbstractHeartbeatRequestManager.HeartbeatRequestState.

A heartbeat has all fields when the member joins and after an error, else only what has changed. The coordinator keeps
what a heartbeat leaves out (null, or -1), so that most heartbeats are a few bytes long. After an error the member
cannot know what the coordinator has kept.
"""

from __future__ import annotations

from typing import NamedTuple

from barnabas.clients.consumer.group.config import GroupRebalanceConfig
from barnabas.clients.consumer.group.consumer.consumer_membership import (
    ConsumerMembership,
    MemberAssignment,
    owned_topics,
)
from barnabas.clients.consumer.group.consumer.member_states import MemberState
from barnabas.protocol.messages.consumer_groups import ConsumerGroupHeartbeatRequest
from barnabas.protocol.messages.message import Message
from barnabas.rpc.client_request import RequestBuilder
from barnabas.rpc.connection_states import ExponentialBackoff
from barnabas.rpc.metadata_updater import FOREVER_MS

LEAVE_EPOCH = -1
LEAVE_FOR_A_WHILE_EPOCH = -2
"""The epoch with which a static member leaves: the coordinator keeps its partitions for its return."""
# The version with expressions that the coordinator matches (KIP-848).
_PATTERN_SINCE = 1


class TopicSelection(NamedTuple):
    """What a member wants to read: topics by name, and those that match `pattern` unless it is None."""

    names: frozenset[str] = frozenset()
    pattern: str | None = None


class _Sent(NamedTuple):
    """What the coordinator knows from the last heartbeats."""

    topics: TopicSelection
    current: MemberAssignment | None


class HeartbeatFields:
    """The maker of one member's heartbeats."""

    def __init__(self, config: GroupRebalanceConfig) -> None:
        self._config = config
        self._sent: _Sent | None = None
        self._had_pattern = False

    def reset(self) -> None:
        """Name all fields in the next heartbeat."""
        self._sent = None

    def heartbeat(self, membership: ConsumerMembership, topics: TopicSelection) -> RequestBuilder:
        """Return the next heartbeat, and count it as sent."""
        sent = None if membership.state is MemberState.JOINING else self._sent
        request = self._identity(membership, membership.member_epoch)
        if sent is None:
            request.rebalance_timeout_ms = self._config.max_poll_interval_ms
            request.server_assignor = self._config.group_remote_assignor
            request.rack_id = self._config.client_rack or None
        if sent is None or sent.topics.names != topics.names:
            request.subscribed_topic_names = sorted(topics.names)
        if sent is None or sent.topics.pattern != topics.pattern:
            # The empty pattern takes back an earlier one.
            request.subscribed_topic_regex = topics.pattern or ("" if self._had_pattern else None)
            self._had_pattern = self._had_pattern or topics.pattern is not None
        if sent is None or sent.current != membership.current:
            request.topic_partitions = owned_topics(membership.owned)
            membership.owned_named()
        self._sent = _Sent(topics, membership.current)
        # The coordinator keeps the pattern of a static member that has left, and another process may have set it. The
        # member would wait for ever for the names of topics to which it does not subscribe. Java's client does wait.
        is_static = self._config.group_instance_id is not None
        return _builder(request, ends_pattern=sent is None and is_static and topics.pattern is None)

    def leave(self, membership: ConsumerMembership) -> RequestBuilder:
        """Return the heartbeat that leaves the group: for a while, if the member is a static one."""
        is_static = self._config.group_instance_id is not None
        return _builder(self._identity(membership, LEAVE_FOR_A_WHILE_EPOCH if is_static else LEAVE_EPOCH))

    def _identity(self, membership: ConsumerMembership, epoch: int) -> ConsumerGroupHeartbeatRequest:
        return ConsumerGroupHeartbeatRequest(
            group_id=self._config.group_id,
            member_id=membership.member_id,
            member_epoch=epoch,
            instance_id=self._config.group_instance_id,
        )


def _builder(request: ConsumerGroupHeartbeatRequest, *, ends_pattern: bool = False) -> RequestBuilder:
    def build(version: int) -> Message:
        # A coordinator of an older version has no patterns to keep.
        if ends_pattern and version >= _PATTERN_SINCE:
            request.subscribed_topic_regex = ""
        return request

    oldest = 0 if request.subscribed_topic_regex is None else _PATTERN_SINCE
    return RequestBuilder(ConsumerGroupHeartbeatRequest, build, (oldest, ConsumerGroupHeartbeatRequest.max_version))


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
