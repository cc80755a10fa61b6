"""A request on its way through the broker, and the channel its answer goes back by.

Made by `api.request_parser` on the Processor's thread, owned by whichever thread runs the handler, then by the
delayed operation that waits for it, then by the Processor that sends the answer. It changes hands through queues
only, so no lock guards its fields; `_answered` alone is contended, and is a test-and-set lock.

Kafka: RequestChannel.Request, RequestContext. The network layer implements `ResponseChannel`, so this package
imports nothing of it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from barnabas.api.encoded_answers import EncodedAnswer
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.headers import RequestHeader, response_frame
from barnabas.protocol.messages.message import Message

if TYPE_CHECKING:
    from barnabas.api.registry import Handler

logger = logging.getLogger(__name__)

M = TypeVar("M", bound=Message)


class ConnectionContext:
    """What every request of one connection shares: who is at the other end, and through which door it came.

    Mutable only on the Processor's thread (authentication fills `principal`, ApiVersions the software name).
    """

    __slots__ = (
        "client_address",
        "client_software_name",
        "client_software_version",
        "connection_id",
        "from_privileged_listener",
        "listener_name",
        "plane",
        "principal",
        "security_protocol",
    )

    def __init__(
        self,
        connection_id: str,
        client_address: str,
        listener_name: str,
        security_protocol: str,
        principal: str = "User:ANONYMOUS",
        *,
        from_privileged_listener: bool = False,
        plane: str = "data-plane",
    ) -> None:
        """`from_privileged_listener`: brokers and the controller come in there. `plane`: or "control-plane"."""
        self.connection_id = connection_id
        self.client_address = client_address
        self.listener_name = listener_name
        self.security_protocol = security_protocol
        self.principal = principal
        self.from_privileged_listener = from_privileged_listener
        self.plane = plane
        self.client_software_name = "unknown"
        self.client_software_version = "unknown"


class WorksLong(Exception):
    """Raised by a brief API's handler that finds much work in a request, before it has begun: a handler thread shall
    do it, not the network thread. `Apis.handle` sees to that; the request comes again with `brief` unset."""


class RequestNotes:
    """What few requests have (Kafka: messageConversionsTimeNanos, temporaryMemoryBytes, requestLog).

    logged_body: what was asked, while the request log is on (`api.request_log`).
    """

    __slots__ = ("conversions_ns", "logged_body", "temporary_memory_bytes")

    def __init__(self) -> None:
        self.logged_body: dict[str, Any] | None = None
        self.conversions_ns = 0
        self.temporary_memory_bytes = 0


class ResponseChannel(Protocol):
    """The way back. Each call may come from any thread; exactly one of the first three per request."""

    def send(self, request: Request[Any], frame: Sequence[Any]) -> None:
        """Send `frame`, a whole response frame with its size prefix: bytes-like pieces and FileRecords, in order."""

    def no_op(self, request: Request[Any]) -> None:
        """There is no answer (acks=0): account for the request and read on."""

    def close(self, request: Request[Any]) -> None:
        """Close the connection instead of answering."""

    def start_throttling(self, request: Request[Any]) -> None:
        """Keep the connection muted after the answer, until `end_throttling`."""

    def end_throttling(self, request: Request[Any]) -> None:
        """The throttle time is over: the connection may be read again."""

    def resume(self, continuation: Callable[[], None]) -> None:
        """Run `continuation` on a request handler thread, before any queued request."""


class Request(Generic[M]):
    """One request: header, decoded body, origin, time stamps (nanoseconds of the injected clock, 0 = not yet).

    The stamps follow Kafka's RequestChannel.Request: received -> dequeued -> local complete -> response complete
    (handed to the channel) -> response dequeued -> sent.
    """

    __slots__ = (
        "_answered",
        "_release",
        "api_version",
        "body",
        "brief",
        "channel",
        "connection",
        "dequeued_ns",
        "handler",
        "header",
        "local_complete_ns",
        "notes",
        "processor_id",
        "received_ns",
        "record_network_time",
        "request_size",
        "response",
        "response_complete_ns",
        "response_dequeued_ns",
        "response_size",
        "sent_ns",
        "throttle_time_ms",
    )

    def __init__(
        self,
        header: RequestHeader,
        body: M,
        handler: Handler,
        connection: ConnectionContext,
        channel: ResponseChannel,
        *,
        received_ns: int,
        processor_id: int = 0,
        brief: bool = False,
        request_size: int = 0,
        release: Callable[[], None] | None = None,
    ) -> None:
        self.header = header
        self.api_version = header.api_version
        self.body: M = body
        self.handler = handler
        self.connection = connection
        self.channel = channel
        self.received_ns = received_ns
        self.processor_id = processor_id
        self.brief = brief
        self.request_size = request_size
        self.notes: RequestNotes | None = None
        """For metrics and the request log; hardly a request has any."""
        self.response: Message | None = None
        """The answer, for metrics and the request log; None where there is none (acks=0)."""
        self.response_size = 0
        self.dequeued_ns = 0
        self.local_complete_ns = 0
        self.response_complete_ns = 0
        self.response_dequeued_ns = 0
        self.sent_ns = 0
        self.throttle_time_ms = 0
        self.record_network_time: Callable[[int], None] | None = None
        """Set once the request is charged to its client (`api.throttle`); the Processor calls it, when the answer has
        left, with the nanoseconds that its thread spent receiving and sending."""
        self._release = release
        self._answered = threading.Lock()

    def handed_to(self, handler: Handler) -> Request[M]:
        """The same request for another handler, with its frame: of this one nothing is left, and nobody answers it."""
        request = Request(
            self.header,
            self.body,
            handler,
            self.connection,
            self.channel,
            received_ns=self.received_ns,
            processor_id=self.processor_id,
            request_size=self.request_size,
            release=self._release,
        )
        request.api_version = self.api_version
        request.dequeued_ns = self.dequeued_ns
        request.notes = self.notes
        self._release = None
        return request

    def respond(self, response: Message, encoded: EncodedAnswer | None = None) -> None:
        """Encode `response` for this request's version and send it. Later answers to the same request are dropped.

        encoded: the answer, encoded before; `response` then stands for it in quotas and metrics.
        An answer that cannot be encoded is a defect of its handler: the client gets UNKNOWN_SERVER_ERROR instead, on
        whichever thread this is, so that it never waits for an answer that does not come.
        """
        if self._answered.acquire(blocking=False):
            self.response = response
            try:
                throttle = self.handler.throttle
                if throttle is not None:
                    throttle.charge(self, response)
                body = response if encoded is None else encoded.throttled_as(response)
                frame, self.response_size = response_frame(self.header, body)
            except Exception:
                logger.exception("an answer to %s v%d cannot be sent", self.handler.api_key.name, self.api_version)
                self._respond_with_error()
            else:
                self.channel.send(self, frame)

    def note_conversion(self, nanoseconds: int, memory_bytes: int) -> None:
        """Records were converted for it, between formats or codecs. One thread at a time."""
        notes = self.notes
        if notes is None:
            notes = self.notes = RequestNotes()
        notes.conversions_ns += nanoseconds
        notes.temporary_memory_bytes += memory_bytes

    def no_response(self) -> None:
        """The request gets no answer (Produce with acks=0)."""
        if self._answered.acquire(blocking=False):
            throttle = self.handler.throttle
            try:
                if throttle is not None:
                    throttle.charge(self, None)
            finally:
                self.channel.no_op(self)

    def close_connection(self) -> None:
        """The only way to report an error to a client that waits for no answer: close its connection."""
        if self._answered.acquire(blocking=False):
            self.channel.close(self)

    def fail(self, error: Exception) -> None:
        """Answer with what `error` means to the client, unless it has been answered: the end of every failure.

        ApiError: its code and message. Everything else is a defect, logged here and UNKNOWN_SERVER_ERROR to the client.
        A client that waits for no answer, or whose error answer cannot be made, loses its connection.
        """
        if isinstance(error, ApiError):
            code, message = error.code, error.message
        else:
            logger.error(
                "handling %s v%d of client %r on connection %s failed",
                self.handler.api_key.name,
                self.api_version,
                self.header.client_id,
                self.connection.connection_id,
                exc_info=error,
            )
            code, message = ErrorCode.UNKNOWN_SERVER_ERROR, str(error)
        try:
            answer = self.handler.error_response(self, code, message)
            if answer is None:
                self.close_connection()
            else:
                self.respond(answer)
        except Exception:
            logger.exception("no error answer could be made for %s; closing its connection", self.handler.api_key)
            self.close_connection()

    def deferred(self, answer: Callable[..., None]) -> Callable[..., None]:
        """`answer`, which answers this request later and elsewhere, made so that its failure is answered as well.

        What a handler raises ends in `Apis.handle`; what runs when a delayed operation completes, or as a continuation
        on another thread, has nobody above it who knows whose request it was. Whatever is handed to a purgatory, to
        the controller or to `ResponseChannel.resume` goes through here.
        """

        def guarded(*results: Any) -> None:
            try:
                answer(*results)
            except Exception as error:  # noqa: BLE001 - `fail` logs it
                self.fail(error)

        return guarded

    def _respond_with_error(self) -> None:
        try:
            error = self.handler.error_response(self, ErrorCode.UNKNOWN_SERVER_ERROR, None)
            if error is None:
                self.channel.close(self)
                return
            self.response = error
            frame, self.response_size = response_frame(self.header, error)
        except Exception:
            logger.exception("nor can its error answer; closing the connection")
            self.channel.close(self)
        else:
            self.channel.send(self, frame)

    def release_buffer(self) -> None:
        """Give the frame back to its pool. The body's `records` are views of it and must not be used afterwards."""
        release = self._release
        if release is not None:
            self._release = None
            release()
