"""A network thread: the connections given to it, their requests in, their answers out.

Owns its Selector and connections; nobody else touches them. Others reach it through two queues, each followed by a
wake-up: new connections (from the Acceptor) and responses (from whoever answers a request); the third queue of
Kafka's, in-flight responses, is a list of each Connection. Kafka: SocketServer.Processor.

**Requests run at once.** A hand-over to a handler thread and back costs more than most requests, so a brief request
is handled right here, if none waits in the queue and this turn of the loop has not lasted too long. It is muted,
counted and answered like any other; the answers of one connection leave in one write. A turn that many brief requests
have used up leaves the rest for the next turn, after new responses and ready sockets had theirs; if one request alone
was slow, what follows in this turn goes through the queue. `inline.requests.enable` turns it off.
"""

from __future__ import annotations

import contextlib
import logging
import queue
from collections import deque
from collections.abc import Callable
from threading import get_ident
from typing import Any, Final

from barnabas.api.request import ConnectionContext, Request
from barnabas.network.connection import Connection, Response, ResponseKind
from barnabas.network.connection_id import ConnectionId
from barnabas.network.connection_quotas import ConnectionQuotas
from barnabas.network.mute_states import MuteState
from barnabas.network.new_connections import CONNECTION_QUEUE_SIZE, NewConnection, NewConnections
from barnabas.network.processor_metrics import ProcessorMetrics
from barnabas.network.request_path import RequestPath
from barnabas.network.served_listener import ServedListener
from barnabas.network.server_thread import AbstractServerThread, FatalHandler
from barnabas.protocol.errors import InvalidRequest
from barnabas.runtime.clock import Clock
from barnabas.transport.frame_reader import InvalidReceive
from barnabas.transport.kafka_channel import KafkaChannel
from barnabas.transport.selector import Selector
from barnabas.transport.transport_layer import StreamSocket

logger = logging.getLogger(__name__)
_TRACE: Final = 5  # Kafka's TRACE; Python has no name for it

POLL_MS: Final = 300
_NOT_MUTED: Final = MuteState.NOT_MUTED
_PENDING: Final = MuteState.MUTED_AND_RESPONSE_PENDING
TURN_NS: Final = 1_000_000
"""What a turn of the loop may spend on requests run at once."""
SLOW_REQUEST_NS: Final = 5_000_000
"""A single request that takes this long is waiting for something: others must not wait behind it. (Being descheduled
for a time slice on a busy machine takes up to 4 ms, and proves nothing.)"""


class Processor(AbstractServerThread):
    """One of `num.network.threads` of a listener."""

    def __init__(
        self,
        processor_id: int,
        name: str,
        listener: ServedListener,
        selector: Selector,
        path: RequestPath,
        quotas: ConnectionQuotas,
        clock: Clock,
        on_fatal: FatalHandler,
    ) -> None:
        super().__init__(name, on_fatal)
        self.processor_id = processor_id
        self.now = clock.nanoseconds
        self.thread_id = -1
        self.metrics = ProcessorMetrics(selector)
        self.tracing = logger.isEnabledFor(_TRACE)
        self.responses: deque[Response] = deque()
        """Responses of other threads; they append, this thread takes."""
        self.current: Connection | None = None
        """The connection whose request is being run at once."""
        self.touched: list[Connection] = []
        """Other connections that were answered meanwhile, by what that request completed."""
        self.listener = listener
        self._listener_name = listener.name
        self._selector = selector
        self._path = path
        self._parse = path.parse
        self._handle = path.handle
        self._may_run_inline = path.inline
        self._on_complete = path.on_complete
        self._waiting_requests = path.channel.waiting_requests
        self._quotas = quotas
        self._new_connections = NewConnections()
        self._unconfigured = self._new_connections.waiting
        self._connections: dict[str, Connection] = {}
        self._staged: deque[Request[Any]] = deque()  # requests for which the queue had no room yet
        self._postponed: list[KafkaChannel] = []  # channels whose frames wait for the next turn
        # Of this turn: until when requests may be run at once, when the last one began, whether the queue takes over.
        self._turn_ends_ns = 0
        self._request_began_ns = 0
        self._queue_the_rest = False
        self._connection_index = 0
        self._draining = False
        self._retires_at_ns = 0  # 0: it has not been removed
        self._closed = False
        self._drained = queue.SimpleQueue[None]()

    # -- any thread --------------------------------------------------------------------------------------------------

    def accept(self, stream_socket: StreamSocket, address: str, may_block: bool) -> bool:
        """Take over an accepted connection from `address`; False if too many wait already and it may not block."""
        while self.is_running and not self._draining:
            # In slices, so that a stop ends the wait.
            if self._new_connections.put((stream_socket, address), POLL_MS / 1000 if may_block else 0):
                self._selector.wakeup()
                if self._closed:
                    self._close_new_connections()  # it was removed meanwhile, and will not look again
                return True
            if not may_block:
                return False
        return False

    def enqueue_response(self, response: Response) -> None:
        """Hand over a response from another thread."""
        self.responses.append(response)
        self._selector.wakeup()
        if self._closed:
            self._drop_responses()

    def take_or_enqueue(self, response: Response) -> None:
        """Apply a response without bytes: at once on this thread, unless others wait, else through the queue."""
        if self.tracing:
            self.trace(response[0], response[2])
        if get_ident() != self.thread_id or self.responses:
            self.enqueue_response(response)
            return
        connection = response[1]
        self._apply(response)
        if connection is not self.current:
            self.touched.append(connection)

    def resume(self, continuation: Callable[[], None]) -> None:
        """Run `continuation` on a request handler."""
        self._path.channel.send_callback(continuation)

    @property
    def response_queue_size(self) -> int:
        """Responses handed over and not taken yet."""
        return len(self.responses)

    @property
    def connection_count(self) -> int:
        """Open connections."""
        return len(self._connections)

    def connection_contexts(self) -> list[ConnectionContext]:
        """Who is connected now, for metrics."""
        return [connection.context for connection in list(self._connections.values())]

    def wakeup(self) -> None:
        """Interrupt the poll."""
        self._selector.wakeup()

    def begin_drain(self) -> None:
        """Take no new requests; finish those that were taken."""
        self._draining = True
        self._selector.wakeup()

    def await_drained(self, timeout_seconds: float) -> bool:
        """Wait, after `begin_drain`, until every request taken has been answered; False if some were not in time."""
        try:
            self._drained.get(timeout=timeout_seconds)
        except queue.Empty:
            return False
        return True

    def begin_retirement(self, time_ms: float) -> list[NewConnection]:
        """Take nothing new; close each connection when its request is answered; then end: in `time_ms` at the latest.

        Returns the connections that were handed over and not configured yet: others may take them.
        """
        self._retires_at_ns = self.now() + int(time_ms * 1_000_000)
        self._draining = True
        withdrawn = self._new_connections.take_all()
        self._selector.wakeup()
        return withdrawn

    # -- the loop ----------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """The loop. An ordinary exception costs a turn, never the thread."""
        self.thread_id = get_ident()
        while self.is_running:
            try:
                self.run_once()
            except Exception:
                logger.exception("%s: error in the loop", self.name)

    def run_once(self) -> None:
        """One turn."""
        self.configure_new_connections()
        self.process_new_responses()
        self.poll()
        self.process_completed_receives()
        self.process_completed_sends()
        self.process_disconnected()
        self.close_excess_connections()
        if self._draining:
            self._report_drained()

    def configure_new_connections(self) -> None:
        """Register at most CONNECTION_QUEUE_SIZE connections with the Selector."""
        if not self._unconfigured:
            return
        for _ in range(min(len(self._unconfigured), CONNECTION_QUEUE_SIZE)):
            connection = self._new_connections.take()
            if connection is None:
                return  # withdrawn meanwhile, see begin_retirement
            stream_socket, address = connection
            try:
                self._configure(stream_socket, address)
            except Exception:
                logger.exception("Processor %d closed connection from %s", self.processor_id, address)
                stream_socket.close()
                self._quotas.decrement(self._listener_name, address)

    def process_new_responses(self) -> None:
        """Take what other threads answered, and send it."""
        responses = self.responses
        while responses:
            response = responses.popleft()
            connection = response[1]
            response[2].response_dequeued_ns = self.now()
            try:
                self._apply(response)
                self._settle(connection)
            except Exception:
                logger.exception("A response to %s could not be processed", connection)
                self._close(connection)

    def poll(self) -> None:
        """Move bytes; wait for some if there is nothing else to do."""
        selector = self._selector
        selector.poll(0 if self._postponed or self._unconfigured else POLL_MS)
        if selector.connected:
            for connection_id in selector.connected:
                channel = selector.channel(connection_id)
                if channel is not None:
                    channel.attachment.context.principal = channel.principal

    def process_completed_receives(self) -> None:
        """Parse each request that has arrived whole, and run it at once or put it into the queue."""
        if self._staged:
            self._enqueue_staged()
        work = self._selector.completed_receives
        if self._postponed:
            work = self._postponed + work
            self._postponed = []
        if not work or self._draining:
            return
        self._request_began_ns = now_ns = self.now()
        self._turn_ends_ns = now_ns + TURN_NS
        self._queue_the_rest = False
        for channel in work:
            if channel.closed:
                continue
            connection: Connection = channel.attachment
            if connection.mute_state is not _NOT_MUTED:
                continue
            self.current = connection
            try:
                self._run_requests(channel, connection)
            except InvalidRequest as error:
                self._refuse(connection, error)
            except InvalidReceive as error:
                logger.warning("Closing connection %s: %s", channel.connection_id, error)
                connection.close_requested = True
            except Exception:
                logger.exception("Exception while processing a request of connection %s", channel.connection_id)
                connection.close_requested = True
            if connection.close_requested and channel.reader.release is not None:
                channel.reader.release()  # of a frame that never became a request; a second time is harmless
            self.current = None
            self.touched.append(connection)
        # Their answers leave now that all have run: the first send wakes a client that waits, and the others find it
        # awake, which costs a third.
        self._settle_touched()

    def process_completed_sends(self) -> None:
        """Account for answers whose last byte left in this turn's poll, and read on."""
        for channel in self._selector.completed_sends:
            if channel.closed:
                continue
            connection: Connection = channel.attachment
            try:
                self._finish_sent(connection)
                if channel.memory is not None:
                    connection.account_for_memory()
                self._read_on(connection)
            except Exception:
                logger.exception("Exception while completing a send to %s", connection)
                self._close(connection)

    def process_disconnected(self) -> None:
        """Forget connections that are gone."""
        for connection_id in self._selector.disconnected:  # none, nearly always
            connection = self._connections.get(connection_id)
            if connection is not None:
                self._forget(connection)

    def close_excess_connections(self) -> None:
        """Give up the connection that has been idle longest, one a turn, while there are more than allowed."""
        if self._quotas.exceeded(self._listener_name):
            channel = self._selector.lowest_priority_channel()
            if channel is not None:
                logger.debug("Closing connection %s: there are too many", channel.connection_id)
                self._close(channel.attachment)

    def close(self) -> None:
        """Close every connection and the Selector; the loop has ended, or never ran."""
        if self._closed:
            return
        self._closed = True
        for connection in list(self._connections.values()):
            self._close(connection)
        self._close_new_connections()
        self._drop_responses()
        for request in self._staged:
            request.release_buffer()
        self._selector.close_all()
        self._path.channel.remove_processor(self.processor_id)
        self._drained.put(None)

    # -- requests in -------------------------------------------------------------------------------------------------

    def _run_requests(self, channel: KafkaChannel, connection: Connection) -> None:
        """The frame that completed, and those buffered behind it, until one is not answered at once."""
        reader = channel.reader
        frame = channel.receive
        channel.receive = None
        while True:
            if frame is None:
                # Only what the last receive brought: another one would starve the other connections.
                frame = reader.next_frame() if reader.buffered else None
                if frame is None:
                    return
            received_ns = self.now()
            if received_ns > self._turn_ends_ns and not self._queue_the_rest:
                if received_ns - self._request_began_ns < SLOW_REQUEST_NS:
                    channel.receive = frame
                    self._postponed.append(channel)
                    return
                self._queue_the_rest = True
            self._request_began_ns = received_ns
            connection.mute_state = _PENDING  # mute, and REQUEST_RECEIVED
            request = self._parse(
                frame,
                connection.context,
                channel=connection,
                received_ns=received_ns,
                processor_id=self.processor_id,
                release=reader.release,
            )
            frame = None
            if self._waiting_requests or not request.brief or not self._may_run_inline or self._queue_the_rest:
                self._selector.mute(channel)
                if channel.memory is not None and reader.release is None:
                    channel.memory.request_waits(request.request_size)
                self._enqueue(request)
                return
            self.metrics.inline_requests += 1
            request.dequeued_ns = received_ns
            self._handle(request)
            if connection.mute_state is not _NOT_MUTED or connection.close_requested:
                # It waits in a purgatory, is throttled, or its peer does not read: frames behind it wait too.
                self._selector.mute(channel)
                return

    def _enqueue(self, request: Request[Any]) -> None:
        if self._staged or not self._path.channel.try_send(request, self.wakeup):
            self._staged.append(request)
        else:
            self.metrics.queued_requests += 1

    def _enqueue_staged(self) -> None:
        staged = self._staged
        while staged and self._path.channel.try_send(staged[0], self.wakeup):
            self.metrics.queued_requests += 1
            staged.popleft()

    def _refuse(self, connection: Connection, error: InvalidRequest) -> None:
        context = connection.context
        logger.warning(
            "Closing connection %s (listener %s, principal %s): invalid request: %s",
            context.connection_id,
            context.listener_name,
            context.principal,
            error,
        )
        self.metrics.invalid_requests += 1
        connection.close_requested = True

    # -- answers out -------------------------------------------------------------------------------------------------

    def _apply(self, response: Response) -> None:
        """What a response says, but for the bytes: `_settle` sends them."""
        kind, connection, request, frame = response
        if connection.channel.closed:
            if kind not in (ResponseKind.START_THROTTLING, ResponseKind.END_THROTTLING):
                connection.drop(request, frame)
        elif kind is ResponseKind.SEND:
            connection.channel.outgoing.add(frame)
            connection.inflight.append(request)
            connection.sent_event_due = True
        elif kind is ResponseKind.NO_OP:
            if request.record_network_time is not None:
                self._charge_network_time(connection, request)
            self.complete(request)
            connection.response_sent()
        elif kind is ResponseKind.CLOSE:
            self.complete(request)
            connection.close_requested = True
        elif kind is ResponseKind.START_THROTTLING:
            connection.throttling_started()
        else:
            connection.throttling_ended()

    def _settle(self, connection: Connection) -> None:
        """After answers were handed over: send them, close if that was asked for, else read on if nothing forbids."""
        channel = connection.channel
        if channel.outgoing.unsent and self._selector.write(channel):
            self._finish_sent(connection)
        if channel.memory is not None:
            connection.account_for_memory()
        if connection.close_requested:
            if channel.outgoing.unsent:
                self._selector.close_when_sent(channel)
            else:
                self._close(connection)
        elif channel.muted:
            self._read_on(connection)

    def _settle_touched(self) -> None:
        touched, self.touched = self.touched, []
        for connection in touched:
            try:
                self._settle(connection)
            except Exception:
                logger.exception("A response to %s could not be processed", connection)
                self._close(connection)

    def _finish_sent(self, connection: Connection) -> None:
        """Every byte handed over has left."""
        inflight = connection.inflight
        if not inflight:
            if connection.channel.conversed:
                return  # the authenticator's last words
            raise RuntimeError(f"Send completed on connection {connection.context.connection_id} without a response")
        now_ns = self.now()
        on_complete = self._on_complete
        for request in inflight:
            request.sent_ns = now_ns
            if request.record_network_time is not None:
                self._charge_network_time(connection, request)
            if on_complete is not None:
                on_complete(request)
        inflight.clear()
        if connection.sent_event_due:
            connection.sent_event_due = False
            connection.response_sent()

    def _charge_network_time(self, connection: Connection, request: Request[Any]) -> None:
        """Request quotas: the client pays for what this thread spent on its connection since its last answer left.

        Measuring begins with a connection's first request that is charged.
        """
        channel, record = connection.channel, request.record_network_time
        if channel.network_ns < 0:
            if not channel.closed:
                channel.measure_network_time(self.now)
        elif record is not None:
            spent_ns, channel.network_ns = channel.network_ns, 0
            record(spent_ns)

    def _read_on(self, connection: Connection) -> None:
        if connection.mute_state is MuteState.NOT_MUTED and not self._draining:
            self._selector.unmute(connection.channel)

    def complete(self, request: Request[Any]) -> None:
        """A request is over without (or in spite of) an answer's bytes."""
        request.sent_ns = self.now()
        on_complete = self._on_complete
        if on_complete is not None:
            on_complete(request)

    def trace(self, kind: ResponseKind, request: Request[Any]) -> None:
        """One line per response; only called while TRACE is on."""
        header = request.header
        logger.log(_TRACE, "%s response: API key %d, client %s", kind.value, header.api_key, header.client_id)

    # -- connections -------------------------------------------------------------------------------------------------

    def _configure(self, stream_socket: StreamSocket, address: str) -> None:
        local = stream_socket.getsockname()
        remote = stream_socket.getpeername()
        connection_id = str(ConnectionId(local[0], local[1], address, remote[1], self._connection_index))
        self._connection_index = (self._connection_index + 1) & 0x7FFFFFFF
        channel = self._selector.register(connection_id, stream_socket)
        listener = self.listener
        context = ConnectionContext(
            connection_id,
            address,
            listener.name,
            listener.security_protocol,
            channel.principal,
            from_privileged_listener=listener.privileged,
            plane=listener.plane,
        )
        connection = channel.attachment = Connection(self, channel, context)
        self._connections[connection_id] = connection
        if self._draining:
            self._selector.mute(channel)

    def _close_new_connections(self) -> None:
        """Those that came too late."""
        for stream_socket, address in self._new_connections.take_all():
            stream_socket.close()
            self._quotas.decrement(self._listener_name, address)

    def _drop_responses(self) -> None:
        """Answers that came too late: their files go back."""
        with contextlib.suppress(IndexError):
            while True:
                kind, connection, request, frame = self.responses.popleft()
                if kind not in (ResponseKind.START_THROTTLING, ResponseKind.END_THROTTLING):
                    connection.drop(request, frame)

    def _close(self, connection: Connection) -> None:
        self._selector.close(connection.context.connection_id)
        self._forget(connection)

    def _forget(self, connection: Connection) -> None:
        connection_id = connection.context.connection_id
        if self._connections.pop(connection_id, None) is None:
            return
        for request in connection.inflight:
            self.complete(request)
        connection.inflight.clear()
        connection.channel.attachment = None  # no cycle shall be left behind
        self._quotas.decrement(self._listener_name, ConnectionId.parse(connection_id).remote_host)

    def _report_drained(self) -> None:
        for connection in self._connections.values():
            self._selector.mute(connection.channel)
        if not (self._staged or self.responses or any(c.is_answer_pending for c in self._connections.values())):
            self._drained.put(None)
        if self._retires_at_ns:
            self._retire()

    def _retire(self) -> None:
        for connection in list(self._connections.values()):
            if not connection.is_answer_pending:
                self._close(connection)
        is_late = self.now() >= self._retires_at_ns
        if is_late or not (self._connections or self._staged or self.responses):
            if is_late:
                logger.info(
                    "%s: %d connections are closed with a request unanswered", self.name, len(self._connections)
                )
            self._stopping.set()
