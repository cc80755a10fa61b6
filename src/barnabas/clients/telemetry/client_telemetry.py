"""Pushes a client's metrics to a broker that asks for them (KIP-714), in the turns of the client's own thread.

Made by Producer and Consumer. Owned by the thread that polls the NetworkClient (the producer's sending thread, the
consumer's user); `turn` is called before each poll and never waits. Only `client_instance_id` may be called from
another thread: `_answered`, an Event, is set after the id is, and `_is_wanted` only becomes True, so no lock. Times are
monotonic milliseconds.
Kafka: ClientTelemetryReporter, NetworkClient.TelemetrySender.

A client asks for its subscription over a connection that is there for other reasons. It makes one itself only when its
user wants the instance id, or to push. Where no broker offers the API, `turn` compares two numbers, and looks at the
connections again every five minutes.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from random import Random

from barnabas.clients.client_metrics import MetricName
from barnabas.clients.telemetry.otlp import MetricPoints, encode_metrics
from barnabas.clients.telemetry.subscription import (
    DEFAULT_INTERVAL_MS,
    TRANSITIONS,
    Retry,
    TelemetryEvent,
    TelemetryState,
    TelemetrySubscription,
    retry_after,
)
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode, error_of
from barnabas.protocol.messages.message import Message
from barnabas.protocol.messages.telemetry import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
    PushTelemetryRequest,
    PushTelemetryResponse,
)
from barnabas.protocol.uuid import ZERO_UUID, uuid_to_string
from barnabas.records.compression import compress
from barnabas.rpc.client_request import ClientResponse
from barnabas.rpc.metadata_updater import FOREVER_MS
from barnabas.rpc.network_client import NetworkClient
from barnabas.runtime.clock import Clock

logger = logging.getLogger(__name__)

LAST_PUSH_MS = 1_000
"""How long a client that closes waits for the last push to be sent and answered."""

# The first push comes after half an interval to one and a half: clients that start together must not push together.
_FIRST_PUSH = (0.5, 1.5)

_IDLE = frozenset(
    {
        TelemetryState.SUBSCRIPTION_IN_PROGRESS,
        TelemetryState.PUSH_IN_PROGRESS,
        TelemetryState.TERMINATING_PUSH_IN_PROGRESS,
        TelemetryState.TERMINATED,
    }
)
"""States in which an answer is the next event, or none is."""


class _Labels:
    """The names of a client: its group, say, and its member id, which the client learns later and loses at its end."""

    def __init__(self, read: Callable[[], Mapping[str, str]]) -> None:
        self._read = read
        self._known: dict[str, str] = {}

    def read(self) -> Mapping[str, str]:
        """Return the labels of now, and those of earlier that the client no longer has."""
        self._known.update(self._read())
        return self._known


class ClientTelemetry:
    """The telemetry of one client.

    `measure` returns its metrics, `labels` what names it, beside what the broker knows.
    """

    def __init__(
        self,
        client: NetworkClient,
        measure: Callable[[], Mapping[MetricName, float]],
        labels: Callable[[], Mapping[str, str]],
        clock: Clock,
        random: Random,
    ) -> None:
        self._client = client
        self._measure = measure
        self._labels = _Labels(labels)
        self._clock = clock
        self._random = random
        self._points = MetricPoints(clock.milliseconds())
        self._state = TelemetryState.SUBSCRIPTION_NEEDED
        self._subscription: TelemetrySubscription | None = None
        self._next_ms = 0
        self._end_ms = 0
        self._answered = threading.Event()
        self._is_wanted = False

    @property
    def state(self) -> TelemetryState:
        """The current state."""
        return self._state

    # -- any thread

    def client_instance_id(self, wait: Callable[[threading.Event], object]) -> str | None:
        """Return the id that a broker has given this client, after `wait(event)`; None where there is none yet."""
        if not self._answered.is_set():
            self._is_wanted = True
            wait(self._answered)
        subscription = self._subscription
        return None if subscription is None else uuid_to_string(subscription.instance_id)

    # -- the client's thread

    def turn(self, now_ms: int) -> int:
        """Send the request that is due, if a node can take it. Returns the milliseconds until the next call."""
        if self._state in _IDLE:
            if self._state is TelemetryState.TERMINATING_PUSH_IN_PROGRESS:
                return max(self._end_ms - now_ms, 0)
            return FOREVER_MS
        if now_ms < self._next_ms:
            return self._next_ms - now_ms
        # A new connection ends the caller's poll, and a turn follows.
        may_connect = self._is_wanted or self._state is not TelemetryState.SUBSCRIPTION_NEEDED
        if may_connect or self._client.has_ready_nodes(now_ms):
            self._send(now_ms, may_connect=may_connect)
        if self._state is TelemetryState.TERMINATING_PUSH_NEEDED:
            return max(self._end_ms - now_ms, 0)
        return self._next_ms - now_ms if now_ms < self._next_ms else FOREVER_MS

    def begin_close(self, timeout_ms: int = LAST_PUSH_MS) -> None:
        """Make the last push due, if a broker wants one, for at most `timeout_ms`. Idempotent."""
        if self._state is TelemetryState.TERMINATED or self._state.is_terminating:
            return
        self._end_ms = self._client.now_ms() + timeout_ms
        self._next_ms = 0
        self._move(TelemetryEvent.CLOSING)

    def must_go_on(self) -> bool:
        """Return whether a client that closes still has to push. The first call makes the last push due."""
        self.begin_close()
        if self._state.is_terminating and self._client.now_ms() >= self._end_ms:
            self.closed()
        return self._state is not TelemetryState.TERMINATED

    def closed(self) -> None:
        """Stop sending; calls that wait for the instance id return."""
        self._move(TelemetryEvent.ENDED)
        self._answered.set()

    # -- sending

    def _send(self, now_ms: int, *, may_connect: bool) -> None:
        node = self._client.least_loaded_node(now_ms)
        if node is None:
            return
        if not (self._client.ready(node, now_ms) if may_connect else self._client.is_ready(node, now_ms)):
            self._next_ms = now_ms + (self._client.poll_delay_ms(node, now_ms) or 0)
            return
        asks = self._state is TelemetryState.SUBSCRIPTION_NEEDED
        api_key = ApiKey.GET_TELEMETRY_SUBSCRIPTIONS if asks else ApiKey.PUSH_TELEMETRY
        versions = self._client.api_versions(node.id)
        if versions is None or versions.range_of(api_key) is None:
            # The next connection may be to a broker that offers the API.
            self._next_ms = now_ms + self._interval_ms()
            if self._state.is_terminating:
                self.closed()
            return
        is_last = self._state.is_terminating
        try:
            message: Message = self._subscription_request() if asks else self._push_request(terminating=is_last)
        except Exception:  # a metric that cannot be measured must not keep the client from its work
            logger.exception("The metrics of this client cannot be pushed")
            self._next_ms = now_ms + self._interval_ms()
            if is_last:
                self.closed()
            return
        state = self._move(TelemetryEvent.SENT)
        request = self._client.new_request(
            node.id,
            message,
            # A broker that does not answer the last push must not hold up the close.
            timeout_ms=max(self._end_ms - now_ms, 1) if is_last else None,
            callback=lambda response: self._handle(response, state),
        )
        self._client.send(request, now_ms)

    def _subscription_request(self) -> GetTelemetrySubscriptionsRequest:
        # The zero id asks for a new id; a client keeps its id for its life.
        known = self._subscription
        return GetTelemetrySubscriptionsRequest(ZERO_UUID if known is None else known.instance_id)

    def _push_request(self, *, terminating: bool) -> PushTelemetryRequest:
        subscription = self._subscription
        assert subscription is not None
        points = self._points.collect(
            self._measure(), subscription.wants, self._clock.milliseconds(), is_delta=subscription.is_delta
        )
        payload = encode_metrics(self._labels.read().items(), points)
        return PushTelemetryRequest(
            client_instance_id=subscription.instance_id,
            subscription_id=subscription.id,
            terminating=terminating,
            compression_type=int(subscription.codec),
            metrics=compress(subscription.codec, payload),
        )

    # -- answers

    def _handle(self, response: ClientResponse, sent_in: TelemetryState) -> None:
        """Take the answer to the request that led to the state `sent_in`."""
        # The client is being closed: the last push goes its own way, and the answer before it changes nothing.
        if self._state is not sent_in:
            return
        now_ms = response.received_ms
        body = response.body
        if isinstance(body, GetTelemetrySubscriptionsResponse):
            if body.error_code:
                self._failed(error_of(body.error_code), now_ms)
            else:
                self._subscribe(body, now_ms)
        elif isinstance(body, PushTelemetryResponse):
            if body.error_code:
                self._failed(error_of(body.error_code), now_ms)
            else:
                self._next_ms = now_ms + self._interval_ms()
                self._move(TelemetryEvent.PUSHED)
        else:
            # Disconnected, or the version does not fit. Another broker may answer; KIP-714 asks for the wait.
            logger.debug("A telemetry request to node %d got no answer", response.request.node_id)
            self._next_ms = now_ms + self._interval_ms()
            self._move(TelemetryEvent.FAILED)

    def _subscribe(self, answer: GetTelemetrySubscriptionsResponse, now_ms: int) -> None:
        if answer.client_instance_id == ZERO_UUID:
            logger.warning("A broker gave this client no instance id: no telemetry is sent")
            self._move(TelemetryEvent.REJECTED)
            self._answered.set()
            return
        subscription = TelemetrySubscription.of(answer)
        if self._subscription is not None and self._subscription.is_delta != subscription.is_delta:
            self._points.reset()
        self._subscription = subscription
        self._answered.set()
        logger.debug("Telemetry subscription %s", subscription)
        if subscription.prefixes:
            interval_ms = round(subscription.interval_ms * self._random.uniform(*_FIRST_PUSH))
            self._move(TelemetryEvent.SUBSCRIBED)
        else:
            interval_ms = subscription.interval_ms
            self._move(TelemetryEvent.NOTHING_WANTED)
        self._next_ms = now_ms + interval_ms

    def _failed(self, error: ErrorCode, now_ms: int) -> None:
        retry = retry_after(error)
        if retry is Retry.NEVER:
            logger.warning("A broker rejected this client's telemetry, which ends: %s", error.message)
            self._move(TelemetryEvent.REJECTED)
            self._answered.set()
            return
        logger.debug("A broker rejected this client's telemetry: %s; retry %s", error.message, retry.value)
        # A request for a subscription that is answered so would be repeated without end.
        is_at_once = retry is Retry.AT_ONCE and self._state is TelemetryState.PUSH_IN_PROGRESS
        self._next_ms = now_ms if is_at_once else now_ms + self._interval_ms()
        self._move(TelemetryEvent.FAILED)

    def _interval_ms(self) -> int:
        return DEFAULT_INTERVAL_MS if self._subscription is None else self._subscription.interval_ms

    def _move(self, event: TelemetryEvent) -> TelemetryState:
        self._state = TRANSITIONS[self._state][event]
        return self._state
