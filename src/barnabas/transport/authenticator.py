"""Finding out the peer's principal: what a channel asks before it is ready. `security` implements SASL on it.

Called by the thread that owns the channel. Kafka: Authenticator, PlaintextChannelBuilder.PlaintextAuthenticator.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

ANONYMOUS = "User:ANONYMOUS"


class Conversation(Protocol):
    """The channel's frames while it is not ready. What the peer sends behind the last one stays for the Selector."""

    def receive_frame(self) -> bytes | memoryview | None:
        """Return the next whole frame, without its size prefix; None: it has not come yet, so return and wait.

        Raises InvalidReceive for an impossible length, OSError when the connection is gone.
        """

    def send(self, frame: Sequence[Any]) -> None:
        """Send a frame, size prefix included; what the socket does not take at once leaves before anything else."""


class Authenticator(Protocol):
    """The conversation after the transport's handshake and before the first request."""

    complete: bool
    principal: str

    def authenticate(self, conversation: Conversation) -> None:
        """Go on as far as possible without waiting. Raises AuthenticationFailed when the peer is refused."""

    def close(self) -> None:
        """Forget what was learnt of the peer."""


class AuthenticationFailed(Exception):
    """The peer is not who it claims to be; its channel closes.

    Raised by an Authenticator, it closes after `connection.failed.authentication.delay.ms`, so that guessing is slow,
    and `answer`, a frame with its size prefix, is sent then (Kafka: handleAuthenticationFailure). Raised by a
    transport's handshake, it closes at once.
    """

    def __init__(self, message: str, answer: Sequence[Any] = ()) -> None:
        super().__init__(message)
        self.answer = answer


class PlaintextAuthenticator:
    """Every peer is ANONYMOUS, at once."""

    __slots__ = ("complete", "principal")

    def __init__(self) -> None:
        self.complete = True
        self.principal = ANONYMOUS

    def authenticate(self, conversation: Conversation) -> None:
        """Do nothing: there is nothing to ask."""

    def close(self) -> None:
        """Do nothing: nothing was learnt."""
