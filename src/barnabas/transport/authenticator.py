"""Who is at the other end: what a channel asks before it is ready. `security` implements SASL on it.

Called by the thread that owns the channel. Kafka: Authenticator, PlaintextChannelBuilder.PlaintextAuthenticator.
"""

from __future__ import annotations

from typing import Protocol

ANONYMOUS = "User:ANONYMOUS"


class Authenticator(Protocol):
    """The conversation after the transport's handshake and before the first request."""

    complete: bool
    principal: str

    def authenticate(self) -> None:
        """Go on as far as possible without waiting; raises AuthenticationFailed when the peer is refused."""

    def close(self) -> None:
        """Forget what was learnt of the peer."""


class AuthenticationFailed(Exception):
    """The peer is not who it claims to be; its channel closes."""


class PlaintextAuthenticator:
    """Everybody is ANONYMOUS, at once."""

    __slots__ = ("complete", "principal")

    def __init__(self) -> None:
        self.complete = True
        self.principal = ANONYMOUS

    def authenticate(self) -> None:
        """Nothing to ask."""

    def close(self) -> None:
        """Nothing to forget."""
