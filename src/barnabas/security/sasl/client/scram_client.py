"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802), the client's side: neither side shows the password to the other.

A login's thread is the one of the connection's Selector. The credentials of a client are shared by its threads: the
salted password of the last salt is replaced by one assignment, so no lock guards it. Kafka: ScramSaslClient.

    us      n,,n=alice,r=<our nonce>
    server  r=<our nonce><its nonce>,s=<salt>,i=<iterations>     both nonces: no message of another login fits
    us      c=biws,r=<both nonces>,p=<proof>                     PBKDF2 here: milliseconds, once for a salt
    server  v=<signature>                                        proves that the server has our credential
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from barnabas.config.secret import Secret
from barnabas.security.sasl.client.client_authenticator import LoginFailed, PasswordUser, SaslLogin
from barnabas.security.sasl.scram_mechanism import (
    MIN_ITERATIONS,
    SCRAM_MECHANISMS,
    ClientFinal,
    ClientFirst,
    ScramError,
    ScramFormatter,
    ServerFinal,
    ServerFirst,
    auth_message,
)

LONGEST_ITERATIONS: Final = 1_000_000
"""The most iterations that a server may ask for: half a second of work. Kafka's brokers store at most 16,384."""
TOKEN_EXTENSIONS: Final = {"tokenauth": "true"}
"""The extension by which a client logs in with a delegation token: its id is the user, its HMAC the password."""


def login(mechanism: str, user: PasswordUser) -> SaslLogin:
    """Return the login of a user (`mechanisms`)."""
    extensions = TOKEN_EXTENSIONS if user.is_token else None
    # One for all connections: it keeps the salted password, whose computation takes milliseconds.
    credentials = ScramLogin(SCRAM_MECHANISMS[mechanism], user.name, user.password, extensions)
    return SaslLogin(mechanism, lambda: ScramClient(credentials))


def new_nonce() -> str:
    """Return a nonce of 192 random bits."""
    return secrets.token_urlsafe(24)


class _Salted(NamedTuple):
    salt: bytes
    iterations: int
    password: bytes

    def __repr__(self) -> str:
        return "_Salted(hidden)"


class ScramLogin:
    """The user name and password of a client, with the salted password of the last login."""

    def __init__(
        self,
        mechanism: ScramFormatter,
        username: str,
        password: Secret,
        extensions: Mapping[str, str] | None = None,
    ) -> None:
        self.mechanism = mechanism
        self.username = username
        self.extensions = extensions or {}
        self._password = password
        self._last: _Salted | None = None

    def salted_password(self, salt: bytes, iterations: int) -> bytes:
        """Return SaltedPassword; as a rule that of the last login, since a user's salt stays the same."""
        last = self._last
        if last is None or last.salt != salt or last.iterations != iterations:
            password = self.mechanism.salted_password(self._password.reveal(), salt, iterations)
            self._last = last = _Salted(salt, iterations, password)
        return last.password


class ScramClient:
    """One login by SCRAM."""

    def __init__(self, credentials: ScramLogin, nonce: Callable[[], str] = new_nonce) -> None:
        self._credentials = credentials
        self._first = ClientFirst.make(credentials.username, nonce(), credentials.extensions)
        self._signature: bytes | None = None
        self._received = 0
        self.complete = False

    def respond(self, challenge: bytes) -> bytes | None:
        """Return the next message; None after the server's last. Raises LoginFailed: the server's message is wrong."""
        self._received += 1
        try:
            if self._received == 1:
                return self._begin(challenge)
            if self._received == 2:
                return self._prove(challenge)
            self._verify(challenge)
            return None
        except ScramError as error:
            raise LoginFailed(str(error)) from None

    def _begin(self, challenge: bytes) -> bytes:
        if challenge:
            raise LoginFailed("Expected empty challenge")
        return self._first.to_bytes()

    def _prove(self, challenge: bytes) -> bytes:
        first = ServerFirst.parse(challenge)
        if not first.nonce.startswith(self._first.nonce) or first.nonce == self._first.nonce:
            raise LoginFailed("Invalid server nonce: it does not start with the client's, or adds nothing to it")
        if not MIN_ITERATIONS <= first.iterations <= LONGEST_ITERATIONS:
            raise LoginFailed(
                f"Requested iterations {first.iterations} are not between {MIN_ITERATIONS} and {LONGEST_ITERATIONS}"
            )
        credentials = self._credentials
        mechanism = credentials.mechanism
        final = ClientFinal.without_proof(self._first.gs2_header, first.nonce)
        message = auth_message(self._first, first, final)
        salted = credentials.salted_password(first.salt, first.iterations)
        self._signature = mechanism.server_signature(mechanism.server_key(salted), message)
        return final.to_bytes(mechanism.client_proof(salted, message))

    def _verify(self, challenge: bytes) -> None:
        final = ServerFinal.parse(challenge)
        if final.error is not None:
            raise LoginFailed(f"The server rejects the login: {final.error}")
        if self._signature is None or not hmac.compare_digest(final.signature, self._signature):
            raise LoginFailed("Invalid server signature: the server does not have this user's credential")
        self.complete = True
