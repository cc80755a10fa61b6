"""A request to a node, and the response to it.

Made by NetworkClient, owned by its thread; no lock. Kafka: ClientRequest, ClientResponse, AbstractRequest.Builder.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from barnabas.protocol.messages.message import Message

ResponseCallback: TypeAlias = "Callable[[ClientResponse], None]"


class UnsupportedVersion(Exception):
    """The node and this client share no version of the API (Kafka: UnsupportedVersionException)."""


class RequestBuilder(NamedTuple):
    """A way to make a request's message once the version is known that the node and the client share.

    build: called with the version. versions: the oldest and the latest one this request may be sent in.
    """

    message_class: type[Message]
    build: Callable[[int], Message]
    versions: tuple[int, int]


def fixed_message(message: Message, versions: tuple[int, int] | None = None) -> RequestBuilder:
    """Return a builder of a message that is the same in every version; by default in all versions of its class."""
    return RequestBuilder(
        type(message), lambda _version: message, versions or (message.min_version, message.max_version)
    )


class ClientRequest:
    """A request of NetworkClient, with its number on the connection and its timeout."""

    __slots__ = (
        "api_key",
        "build",
        "callback",
        "correlation_id",
        "expects_response",
        "node_id",
        "timeout_ms",
        "versions",
    )

    def __init__(
        self,
        node_id: int,
        builder: RequestBuilder,
        correlation_id: int,
        *,
        timeout_ms: int,
        expects_response: bool = True,
        callback: ResponseCallback | None = None,
    ) -> None:
        self.node_id = node_id
        self.api_key = builder.message_class.api_key
        self.build = builder.build
        self.versions = builder.versions
        self.correlation_id = correlation_id
        self.timeout_ms = timeout_ms
        self.expects_response = expects_response
        self.callback = callback


class ClientResponse:
    """A decoded `body`, or the reason why there is none.

    `body` is None for requests that expect no answer, after a disconnect (`disconnected`; with `timed_out` the client
    closed the connection because the node was too slow), and when the version did not fit (`version_error`).
    """

    __slots__ = (
        "body",
        "disconnected",
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
        self.body = body
        self.version = version
        self.disconnected = disconnected
        self.timed_out = timed_out
        self.version_error = version_error
        self.release: Callable[[], None] | None = None
        """Gives the frame back to its pool; afterwards no `records` of the body may be used. Optional to call."""

    def on_complete(self) -> None:
        """Call the request's callback, if it has one."""
        if self.request.callback is not None:
            self.request.callback(self)
