"""Logins for tests: SCRAM's client side, and a client of one connection that logs in request by request."""

from __future__ import annotations

import ssl
import struct
import time
from collections.abc import Callable

from barnabas.clients.admin import ScramMechanism
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from barnabas.security.sasl.scram_mechanism import SCRAM_MECHANISMS, ScramCredential, ScramFormatter, TokenCredential
from barnabas.security.sasl.scram_messages import ClientFinal, ClientFirst, ServerFinal, ServerFirst, auth_message
from tests.support.barnabas_process import BarnabasProcess
from tests.support.raw_client import SECONDS, RawClient
from tests.support.server_process import ServerProcess


def plain_token(user: str, password: str, authorization_id: str = "") -> bytes:
    """The one token of PLAIN."""
    return f"{authorization_id}\0{user}\0{password}".encode()


class ScramDialogue:
    """The client's side of SCRAM. Its parts can be changed between the messages, to send wrong ones."""

    def __init__(
        self, mechanism: str, user: str, password: str, nonce: str = "client-nonce", *, is_token: bool = False
    ) -> None:
        """is_token: the user is the id of a delegation token, the password its HMAC in base64."""
        self.mechanism = SCRAM_MECHANISMS[mechanism]
        self.password = password
        self.first = ClientFirst.make(user, nonce, {"tokenauth": "true"} if is_token else None)
        self.server_first: ServerFirst | None = None
        self.said = b""

    def first_message(self) -> bytes:
        return self.first.to_bytes()

    def final_message(self, answer: bytes, nonce: Callable[[str], str] = str) -> bytes:
        """nonce: makes the one that is sent of the server's first message's."""
        self.server_first = server = ServerFirst.parse(answer)
        final = ClientFinal.without_proof(self.first.gs2_header, nonce(server.nonce))
        self.said = auth_message(self.first, server, final)
        return final.to_bytes(self.mechanism.client_proof(self._salted(server), self.said))

    def is_servers(self, answer: bytes) -> bool:
        """Whether the server has proved that it knows the credential."""
        server = self.server_first
        assert server is not None
        key = self.mechanism.server_key(self._salted(server))
        return ServerFinal.parse(answer).signature == self.mechanism.server_signature(key, self.said)

    def _salted(self, server: ServerFirst) -> bytes:
        return self.mechanism.salted_password(self.password, server.salt, server.iterations)


class SaslRawClient(RawClient):
    """A RawClient that can log in."""

    def handshake(self, mechanism: str, version: int = 1) -> SaslHandshakeResponse:
        return self.call(SaslHandshakeRequest(mechanism), version, SaslHandshakeResponse)

    def authenticate(self, token: bytes, version: int = 2) -> SaslAuthenticateResponse:
        return self.call(SaslAuthenticateRequest(token), version, SaslAuthenticateResponse)

    def send_raw(self, token: bytes) -> None:
        """Send a frame that is no request: a token after SaslHandshake v0."""
        self.socket.sendall(struct.pack(">i", len(token)) + token)

    def log_in(
        self, user: str, password: str, mechanism: str = "PLAIN", *, is_token: bool = False
    ) -> SaslAuthenticateResponse:
        """Log in, by a token if it is one; the last answer, which may be an error."""
        assert self.handshake(mechanism).error_code == 0
        if mechanism == "PLAIN":
            return self.authenticate(plain_token(user, password))
        dialogue = ScramDialogue(mechanism, user, password, is_token=is_token)
        answer = self.authenticate(dialogue.first_message())
        if answer.error_code:
            return answer
        answer = self.authenticate(dialogue.final_message(bytes(answer.auth_bytes)))
        assert answer.error_code or dialogue.is_servers(bytes(answer.auth_bytes))
        return answer


class SaslTlsRawClient(SaslRawClient):
    """A SaslRawClient whose TLS handshake is done. Raises ssl.SSLError where the peers do not agree."""

    def __init__(self, server: ServerProcess, port: int, context: ssl.SSLContext) -> None:
        super().__init__(server, address=(server.host, port))
        try:
            self.socket: ssl.SSLSocket = context.wrap_socket(self.socket, server_hostname="localhost")
        except BaseException:
            self.socket.close()
            raise


PASSWORD = "alice-secret"
JAAS = (
    f'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="{PASSWORD}" user_bob="{PASSWORD}";'
)
CREDENTIALS = {name: ScramCredential.of_password(each, PASSWORD) for name, each in SCRAM_MECHANISMS.items()}


class Credentials:
    def of_user(self, mechanism: ScramFormatter, user: str) -> ScramCredential | None:
        return CREDENTIALS[mechanism.name] if user == "alice" else None

    def of_token(self, mechanism: ScramFormatter, token_id: str) -> TokenCredential | None:
        return TokenCredential("carol", CREDENTIALS[mechanism.name], 10**13) if token_id == "token-1" else None


def versions(request: ApiVersionsRequest | None, version: int) -> ApiVersionsResponse:
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION if request is None else 0, api_keys=[])


MECHANISMS = (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)


def await_login(
    server: BarnabasProcess, name: str, password: str, mechanism: ScramMechanism, expected: ErrorCode
) -> None:
    """Log in, again and again, until the outcome is as expected: a change is in force a moment after its answer."""
    deadline = time.monotonic() + 2 * SECONDS
    while True:
        with SaslRawClient(server, address=(server.host, server.ports["SASL"])) as connected:
            code = connected.log_in(name, password, mechanism.name.replace("_", "-")).error_code
        if code == expected:
            return
        assert time.monotonic() < deadline, f"the login is answered {code}, not {expected.name}"
        time.sleep(0.01)
