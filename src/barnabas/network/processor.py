"""A network thread: the connections given to it, their requests in, their answers out.

Owns its Selector and connections; no other thread touches them. Other threads reach it through two queues, each
followed by a wake-up: new connections (from the Acceptor) and answers (`AnswerQueue`, from the threads that answer
requests). No lock. Kafka: SocketServer.Processor, whose third queue, in-flight responses, is a list of each Connection.

**One turn** of the loop is eight verbs, always in the order of `run_once`. A client has sent two requests in one
segment, A (a Produce with acks=1) and B (a Fetch that finds nothing yet); a handler thread has just answered request X
of another connection:

    configure_new_connections   nothing new
    process_new_responses       X's answer comes out of the queue, is sent, and X's connection is read again
    poll                        the Selector receives A and B with one `recv`, and completes A's frame
    answer_waiting_requests     no client has sent a request behind one of its own that waits
    process_completed_receives  A is parsed and runs at once on this thread; its answer joins the connection's outgoing
                                bytes. B, buffered behind A, is parsed and runs: it waits in a purgatory, on no thread,
                                so the connection is muted. Now A's answer is sent.
    process_completed_sends     answers that an earlier turn could not send whole, and this turn's poll has
    process_disconnected        connections that the poll found closed
    close_excess_connections    one at most, if there are more than the quota allows

**Requests run at once.** A hand-over to a handler thread and back costs more than most requests. So a brief request
runs on this thread (`RequestIntake`, `RequestTurn`) if none waits in the RequestChannel. Its connection is muted, and
the request is counted and answered like any other; the answers of one connection leave in one write. The setting
`inline.requests.enable` turns this off.
"""

from __future__ import annotations

import logging
from queue import Empty, SimpleQueue
from threading import get_ident
from typing import TYPE_CHECKING, Final

from barnabas.api.request import ConnectionContext
from barnabas.network.connections.answer_queue import AnswerQueue
from barnabas.network.connections.channel_builders import ServedListener
from barnabas.network.connections.connection import Connection
from barnabas.network.connections.connection_quotas import ConnectionQuotas
from barnabas.network.connections.connection_table import (
    CONNECTION_QUEUE_SIZE,
    ConnectionTable,
    NewConnection,
    NewConnections,
)
from barnabas.network.connections.mute_states import NOT_MUTED
from barnabas.network.connections.request_intake import RequestIntake
from barnabas.network.requests.request_channel import RequestPath
from barnabas.network.server_thread import AbstractServerThread, FatalHandler
from barnabas.protocol.errors import InvalidRequest
from barnabas.runtime.clock import Clock
from barnabas.transport.channel.frame_reader import InvalidReceive
from barnabas.transport.channel.open_channels import SelectorCounters
from barnabas.transport.channel.transport_layer import StreamSocket, is_connection_lost
from barnabas.transport.selector import Selector

if TYPE_CHECKING:
    from mypy_extensions import i64

logger = logging.getLogger(__name__)

POLL_MS: Final = 300


class ProcessorDrain:
    """A drain that goes one way only: not begun, begun, done."""

    __slots__ = ("_done", "_retires_at_ns", "has_begun")

    def __init__(self) -> None:
        self.has_begun = False
        """Whether the Processor takes no new requests; those it has taken are still answered."""
        self._retires_at_ns = 0
        self._done: SimpleQueue[None] = SimpleQueue()

    def begin(self) -> None:
        """Take no new requests."""
        self.has_begun = True

    def begin_retirement(self, at_latest_ns: int) -> None:
        """Take no new requests, close each connection when it is answered, then end, at `at_latest_ns` in any case."""
        # In this order: the Processor reads `has_begun` first, and must then find that the drain is a retirement.
        self._retires_at_ns = at_latest_ns
        self.has_begun = True

    @property
    def is_retirement(self) -> bool:
        """Whether the Processor closes its connections and ends by itself, instead of waiting for the broker's stop."""
        return self._retires_at_ns != 0

    def is_late(self, now_ns: int) -> bool:
        """Return whether a retirement has used up its time."""
        return now_ns >= self._retires_at_ns

    def finish(self) -> None:
        """Note that every request taken has been answered."""
        self._done.put(None)

    def wait(self, timeout_seconds: float) -> bool:
        """Wait for `finish`; return False if it does not come in time."""
        try:
            self._done.get(timeout=timeout_seconds)
        except Empty:
            return False
        return True


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
        self.listener = listener
        answers: AnswerQueue[Connection] = AnswerQueue(selector.wakeup)
        self.answers = answers
        self._now = now = clock.nanoseconds
        self._selector = selector
        self._io = selector.io
        self._quotas = quotas
        self._listener_name = listener.name
        self._new_connections = NewConnections()
        make_connection, make_intake = Connection, RequestIntake
        # Only a login by SASL has an end; the connections and the intake of other listeners know none.
        if listener.security_protocol.startswith("SASL_"):
            from barnabas.network.connections.session_intake import SaslConnection, SessionIntake  # noqa: PLC0415 - see above

            make_connection, make_intake = SaslConnection, SessionIntake
        self._connections = ConnectionTable(
            listener, selector, quotas, lambda channel, context: make_connection(channel, context, answers, path, now)
        )
        self._intake = make_intake(processor_id, path, now, selector)
        self._drain = ProcessorDrain()
        self._closed = False

    # -- any thread

    def accept(self, stream_socket: StreamSocket, address: str, may_block: bool) -> bool:
        """Take over an accepted connection. Returns False if the queue is full (with `may_block`: only if stopped)."""
        while self.is_running and not self._drain.has_begun:
            # The wait is cut into slices, so that a stop ends it: the wait for a semaphore cannot be interrupted.
            if self._new_connections.put(NewConnection(stream_socket, address), POLL_MS / 1000 if may_block else 0):
                self._selector.wakeup()
                # The flag is read after the put: either `close` sees the connection, or this thread sees the close.
                if self._closed:
                    self._connections.refuse(self._new_connections.take_all())
                return True
            if not may_block:
                return False
        return False

    @property
    def counters(self) -> SelectorCounters:
        """The Selector's counters, for metrics."""
        return self._selector.counters

    @property
    def response_queue_size(self) -> int:
        """The number of responses in the queue, for metrics."""
        return len(self.answers.responses)

    @property
    def connection_count(self) -> int:
        """The number of open connections."""
        return len(self._connections)

    def connection_contexts(self) -> list[ConnectionContext]:
        """Return the contexts of all open connections, for metrics."""
        return [connection.context for connection in self._connections.all()]

    def wakeup(self) -> None:
        """Interrupt the poll of the Selector. Any thread may call it."""
        self._selector.wakeup()

    def begin_drain(self) -> None:
        """Take no new requests, and finish those that were taken."""
        self._drain.begin()
        self._selector.wakeup()

    def await_drained(self, timeout_seconds: float) -> bool:
        """Wait, after `begin_drain`, until all taken requests are answered. Returns False if some are not in time."""
        return self._drain.wait(timeout_seconds)

    def begin_retirement(self, time_ms: float) -> list[NewConnection]:
        """Take no new requests, close each connection once it is answered, and end after `time_ms` at the latest.

        Returns the connections that were accepted and not configured yet, for other Processors to take.
        """
        self._drain.begin_retirement(self._now() + int(time_ms * 1_000_000))
        withdrawn = self._new_connections.take_all()
        self._selector.wakeup()
        return withdrawn

    # -- the loop

    def run(self) -> None:
        """Take turns until `begin_shutdown`. An exception ends the turn, not the thread."""
        self.answers.thread_id = get_ident()
        self.startup_complete()
        while self.is_running:
            self.run_guarded()

    def run_guarded(self) -> None:
        """Take one turn. An exception is logged, and the next turn goes on with what this one has left."""
        try:
            self.run_once()
        except Exception:
            logger.exception("%s: error in the loop", self.name)
            # No event will report these frames and answers again: their clients would wait for ever.
            self._intake.postpone_complete(self._selector.channels)
            self._send_all_answers()

    def run_once(self) -> None:
        """Take one turn: the eight verbs, in the order that the module describes, those without work left out."""
        selector = self._selector
        if self._new_connections.waiting:
            self.configure_new_connections()
        if self.answers.responses:
            self.process_new_responses()
        self.poll()
        if selector.results.has_any:
            self.answer_waiting_requests()
        self.process_completed_receives()
        if selector.results.has_any:
            self.process_completed_sends()
            self.process_disconnected()
        self.close_excess_connections()
        if self._drain.has_begun:
            self._go_on_draining()

    def configure_new_connections(self) -> None:
        """Register at most CONNECTION_QUEUE_SIZE new connections with the Selector."""
        for _ in range(min(len(self._new_connections.waiting), CONNECTION_QUEUE_SIZE)):
            new = self._new_connections.take()
            if new is None:
                return  # withdrawn by `begin_retirement`
            try:
                connection = self._connections.open(new)
            except Exception as error:
                if is_connection_lost(error):  # every health check may end so: an ordinary event of the network
                    logger.debug("Connection from %s was lost before it was read: %s", new.address, error)
                else:
                    logger.exception("Processor %d closed connection from %s", self.processor_id, new.address)
                self._connections.refuse((new,))
            else:
                if connection.channel.ready:
                    # Its first bytes were already there, perhaps a whole login. The next poll will not report it.
                    connection.authenticated(self._selector.counters.sessions)
                if self._drain.has_begun:
                    connection.channel.mute()

    def process_new_responses(self) -> None:
        """Take the answers of other threads, and send them."""
        responses = self.answers.responses
        while responses:
            response = responses.popleft()
            connection = response.connection
            response.request.response_dequeued_ns = self._now()
            # An answer that fails closes its own connection; the answers behind it in the queue are still sent.
            try:
                connection.apply(response)
                self._send_answers(connection)
            except Exception:
                logger.exception("A response to %s could not be processed", connection)
                self._connections.close(connection)

    def poll(self) -> None:
        """Receive and send bytes; wait for some unless postponed requests or new connections have work to do."""
        selector = self._selector
        selector.poll(0 if self._intake.postponed or self._new_connections.waiting else POLL_MS)
        # The Selector reports a connection here once its authenticator has finished: only now is the principal known.
        if selector.results.has_any:
            for connection_id in selector.connected:
                channel = selector.channel(connection_id)
                if channel is not None:
                    channel.attachment.authenticated(selector.counters.sessions)

    def answer_waiting_requests(self) -> None:
        """Answer the fetches that wait for records while their clients have sent another request.

        Answers keep their order, so that request would wait as long as the fetch. (Kafka lets it wait.)
        """
        for channel in self._selector.muted_readable:
            if channel.closed or not channel.ready:
                continue
            connection: Connection = channel.attachment
            connection.is_served = True
            try:
                connection.answer_early()
                self._send_answers(connection)
            except Exception:
                logger.exception("A request of %s that waits could not be answered", connection)
                self._connections.close(connection)
            connection.is_served = False

    def process_completed_receives(self) -> None:
        """Parse each request that has arrived whole, and run it at once or queue it."""
        intake = self._intake
        if intake.staged:
            intake.queue_staged()
        work = self._selector.completed_receives
        if intake.postponed:
            work = intake.take_postponed(work)
        # While the Processor drains, frames that are complete stay in their channels and close with them.
        if not work or self._drain.has_begun:
            return
        now_ns: i64 = self._selector.polled_ns
        if self._selector.results.has_any:
            now_ns = self._now()  # something may have been done since the poll ended
        intake.turn.begin(now_ns)
        answers = self.answers
        for channel in work:
            if channel.closed:
                continue
            connection: Connection = channel.attachment
            if connection.muting != NOT_MUTED:
                continue
            connection.is_served = True
            try:
                intake.take_requests(channel, connection)
            except InvalidRequest as error:
                _log_invalid_request(connection.context, error)
                connection.close_requested = True
            except InvalidReceive as error:
                logger.warning("Closing connection %s: %s", channel.connection_id, error)
                connection.close_requested = True
            except Exception:
                logger.exception("Exception while processing a request of connection %s", channel.connection_id)
                connection.close_requested = True
            if connection.close_requested and channel.reader.release is not None:
                channel.reader.release()  # of a frame that never became a request; a second time is harmless
            connection.is_served = False
            answers.answered.append(connection)
        # The answers leave after all requests of the turn have run. The first send wakes a client that waits; a send to
        # a client that is awake already costs a third of that.
        self._send_all_answers()

    def process_completed_sends(self) -> None:
        """Account for answers whose last byte left in this turn's poll, and read their connections again."""
        for channel in self._selector.completed_sends:
            if channel.closed:
                continue
            connection: Connection = channel.attachment
            try:
                connection.answers_sent()
                if channel.memory is not None:
                    connection.account_for_memory()
                self._read_on(connection)
            except Exception:
                logger.exception("Exception while completing a send to %s", connection)
                self._connections.close(connection)

    def process_disconnected(self) -> None:
        """Forget connections that the poll found closed."""
        for connection_id in self._selector.disconnected:  # none, nearly always
            self._connections.forget(connection_id)

    def close_excess_connections(self) -> None:
        """Close the connection that has been idle longest, one a turn, while there are more than allowed."""
        if self._quotas.exceeded(self._listener_name):
            channel = self._selector.lowest_priority_channel()
            if channel is not None:
                logger.debug(
                    "Closing connection %s, the longest idle: there are more than max.connections",
                    channel.connection_id,
                )
                self._connections.close(channel.attachment)

    def close(self) -> None:
        """Close every connection and the Selector; the loop has ended, or never ran. A second call is harmless."""
        if self._closed:
            return
        # Set before the queue is emptied: `accept` puts first and reads the flag afterwards, so one of the two closes a
        # connection that arrives now.
        self._closed = True
        for connection in self._connections.all():
            self._connections.close(connection)
        self._connections.refuse(self._new_connections.take_all())
        self.answers.close()
        self._intake.close()
        self._selector.close_all()
        self._drain.finish()

    # -- parts of the verbs

    def _send_all_answers(self) -> None:
        """Send the answers that were given on this thread. A connection that fails is closed."""
        answers = self.answers
        answered, answers.answered = answers.answered, []
        for connection in answered:
            try:
                self._send_answers(connection)
            except Exception:
                logger.exception("A response to %s could not be processed", connection)
                self._connections.close(connection)

    def _send_answers(self, connection: Connection) -> None:
        """Send the answers in `channel.outgoing`; then close the connection if that was requested, or else read on."""
        channel = connection.channel
        if channel.outgoing.unsent and self._io.write(channel):
            connection.answers_sent()
        if channel.memory is not None:
            connection.account_for_memory()
        if connection.close_requested:
            if channel.outgoing.unsent:
                self._io.close_when_sent(channel)
            else:
                self._connections.close(connection)
        elif channel.muted:
            self._read_on(connection)

    def _read_on(self, connection: Connection) -> None:
        if connection.muting == NOT_MUTED and not self._drain.has_begun:
            self._io.unmute(connection.channel)

    def _go_on_draining(self) -> None:
        connections = self._connections.all()
        for connection in connections:
            connection.channel.mute()
        is_pending = bool(self._intake.staged or self.answers.responses)
        if not (is_pending or any(connection.is_answer_pending for connection in connections)):
            self._drain.finish()
        if self._drain.is_retirement:
            self._retire(connections)

    def _retire(self, connections: list[Connection]) -> None:
        for connection in connections:
            if not connection.is_answer_pending:
                self._connections.close(connection)
        is_late = self._drain.is_late(self._now())
        if is_late or not (len(self._connections) or self._intake.staged or self.answers.responses):
            if is_late:
                logger.info(
                    "%s: %d connections are closed with a request unanswered", self.name, len(self._connections)
                )
            self.begin_shutdown()


def _log_invalid_request(context: ConnectionContext, error: InvalidRequest) -> None:
    logger.warning(
        "Closing connection %s (listener %s, principal %s): invalid request: %s",
        context.connection_id,
        context.listener_name,
        context.principal,
        error,
    )
