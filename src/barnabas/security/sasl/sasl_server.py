"""The server's side of one login by one mechanism: its Protocol, its outcome and its errors.

Implemented by the mechanisms, called by SaslServerAuthenticator on the thread of the channel. Kafka: Java's SaslServer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol


class Login(NamedTuple):
    """A login that has succeeded.

    user: the principal's name. is_token: whether the client logged in by a delegation token. expires_ms: when what the
    client logged in with expires, in milliseconds since the epoch; None: never.
    """

    user: str
    is_token: bool = False
    expires_ms: int | None = None


class SaslServer(Protocol):
    """The server of one login. It is asked once for every token of the client, until it has a login or rejects one."""

    login: Login | None
    """The outcome, once the exchange is complete."""

    def evaluate(self, token: bytes) -> bytes:
        """Take the client's next token and return the answer. Raises LoginRejected."""


SaslServerFactory = Callable[[], SaslServer]
"""Makes the server of one login."""


class LoginRejected(Exception):
    """The error for a login that fails. Its text is for the log and holds no secret.

    told: what the client is told; None: only that its credentials are invalid, not whether the user exists.
    """

    def __init__(self, message: str, told: str | None = None) -> None:
        super().__init__(message)
        self.told = told


def told(message: str) -> LoginRejected:
    """Return the error for a login whose client is told the reason."""
    return LoginRejected(message, message)
