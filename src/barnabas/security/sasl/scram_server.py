"""The server's side of SCRAM: two tokens of the client, two answers.

One object a login, on the thread of its channel; no lock. It does a few HMACs and never a PBKDF2, so a login does not
hold up its thread. Kafka: ScramSaslServer, ScramServerCallbackHandler.

As in Kafka 3.9, the nonce of the client's final message must end with the server's and may be longer: librdkafka before
2.6.1 sends its own part twice. The proof covers the nonce as it was sent. Unlike Kafka's, the server also checks that
the channel binding repeats the gs2 header (RFC 5802).
"""

from __future__ import annotations

import secrets
from binascii import b2a_base64
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from barnabas.security.sasl.sasl_server import Login, LoginRejected, MechanismSettings, ServedMechanism, refused
from barnabas.security.sasl.scram_mechanism import (
    MIN_ITERATIONS,
    SCRAM_MECHANISMS,
    ClientFinal,
    ClientFirst,
    ScramCredentials,
    ScramError,
    ScramFormatter,
    ServerFinal,
    ServerFirst,
    StoredScramCredential,
    auth_message,
)

_NONCE_BYTES: Final = 24


class _Expected(NamedTuple):
    """What the client must prove to know, and the login that it has then."""

    credential: StoredScramCredential
    login: Login


class _Begun(NamedTuple):
    """A login whose first message was answered."""

    client_first: ClientFirst
    server_first: ServerFirst
    expected: _Expected


def new_nonce() -> str:
    """Return an unpredictable nonce of printable characters."""
    return b2a_base64(secrets.token_bytes(_NONCE_BYTES), newline=False).decode()


def serve(settings: MechanismSettings) -> ServedMechanism:
    """Return SCRAM on a listener (`mechanisms`). Its users are those of the store, so the settings have none."""
    return ServedMechanism(partial(ScramServer, SCRAM_MECHANISMS[settings.mechanism], settings.parts.credentials))


class ScramServer:
    """The server of one login by SCRAM."""

    __slots__ = ("_begun", "_credentials", "_mechanism", "_new_nonce", "login")

    def __init__(
        self, mechanism: ScramFormatter, credentials: ScramCredentials, new_nonce: Callable[[], str] = new_nonce
    ) -> None:
        self._mechanism = mechanism
        self._credentials = credentials
        self._new_nonce = new_nonce
        self._begun: _Begun | None = None
        self.login: Login | None = None

    def evaluate(self, token: bytes) -> bytes:
        """Take the client's first message, then its final one. Raises LoginRejected."""
        begun, self._begun = self._begun, None  # a message that fails ends the login
        try:
            if begun is None:
                return self._begin(ClientFirst.parse(token))
            return self._finish(begun, ClientFinal.parse(token))
        except ScramError as error:
            raise LoginRejected(str(error)) from error

    def _begin(self, first: ClientFirst) -> bytes:
        expected = self._expected(first)
        if first.authorization_id not in ("", first.user):
            raise refused("Authentication failed: Client requested an authorization id that is different from username")
        salt, iterations = expected.credential.salt, expected.credential.iterations
        if iterations < MIN_ITERATIONS:
            raise LoginRejected(
                f"Iterations {iterations} is less than the minimum {MIN_ITERATIONS} for {self._mechanism.name}"
            )
        answer = ServerFirst.make(first.nonce + self._new_nonce(), salt, iterations)
        self._begun = _Begun(first, answer, expected)
        return answer.text.encode()

    def _expected(self, first: ClientFirst) -> _Expected:
        if first.is_token:
            token = self._credentials.of_token(self._mechanism, first.user)
            if token is None:
                raise LoginRejected("Token Authentication failed: Invalid tokenId")
            return _Expected(token.credential, Login(token.owner, is_token=True, expires_ms=token.expires_ms))
        credential = self._credentials.of_user(self._mechanism, first.user)
        if credential is None:
            raise LoginRejected("Authentication failed: Invalid user credentials")
        return _Expected(credential, Login(first.user))

    def _finish(self, begun: _Begun, final: ClientFinal) -> bytes:
        if not final.nonce.endswith(begun.server_first.nonce):
            raise LoginRejected("Invalid client nonce in the final client message.")
        if final.channel_binding != begun.client_first.gs2_header.encode():
            raise LoginRejected("Invalid channel binding in the final client message.")
        said = auth_message(begun.client_first, begun.server_first, final)
        if not self._mechanism.is_valid_proof(begun.expected.credential.stored_key, said, final.proof):
            raise LoginRejected("Invalid client credentials")
        self.login = begun.expected.login
        signature = self._mechanism.server_signature(begun.expected.credential.server_key, said)
        return ServerFinal(None, signature).to_bytes()
