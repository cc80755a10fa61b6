"""What the network layer is given to do with a frame: parse it, handle it, tell of its end.

Made by the SocketServer, shared by its Processors; immutable, so no lock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from barnabas.api.request import ConnectionContext, Request, ResponseChannel
from barnabas.network.request_channel import RequestChannel
from barnabas.transport.transport_layer import Buffer


class Parse(Protocol):
    """Makes a Request of a frame; raises InvalidRequest (see `api.request_parser.RequestParser.parse`)."""

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
        """Parse one whole frame, without its size prefix."""


class RequestPath:
    """Where a plane's requests go: and whether brief ones may run at once."""

    __slots__ = ("channel", "handle", "inline", "on_complete", "parse")

    def __init__(
        self,
        channel: RequestChannel,
        parse: Parse,
        handle: Callable[[Request[Any]], None],
        *,
        inline: bool = True,
        on_complete: Callable[[Request[Any]], None] | None = None,
    ) -> None:
        """`on_complete` gets every request whose answer has left, on its Processor's thread, with all time stamps."""
        self.channel = channel
        self.parse = parse
        self.handle = handle
        self.inline = inline
        self.on_complete = on_complete
