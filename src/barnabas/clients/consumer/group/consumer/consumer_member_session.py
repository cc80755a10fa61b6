"""A member of a consumer group as its coordinator knows it: sends heartbeats, takes their answers in, leaves (KIP-848).

Two threads use it. The channel's thread sends the heartbeats that are due, and handles their answers, while the user's
thread is busy with records. The user's thread subscribes, reads from `membership` what to reconcile, and leaves. Every
method is called under the channel's lock. Kafka: AbstractHeartbeatRequestManager, ConsumerHeartbeatRequestManager.

One heartbeat is in flight at most. A heartbeat that fails is followed by one with all fields: the member cannot know
whether the coordinator has seen it.
"""

from __future__ import annotations

import logging

from barnabas.clients.consumer.group.config import GroupRebalanceConfig
from barnabas.clients.consumer.group.consumer.consumer_membership import ConsumerMembership, read_assignment
from barnabas.clients.consumer.group.consumer.heartbeats import HeartbeatFields, HeartbeatSchedule, TopicSelection
from barnabas.clients.consumer.group.consumer.member_states import MemberState
from barnabas.clients.consumer.group.coordinator_answers import Reaction, is_retriable, reaction_to
from barnabas.clients.consumer.group.coordinator_channel import CoordinatorCall, CoordinatorChannel
from barnabas.clients.errors import ClientClosed
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode, error_of
from barnabas.protocol.messages.consumer_groups import ConsumerGroupHeartbeatResponse
from barnabas.rpc.client_request import UnsupportedVersion
from barnabas.rpc.connection_states import ExponentialBackoff
from barnabas.rpc.metadata_updater import FOREVER_MS

logger = logging.getLogger(__name__)

_POLL_EXPIRED = (
    "Consumer poll timeout has expired. This means the time between subsequent calls to poll() was longer than the"
    " configured max_poll_interval_ms, which typically implies that the poll loop is spending too much time processing"
    " messages. You can address this either by increasing max_poll_interval_ms or by reducing the maximum size of"
    " batches returned in poll() with max_poll_records."
)
_PROTOCOL_NOT_SUPPORTED = (
    "The cluster does not support the new CONSUMER group protocol. Set group_protocol=classic on the consumer configs"
    " to revert to the CLASSIC protocol until the cluster is upgraded."
)
_PATTERN_NOT_SUPPORTED = (
    "The cluster does not support regular expressions resolution on ConsumerGroupHeartbeat API version 0. It must be"
    " upgraded to use ConsumerGroupHeartbeat API version >= 1 to allow to subscribe to a SubscriptionPattern."
)


class ConsumerMemberSession:
    """The session of one member: `membership`, and the heartbeats that keep it."""

    def __init__(
        self,
        config: GroupRebalanceConfig,
        channel: CoordinatorChannel,
        backoff: ExponentialBackoff,
        membership: ConsumerMembership,
    ) -> None:
        self.membership = membership
        self._config = config
        self._channel = channel
        self._schedule = HeartbeatSchedule(config, backoff, channel.now_ms())
        self._fields = HeartbeatFields(config)
        self._topics = TopicSelection()
        self._heartbeat: CoordinatorCall | None = None
        """The heartbeat in flight."""
        self._may_be_known = False
        """Whether a heartbeat has left this client since the coordinator last did not know the member."""
        self._failure: Exception | None = None

    # -- the consumer's thread

    def polled(self, topics: TopicSelection, now_ms: int) -> bool:
        """Note that the user polls to read these topics. Returns whether they differ from those of the last poll.

        A change goes out at once. (Kafka's consumer waits for the next heartbeat.) Raises ApiError when a heartbeat
        failed with an error that the user has to know, and that left the member in its group.
        """
        self._schedule.polled(now_ms)
        failure = self._failure
        if failure is not None and self.membership.state is not MemberState.FATAL:
            self._failure = None
            raise failure
        if topics == self._topics:
            return False
        self._topics = topics
        self._schedule.expedite(now_ms)
        return True

    def subscribe(self, topics: TopicSelection) -> None:
        """Join the group with the next heartbeat, to read these topics."""
        self._topics = topics
        self.membership.subscribe()

    def raise_failure(self) -> None:
        """Raise the error that has made the member FATAL. Every poll raises it: no later one can join the group."""
        if self.membership.state is MemberState.FATAL and self._failure is not None:
            raise self._failure

    def leave(self, reason: str, now_ms: int) -> None:
        """Tell the coordinator, if it may know the member, that the member leaves. The partitions are given up by now.

        Nothing is sent without a coordinator: the member's session ends by itself.
        """
        membership = self.membership
        membership.released()
        if membership.state is MemberState.LEAVING:
            self._send_leave(reason, now_ms)
            membership.left()

    # -- the channel's thread

    def coordinator_found(self, now_ms: int) -> None:
        """Do nothing: a heartbeat that waits for the coordinator goes out by itself."""

    def perform_duties(self, now_ms: int) -> int:
        """Send a heartbeat if it is due, and leave if the user was silent for too long.

        Returns the milliseconds until something is due.
        """
        membership, schedule = self.membership, self._schedule
        if not membership.state.sends_heartbeats:
            return FOREVER_MS
        # A member that is leaving may keep its listener busy for as long as it likes.
        has_to_poll = membership.state is not MemberState.PREPARE_LEAVING
        if has_to_poll and schedule.is_poll_overdue(now_ms):
            logger.warning(_POLL_EXPIRED)
            self._send_leave("consumer poll timeout has expired.", now_ms)
            membership.poll_expired()
            return FOREVER_MS
        if schedule.is_due(now_ms, is_urgent=self._is_urgent()):
            self._send_heartbeat(now_ms)
        return schedule.next_event_ms(now_ms, is_urgent=self._is_urgent(), has_to_poll=has_to_poll)

    def _is_urgent(self) -> bool:
        membership = self.membership
        # A member that has its epoch has joined, and waits for its assignment from one interval to the next.
        is_new = membership.state is MemberState.JOINING and membership.member_epoch == 0
        return is_new or membership.state is MemberState.ACKNOWLEDGING

    def _send_heartbeat(self, now_ms: int) -> None:
        membership = self.membership
        joins = membership.joins
        self._heartbeat = CoordinatorCall(
            self._fields.heartbeat(membership, self._topics),
            lambda body: self._handle_answer(joins, body),
            now_ms + self._config.request_timeout_ms,
            on_done=lambda call: self._heartbeat_done(joins, call),
        )
        self._schedule.sent(now_ms)
        membership.heartbeat_sent()
        self._channel.send(self._heartbeat)

    # -- either thread

    def _send_leave(self, reason: str, now_ms: int) -> None:
        membership = self.membership
        # A first heartbeat makes the member known, even if its answer was lost or has not arrived yet.
        may_be_known = self._may_be_known
        if self._heartbeat is not None:
            may_be_known |= not self._channel.withdraw(self._heartbeat)
        self._heartbeat = None
        self._may_be_known = False
        self._schedule.is_in_flight = False
        self._schedule.retry_at_once(now_ms)
        self._fields.reset()
        if not may_be_known:
            return
        logger.info("Member %s sending a heartbeat to leave the group due to %s", membership.member_id, reason)
        self._channel.send_last(
            CoordinatorCall(
                self._fields.leave(membership),
                _handle_leave,
                now_ms + self._config.request_timeout_ms,
                leaves_group=True,
            )
        )

    # -- answers: the channel's thread

    def _handle_answer(self, joins: int, body: ConsumerGroupHeartbeatResponse) -> None:
        if self._is_outdated(joins):
            return
        now_ms = self._channel.now_ms()
        error = error_of(body.error_code)
        if error is not ErrorCode.NONE:
            self._react(error, body.error_message or error.message, now_ms)
            return
        self._schedule.answered(body.heartbeat_interval_ms, now_ms)
        self.membership.answered(
            body.member_id or self.membership.member_id,
            body.member_epoch,
            None if body.assignment is None else read_assignment(body.assignment),
        )

    def _heartbeat_done(self, joins: int, call: CoordinatorCall) -> None:
        """End a heartbeat, which failed if no coordinator was found for it or if the connection was lost."""
        if self._heartbeat is not call:
            return
        self._heartbeat = None
        self._schedule.is_in_flight = False
        error = call.error
        self._may_be_known |= call.node is not None and self.membership.state.sends_heartbeats
        if error is None or isinstance(error, ClientClosed) or self._is_outdated(joins):
            return
        self._fields.reset()
        self._schedule.failed(self._channel.now_ms())
        if isinstance(error, UnsupportedVersion):
            has_pattern = self._topics.pattern is not None
            text = _PATTERN_NOT_SUPPORTED if has_pattern else _PROTOCOL_NOT_SUPPORTED
            self._fail(UnsupportedVersion(text))
        elif not is_retriable(error):
            # The coordinator could not be looked up. The member stays one, and goes on trying.
            self._failure = error

    def _is_outdated(self, joins: int) -> bool:
        """Return whether the membership has ended in which a heartbeat was sent."""
        return self.membership.joins != joins or not self.membership.state.sends_heartbeats

    def _react(self, error: ErrorCode, text: str, now_ms: int) -> None:
        """Carry out the table's reaction to an error."""
        reaction = reaction_to(ApiKey.CONSUMER_GROUP_HEARTBEAT, error)
        membership = self.membership
        self._fields.reset()
        self._schedule.failed(now_ms)
        logger.info(
            "Heartbeat of member %s with epoch %d of group %s failed: %s: %s",
            membership.member_id,
            membership.member_epoch,
            self._config.group_id,
            error.name,
            text,
        )
        if reaction is Reaction.REDISCOVER:
            self._channel.forget_coordinator(f"error response {error.name}")
            self._schedule.retry_at_once(now_ms)
        elif reaction is Reaction.FORGET_GENERATION:
            membership.fenced()
            self._may_be_known = False
            self._schedule.retry_at_once(now_ms)
        elif reaction is Reaction.REPORT:
            self._failure = ApiError(error, text)
        elif error is ErrorCode.UNSUPPORTED_VERSION:
            self._fail(UnsupportedVersion(_PROTOCOL_NOT_SUPPORTED))
        elif reaction is Reaction.FAIL:
            self._fail(ApiError(error, f"{text} Group: {self._config.group_id}"))

    def _fail(self, error: Exception) -> None:
        logger.error("The coordinator of group %s rejects this member for good: %s", self._config.group_id, error)
        self._failure = error
        self.membership.failed()


def _handle_leave(body: ConsumerGroupHeartbeatResponse) -> None:
    """Read the answer to the heartbeat that leaves. Raises ApiError for the error in it."""
    if error := error_of(body.error_code):
        logger.error("Leaving the group failed with error: %s", body.error_message or error.message)
        raise ApiError(error, body.error_message or "")
