"""A request on its way to a node, and what came of it (Kafka: ClientRequest, ClientResponse). Owned by one client."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from barnabas.protocol.messages.message import Message

ResponseCallback: TypeAlias = "Callable[[ClientResponse], None]"
MessageBuilder: TypeAlias = Callable[[int], Message]
"""Makes the body once the version is known."""


class UnsupportedVersion(Exception):
    """The node and this client share no version of the API (Kafka: UnsupportedVersionException)."""


class ClientRequest:
    """What is to be sent. `versions` are the oldest and latest this request may be sent in."""

    __slots__ = (
        "api_key",
        "build",
        "callback",
        "correlation_id",
        "created_ms",
        "expects_response",
        "message_class",
        "node_id",
        "timeout_ms",
        "versions",
    )

    def __init__(
        self,
        node_id: int,
        message_class: type[Message],
        build: MessageBuilder,
        versions: tuple[int, int],
        correlation_id: int,
        created_ms: int,
        *,
        timeout_ms: int,
        expects_response: bool = True,
        callback: ResponseCallback | None = None,
    ) -> None:
        self.node_id = node_id
        self.message_class = message_class
        self.api_key = message_class.api_key
        self.build = build
        self.versions = versions
        self.correlation_id = correlation_id
        self.created_ms = created_ms
        self.timeout_ms = timeout_ms
        self.expects_response = expects_response
        self.callback = callback


class ClientResponse:
    """What came back: a decoded `body`, or the reason why there is none.

    `body` is None for requests that expect no answer, after a disconnect (`disconnected`; with `timed_out` the node
    was too slow and we hung up), and when the version did not fit (`version_error`).
    """

    __slots__ = (
        "body",
        "disconnected",
        "latency_ms",
        "received_ms",
        "release",
        "request",
        "timed_out",
        "version",
        "version_error",
    )

    def __init__(
        self,
        request: ClientRequest,
        received_ms: int,
        *,
        body: Message | None = None,
        version: int = -1,
        disconnected: bool = False,
        timed_out: bool = False,
        version_error: UnsupportedVersion | None = None,
    ) -> None:
        self.request = request
        self.received_ms = received_ms
        self.latency_ms = max(received_ms - request.created_ms, 0)
        self.body = body
        self.version = version
        self.disconnected = disconnected
        self.timed_out = timed_out
        self.version_error = version_error
        self.release: Callable[[], None] | None = None
        """Gives the frame back to its pool, after which no `records` of the body may be used. Optional to call."""

    def on_complete(self) -> None:
        """Tell whoever sent the request."""
        if self.request.callback is not None:
            self.request.callback(self)
