"""A request on its way through the broker, the table line that handles it, and the channel its answer goes back by.

Made by `api.request_parser` on the Processor's thread, owned by whichever thread runs the handler, then by the
delayed operation that waits for it, then by the Processor that sends the answer. A request changes hands through
queues only, so no lock guards its fields; `_answered` alone is contended, and is a test-and-set lock.

`Request`, `Handler`, `ResponseChannel` and `Throttle` name each other, so they share this module. The network layer
implements `ResponseChannel` and `api.throttle` implements `Throttle`; this package imports nothing of the network.

Kafka: RequestChannel.Request, RequestContext.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar

from barnabas.api.brief import BRIEF_LIMIT_BYTES, NOT_BRIEF, Brief
from barnabas.api.encoded_answers import EncodedAnswer
from barnabas.api.throttled_by import THROTTLED_BY, ThrottledBy
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.decoder_source import DecoderBound
from barnabas.protocol.error_answers import error_answer
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.headers import RequestHeader, response_frame
from barnabas.protocol.message_index import MESSAGES, RequestDecoders
from barnabas.protocol.messages.message import Message
from barnabas.runtime.compiler_marks import mypyc_attr
from barnabas.runtime.locks import Lock

if TYPE_CHECKING:
    from mypy_extensions import i64

    from barnabas.quota.controller_mutation_quota import ControllerMutationQuota

logger = logging.getLogger(__name__)

M = TypeVar("M")
"""The body: a message, or `Undecoded`."""


# One object a connection, not one a request: requests of a connection differ in none of these fields.
class ConnectionContext:
    """The facts that all requests of one connection share: its client, its listener, its plane.

    Mutable only on the Processor's thread (authentication fills `principal`, ApiVersions the software name), except
    for `is_of_broker` and `has_been_refused`.
    """

    __slots__ = (
        "authenticated_by_token",
        "client_address",
        "client_software_name",
        "client_software_version",
        "connection_id",
        "from_privileged_listener",
        "has_been_refused",
        "is_of_broker",
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
        """Make the context of a new connection.

        from_privileged_listener: brokers and the controller come in there. plane: "data-plane" or "control-plane".
        """
        self.connection_id = connection_id
        self.client_address = client_address
        self.listener_name = listener_name
        self.security_protocol = security_protocol
        # Kafka's KafkaPrincipal as text: type, colon, name.
        self.principal = principal
        # Whether the client has logged in by a delegation token: such a client can get no further tokens.
        self.authenticated_by_token = False
        self.from_privileged_listener = from_privileged_listener
        # Whether the peer has shown that it is a broker (`api.origins`). Request handlers set it too: it only
        # ever becomes True.
        self.is_of_broker = False
        # Whether the log tells already that a request for brokers was refused here: one line a connection.
        self.has_been_refused = False
        self.plane = plane
        self.client_software_name = "unknown"
        self.client_software_version = "unknown"


# Apart from Request, so that the many requests without notes are smaller and cheaper to make.
class RequestNotes:
    """Facts that few requests have (Kafka: messageConversionsTimeNanos, temporaryMemoryBytes, requestLog).

    logged_body: the request's body, while the request log is on (`api.request_log`). errors: of a large answer, the
    number of each error code, counted by the thread that made it.
    """

    __slots__ = ("conversions_ns", "errors", "logged_body", "temporary_memory_bytes")

    def __init__(self) -> None:
        self.logged_body: dict[str, Any] | None = None
        self.errors: dict[int, int] | None = None
        self.conversions_ns = 0
        self.temporary_memory_bytes = 0


# A class and no Protocol: compiled code calls its methods by their places in a table, and those of a Protocol by name.
@mypyc_attr(allow_interpreted_subclasses=True)
class ResponseChannel(ABC):
    """The way of an answer to the client. Any thread may call it; each request gets exactly one of the first three
    calls."""

    __slots__ = ()

    @abstractmethod
    def send(self, request: Request[Any], frame: list[Any]) -> None:
        """Send `frame`, a whole response frame with its size prefix: bytes-like pieces and FileRecords, in order."""

    @abstractmethod
    def no_op(self, request: Request[Any]) -> None:
        """Account for a request that gets no answer (acks=0), and read on."""

    @abstractmethod
    def close(self, request: Request[Any]) -> None:
        """Close the connection instead of answering."""

    @abstractmethod
    def start_throttling(self, request: Request[Any]) -> None:
        """Keep the connection muted after the answer, until `end_throttling`."""

    @abstractmethod
    def end_throttling(self, request: Request[Any]) -> None:
        """End the throttle time: the connection may be read again."""

    @property
    @abstractmethod
    def is_abandoned(self) -> bool:
        """Whether the connection is closed, so that an answer can reach no client."""

    @abstractmethod
    def resume(self, continuation: Callable[[], None]) -> None:
        """Run `continuation` on a request handler thread, before any queued request."""

    @abstractmethod
    def when_next_arrives(self, finish: Callable[[], object]) -> None:
        """Let `finish` answer the request that waits, once the client has sent another one, which waits behind it.

        The request may also be answered before. `finish` is called on any thread, perhaps at once, or never.
        """


class Throttle(Protocol):
    """Charges requests to their clients, and mutes the connections of those that exceed a quota (`api.throttle`).

    Any thread that answers a request may call it.
    """

    def charge(self, request: Request[Any], response: Message | None) -> None:
        """Charge `request`, unless its handler did, before it is answered; None: it gets no answer."""

    def exempt(self, request: Request[Any]) -> None:
        """Count the time that a broker's request took, without charging a client for it."""

    def charge_fetch(self, request: Request[Any], size: int) -> int:
        """Charge a consumer for the request's time and for `size` bytes about to be sent; return the throttle time.

        Unless the throttle time (milliseconds) is 0, the answer must be empty and say that time.
        """

    def max_fetch_bytes(self, request: Request[Any]) -> int | None:
        """Return the most that a consumer may fetch at once; more would be throttled whatever it fetched before."""

    def mutation_quota(self, request: Request[Any], strict_since: int) -> ControllerMutationQuota:
        """Return what `request` may create and delete. From version `strict_since` on it may be refused."""

    def charge_mutations(self, request: Request[Any], quota: ControllerMutationQuota, response: Message) -> None:
        """Charge a request that changed topics, before it is answered by `response`."""


Handle: TypeAlias = Callable[["Request[Any]"], None]
ErrorAnswer: TypeAlias = Callable[["Request[Any]", ApiError], Message | None]


def described_error_answer(request: Request[Any], error: ApiError) -> Message:
    """Build the error answer that the API's messages describe (`protocol.error_answers`)."""
    return error_answer(request.body, request.api_version, error)


class Handler:
    """One line of the table of APIs: a key, its versions, the function that handles it, and marks.

    handle: answers a request, now or later, through `request.respond`. Raises ApiError to have `error_answer` sent,
    NeedsHandlerThread to be called again on a request handler's thread.
    versions: first and last; those of the message unless the handler serves fewer.
    error_answer: the answer when the whole request failed with one error, where Kafka's answer is another than the one
    the messages describe. Returns None when the client waits for no answer, which closes the connection.
    brief: which requests are decoded and may run at once on a network thread (`api.brief`).
    listed: whether ApiVersions names the API.
    """

    __slots__ = (
        "api_key",
        "brief_bytes",
        "brief_from",
        "decoders",
        "error_answer",
        "handle",
        "key",
        "listed",
        "max_version",
        "min_version",
        "throttle",
        "throttled_by",
    )

    def __init__(
        self,
        api_key: ApiKey,
        handle: Handle,
        *,
        versions: tuple[int, int] | None = None,
        error_answer: ErrorAnswer = described_error_answer,
        brief: Brief = NOT_BRIEF,
        listed: bool = True,
    ) -> None:
        self.api_key = api_key
        self.key: i64 = api_key
        """The same as a plain number, by which metrics find their table."""
        self.handle = handle
        first, last = versions or MESSAGES[api_key].versions
        self.min_version: i64 = first
        self.max_version: i64 = last
        self.error_answer = error_answer
        self.brief_from: i64 = brief.since
        self.brief_bytes: i64 = brief.limit_bytes
        self.throttled_by = THROTTLED_BY.get(api_key, ThrottledBy.REQUEST)
        self.listed = (first, last) if listed else None
        """The versions that ApiVersions names."""
        self.throttle: Throttle | None = None
        """Set, by one assignment, while a quota is in force that the API's requests are charged to."""
        # The bytes of a frame bound its elements where few bytes are decoded at once.
        self.decoders: dict[int, Callable[..., tuple[Any, int]]] = RequestDecoders(
            api_key, DecoderBound.FRAME if brief.limit_bytes <= BRIEF_LIMIT_BYTES else DecoderBound.FEW
        )
        """The body decoder of each version for frames that are decoded at once, compiled when first asked for."""

    def become(self, line: Handler) -> None:
        """Take function, error answer and mark of a line of the same API (`api.registry`); versions and quotas
        stay."""
        self.handle, self.error_answer, self.decoders = line.handle, line.error_answer, line.decoders
        # Last: from here on network threads decode the requests, and run them.
        self.brief_from, self.brief_bytes = line.brief_from, line.brief_bytes

    def redirected(self, handle: Handle, brief: Brief = NOT_BRIEF) -> Handler:
        """Return a line of the same API that leads to `handle`, outside of quotas."""
        versions = self.min_version, self.max_version
        return Handler(self.api_key, handle, versions=versions, error_answer=self.error_answer, brief=brief)


# One object for all stations of a request: a second one would be an allocation more on the way of every request.
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
        "successes",
        "throttle_time_ms",
    )

    def __init__(
        self,
        header: RequestHeader,
        body: M,
        handler: Handler,
        connection: ConnectionContext,
        channel: ResponseChannel,
        received_ns: i64,
        processor_id: i64 = 0,
        brief: bool = False,
        request_size: i64 = 0,
        release: Callable[[], None] | None = None,
    ) -> None:
        self.header = header
        self.api_version: i64 = header.api_version
        self.body: M = body
        self.handler = handler
        self.connection = connection
        self.channel = channel
        self.received_ns: i64 = received_ns
        self.processor_id: i64 = processor_id
        self.brief = brief
        self.request_size: i64 = request_size
        self.notes: RequestNotes | None = None
        """For metrics and the request log; hardly any request has notes."""
        self.response: Message | None = None
        """The answer, for metrics and the request log; None where there is none (acks=0)."""
        self.response_size: i64 = 0
        self.successes: i64 = 0
        """How many places for an error the answer has, if its handler knows that all say NONE; otherwise 0, and metrics
        look through the answer."""
        self.dequeued_ns: i64 = received_ns
        """When a handler thread took it; when it was received, if it runs at once or has not been taken."""
        self.local_complete_ns: i64 = 0
        self.response_complete_ns: i64 = 0
        self.response_dequeued_ns: i64 = 0
        self.sent_ns: i64 = 0
        self.throttle_time_ms: i64 = 0
        self.record_network_time: Callable[[int], None] | None = None
        """Set once the request is charged to its client (`api.throttle`); the Processor calls it, when the answer has
        left, with the nanoseconds that its thread spent receiving and sending."""
        self._release = release
        # A lock that is never released: a test-and-set that does not lean on the GIL.
        self._answered = Lock()

    def handed_to(self, handler: Handler) -> Request[M]:
        """Return the same request for another handler, with its frame; this object must not be answered."""
        request = Request(
            self.header,
            self.body,
            handler,
            self.connection,
            self.channel,
            self.received_ns,
            self.processor_id,
            False,
            self.request_size,
            self._release,
        )
        # Not derived from the header: of an ApiVersions request in an unknown version that says v0.
        request.api_version = self.api_version
        request.dequeued_ns = self.dequeued_ns
        request.notes = self.notes
        # The frame has one owner; released twice, its buffer would hold two connections' requests.
        self._release = None
        return request

    def respond(self, response: Message, encoded: EncodedAnswer | None = None) -> None:
        """Encode `response` for this request's version and send it. Later answers to the same request are dropped.

        encoded: the answer, encoded before; `response` then stands for it in quotas and metrics.

        An answer that cannot be encoded is a defect of its handler. The client gets UNKNOWN_SERVER_ERROR instead, so
        that it never waits for an answer that does not come.
        """
        # Test-and-set: a handler, a timer and the controller may all answer one request, and the first one wins.
        if self._answered.acquire(False):
            self.response = response
            try:
                if self.handler.throttle is not None:
                    self.handler.throttle.charge(self, response)
                body = response if encoded is None else encoded.throttled_as(response)
                frame, self.response_size = response_frame(self.header, body)
            except Exception:
                logger.exception("Cannot send the answer to %s v%d", self.handler.api_key.name, self.api_version)
                self._respond_with_error()
            else:
                self.channel.send(self, frame)

    def note_conversion(self, nanoseconds: int, memory_bytes: int) -> None:
        """Add to the time and memory that conversions of records took. Called by one thread at a time."""
        notes = self.notes
        if notes is None:
            notes = self.notes = RequestNotes()
        notes.conversions_ns += nanoseconds
        notes.temporary_memory_bytes += memory_bytes

    def no_response(self) -> None:
        """Finish a request that gets no answer (Produce with acks=0)."""
        if self._answered.acquire(False):
            throttle = self.handler.throttle
            try:
                if throttle is not None:
                    throttle.charge(self, None)
            finally:
                self.channel.no_op(self)

    def close_connection(self) -> None:
        """Close the connection: the only way to report an error to a client that waits for no answer."""
        if self._answered.acquire(False):
            self.channel.close(self)

    def fail(self, error: Exception) -> None:
        """Answer with the error that `error` means to the client, unless the request has been answered.

        An ApiError gives its code and message. Any other exception is a defect: it is logged here, and the client gets
        UNKNOWN_SERVER_ERROR. A client that waits for no answer, or whose error answer cannot be made, loses its
        connection.
        """
        if not isinstance(error, ApiError):
            logger.error(
                "handling %s v%d of client %r on connection %s failed",
                self.handler.api_key.name,
                self.api_version,
                self.header.client_id,
                self.connection.connection_id,
                exc_info=error,
            )
            error = ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
        elif error.detail != error.message:
            logger.warning(
                "%s v%d of client %r on connection %s is answered with %s",
                self.handler.api_key.name,
                self.api_version,
                self.header.client_id,
                self.connection.connection_id,
                error,
            )
        try:
            answer = self.handler.error_answer(self, error)
            if answer is None:
                self.close_connection()
            else:
                self.respond(answer)
        except Exception:
            logger.exception("Cannot make an error answer to %s; closing its connection", self.handler.api_key)
            self.close_connection()

    def deferred(self, answer: Callable[..., None]) -> Callable[..., None]:
        """Wrap `answer`, which answers this request later and elsewhere, so that its failure is answered as well.

        An exception in a handler ends in `Apis.handle`. A callback of a delayed operation, of the controller or of
        `ResponseChannel.resume` has no caller that knows the request, so each of them goes through here.
        """

        def guarded(*results: Any) -> None:
            try:
                answer(*results)
            except Exception as error:  # noqa: BLE001 - `fail` logs it
                self.fail(error)

        return guarded

    def _respond_with_error(self) -> None:
        self.successes = 0
        try:
            answer = self.handler.error_answer(self, ApiError(ErrorCode.UNKNOWN_SERVER_ERROR))
            if answer is None:
                self.channel.close(self)
                return
            self.response = answer
            frame, self.response_size = response_frame(self.header, answer)
        except Exception:
            logger.exception("The error answer cannot be sent either; closing the connection")
            self.channel.close(self)
        else:
            self.channel.send(self, frame)

    def release_buffer(self) -> None:
        """Give the frame back to its pool. The body's `records` are views of it and must not be used afterwards."""
        release = self._release
        if release is not None:
            self._release = None
            release()
