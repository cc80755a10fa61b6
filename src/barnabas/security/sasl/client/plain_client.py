"""PLAIN (RFC 4616), the client's side: user name and password in one message, so only TLS keeps them secret.

Called as the SaslClient of a connection; no lock. Kafka's clients use the JDK's.
"""

from __future__ import annotations

from barnabas.config.secret import Secret
from barnabas.security.sasl.client.client_authenticator import LoginFailed, PasswordUser, SaslLogin


def login(mechanism: str, user: PasswordUser) -> SaslLogin:
    """Return the login of a user (`mechanisms`)."""
    return SaslLogin(mechanism, lambda: PlainClient(user.name, user.password))


class PlainClient:
    """One login by PLAIN."""

    def __init__(self, username: str, password: Secret) -> None:
        self._username = username
        self._password = password
        self.complete = False

    def respond(self, challenge: bytes) -> bytes | None:
        """Return the one message of the mechanism. Raises LoginFailed: the server sends a challenge."""
        if challenge:
            raise LoginFailed("PLAIN has no challenge, and the server sent one")
        self.complete = True
        return f"\0{self._username}\0{self._password.reveal()}".encode()
