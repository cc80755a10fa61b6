"""The channel from the controller to a broker over the network: a queue, and a thread that sends its requests.

Made by the channel factory that `broker` gives the controller, one per live broker. The controller's thread queues and
closes. The thread `Controller-<id>-to-broker-<id>-send-thread` owns the connection: it sends one request at a time, in
order, and calls `on_response` with the answer. A request that cannot be sent is retried every 100 ms while the channel
exists, which is as long as the broker is registered: no request is ever skipped. The two threads share `_queue` and the
connection's wake-up. `queue_size` and `on_taken` are for the metrics.

While no request waits the thread waits for an event of the connection; `_put` ends that wait. Once the connection is
lost and the broker's address refuses another, the broker's process has ended, and the controller is told without
waiting for the end of its session (decisions/0062). From then on the channel sends nothing: its queue has orders for a
broker that is sent everything again, over another channel, when it accepts connections again.
Kafka: kafka.controller.RequestSendThread, ControllerChannelManager.addNewBroker.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from barnabas.controller.controller_channel_manager import (
    OnLeaderAndIsrResponse,
    OnReachabilityChange,
    OnStopReplicaResponse,
    OnUpdateMetadataResponse,
)
from barnabas.protocol.messages.inter_broker import LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest
from barnabas.protocol.messages.message import Message
from barnabas.rpc.connection_states import ConnectionState, Node
from barnabas.rpc.peer_connection import ConnectionLost, PeerConnection
from barnabas.runtime.clock import NANOSECONDS_PER_MILLISECOND

logger = logging.getLogger(__name__)
state_logger = logging.getLogger("state.change.logger")

BACKOFF_SECONDS = 0.1
WATCH_SECONDS = 0.05
"""The time between two attempts to connect while no request waits."""
IDLE_POLL_MS = 1_000
"""The longest poll of an idle connection. An event or a request ends it at once."""
# A listener that is bound again is closed for a moment.
_REFUSALS_OF_A_DEAD_BROKER: Final = 2


class BrokerReachability:
    """Whether a broker's process still listens. Told of the channel's connections, it tells the controller of changes.

    A killed process leaves a session in the store that ends only after its timeout, but its sockets are closed at once:
    the connection is lost, and the next one is refused. A host that is down, and a link that is cut, refuse nothing;
    they are left to the session's timeout. Why this is safe: docs/decisions/0062. Owned by the channel's thread, so no
    lock. Kafka has nothing like it.

    refuses_connections: asks whether nothing listens at the broker's address.
    """

    def __init__(self, refuses_connections: Callable[[], bool], on_change: OnReachabilityChange) -> None:
        self._refuses_connections = refuses_connections
        self._on_change = on_change
        self._was_connected = False
        self._refusals = 0
        self._is_reachable = True
        self.was_unreachable = False
        """Whether the broker has refused connections at some time."""

    def on_connected(self) -> None:
        """Note a connection that can be used."""
        self._was_connected = True
        self._refusals = 0
        self._tell(is_reachable=True)

    def on_connection_lost(self) -> None:
        """Note a connection that was lost, or that could not be established. Returns within a second."""
        # Apache Kafka's brokers register before they listen: only a broker that was connected can have died.
        if self._is_reachable and self._was_connected:
            self._refusals = self._refusals + 1 if self._refuses_connections() else 0
            self._tell(is_reachable=self._refusals < _REFUSALS_OF_A_DEAD_BROKER)

    def _tell(self, *, is_reachable: bool) -> None:
        if is_reachable is not self._is_reachable:
            self._is_reachable = is_reachable
            self.was_unreachable = True
            self._on_change(is_reachable)


class _QueueItem(NamedTuple):
    request: Message
    on_response: Callable[[Any], None]
    queued_ms: int


class NetworkBrokerChannel:
    """A BrokerChannel over a PeerConnection, which the channel closes.

    socket_timeout_ms: limit of an attempt to connect (controller.socket.timeout.ms). on_taken: called on the channel's
    thread with the time each request lay in the queue (ns). on_closed: called by the thread that calls `close`.
    refuses_connections: asks whether nothing listens at the node's address; None: an idle connection is not looked at.
    """

    def __init__(
        self,
        controller_id: int,
        node: Node,
        connection: PeerConnection,
        socket_timeout_ms: int,
        *,
        on_taken: Callable[[int], None] = lambda _queue_time_ns: None,
        on_closed: Callable[[], None] = lambda: None,
        refuses_connections: Callable[[], bool] | None = None,
    ) -> None:
        self._controller_id = controller_id
        self._node = node
        self._connection = connection
        self._socket_timeout_ms = socket_timeout_ms
        self._on_taken = on_taken
        self._on_closed = on_closed
        self._queue: queue.SimpleQueue[_QueueItem | None] = queue.SimpleQueue()
        self._closed = threading.Event()
        self._refuses_connections = refuses_connections
        self._reachability: BrokerReachability | None = None
        name = f"Controller-{controller_id}-to-broker-{node.id}-send-thread"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @property
    def queue_size(self) -> int:
        """The number of requests that wait, without the one being sent."""
        return self._queue.qsize()

    def start(self, on_reachability_change: OnReachabilityChange) -> None:
        """Start the thread, which calls `on_reachability_change`."""
        if self._refuses_connections is not None:
            self._reachability = BrokerReachability(self._refuses_connections, on_reachability_change)
        self._thread.start()

    def leader_and_isr(self, request: LeaderAndIsrRequest, on_response: OnLeaderAndIsrResponse) -> None:
        """Queue the leaders of partitions that the broker hosts."""
        self._put(request, on_response)

    def update_metadata(self, request: UpdateMetadataRequest, on_response: OnUpdateMetadataResponse) -> None:
        """Queue the metadata of the cluster."""
        self._put(request, on_response)

    def stop_replica(self, request: StopReplicaRequest, on_response: OnStopReplicaResponse) -> None:
        """Queue the stop of replicas, some of which are deleted."""
        self._put(request, on_response)

    def close(self) -> None:
        """Close the channel, and wait for its thread, which gives up the request it is sending."""
        self._on_closed()
        # Before the interruption, so that the wait it ends finds the flag.
        self._closed.set()
        self._connection.interrupt()
        # The last entry: the thread runs until it finds this, then closes the connection.
        self._queue.put(None)
        if self._thread.ident is None:
            self._connection.close()
        elif threading.current_thread() is not self._thread:
            # A callback may close its own channel, and a thread cannot join itself.
            self._thread.join()

    def _put(self, request: Message, on_response: Callable[[Any], None]) -> None:
        self._queue.put(_QueueItem(request, on_response, self._connection.now_ms()))
        if self._reachability is not None:
            self._connection.wakeup()

    # -- on the channel's thread

    def _is_running(self) -> bool:
        return not self._closed.is_set()

    def _may_send(self) -> bool:
        return self._is_running() and not (self._reachability is not None and self._reachability.was_unreachable)

    def _run(self) -> None:
        try:
            while (item := self._next_item()) is not None:
                if not self._may_send():
                    continue
                self._on_taken((self._connection.now_ms() - item.queued_ms) * NANOSECONDS_PER_MILLISECOND)
                response = self._send_until_answered(item.request)
                if response is not None:
                    self._hand_over(item, response)
        finally:
            self._connection.close()

    def _next_item(self) -> _QueueItem | None:
        """Wait for the next request, None at the end; look at the connection meanwhile."""
        # `close` queues None after its wake-up: a channel that is closed waits for that entry and not for events.
        while self._reachability is not None and self._is_running():
            is_connected = self._connection.state is ConnectionState.READY
            try:
                return self._queue.get_nowait() if is_connected else self._queue.get(timeout=WATCH_SECONDS)
            except queue.Empty:
                self._watch_connection(self._reachability, IDLE_POLL_MS if is_connected else 0)
        return self._queue.get()

    def _watch_connection(self, reachability: BrokerReachability, timeout_ms: int) -> None:
        """Wait for an event for at most `timeout_ms`; then note a lost connection, and connect again."""
        self._connection.watch(timeout_ms)
        if self._connection.state is ConnectionState.DISCONNECTED:
            reachability.on_connection_lost()
        if self._connection.ready():
            reachability.on_connected()

    def _hand_over(self, item: _QueueItem, response: Message) -> None:
        try:
            item.on_response(response)
        except Exception:
            # A defect in a callback of the controller: the next request must reach the broker all the same.
            logger.exception("Controller %d failed to process an answer of broker %s", self._controller_id, self._node)

    def _send_until_answered(self, request: Message) -> Message | None:
        """Send a request until it is answered. Return the answer, or None once the channel stops sending."""
        while self._may_send():
            try:
                self._connection.await_ready(self._socket_timeout_ms)
            except (ConnectionLost, OSError) as error:
                self._back_off("Controller %d's connection to broker %s was unsuccessful: %s", error)
                continue
            if self._reachability is not None:
                self._reachability.on_connected()
            try:
                response = self._connection.exchange(request)
            except (ConnectionLost, OSError) as error:
                what = type(request).__name__
                self._back_off(f"Controller %d fails to send {what} to broker %s. Reconnecting to broker: %s", error)
                continue
            except Exception:
                # Every error is retried, as in Kafka: a request that is skipped would leave the broker behind for good.
                logger.exception("Controller %d fails to send a request to broker %s", self._controller_id, self._node)
                self._back_off("Controller %d reconnects to broker %s%s", "")
                continue
            state_logger.debug("Received response %s from broker %s", response, self._node)
            return response
        return None

    def _back_off(self, text: str, error: object) -> None:
        if self._is_running():
            logger.warning(text, self._controller_id, self._node, error)
            if self._reachability is not None:
                self._reachability.on_connection_lost()
        self._closed.wait(BACKOFF_SECONDS)
