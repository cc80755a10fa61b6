"""One client's connection as its Processor sees it, and the way back for the answers to its requests.

Implements `api.request.ResponseChannel`: those methods may be called from any thread. On the Processor's own thread an
answer is taken over at once; from any other thread it goes through the Processor's `AnswerQueue`. Everything else here
belongs to the Processor's thread; no lock.
Kafka: Processor (its in-flight responses), KafkaChannel (its ChannelMuteState), RequestChannel (sendResponse).

An answer that was taken over is in `channel.outgoing`; the Processor sends it when the turn's requests have run.
Until the answer's last byte has left, its request is in `inflight`, so that the time of sending is accounted for.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import get_ident
from typing import TYPE_CHECKING, Any, Final

from barnabas.api.request import ConnectionContext, Request, ResponseChannel
from barnabas.network.connections.answer_queue import AnswerQueue, Response, ResponseKind
from barnabas.network.connections.mute_states import (
    AFTER_RESPONSE,
    NOT_MUTED,
    RESPONSE_PENDING,
    IllegalMuteTransition,
    MuteEvent,
    MuteState,
    after,
    try_unmute,
)
from barnabas.network.requests.error_counts import COUNTED_ELSEWHERE_BYTES, note_errors
from barnabas.network.requests.request_channel import RequestPath
from barnabas.records.file_records import FileRecords
from barnabas.records.lazy_down_conversion import LazyDownConversionRecords
from barnabas.transport.channel.kafka_channel import KafkaChannel
from barnabas.transport.channel.open_channels import SessionCounters

if TYPE_CHECKING:
    from mypy_extensions import i64

_get_ident: Final = get_ident
_ANSWER_PENDING: Final = (MuteState.MUTED_AND_RESPONSE_PENDING, MuteState.MUTED_AND_THROTTLED_AND_RESPONSE_PENDING)

UNSENT_BYTES_LIMIT: Final = 64 * 1024
"""With more bytes than this unsent, an answer counts as sent only once its bytes have left. So a client that sends
requests without reading the answers is not served any further."""

EARLY_ANSWER_INTERVAL_NS: Final = 50_000_000
"""The shortest time between two answers of a connection that come early because of the next request."""


class Connection(ResponseChannel):
    """One connection, with one request in progress at a time.

    Each request ends with exactly one call of `send`, `no_op` or `close`.
    """

    __slots__ = (
        "_answered_early_ns",
        "_answers",
        "_finish",
        "_metrics",
        "_now",
        "_path",
        "channel",
        "close_requested",
        "context",
        "inflight",
        "is_served",
        "muting",
        "sent_event_due",
        "session_ends_ns",
    )

    def __init__(
        self,
        channel: KafkaChannel,
        context: ConnectionContext,
        answers: AnswerQueue[Connection],
        path: RequestPath,
        now: Callable[[], int],
    ) -> None:
        """`answers` belongs to the connection's Processor; `now`: nanoseconds."""
        self.channel = channel
        self.context = context
        self._answers = answers
        self._path = path
        self._metrics = path.metrics
        self._now = now
        self.inflight: list[Request[Any]] = []
        """Requests whose answers are in `channel.outgoing` and have not left completely."""
        self.muting: i64 = NOT_MUTED
        """The MuteState, as a plain number since each request changes it twice."""
        self.is_served = False
        """Whether a request of it is running at once. Its answer is sent when the request returns."""
        self.sent_event_due = False
        """Whether RESPONSE_SENT is still to come, when the bytes have left; otherwise it came with the answer."""
        self.close_requested = False
        """Whether the Processor is to close the connection once the answers in `channel.outgoing` have left."""
        self.session_ends_ns: i64 = 0
        """From when on only a new login is accepted, by the clock's nanoseconds; 0: the session has no end."""
        self._finish: Callable[[], object] | None = None
        self._answered_early_ns = -EARLY_ANSWER_INTERVAL_NS

    @property
    def mute_state(self) -> MuteState:
        """Why the connection is not read, if it is not."""
        return MuteState(self.muting)

    # -- ResponseChannel: any thread

    def send(self, request: Request[Any], frame: list[Any]) -> None:
        """Send `frame`, the answer to `request`. Raises IllegalMuteTransition when `request` is not in progress."""
        now_ns: i64 = self._now()
        request.response_complete_ns = now_ns
        if request.local_complete_ns == 0:
            request.local_complete_ns = now_ns
        answers = self._answers
        if answers.tracing:
            answers.trace(ResponseKind.SEND, request)
        # `answers.is_direct` and, below, `response_sent` and `answers.note_answered`, without the calls: this method
        # runs once for every request.
        if _get_ident() != answers.thread_id or answers.responses:
            if request.response_size > COUNTED_ELSEWHERE_BYTES:
                note_errors(request)
            answers.put(Response(ResponseKind.SEND, self, request, frame))
            return
        request.response_dequeued_ns = now_ns
        channel = self.channel
        if channel.closed:
            self.drop(request, frame)
            return
        outgoing = channel.outgoing
        outgoing.add(frame)
        self.inflight.append(request)
        # A small answer counts as sent at once, so that the next pipelined request runs in the same turn and all
        # answers leave in one write. If much is unsent, the client has to read first.
        if outgoing.unsent > UNSENT_BYTES_LIMIT:
            self.sent_event_due = True
        elif self.muting == RESPONSE_PENDING:
            self.muting = NOT_MUTED
        else:
            self.response_sent()
        if not self.is_served:
            answers.answered.append(self)

    def no_op(self, request: Request[Any]) -> None:
        """End `request` without an answer (acks=0), and read on."""
        self._respond_without_bytes(ResponseKind.NO_OP, request)

    def close(self, request: Request[Any]) -> None:
        """Close the connection instead of answering `request`."""
        self._respond_without_bytes(ResponseKind.CLOSE, request)

    def start_throttling(self, request: Request[Any]) -> None:
        """Keep the connection muted after the answer to `request`, until `end_throttling`."""
        self._apply_or_put(Response(ResponseKind.START_THROTTLING, self, request, []))

    def end_throttling(self, request: Request[Any]) -> None:
        """End the throttling that `request` began."""
        self._apply_or_put(Response(ResponseKind.END_THROTTLING, self, request, []))

    @property
    def is_abandoned(self) -> bool:
        """Whether the connection is closed: no answer can reach the client."""
        return self.channel.closed

    def resume(self, continuation: Callable[[], None]) -> None:
        """Run `continuation` on a request handler thread, before any queued request."""
        self._path.channel.send_callback(continuation)

    def when_next_arrives(self, finish: Callable[[], object]) -> None:
        """Have `finish` called when the client's next request arrives, or at once if it has arrived already."""
        # In this order: if a request arrives now, this thread or the Processor's sees both. Calling `finish`
        # twice, or long after the answer, is harmless.
        self._finish = finish
        channel = self.channel
        if channel.closed:
            self._finish = None  # set after `forget_answers`, or about to be cleared by it
        elif channel.readable or channel.reader.buffered:
            self.answer_early()

    def _respond_without_bytes(self, kind: ResponseKind, request: Request[Any]) -> None:
        now_ns = self._now()
        request.response_complete_ns = now_ns
        if not request.local_complete_ns:
            request.local_complete_ns = now_ns
        self._apply_or_put(Response(kind, self, request, []))

    def _apply_or_put(self, response: Response[Connection]) -> None:
        answers = self._answers
        if answers.tracing:
            answers.trace(response.kind, response.request)
        if not answers.is_direct():
            answers.put(response)
            return
        self.apply(response)
        answers.note_answered(self)

    def answer_early(self) -> None:
        """Have the request answered that waits, because the next one waits behind it.

        Not more often than every EARLY_ANSWER_INTERVAL_NS: a client that always has two fetches under way would
        otherwise get nothing but empty answers, as fast as it can ask.
        """
        finish, now_ns = self._finish, self._now()
        if finish is not None and now_ns - self._answered_early_ns >= EARLY_ANSWER_INTERVAL_NS:
            self._finish, self._answered_early_ns = None, now_ns
            finish()

    # -- the Processor's thread: answers out

    def apply(self, response: Response[Connection]) -> None:
        """Apply a response. Its bytes are not sent here, but by `Processor._send_answers`.

        Raises IllegalMuteTransition for a response that the connection's state does not allow.
        """
        kind, request = response.kind, response.request
        if self.channel.closed:
            response.drop()
        elif kind is ResponseKind.SEND:
            self.channel.outgoing.add(response.frame)
            self.inflight.append(request)
            # Unlike in `send`, the event waits for the bytes: the Processor writes them next, and no request of this
            # turn waits behind the answer.
            self.sent_event_due = True
        elif kind is ResponseKind.NO_OP:
            self._charge_network_time(request)
            self.complete(request)
            self.response_sent()
        elif kind is ResponseKind.CLOSE:
            self.complete(request)
            self.close_requested = True
        elif kind is ResponseKind.START_THROTTLING:
            self.muting = after(self.mute_state, MuteEvent.THROTTLE_STARTED)
        else:
            self.muting = try_unmute(after(self.mute_state, MuteEvent.THROTTLE_ENDED))

    def answers_sent(self) -> None:
        """Account for the requests whose answers were handed over: every byte of them has left.

        Raises RuntimeError when no answer was being sent, IllegalMuteTransition when none was due.
        """
        inflight = self.inflight
        if not inflight:
            if self.channel.conversed:
                return  # the bytes were the authenticator's last frame
            raise RuntimeError(f"Send completed on connection {self.context.connection_id} without a response")
        now_ns: i64 = self._now()
        metrics = self._metrics
        for request in inflight:
            request.sent_ns = now_ns
            if request.record_network_time is not None:
                self._charge_network_time(request)
            metrics.record(request)
        inflight.clear()
        if self.sent_event_due:
            self.sent_event_due = False
            self.response_sent()

    def response_sent(self) -> None:
        """Apply the event RESPONSE_SENT and try to unmute. Raises IllegalMuteTransition when no answer was due."""
        state = AFTER_RESPONSE[self.muting]
        if state is None:
            raise IllegalMuteTransition(f"RESPONSE_SENT in state {self.mute_state.name}")
        self.muting = state

    def complete(self, request: Request[Any]) -> None:
        """End a request whose answer has no bytes, or whose answer is dropped."""
        request.sent_ns = self._now()
        self._metrics.record(request)

    def drop(self, request: Request[Any], frame: list[Any]) -> None:
        """Release the answer's files and end its request: the connection is gone."""
        for piece in frame:
            if isinstance(piece, FileRecords | LazyDownConversionRecords):
                piece.release()
        self.complete(request)

    def _charge_network_time(self, request: Request[Any]) -> None:
        """Charge a client with a request quota for this thread's time on its connection since the last answer.

        Measuring begins with the connection's first request that is charged.
        """
        # Kafka measures every connection (RequestChannel.Request.recordNetworkThreadTimeCallback). Here a connection
        # without such a quota pays for no clock read.
        channel, record = self.channel, request.record_network_time
        if record is None:
            return
        if channel.network_ns >= 0:
            spent_ns, channel.network_ns = channel.network_ns, 0
            record(spent_ns)
        elif not channel.closed:
            channel.measure_network_time()

    # -- the Processor's thread: the connection

    def authenticated(self, sessions: SessionCounters) -> None:
        """Note who the client is: its authenticator has finished."""
        if self.inflight and not self.channel.outgoing.unsent:
            self.answers_sent()  # they left with the answers of a re-authentication
        self.context.principal = self.channel.authenticator.principal

    def account_for_memory(self) -> None:
        """Charge the memory pool for the bytes that the connection holds now.

        Without effect where memory is not limited.
        """
        memory = self.channel.memory
        if memory is not None:
            if self.mute_state not in _ANSWER_PENDING:
                memory.request_bytes = 0
            memory.update()

    def forget_answers(self) -> None:
        """End the requests whose answers have not left, because the connection is closed.

        `_finish` refers to the request that waits, and so to this connection: no cycle shall be left.
        """
        self._finish = None
        for request in self.inflight:
            self.complete(request)
        self.inflight.clear()

    @property
    def is_answer_pending(self) -> bool:
        """Whether a request is being handled, or its answer has not left."""
        return bool(self.channel.outgoing.unsent or self.mute_state in _ANSWER_PENDING)

    def __repr__(self) -> str:
        return f"Connection({self.context.connection_id}, {self.mute_state.name})"
