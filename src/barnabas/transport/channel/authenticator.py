"""The authentication of a channel's peer before the channel is ready, and the functions that build channels.

A builder makes the transport and the authenticator of a connected socket; every Selector has one, for its security
protocol. The thread that owns the channel calls both; no lock.

Kafka: Authenticator, ChannelBuilder, PlaintextChannelBuilder.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, runtime_checkable

from barnabas.transport.channel.transport_layer import PlaintextTransportLayer, StreamSocket, TransportLayer

ANONYMOUS = "User:ANONYMOUS"
LOGIN_FRAME_BYTES: Final = 8 * 1024
"""The longest frame before and in a login. The longest one seen of a client is the first message of SCRAM by a
delegation token, with 150 bytes; a message of this size takes three milliseconds at most."""


class Conversation(Protocol):
    """The channel's frames while it is not ready. Bytes behind the last frame stay buffered for the Selector."""

    def receive_frame(self) -> bytes | memoryview | None:
        """Return the next whole frame, without its size prefix; None if it has not come yet: return and wait.

        Raises InvalidReceive for an impossible length, OSError when the connection is gone.
        """

    def limit_frames(self, max_bytes: int | None) -> None:
        """Bound the frames received from now on; None: by the bound of requests again."""

    def send(self, frame: Sequence[Any]) -> None:
        """Send a frame, size prefix included.

        Bytes that the socket does not take at once leave before anything else.
        """


class Authenticator(Protocol):
    """The conversation after the transport's handshake and before the first request."""

    complete: bool
    principal: str

    def authenticate(self, conversation: Conversation) -> None:
        """Go on as far as possible without waiting. Raises AuthenticationFailed when the peer is rejected."""

    def close(self) -> None:
        """Drop all state about the peer."""


@runtime_checkable
class RenewableAuthenticator(Authenticator, Protocol):
    """A client's login, whose session the server may end (KIP-368). Without SASL no connection has one."""

    session_lifetime_ms: int
    """How long the server lets the session live; 0 is without end."""

    def renewal(self) -> Authenticator:
        """Return the authenticator of the next login on this connection."""


class AuthenticationFailed(Exception):
    """The error for a peer that is not what it claims to be; its channel closes.

    If an Authenticator raises the error, the channel closes after `connection.failed.authentication.delay.ms`, so that
    guessing is slow, and `answer`, a frame with its size prefix, is sent then (Kafka: handleAuthenticationFailure). If
    a transport's handshake raises it, the channel closes at once.
    """

    def __init__(self, message: str, answer: Sequence[Any] = ()) -> None:
        super().__init__(message)
        self.answer = answer


class PlaintextAuthenticator:
    """The authenticator of plaintext channels: every peer is ANONYMOUS, at once."""

    __slots__ = ("complete", "principal")

    def __init__(self) -> None:
        self.complete = True
        self.principal = ANONYMOUS

    def authenticate(self, conversation: Conversation) -> None:
        """Do nothing: a plaintext peer is not authenticated."""

    def close(self) -> None:
        """Do nothing: there is no state about the peer."""


ChannelBuilder = Callable[[StreamSocket], tuple[TransportLayer, Authenticator]]
ClientChannelBuilder = Callable[[str], ChannelBuilder]
"""Returns the builder of a connection to a host, given the host's name as the client's user knows it."""


def plaintext_channel(stream_socket: StreamSocket) -> tuple[TransportLayer, Authenticator]:
    """Build a PLAINTEXT channel: no handshake, every peer is ANONYMOUS."""
    return PlaintextTransportLayer(stream_socket), PlaintextAuthenticator()
