"""A member of a group as its coordinator knows it: joins, syncs, sends heartbeats, leaves.

Two threads use it. The user's thread begins rebalances (`begin_join`), looks how far they are (`rebalance`), assigns as
leader (`sync`) and leaves. The channel's thread handles the answers, syncs by itself as follower, and performs the
duties of a member between the user's polls. Every method is called under the channel's lock.

A rebalance, step by step:
    JOINING   JoinGroup is sent; its answer takes as long as the other members take to join
    ELECTED   this member leads: the user's thread has to compute the assignments of all members
    SYNCING   SyncGroup is sent
    JOINED    the assignment has arrived: the user's thread has to take it over
    FAILED    `error` says why; `retry_at_once` whether the member should just join again

Kafka: AbstractCoordinator, org.apache.kafka.clients.consumer.internals.Heartbeat.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from enum import Enum

from barnabas.clients.consumer.group import group_requests
from barnabas.clients.consumer.group.classic.classic_membership import GroupMembership, MembershipState
from barnabas.clients.consumer.group.committing_member import Generation
from barnabas.clients.consumer.group.config import GroupRebalanceConfig
from barnabas.clients.consumer.group.coordinator_answers import Reaction, reaction_to
from barnabas.clients.consumer.group.coordinator_channel import CoordinatorCall, CoordinatorChannel
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.consumer_protocol import PROTOCOL_TYPE
from barnabas.protocol.errors import ApiError, ErrorCode, error_of
from barnabas.protocol.messages.classic_groups import (
    HeartbeatResponse,
    JoinGroupResponse,
    LeaveGroupResponse,
    SyncGroupResponse,
)
from barnabas.rpc.connection_states import ExponentialBackoff
from barnabas.rpc.metadata_updater import FOREVER_MS

logger = logging.getLogger(__name__)

# How much longer than the rebalance timeout a JoinGroup may take: the coordinator answers at the end of that timeout,
# and the answer has to travel (Kafka: JOIN_GROUP_TIMEOUT_LAPSE).
_JOIN_LAPSE_MS = 5_000
# After these reactions the member has a new id, generation or reason to join, so a backoff would only prolong the
# rebalance.
_AT_ONCE = frozenset({Reaction.FORGET_MEMBER, Reaction.FORGET_GENERATION, Reaction.TAKE_MEMBER_ID, Reaction.REJOIN})


class RebalancePhase(Enum):
    """The phases of a rebalance, which the module's docstring explains."""

    JOINING = "joining"
    ELECTED = "elected"
    SYNCING = "syncing"
    JOINED = "joined"
    FAILED = "failed"


class Rebalance:
    """One attempt to join the next generation. Guarded by the channel's lock."""

    __slots__ = ("answer", "assignment", "call", "error", "generation", "phase", "retry_at_once")

    def __init__(self) -> None:
        self.phase = RebalancePhase.JOINING
        self.call: CoordinatorCall | None = None
        """The call in flight: JoinGroup, then SyncGroup."""
        self.generation = Generation()
        self.answer: JoinGroupResponse | None = None
        self.assignment = b""
        self.error: Exception | None = None
        self.retry_at_once = False

    def fail(self, error: Exception) -> None:
        """End the attempt with an error."""
        self.phase, self.error = RebalancePhase.FAILED, error


class Heartbeat:
    """Three deadlines, in monotonic milliseconds: of the next heartbeat, the session, and the user's next poll.

    The session ends unless the coordinator answers. The user's thread calls `polled`, the channel's thread everything
    else. Times are passed in.
    """

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


class MemberSession:
    """One member's session with its coordinator: `membership`, and `rebalance` while one goes on."""

    def __init__(self, config: GroupRebalanceConfig, channel: CoordinatorChannel, backoff: ExponentialBackoff) -> None:
        self.membership = GroupMembership()
        self.rebalance: Rebalance | None = None
        self._config = config
        self._channel = channel
        self._heartbeat = Heartbeat(config, backoff, channel.now_ms())
        self._heartbeat_sent = False
        self._failure: Exception | None = None

    # -- the user's thread

    def polled(self, now_ms: int) -> None:
        """Note that the user polls. Raises ApiError when a heartbeat failed with an error that no rebalance cures."""
        self._heartbeat.polled(now_ms)
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def begin_join(self, protocols: Sequence[tuple[str, bytes]], now_ms: int) -> None:
        """Send JoinGroup: a name and metadata for each assignor."""
        logger.info("(Re-)joining group %s", self._config.group_id)
        membership = self.membership
        membership.preparing()
        self._channel.metrics.rebalance_began(now_ms)
        rebalance = self.rebalance = Rebalance()
        sent = membership.generation
        # The coordinator answers when all members have joined, or when the rebalance timeout ends; that timeout is
        # `max_poll_interval_ms`. A shorter request timeout would drop the connection in every slow rebalance.
        timeout_ms = max(self._config.request_timeout_ms, self._config.max_poll_interval_ms + _JOIN_LAPSE_MS)
        rebalance.call = CoordinatorCall(
            group_requests.join_group(self._config, sent.member_id, protocols, membership.rejoin_reason),
            lambda body: self._handle_join(rebalance, sent, body),
            now_ms + FOREVER_MS,
            timeout_ms=min(timeout_ms, FOREVER_MS),
            on_done=lambda call: self._fail_rebalance(rebalance, call),
        )
        self._channel.send(rebalance.call)

    def sync(self, rebalance: Rebalance, assignments: Mapping[str, bytes], now_ms: int) -> None:
        """Send SyncGroup: with the assignments of all members as leader, with none as follower."""
        # The answer to a heartbeat may have reset the generation while the leader divided partitions without the lock.
        if self.rebalance is not rebalance or rebalance.generation != self.membership.generation:
            rebalance.retry_at_once = True
            rebalance.fail(ApiError(ErrorCode.ILLEGAL_GENERATION))
            return
        rebalance.phase = RebalancePhase.SYNCING
        sent = rebalance.generation
        rebalance.call = CoordinatorCall(
            group_requests.sync_group(self._config, sent, assignments),
            lambda body: self._handle_sync(rebalance, sent, body),
            now_ms + self._config.request_timeout_ms,
            on_done=lambda call: self._fail_rebalance(rebalance, call),
        )
        self._channel.send(rebalance.call)

    def leave(self, reason: str, now_ms: int) -> CoordinatorCall | None:
        """Send LeaveGroup, unless this is a static member, and forget the membership.

        Returns the call, or None if nothing is sent: without a coordinator, or without a member id.
        """
        membership = self.membership
        call = None
        # Also without a generation: otherwise the other members would wait until this member's session ends. (Kafka's
        # consumer sends no LeaveGroup then.)
        if self._config.group_instance_id is None and membership.generation.member_id:
            logger.info("Member %s sending LeaveGroup request due to %s", membership.generation.member_id, reason)
            call = CoordinatorCall(
                group_requests.leave_group(self._config, membership.generation.member_id, reason),
                _handle_leave,
                now_ms + self._config.request_timeout_ms,
                leaves_group=True,
            )
            if not self._channel.send_last(call):
                call = None
        membership.reset("consumer pro-actively leaving the group")
        # A JoinGroup that is still queued would, sent now, add a member that no consumer backs.
        if self.rebalance is not None and self.rebalance.call is not None:
            self._channel.withdraw(self.rebalance.call)
        self.rebalance = None
        return call

    # -- the channel's thread

    def coordinator_found(self, now_ms: int) -> None:
        """Restart the session: without a coordinator, no heartbeat could be answered."""
        self._heartbeat.reset_session(now_ms)

    def perform_duties(self, now_ms: int) -> int:
        """Send a heartbeat if it is due, and react if the coordinator or the user was silent for too long.

        Returns the milliseconds until something is due.
        """
        # During JoinGroup no heartbeat is sent: the coordinator keeps a member that waits for its answer.
        if not self.membership.state.has_joined or self._failure is not None:
            return FOREVER_MS
        heartbeat = self._heartbeat
        if self._channel.coordinator is None:
            self._channel.want_coordinator()
            return FOREVER_MS
        if heartbeat.is_session_over(now_ms):
            self._channel.forget_coordinator("session timed out without receiving a heartbeat response")
            self._channel.want_coordinator()
            return 0
        if heartbeat.is_poll_overdue(now_ms):
            logger.warning(
                "consumer poll timeout has expired. This means the time between subsequent calls to poll() was longer"
                " than the configured max_poll_interval_ms, which typically implies that the poll loop is spending too"
                " much time processing messages. You can address this either by increasing max_poll_interval_ms or by"
                " reducing the maximum size of batches returned in poll() with max_poll_records."
            )
            self.leave("consumer poll timeout has expired.", now_ms)
            return 0
        if heartbeat.is_due(now_ms) and not self._heartbeat_sent:
            self._send_heartbeat(now_ms)
        return heartbeat.next_event_ms(now_ms, is_in_flight=self._heartbeat_sent)

    def _send_heartbeat(self, now_ms: int) -> None:
        self._heartbeat.sent(now_ms)
        self._heartbeat_sent = True
        sent = self.membership.generation
        self._channel.send(
            CoordinatorCall(
                group_requests.heartbeat(self._config, sent),
                lambda body: self._handle_heartbeat(sent, body),
                now_ms + self._config.session_timeout_ms,
                on_done=self._heartbeat_done,
            )
        )

    # -- answers: the channel's thread

    def _handle_join(self, rebalance: Rebalance, sent: Generation, body: JoinGroupResponse) -> None:
        """Read the answer to JoinGroup. Raises ApiError for an error, after the reaction to it."""
        error = error_of(body.error_code)
        if error is ErrorCode.NONE and body.protocol_type not in {None, PROTOCOL_TYPE}:
            error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        # The member has left, or has begun another rebalance, since it sent this JoinGroup.
        if rebalance is not self.rebalance:
            return
        if self.membership.state is not MembershipState.PREPARING_REBALANCE:
            # The answer to a heartbeat that was in flight has reset the generation: the member has to join
            # again.
            rebalance.retry_at_once = True
            raise ApiError(ErrorCode.ILLEGAL_GENERATION)
        reaction = self._react(ApiKey.JOIN_GROUP, error, sent, member_id=body.member_id)
        if reaction is not Reaction.ACCEPT:
            rebalance.retry_at_once = reaction in _AT_ONCE
            raise ApiError(error, _join_error_text(error, self._config))
        now_ms = self._channel.now_ms()
        rebalance.generation = Generation(body.generation_id, body.member_id, body.protocol_name)
        self.membership.completing(rebalance.generation)
        self._heartbeat.reset(now_ms)
        if body.leader == body.member_id:
            rebalance.answer = body
            rebalance.phase = RebalancePhase.ELECTED
        else:
            # A follower syncs at once, on this thread: its user may not poll for a while, and the leader's assignment
            # may arrive first.
            self.sync(rebalance, {}, now_ms)

    def _handle_sync(self, rebalance: Rebalance, sent: Generation, body: SyncGroupResponse) -> None:
        """Read the answer to SyncGroup. Raises ApiError for an error, after the reaction to it."""
        error = error_of(body.error_code)
        # Versions before 5 name neither protocol type nor name, so None fits both (KIP-559).
        if error is ErrorCode.NONE and (
            body.protocol_type not in {None, PROTOCOL_TYPE} or body.protocol_name not in {None, sent.protocol_name}
        ):
            error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if rebalance is not self.rebalance:
            return
        if error is ErrorCode.NONE and (
            self.membership.state is not MembershipState.COMPLETING_REBALANCE or self.membership.generation != sent
        ):
            # The answer to a heartbeat has reset the generation: the member has to join again.
            error = ErrorCode.ILLEGAL_GENERATION
        reaction = self._react(ApiKey.SYNC_GROUP, error, sent)
        if reaction is not Reaction.ACCEPT:
            rebalance.retry_at_once = reaction in _AT_ONCE
            raise ApiError(error)
        self.membership.stable()
        self._channel.metrics.rebalance_completed(self._channel.now_ms())
        rebalance.assignment = bytes(body.assignment)
        rebalance.phase = RebalancePhase.JOINED

    def _fail_rebalance(self, rebalance: Rebalance, call: CoordinatorCall) -> None:
        if call.error is None or rebalance.phase is RebalancePhase.FAILED:
            return
        rebalance.fail(call.error)
        self._channel.metrics.rebalance_failed(self._channel.now_ms())
        # MEMBER_ID_REQUIRED is half of every first join (KIP-394); the reaction to it has asked for a rejoin already.
        if not (isinstance(call.error, ApiError) and call.error.code is ErrorCode.MEMBER_ID_REQUIRED):
            self.membership.request_rejoin(f"rebalance failed due to {_name_of(call.error)}")

    def _handle_heartbeat(self, sent: Generation, body: HeartbeatResponse) -> None:
        """Read the answer to a heartbeat. Raises ApiError for an error other than REBALANCE_IN_PROGRESS."""
        error = error_of(body.error_code)
        # This member takes part in that rebalance already.
        if error is ErrorCode.REBALANCE_IN_PROGRESS and self.membership.state is not MembershipState.STABLE:
            error = ErrorCode.NONE
        is_stale = self.membership.generation != sent
        if error in {ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID}:
            # The heartbeat is of an earlier generation, and so is its error: the member has joined again since.
            if is_stale:
                return
            if error is ErrorCode.FENCED_INSTANCE_ID:
                self.membership.reset(f"encountered {error.name} from HEARTBEAT response")
                self._failure = ApiError(error)
        self._react(ApiKey.HEARTBEAT, error, sent)
        if error not in {ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS}:
            raise ApiError(error)
        self._heartbeat.received(self._channel.now_ms())

    def _heartbeat_done(self, call: CoordinatorCall) -> None:
        self._heartbeat_sent = False
        if call.error is None:
            return
        self._heartbeat.failed(self._channel.now_ms())
        if isinstance(call.error, ApiError) and reaction_to(ApiKey.HEARTBEAT, call.error.code) is Reaction.FAIL:
            logger.error("Heartbeat of group %s failed: %s", self._config.group_id, call.error)
            self._failure = call.error

    def _react(self, api_key: ApiKey, error: ErrorCode, sent: Generation, member_id: str = "") -> Reaction:
        """Carry out the table's reaction to an error, as far as it does not depend on the request, and return it."""
        reaction = reaction_to(api_key, error)
        membership = self.membership
        if reaction is Reaction.REDISCOVER:
            self._channel.forget_coordinator(f"error response {error.name}")
        # An error about an earlier generation must not reset the present one.
        elif reaction in {Reaction.FORGET_MEMBER, Reaction.FORGET_GENERATION} and membership.generation == sent:
            keep = reaction is Reaction.FORGET_GENERATION
            membership.reset(f"encountered {error.name} from {api_key.name} response", keep_member_id=keep)
        elif reaction is Reaction.TAKE_MEMBER_ID:
            membership.take_member_id(member_id)
        elif reaction is Reaction.REJOIN:
            membership.request_rejoin("group is already rebalancing")
        return reaction


def _handle_leave(body: LeaveGroupResponse) -> None:
    """Read the answer to LeaveGroup. Raises ApiError for the first error in it."""
    codes = [body.error_code, *(member.error_code for member in body.members)]
    for code in codes:
        if error := error_of(code):
            logger.error("LeaveGroup request failed with error: %s", error.message)
            raise ApiError(error)


def _join_error_text(error: ErrorCode, config: GroupRebalanceConfig) -> str:
    if error is ErrorCode.GROUP_MAX_SIZE_REACHED:
        return f"Consumer group {config.group_id} already has the configured maximum number of members."
    return f"{error.message} Group: {config.group_id}"


def _name_of(error: Exception) -> str:
    return error.code.name if isinstance(error, ApiError) else type(error).__name__
