"""One client's connection as its Processor sees it, and the way back for the answers to its requests.

Implements `api.request.ResponseChannel`: those methods may be called from any thread. On the Processor's own thread
(a request run at once, or another's delayed operation completed by it) an answer is taken at once; from any other it
goes through the Processor's response queue. Everything else here belongs to the Processor's thread; no lock.
Kafka: the in-flight responses of Processor, ChannelMuteState of KafkaChannel, RequestChannel.sendResponse.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from enum import Enum
from threading import get_ident
from typing import TYPE_CHECKING, Any, Final

from barnabas.api.request import ConnectionContext, Request
from barnabas.network.mute_states import (
    AFTER_RESPONSE,
    IllegalMuteTransition,
    MuteEvent,
    MuteState,
    after,
    try_unmute,
)
from barnabas.records.file_records import FileRecords
from barnabas.records.lazy_down_conversion import LazyDownConversionRecords
from barnabas.transport.kafka_channel import KafkaChannel

if TYPE_CHECKING:
    from barnabas.network.processor import Processor

logger = logging.getLogger(__name__)

_NOT_MUTED: Final = MuteState.NOT_MUTED
_PENDING: Final = MuteState.MUTED_AND_RESPONSE_PENDING
_ANSWER_PENDING: Final = (_PENDING, MuteState.MUTED_AND_THROTTLED_AND_RESPONSE_PENDING)

UNSENT_BYTES_LIMIT: Final = 64 * 1024
"""With more than this unsent, an answer counts as sent only once its bytes have left: a peer that asks without
reading is not served any further."""


class ResponseKind(Enum):
    """What a handler may say to its Processor about a request."""

    SEND = "Sending"
    NO_OP = "Not sending"
    CLOSE = "Closing connection instead of sending"
    START_THROTTLING = "Throttling has started for"
    END_THROTTLING = "Throttling has ended for"


Response = tuple[ResponseKind, "Connection", Request[Any], Sequence[Any]]


class Connection:
    """Exactly one of `send`, `no_op`, `close` per request; one request in progress at a time."""

    __slots__ = (
        "_now",
        "_processor",
        "channel",
        "close_requested",
        "context",
        "inflight",
        "mute_state",
        "sent_event_due",
    )

    def __init__(self, processor: Processor, channel: KafkaChannel, context: ConnectionContext) -> None:
        self._processor = processor
        self._now = processor.now
        self.channel = channel
        self.context = context
        self.inflight: list[Request[Any]] = []
        """Requests whose answers were handed over and have not left completely."""
        self.mute_state = MuteState.NOT_MUTED
        self.sent_event_due = False
        """RESPONSE_SENT follows when the bytes have left; otherwise it came with the answer."""
        self.close_requested = False

    # -- ResponseChannel: any thread ---------------------------------------------------------------------------------

    def send(self, request: Request[Any], frame: Sequence[Any]) -> None:
        """See ResponseChannel."""
        now_ns = self._now()
        request.response_complete_ns = now_ns
        if not request.local_complete_ns:
            request.local_complete_ns = now_ns
        processor = self._processor
        if processor.tracing:
            processor.trace(ResponseKind.SEND, request)
        # What waits in the response queue came before this, so it may not be overtaken.
        if get_ident() != processor.thread_id or processor.responses:
            processor.enqueue_response((ResponseKind.SEND, self, request, frame))
            return
        request.response_dequeued_ns = now_ns
        channel = self.channel
        if channel.closed:
            self.drop(request, frame)
            return
        outgoing = channel.outgoing
        outgoing.add(frame)
        self.inflight.append(request)
        if outgoing.unsent > UNSENT_BYTES_LIMIT:
            self.sent_event_due = True
        elif self.mute_state is _PENDING:
            self.mute_state = _NOT_MUTED  # as `response_sent` would have it, without the call
        else:
            self.response_sent()
        if processor.current is not self:
            processor.touched.append(self)

    def no_op(self, request: Request[Any]) -> None:
        """See ResponseChannel."""
        self._respond_without_bytes(ResponseKind.NO_OP, request)

    def close(self, request: Request[Any]) -> None:
        """See ResponseChannel."""
        self._respond_without_bytes(ResponseKind.CLOSE, request)

    def start_throttling(self, request: Request[Any]) -> None:
        """See ResponseChannel."""
        self._processor.take_or_enqueue((ResponseKind.START_THROTTLING, self, request, ()))

    def end_throttling(self, request: Request[Any]) -> None:
        """See ResponseChannel."""
        self._processor.take_or_enqueue((ResponseKind.END_THROTTLING, self, request, ()))

    def resume(self, continuation: Callable[[], None]) -> None:
        """See ResponseChannel."""
        self._processor.resume(continuation)

    def _respond_without_bytes(self, kind: ResponseKind, request: Request[Any]) -> None:
        now_ns = self._now()
        request.response_complete_ns = now_ns
        if not request.local_complete_ns:
            request.local_complete_ns = now_ns
        self._processor.take_or_enqueue((kind, self, request, ()))

    # -- the Processor's thread --------------------------------------------------------------------------------------

    def response_sent(self) -> None:
        """The event RESPONSE_SENT, and the attempt to unmute. Raises IllegalMuteTransition."""
        state = AFTER_RESPONSE[self.mute_state]
        if state is None:
            raise IllegalMuteTransition(f"RESPONSE_SENT in state {self.mute_state.name}")
        self.mute_state = state

    def throttling_started(self) -> None:
        """The event THROTTLE_STARTED."""
        self.mute_state = after(self.mute_state, MuteEvent.THROTTLE_STARTED)

    def throttling_ended(self) -> None:
        """The event THROTTLE_ENDED, and the attempt to unmute."""
        self.mute_state = try_unmute(after(self.mute_state, MuteEvent.THROTTLE_ENDED))

    def account_for_memory(self) -> None:
        """Charge what the connection keeps now to the pool; only where memory is limited."""
        memory = self.channel.memory
        if memory is not None:
            if self.mute_state not in _ANSWER_PENDING:
                memory.request_bytes = 0
            memory.update()

    def drop(self, request: Request[Any], frame: Sequence[Any]) -> None:
        """The connection is gone: give the answer's files back, account for the request."""
        for piece in frame:
            if isinstance(piece, FileRecords | LazyDownConversionRecords):
                piece.release()
        self._processor.complete(request)

    @property
    def is_answer_pending(self) -> bool:
        """A request is being handled, or its answer has not left."""
        return bool(self.channel.outgoing.unsent or self.mute_state in _ANSWER_PENDING)

    def __repr__(self) -> str:
        return f"Connection({self.context.connection_id}, {self.mute_state.name})"
