"""The client's side of one mechanism, as a Protocol: it answers the server's challenges in one login.

Made by a login for each connection; called by the thread of the connection's Selector; no lock. Java: SaslClient.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol


class LoginFailed(Exception):
    """The error for a server that breaks the rules of the mechanism, or cannot prove itself. It holds no secret."""


class SaslClient(Protocol):
    """One login. `complete`: nothing is left to send, and the server has proved itself if the mechanism asks for it."""

    complete: bool

    def respond(self, challenge: bytes) -> bytes | None:
        """Return the answer to a challenge, which is empty at first; None when there is nothing to say.

        Raises LoginFailed: the challenge is malformed, or proves nothing.
        """


class SaslLogin(NamedTuple):
    """The login of a client: its mechanism, and a function that makes the client's side for each connection."""

    mechanism: str
    new_client: Callable[[], SaslClient]

    def __repr__(self) -> str:
        return f"SaslLogin({self.mechanism})"
