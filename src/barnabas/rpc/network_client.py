"""Requests to the nodes of a cluster over non-blocking connections.

Owned by one thread (a producer's sender, a consumer's caller, the thread of an inter-broker channel), so no lock; only
`wakeup` may be called from another thread. Callbacks of requests run inside `poll`, at its end. Times are monotonic
milliseconds.

`ready` connects to a node and asks for its ApiVersions (unless the client is set not to). From then on the node takes
requests, at most `max_in_flight` at a time, and answers them in order. A connection that is lost fails exactly the
requests on it. The life of a request:

    ready(node) is False        poll: connecting, connected, ApiVersions sent, answered
    ready(node) is True         send(new_request(node.id, message, callback=...))
    poll                        bytes written; for acks=0 the callback runs now, without a body
    poll                        answer received: the callback runs with the decoded body
    poll, after its timeout     disconnected: the callbacks of all requests to the node run, timed_out

Kafka: NetworkClient.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from random import Random

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import DecodeError, ErrorCode
from barnabas.protocol.messages.api_versions import ApiVersionsResponse
from barnabas.protocol.messages.message import Message
from barnabas.rpc.api_versions_discovery import ApiVersionsDiscovery, NodeApiVersions
from barnabas.rpc.client_request import (
    ClientRequest,
    ClientResponse,
    RequestBuilder,
    ResponseCallback,
    UnsupportedVersion,
    fixed_message,
)
from barnabas.rpc.client_selector import ClientSelector
from barnabas.rpc.connection_failures import ConnectionFailures, loss_in_words, reason_of
from barnabas.rpc.connection_states import ConnectionState, ConnectionStates, Node
from barnabas.rpc.in_flight_requests import (
    MAX_CORRELATION_ID,
    InFlightRequest,
    InFlightRequests,
    decode_answer,
    request_frame,
)
from barnabas.rpc.metadata_updater import MetadataUpdater
from barnabas.rpc.network_client_config import NetworkClientConfig
from barnabas.rpc.network_counters import NetworkCounters
from barnabas.runtime.clock import NANOSECONDS_PER_MILLISECOND, Clock
from barnabas.transport.channel.authenticator import AuthenticationFailed
from barnabas.transport.channel.frame_reader import Frame, InvalidReceive
from barnabas.transport.channel.kafka_channel import ChannelState
from barnabas.transport.host_addresses import host_addresses

logger = logging.getLogger(__name__)

_SIZE_BYTES = 4
"""The bytes of the size in front of each frame."""

_NEVER_READY = frozenset({ChannelState.NOT_CONNECTED, ChannelState.AUTHENTICATE, ChannelState.AUTHENTICATION_FAILED})
_OTHER_PROTOCOL = " before the first answer (check security.protocol)"
"""What else a user reads when a node does not even answer ApiVersions: most often it expects a TLS handshake."""


class NetworkClient:
    """A client of several nodes.

    metadata_updater: knows the nodes. random: for jitter, and for the choice of a node. resolve: returns the addresses
    of a host, given host and port.
    """

    def __init__(
        self,
        selector: ClientSelector,
        metadata_updater: MetadataUpdater,
        config: NetworkClientConfig,
        clock: Clock,
        random: Random | None = None,
        *,
        resolve: Callable[[str, int], Iterable[str]] = host_addresses,
    ) -> None:
        self._selector = selector
        self._metadata_updater = metadata_updater
        self._config = config
        self._clock = clock
        self._random = random
        self._resolve = resolve
        self._states = ConnectionStates(
            (config.reconnect_backoff_ms, config.reconnect_backoff_max_ms),
            (config.connection_setup_timeout_ms, config.connection_setup_timeout_max_ms),
            random,
        )
        self._failures = ConnectionFailures()
        self._in_flight = InFlightRequests(config.max_in_flight)
        self._discovery = ApiVersionsDiscovery()
        self._aborted_sends: list[ClientResponse] = []
        self._correlation_id = 0
        self.counters = NetworkCounters(selector.counters, self.now_ms())
        """The counters for metrics. Any thread may read them."""

    # -- nodes

    def now_ms(self) -> int:
        """Return the client's time: the monotonic clock in milliseconds."""
        return self._clock.nanoseconds() // NANOSECONDS_PER_MILLISECOND

    def ready(self, node: Node, now_ms: int) -> bool:
        """Return whether a request can be sent to the node now. If there is no connection, begin to make one."""
        if self.is_ready(node, now_ms):
            return True
        if self._states.can_connect(node.id, now_ms):
            self.initiate_connect(node, now_ms)
        return False

    def is_ready(self, node: Node, now_ms: int) -> bool:
        """Return whether a node takes requests and no update of the metadata is due, which would go first."""
        return not self._metadata_updater.is_update_due(now_ms) and self.can_send_request(node.id, now_ms)

    def can_send_request(self, node_id: int, now_ms: int) -> bool:
        """Return whether a node is connected and has room in flight. If it has to log in first, let it begin."""
        return (
            self._states.is_ready(node_id, now_ms)
            and self._selector.is_channel_ready(str(node_id))
            and self._in_flight.can_send_more(node_id)
            and not (self._states.sessions and self._renew_session(node_id, now_ms))
        )

    def can_connect(self, node_id: int, now_ms: int) -> bool:
        """Return whether there is no connection and the wait after a failure is over."""
        return self._states.can_connect(node_id, now_ms)

    def connection_failed(self, node: Node, now_ms: int) -> bool:
        """Return whether the last connection, or attempt, failed and its wait is not over."""
        return self._states.is_blacked_out(node.id, now_ms)

    def connection_failure(self, node: Node) -> str:
        """Return why the last attempt to connect to the node failed, in words."""
        return self._failures.reason(node.id)

    def is_any_node_connecting(self) -> bool:
        """Return whether a connection is being made."""
        return self._states.any_preparing()

    def poll_delay_ms(self, node: Node, now_ms: int) -> int | None:
        """Return the milliseconds until the node may take requests (backoff, throttle); None: an event will tell."""
        return self._states.poll_delay_ms(node.id, now_ms)

    def has_ready_nodes(self, now_ms: int) -> bool:
        """Return whether any node takes requests now."""
        return self._states.has_ready_nodes(now_ms)

    def api_versions(self, node_id: int) -> NodeApiVersions | None:
        """Return the versions that a connected node supports, or None."""
        return self._discovery.versions_of(node_id)

    def feature_level(self, name: str) -> int:
        """Return the level of a feature that the cluster has finalized, as far as the nodes connected so far know."""
        return self._discovery.finalized.level_of(name)

    def least_loaded_node(self, now_ms: int) -> Node | None:
        """Return the node with the fewest requests in flight that takes one more.

        If there is none, return a node that is being connected to, or that can be. None when every node waits after a
        failure. The search starts at a random node, so that the load spreads.
        """
        nodes = self._metadata_updater.nodes()
        if not nodes:
            return None
        ready = connecting = connectable = None
        fewest = MAX_CORRELATION_ID
        offset = self._random.randrange(len(nodes)) if self._random is not None else 0
        for index in range(len(nodes)):
            node = nodes[(offset + index) % len(nodes)]
            if self.can_send_request(node.id, now_ms):
                count = self._in_flight.count(node.id)
                if count == 0:
                    return node
                if count < fewest:
                    fewest, ready = count, node
            elif self._states.state(node.id).is_preparing:
                connecting = node
            elif self._states.can_connect(node.id, now_ms) and (
                # Of several, the node that was not tried for the longest time: a node that is down must not be chosen
                # again and again.
                connectable is None
                or self._states.last_attempt_ms(connectable.id) > self._states.last_attempt_ms(node.id)
            ):
                connectable = node
        return ready or connecting or connectable

    def initiate_connect(self, node: Node, now_ms: int) -> None:
        """Begin to connect. If that fails, the connection counts as lost."""
        config = self._config
        # First, since a name that cannot be resolved is a failed attempt too, with its backoff.
        self._states.connecting(node.id, node.host, now_ms)
        self._failures.begun(node, now_ms)
        try:
            address = self._states.next_address(node.id, lambda: self._resolve(node.host, node.port))
            build = None if config.channel_builder is None else config.channel_builder(node.host)
            self._selector.connect(
                str(node.id), (address, node.port), config.send_buffer_bytes, config.receive_buffer_bytes, build
            )
        except OSError as error:
            self._failures.failed(node.id, reason_of(error), now_ms)
            self._states.disconnected(node.id, now_ms)
            self._metadata_updater.handle_disconnect(node.id, now_ms, reason_of(error))

    def _renew_session(self, node_id: int, now_ms: int) -> bool:
        """Return whether a connection has to log in again before its next request.

        The login begins when nothing is in flight. A broker serves one request of a connection after the other, so the
        next request would wait for the answers in any case.
        """
        session = self._states.sessions.due(node_id, now_ms)
        if session is None:
            return False
        if not self._in_flight.count(node_id):
            # From here on it is a connection that is being made: its time is limited, and its failure is reported.
            self._states.connecting(node_id, session.node.host, now_ms)
            self._failures.begun(session.node, now_ms)
            self._selector.reauthenticate(str(node_id), session.authenticator.renewal())
        return True

    def disconnect(self, node_id: int) -> None:
        """Close the connection; its requests fail in the next poll. The wait before the next attempt begins."""
        if self._states.state(node_id).is_disconnected:
            return
        now_ms = self.now_ms()
        self._selector.close(str(node_id))
        self._forget_connection(node_id, now_ms)
        # The callbacks wait for the next poll: here they would run inside a call of a caller that does not expect them.
        self._cancel_in_flight(node_id, now_ms, self._aborted_sends)

    def close_connection(self, node_id: int) -> None:
        """Close the connection of a node that is no longer of interest, and forget its state and its requests."""
        self._selector.close(str(node_id))
        now_ms = self.now_ms()
        self._forget_connection(node_id, now_ms)
        self._cancel_in_flight(node_id, now_ms, [])
        self._states.forget(node_id)
        self._failures.forget(node_id)

    # -- requests

    def new_request(
        self,
        node_id: int,
        message: Message | RequestBuilder,
        *,
        versions: tuple[int, int] | None = None,
        expects_response: bool = True,
        timeout_ms: int | None = None,
        callback: ResponseCallback | None = None,
    ) -> ClientRequest:
        """Make a request for `send`, of a message, or of a builder where the message depends on the version.

        `versions` (oldest, latest) narrows the versions of a message; by default all versions of its class may be sent.
        """
        self._correlation_id = self._correlation_id + 1 & MAX_CORRELATION_ID
        return ClientRequest(
            node_id,
            message if isinstance(message, RequestBuilder) else fixed_message(message, versions),
            self._correlation_id,
            timeout_ms=self._config.request_timeout_ms if timeout_ms is None else timeout_ms,
            expects_response=expects_response,
            callback=callback,
        )

    def send(self, request: ClientRequest, now_ms: int) -> None:
        """Queue a request, which the next poll sends. If no version fits, the callback gets the error in that poll.

        Raises RuntimeError: the node is not ready (`can_send_request`).
        """
        if not self.can_send_request(request.node_id, now_ms):
            raise RuntimeError(f"Attempt to send a request to node {request.node_id} which is not ready.")
        self._send(request, now_ms, internal=False)

    def send_metadata_request(self, request: ClientRequest, now_ms: int) -> None:
        """Queue the metadata updater's own request; its answer goes back to the updater."""
        self._send(request, now_ms, internal=True)

    def in_flight_count(self, node_id: int | None = None) -> int:
        """Return the number of requests that are not answered, of one node or of all (None)."""
        return self._in_flight.count(node_id)

    def record_latency(self, node_id: int, latency_ms: int) -> None:
        """Count the time from a Produce or Fetch to its answer, as Kafka's clients do for these two alone."""
        self.counters.nodes[node_id].latencies.record(latency_ms)

    def wakeup(self) -> None:
        """Make the current or the next `poll` return at once. Any thread may call it."""
        self._selector.wakeup()

    def close(self) -> None:
        """Close all connections. Requests in flight are forgotten; nothing may be called afterwards."""
        self._selector.close_all()

    def poll(self, timeout_ms: int, now_ms: int) -> list[ClientResponse]:
        """Send and receive for at most `timeout_ms`. Return the completed requests, whose callbacks have run."""
        responses: list[ClientResponse] = []
        # Requests that failed without I/O complete at once: a caller that waits for them must not sit out the timeout.
        if self._aborted_sends:
            responses, self._aborted_sends = self._aborted_sends, []
            self._complete_responses(responses)
            return responses
        metadata_timeout_ms = self._metadata_updater.maybe_update(self, now_ms)
        # The request timeout bounds the poll, since only a poll finds the requests that have timed out.
        timeout_ms = min(timeout_ms, metadata_timeout_ms, self._config.request_timeout_ms)
        setup_timeout_ms = self._states.next_setup_timeout_ms(now_ms)
        if setup_timeout_ms is not None:
            # One more: a set-up times out after its timeout, not with it, and polls of 0 ms would spin for that
            # millisecond.
            timeout_ms = min(timeout_ms, setup_timeout_ms + 1)
            report_ms = self._failures.next_report_ms(now_ms)
            timeout_ms = timeout_ms if report_ms is None else min(timeout_ms, report_ms)
        self._selector.poll(timeout_ms)
        now_ms = self.now_ms()
        if now_ms >= self.counters.next_roll_ms:
            self.counters.roll(now_ms)
        # Kafka's order. Answers come before disconnections: a node that answers and closes has answered. Callbacks run
        # last, when the state of every connection is known, since they may send.
        self._handle_completed_sends(responses, now_ms)
        self._handle_completed_receives(responses, now_ms)
        self._handle_disconnections(responses, now_ms)
        self._handle_connections(now_ms)
        self._initiate_api_versions_requests(now_ms)
        self._failures.report_slow(now_ms)
        self._handle_timed_out_connections(responses, now_ms)
        self._handle_timed_out_requests(responses, now_ms)
        self._handle_rebootstrap(responses, now_ms)
        self._complete_responses(responses)
        return responses

    # -- sending

    def _send(self, request: ClientRequest, now_ms: int, *, internal: bool) -> None:
        versions = self._discovery.versions_of(request.node_id)
        try:
            # The versions are unknown for ApiVersions itself, and for all requests where the discovery is switched off.
            version = versions.latest_usable_version(request) if versions is not None else request.versions[1]
        except UnsupportedVersion as error:
            logger.debug("Version mismatch when sending a request to node %d: %s", request.node_id, error)
            if internal:
                self._metadata_updater.handle_failed_request(now_ms, error)
            else:
                self._aborted_sends.append(ClientResponse(request, now_ms, version_error=error))
            return
        frame = request_frame(request.build(version), version, request.correlation_id, self._config.client_id)
        # Added before the send: a disconnection fails the request whether or not its bytes have left.
        self._in_flight.add(InFlightRequest(request, version, now_ms, internal=internal))
        node_id = request.node_id
        counters = self.counters.nodes.get(node_id) or self.counters.add_node(node_id, now_ms)
        counters.sent.record(int.from_bytes(frame[0][:_SIZE_BYTES]) + _SIZE_BYTES)
        self._selector.send(str(node_id), frame)

    # -- the steps of poll

    def _handle_completed_sends(self, responses: list[ClientResponse], now_ms: int) -> None:
        """Complete the requests that expect no answer (acks=0) and are written."""
        for channel in self._selector.completed_sends:
            node_id = int(channel.connection_id)
            if not self._in_flight.count(node_id):
                continue
            newest = self._in_flight.last_sent(node_id)
            newest.completed_send = True
            if not newest.request.expects_response:
                self._in_flight.complete_last_sent(node_id)
                responses.append(ClientResponse(newest.request, now_ms, version=newest.version))

    def _handle_completed_receives(self, responses: list[ClientResponse], now_ms: int) -> None:
        for channel in self._selector.completed_receives:
            node_id = int(channel.connection_id)
            try:
                while (frame := channel.take_receive()) is not None:
                    self._handle_answer(node_id, frame, channel.reader.release, responses, now_ms)
            except (DecodeError, InvalidReceive, LookupError) as error:
                logger.warning("Node %d sent an answer that cannot be read: %s", node_id, error)
                self._disconnect(node_id, responses, now_ms)

    def _handle_answer(
        self,
        node_id: int,
        frame: Frame,
        release: Callable[[], None] | None,
        responses: list[ClientResponse],
        now_ms: int,
    ) -> None:
        in_flight = self._in_flight.next_to_complete(node_id)
        # Decoded before it is removed: a request whose answer cannot be read is still in flight and fails with the
        # connection.
        body = decode_answer(in_flight.request.api_key, in_flight.version, in_flight.request.correlation_id, frame)
        self._in_flight.complete_next(node_id)
        self.counters.nodes[node_id].received.record(len(frame) + _SIZE_BYTES)
        throttle_time_ms = getattr(body, "throttle_time_ms", 0)
        # KIP-219: the broker answers at once and leaves it to the client to hold back its next requests.
        if throttle_time_ms > 0:
            self._states.throttle(node_id, now_ms + throttle_time_ms)
        if not in_flight.internal:
            response = ClientResponse(in_flight.request, now_ms, body=body, version=in_flight.version)
            response.release = release
            responses.append(response)
        elif isinstance(body, ApiVersionsResponse):
            self._handle_api_versions(node_id, in_flight, body, responses, now_ms)
        else:
            self._metadata_updater.handle_response(body, now_ms)

    def _handle_api_versions(
        self,
        node_id: int,
        in_flight: InFlightRequest,
        body: ApiVersionsResponse,
        responses: list[ClientResponse],
        now_ms: int,
    ) -> None:
        outcome = self._discovery.answered(node_id, in_flight.version, body)
        if outcome is ErrorCode.NONE:
            self._is_ready_now(node_id)
        elif outcome is not ErrorCode.UNSUPPORTED_VERSION:
            logger.warning("Node %d answers ApiVersions with error %d", node_id, body.error_code)
            self._disconnect(node_id, responses, now_ms)

    def _handle_disconnections(self, responses: list[ClientResponse], now_ms: int) -> None:
        for connection_id, state in self._selector.disconnected.items():
            node_id = int(connection_id)
            logger.debug("Node %d disconnected (%s).", node_id, state.value)
            self._process_disconnection(node_id, state, responses, now_ms)

    def _handle_connections(self, now_ms: int) -> None:
        for connection_id in self._selector.connected:
            if connection_id in self._selector.disconnected:
                # Made and lost in one poll, as by a proxy whose server is down: no later event would report the loss.
                continue
            node_id = int(connection_id)
            node = self._failures.node_of(node_id)
            if node is not None:
                self._states.sessions.began(node, self._selector.authenticator(connection_id), now_ms)
            if self._config.discover_broker_versions:
                self._states.checking_api_versions(node_id)
                self._discovery.begin(node_id)
            else:
                self._is_ready_now(node_id)

    def _is_ready_now(self, node_id: int) -> None:
        self._states.ready(node_id)
        self._failures.succeeded(node_id)

    def _initiate_api_versions_requests(self, now_ms: int) -> None:
        for node_id in self._discovery.nodes_to_ask():
            if self._selector.is_channel_ready(str(node_id)) and self._in_flight.can_send_more(node_id):
                request = self.new_request(node_id, self._discovery.take_request(node_id))
                self._send(request, now_ms, internal=True)

    def _handle_timed_out_connections(self, responses: list[ClientResponse], now_ms: int) -> None:
        for node_id in self._states.setup_timed_out(now_ms):
            logger.info("Disconnecting from node %d due to socket connection setup timeout.", node_id)
            self._selector.close(str(node_id))
            self._process_disconnection(
                node_id, ChannelState.LOCAL_CLOSE, responses, now_ms, timed_out=True, reason="connection timed out"
            )

    def _handle_timed_out_requests(self, responses: list[ClientResponse], now_ms: int) -> None:
        for node_id in self._in_flight.timed_out_nodes(now_ms):
            logger.info("Disconnecting from node %d due to request timeout.", node_id)
            self._selector.close(str(node_id))
            self._process_disconnection(
                node_id, ChannelState.LOCAL_CLOSE, responses, now_ms, timed_out=True, reason="a request timed out"
            )

    def _handle_rebootstrap(self, responses: list[ClientResponse], now_ms: int) -> None:
        """Drop the connections to all known nodes, if the metadata begin again with the user's addresses."""
        if not self._metadata_updater.needs_rebootstrap(now_ms):
            return
        for node in self._metadata_updater.nodes():
            if not self._states.state(node.id).is_disconnected:
                logger.info("Disconnecting from node %d due to client rebootstrap.", node.id)
                self._disconnect(node.id, responses, now_ms)
        self._metadata_updater.rebootstrap(now_ms)

    def _complete_responses(self, responses: Sequence[ClientResponse]) -> None:
        for response in responses:
            try:
                response.on_complete()
            except Exception:
                # A callback belongs to the caller: its failure must not keep the other callbacks from running.
                logger.exception("Uncaught error in request completion")

    # -- losing a connection

    def _disconnect(self, node_id: int, responses: list[ClientResponse], now_ms: int) -> None:
        self._selector.close(str(node_id))
        self._process_disconnection(node_id, ChannelState.LOCAL_CLOSE, responses, now_ms)

    def _process_disconnection(
        self,
        node_id: int,
        state: ChannelState,
        responses: list[ClientResponse],
        now_ms: int,
        *,
        timed_out: bool = False,
        reason: str | None = None,
    ) -> None:
        failed = state is ChannelState.AUTHENTICATION_FAILED
        was_ready = state not in _NEVER_READY
        error = None if was_ready else self._selector.take_connect_error(str(node_id))
        if reason is None:
            reason = loss_in_words(state, error)
        if was_ready and self._states.state(node_id) is ConnectionState.CHECKING_API_VERSIONS and not timed_out:
            reason += _OTHER_PROTOCOL
        if failed:
            logger.error("Connection to node %d failed authentication due to: %s", node_id, reason)
        node = self._failures.node_of(node_id)
        if self._states.state(node_id).is_preparing:
            self._failures.failed(node_id, reason, now_ms)
        self._forget_connection(node_id, now_ms, authentication_failed=failed)
        self._cancel_in_flight(node_id, now_ms, responses, timed_out=timed_out)
        self._metadata_updater.handle_disconnect(node_id, now_ms, reason)
        if isinstance(error, AuthenticationFailed):
            self._metadata_updater.handle_authentication_failure(node, error)

    def _forget_connection(self, node_id: int, now_ms: int, *, authentication_failed: bool = False) -> None:
        self._states.disconnected(node_id, now_ms, authentication_failed=authentication_failed)
        self._discovery.forget(node_id)

    def _cancel_in_flight(
        self, node_id: int, now_ms: int, responses: list[ClientResponse], *, timed_out: bool = False
    ) -> None:
        for in_flight in self._in_flight.clear(node_id):
            if not in_flight.internal:
                responses.append(ClientResponse(in_flight.request, now_ms, disconnected=True, timed_out=timed_out))
            elif in_flight.request.api_key == ApiKey.METADATA:
                # A lost ApiVersions request needs no note: the next connection asks again.
                self._metadata_updater.handle_failed_request(now_ms, None)
