"""The one connection to a broker of a thread that sends it one request at a time, and waits for the answer.

Owned by the thread of a replica fetcher, of a controller's channel or of a controlled shutdown, so no lock; only
`wakeup` and `interrupt` may be called from another. Times are monotonic milliseconds.

    connection.await_ready(30_000)           connect, shake hands, log in; at once where that is done
    answer = connection.exchange(request)    send, and wait for the answer

A request has the latest version of its builder: brokers of a ZooKeeper cluster do not ask each other for versions.
After an exchange without an answer the connection is closed: a late answer would be taken for that of the next request.
There is no backoff: the caller waits between two attempts, and a broker that is back is reached at once.

Kafka: NetworkClientUtils over a NetworkClient, as in BrokerBlockingSender and RequestSendThread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from random import Random
from typing import TYPE_CHECKING, Final

from barnabas.protocol.errors import DecodeError
from barnabas.protocol.messages.message import Message
from barnabas.rpc.client_request import RequestBuilder
from barnabas.rpc.connection_failures import ConnectionFailures, loss_in_words, reason_of
from barnabas.rpc.connection_states import ConnectionState, ExponentialBackoff, Node, SessionRenewals
from barnabas.rpc.in_flight_requests import MAX_CORRELATION_ID, decode_answer, request_frame
from barnabas.rpc.network_client_config import NetworkClientConfig
from barnabas.runtime.clock import NANOSECONDS_PER_MILLISECOND, NEVER_MS, Clock
from barnabas.transport.channel.frame_reader import Frame
from barnabas.transport.channel.kafka_channel import ChannelState
from barnabas.transport.host_addresses import host_addresses

if TYPE_CHECKING:
    from barnabas.rpc.client_selector import ClientSelector

logger = logging.getLogger(__name__)

_LONGEST_POLL_MS: Final = 1_000
"""Bounds how late a wait notices an interruption, should the wake-up be missing."""


class ConnectionLost(Exception):
    """The error of a request without an answer: no connection, a lost one, a node that is too slow, an ended wait."""


class PeerConnection:
    """A connection. selector: has no other one, and closes with it. resolve: returns the addresses of a host.

    config: its backoff, its limit of requests in flight and its discovery of versions have no effect.
    """

    def __init__(
        self,
        node: Node,
        selector: ClientSelector,
        config: NetworkClientConfig,
        clock: Clock,
        random: Random | None = None,
        *,
        resolve: Callable[[str, int], Iterable[str]] = host_addresses,
    ) -> None:
        self._node = node
        self._id = str(node.id)
        self._selector = selector
        self._config = config
        self._now_ns = clock.nanoseconds
        self._resolve = resolve
        self._failures = ConnectionFailures()
        self._sessions = SessionRenewals(random)
        self._setup_timeout = ExponentialBackoff(
            config.connection_setup_timeout_ms, config.connection_setup_timeout_max_ms, random
        )
        self._setup_failures = 0
        self._setup_ends_ms = NEVER_MS
        self._throttled_until_ms = NEVER_MS
        self._polled_ms = NEVER_MS
        self._correlation_id = 0
        self._release: Callable[[], None] | None = None
        """Gives back the buffer of the last answer, which its records are views of."""
        self._is_interrupted = False
        """Set once, by any thread, before it wakes this one."""
        self.state = ConnectionState.DISCONNECTED
        """DISCONNECTED, CONNECTING until the login is over, and during a later one, or READY."""

    # -- any thread

    def now_ms(self) -> int:
        """Return the connection's time: the monotonic clock in milliseconds."""
        return self._now_ns() // NANOSECONDS_PER_MILLISECOND

    def wakeup(self) -> None:
        """End the current wait for an event, or else the next one."""
        self._selector.wakeup()

    def interrupt(self) -> None:
        """End the current `await_ready` or `exchange`, and all later ones, with ConnectionLost."""
        self._is_interrupted = True
        self._selector.wakeup()

    # -- the connection

    def await_ready(self, timeout_ms: int, *, trusted_ms: int = -1) -> None:
        """Wait until a request can be sent; connect if need be. Records of the last answer may no longer be used.

        trusted_ms: how long ago the last poll may have looked at the connection; by default one looks now.

        Raises ConnectionLost: an attempt to connect failed, `timeout_ms` are over, or the connection is interrupted.
        """
        self._give_back_answer()
        # `now_ms` without the call, here and wherever each exchange passes.
        now_ms = self._now_ns() // NANOSECONDS_PER_MILLISECOND
        deadline_ms = now_ms + timeout_ms
        was_tried = False
        try:
            if now_ms - self._polled_ms > trusted_ms:
                # The node may have closed the connection since the last request; only a poll notices.
                self.watch(0)
            while not self._is_interrupted:
                # One attempt a call: further ones would follow as fast as the node rejects them.
                if was_tried and self.state is ConnectionState.DISCONNECTED:
                    raise ConnectionLost(f"Connection to {self._node} failed.")
                if self.ready():
                    return
                was_tried = True
                now_ms = self.now_ms()
                if now_ms >= deadline_ms:
                    raise ConnectionLost(f"Failed to connect within {timeout_ms} ms")
                self.watch(min(deadline_ms - now_ms, _LONGEST_POLL_MS))
            raise ConnectionLost(f"Client for {self._node} was shut down before it was connected.")
        except BaseException:
            self.disconnect()
            raise

    def ready(self) -> bool:
        """Return whether a request can be sent. If not, begin to connect or to log in again, unless that has begun.

        False, too, while the node throttles this broker.
        """
        if self.state is ConnectionState.DISCONNECTED:
            self._connect()
        now_ms = self._now_ns() // NANOSECONDS_PER_MILLISECOND
        if self.state is not ConnectionState.READY or now_ms < self._throttled_until_ms:
            return False
        session = self._sessions.due(self._node.id, now_ms)
        if session is None:
            return True
        self._begin_setup(now_ms)
        self._selector.reauthenticate(self._id, session.authenticator.renewal())
        return False

    def watch(self, wait_ms: int) -> None:
        """Wait for an event of the connection, and go on with what `ready` has begun. No request is in flight."""
        self._poll(wait_ms)
        if self._selector.completed_receives:
            self._unreadable("no request is in flight")

    def disconnect(self) -> None:
        """Close the connection, and forget the attempts that failed."""
        self._selector.close(self._id)
        self.state = ConnectionState.DISCONNECTED
        self._setup_failures = 0
        self._failures.forget(self._node.id)

    def close(self) -> None:
        """Close the connection for good; afterwards only `wakeup`, `interrupt` and `close` may be called."""
        self._give_back_answer()
        self._selector.close_all()

    # -- a request

    def exchange(self, request: Message | RequestBuilder) -> Message:
        """Send a request when the connection is ready, in its latest version, and return the body of its answer.

        Raises ConnectionLost: as `call`.
        """
        if not isinstance(request, RequestBuilder):
            return self.call(request, request.max_version)
        version = request.versions[1]
        try:
            message = request.build(version)
        except BaseException:
            self.disconnect()
            raise
        return self.call(message, version)

    def call(self, request: Message, version: int) -> Message:
        """Send a request in a version when the connection is ready, and return the body of its answer.

        Raises ConnectionLost: the connection broke, the answer is late or unreadable, or it was interrupted.
        """
        api_key = request.api_key
        number = self._correlation_id = self._correlation_id + 1 & MAX_CORRELATION_ID
        try:
            frame = request_frame(request, version, number, self._config.client_id)
            self._selector.send_at_once(self._id, frame)
            answer = self._await_answer()
            body = decode_answer(api_key, version, number, answer)
        except DecodeError as error:
            self._unreadable(error)
            raise self._unanswered() from error
        except BaseException:
            self.disconnect()
            raise
        throttle_time_ms = getattr(body, "throttle_time_ms", 0)
        # KIP-219: the broker answers at once and leaves it to the client to hold back its next requests.
        if throttle_time_ms > 0:
            self._throttled_until_ms = self._polled_ms + throttle_time_ms
        return body

    def _await_answer(self) -> Frame:
        wait_ms = self._config.request_timeout_ms
        ends_ms = self._now_ns() // NANOSECONDS_PER_MILLISECOND + wait_ms
        while not self._is_interrupted:
            self._poll(min(wait_ms, _LONGEST_POLL_MS))
            for channel in self._selector.completed_receives:
                frame: Frame = channel.take_receive()
                self._release = channel.reader.release
                return frame
            if self.state is not ConnectionState.READY:
                raise self._unanswered()
            # One more: a request times out after its timeout, not with it, and polls of 0 ms would spin until then.
            wait_ms = ends_ms + 1 - self._polled_ms
            if wait_ms <= 0:
                logger.info("Disconnecting from node %d due to request timeout.", self._node.id)
                raise self._unanswered()
        raise ConnectionLost("Client was shutdown before response was read")

    def _unanswered(self) -> ConnectionLost:
        return ConnectionLost(f"Connection to {self._node.id} was disconnected before the response was read")

    def _give_back_answer(self) -> None:
        release, self._release = self._release, None
        if release is not None:
            release()

    # -- connecting, and its failures

    def _connect(self) -> None:
        config, node = self._config, self._node
        # First, since a name that cannot be resolved is a failed attempt too.
        self._begin_setup(self.now_ms())
        try:
            addresses = list(self._resolve(node.host, node.port))
            address = addresses[self._setup_failures % len(addresses)]
            build = None if config.channel_builder is None else config.channel_builder(node.host)
            self._selector.connect(
                self._id, (address, node.port), config.send_buffer_bytes, config.receive_buffer_bytes, build
            )
        except OSError as error:
            self._lost(reason_of(error))

    def _begin_setup(self, now_ms: int) -> None:
        self.state = ConnectionState.CONNECTING
        self._setup_ends_ms = now_ms + self._setup_timeout.after(self._setup_failures)
        self._throttled_until_ms = NEVER_MS
        self._sessions.forget(self._node.id)
        self._failures.begun(self._node, now_ms)

    def _poll(self, wait_ms: int) -> None:
        if self.state is ConnectionState.CONNECTING:
            now_ms = self.now_ms()
            report_ms = self._failures.next_report_ms(now_ms)
            wait_ms = min(wait_ms, self._setup_ends_ms + 1 - now_ms, wait_ms if report_ms is None else report_ms)
        self._selector.poll(wait_ms)
        self._polled_ms = self._now_ns() // NANOSECONDS_PER_MILLISECOND
        if self._selector.disconnected:
            self._take_loss(self._selector.disconnected[self._id])
        elif self.state is ConnectionState.CONNECTING:
            self._go_on_connecting()

    def _go_on_connecting(self) -> None:
        node, now_ms = self._node, self._polled_ms
        if self._selector.connected:
            self.state = ConnectionState.READY
            self._setup_failures = 0
            self._sessions.began(node, self._selector.authenticator(self._id), now_ms)
            self._failures.succeeded(node.id)
            return
        self._failures.report_slow(now_ms)
        if now_ms > self._setup_ends_ms:
            logger.info("Disconnecting from node %d due to socket connection setup timeout.", node.id)
            self._lost("connection timed out")

    def _take_loss(self, lost_in: ChannelState) -> None:
        logger.debug("Node %d disconnected (%s).", self._node.id, lost_in.value)
        reason = loss_in_words(lost_in, self._selector.take_connect_error(self._id))
        if lost_in is ChannelState.AUTHENTICATION_FAILED:
            logger.error("Connection to node %d failed authentication due to: %s", self._node.id, reason)
        self._lost(reason)

    def _lost(self, reason: str) -> None:
        if self.state is ConnectionState.CONNECTING:
            self._setup_failures += 1
            self._failures.failed(self._node.id, reason, self.now_ms())
        # Closed already, but for a set-up that takes too long.
        self._selector.close(self._id)
        self.state = ConnectionState.DISCONNECTED

    def _unreadable(self, why: object) -> None:
        logger.warning("Node %d sent an answer that cannot be read: %s", self._node.id, why)
        self._release = None  # the error may have views of the buffer, which is not used again
        self.disconnect()
