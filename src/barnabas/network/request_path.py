"""The functions that the network layer calls for each frame: parse it, handle it, account for its end.

`RequestHandling` comes from the broker; the SocketServer makes a `RequestPath` of it for each plane, which all
Processors of the plane share. Immutable, so no lock. Kafka: RequestChannel and ApiRequestHandler, as SocketServer and
KafkaRequestHandlerPool are given them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from barnabas.api.request import ConnectionContext, Request, ResponseChannel
from barnabas.network.request_channel import RequestChannel
from barnabas.transport.transport_layer import Buffer


class Parse(Protocol):
    """The function that makes a Request of a frame: `api.request_parser.RequestParser.parse`."""

    def __call__(
        self,
        buffer: Buffer,
        connection: ConnectionContext,
        /,
        *,
        channel: ResponseChannel,
        received_ns: int,
        processor_id: int,
        release: Callable[[], None] | None,
    ) -> Request[Any]:
        """Parse one whole frame, without its size prefix. Raises InvalidRequest for a frame that is no request."""


class RequestHandling(NamedTuple):
    """The functions that the broker supplies for each request."""

    parse: Parse
    handle: Callable[[Request[Any]], None]
    """Answers a request, now or later. Called on a handler thread, or for a brief request on its Processor's thread."""
    on_complete: Callable[[Request[Any]], None] | None = None
    """Called on the Processor's thread with each request whose answer has left; all its time stamps are set."""


class RequestPath:
    """The queue and functions of one plane's requests, and whether brief requests may run at once."""

    __slots__ = ("channel", "handle", "may_run_at_once", "on_complete", "parse")

    def __init__(self, channel: RequestChannel, handling: RequestHandling, *, may_run_at_once: bool = True) -> None:
        self.channel = channel
        self.parse = handling.parse
        self.handle = handling.handle
        self.on_complete = handling.on_complete
        self.may_run_at_once = may_run_at_once
