"""The login of a client on a new connection, before its first request; and later logins on it (KIP-368).

A SaslLogin makes the authenticator of each connection, and the client's side of its mechanism (SaslClient). The thread
of the connection's Selector calls both; no lock. The states, each with the answer that it waits for:

    state          we have sent                  the answer                      then
    VERSIONS       ApiVersions v0                ranges                          HANDSHAKE
    HANDSHAKE      SaslHandshake v1              the mechanism is enabled        TOKENS
    TOKENS         SaslAuthenticate              a challenge                     TOKENS, with our response
                                                 the last token                  COMPLETE

A later login on the same connection begins with SaslHandshake. An error in an answer ends the login: `SaslRejected` has
the broker's own words.

Kafka: SaslClientAuthenticator. Java: SaslClient.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from enum import Enum, auto
from itertools import count
from typing import Any, ClassVar, Final, NamedTuple, Protocol, TypeVar

from barnabas.config.secret import Secret
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import DecodeError, ErrorCode
from barnabas.protocol.headers import decode_response_header, encode_request_header, response_header_version
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.messages.message import Message
from barnabas.protocol.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from barnabas.transport.channel.authenticator import ANONYMOUS, AuthenticationFailed, Conversation

_HANDSHAKE_VERSION: Final = 1
"""From Kafka 1.0 on. The tokens of version 0 would travel without headers, and no error with them."""
LONGEST_FRAME_BYTES: Final = 1 << 20
"""The longest answer during a login: a server that is not trusted yet must not fill the client's memory."""
_SIZE = struct.Struct(">i")

M = TypeVar("M", bound=Message)


class LoginFailed(Exception):
    """The error for a server that breaks the rules of the mechanism, or cannot prove itself. It holds no secret."""


class SaslRejected(AuthenticationFailed):
    """The broker rejects the login, or cannot prove itself."""


class SaslClient(Protocol):
    """The client's side of a mechanism in one login.

    `complete`: nothing is left to send, and the server has proved itself if the mechanism asks for it.
    """

    complete: bool

    def respond(self, challenge: bytes) -> bytes | None:
        """Return the answer to a challenge, which is empty at first; None when there is nothing to say.

        Raises LoginFailed: the challenge is malformed, or proves nothing.
        """


class PasswordUser(NamedTuple):
    """A user with a password. is_token: the name is the id of a delegation token, and the password its HMAC."""

    name: str
    password: Secret
    is_token: bool = False


class SaslLogin(NamedTuple):
    """The login of a client: its mechanism, and a function that makes the client's side for each connection."""

    mechanism: str
    new_client: Callable[[], SaslClient]

    def __repr__(self) -> str:
        return f"SaslLogin({self.mechanism})"


class LoginState(Enum):
    """What a login waits for."""

    BEGIN = auto()
    VERSIONS = auto()
    HANDSHAKE = auto()
    TOKENS = auto()
    COMPLETE = auto()


class SaslClientAuthenticator:
    """One login. session_lifetime_ms: how long the broker lets the session live (KIP-368); 0 is without end."""

    def __init__(self, login: SaslLogin, client_id: str, known_version: int | None = None) -> None:
        """known_version: that of SaslAuthenticate, on a connection that was logged in before; None: on a new one."""
        self._login = login
        self._mechanism = login.mechanism
        self._sasl = login.new_client()
        self._client_id = client_id
        self._numbers = count()
        self._expected = (0, 0, 0)
        self._is_first = known_version is None
        self._authenticate_version = known_version or 0
        self.state = LoginState.BEGIN
        self.session_lifetime_ms = 0
        self.complete = False
        self.principal = ANONYMOUS
        """The server's identity is known by its certificate only, and is no principal here."""

    def authenticate(self, conversation: Conversation) -> None:
        """Go on as far as possible without waiting. Raises SaslRejected: the login has failed."""
        if self.state is LoginState.BEGIN:
            conversation.limit_frames(LONGEST_FRAME_BYTES)
            if self._is_first:
                self._send(conversation, ApiVersionsRequest(), 0, LoginState.VERSIONS)
            else:
                self._shake_hands(conversation)
        while not self.complete:
            frame = conversation.receive_frame()
            if frame is None:
                return
            try:
                self._STEPS[self.state](self, conversation, bytes(frame))
            except DecodeError as error:
                raise SaslRejected(f"The broker's answer in SASL {self._mechanism} cannot be read: {error}") from error
            except LoginFailed as error:
                raise SaslRejected(f"SASL {self._mechanism} failed: {error}") from None

    def close(self) -> None:
        """Do nothing: the mechanism's state goes with this object."""

    def renewal(self) -> SaslClientAuthenticator:
        """Return the authenticator of the next login on this connection."""
        return SaslClientAuthenticator(self._login, self._client_id, self._authenticate_version)

    # -- the steps

    def _take_versions(self, conversation: Conversation, frame: bytes) -> None:
        answer = self._decode(frame, ApiVersionsResponse)
        latest = {each.api_key: each.max_version for each in answer.api_keys}
        if answer.error_code or latest.get(ApiKey.SASL_HANDSHAKE, -1) < _HANDSHAKE_VERSION:
            raise SaslRejected("The broker has no SaslHandshake v1: it is older than Kafka 1.0, or not set up for SASL")
        self._authenticate_version = min(SaslAuthenticateRequest.max_version, latest.get(ApiKey.SASL_AUTHENTICATE, 0))
        self._shake_hands(conversation)

    def _take_handshake(self, conversation: Conversation, frame: bytes) -> None:
        answer = self._decode(frame, SaslHandshakeResponse)
        enabled = f"enabled mechanisms are [{', '.join(answer.mechanisms)}]"
        if answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            raise SaslRejected(f"Client SASL mechanism '{self._mechanism}' not enabled in the server, {enabled}")
        if answer.error_code:
            raise SaslRejected(f"Unexpected handshake request with client mechanism {self._mechanism}, {enabled}")
        self._respond(conversation, b"")

    def _take_token(self, conversation: Conversation, frame: bytes) -> None:
        answer = self._decode(frame, SaslAuthenticateResponse)
        if answer.error_code:
            raise SaslRejected(answer.error_message or f"SASL {self._mechanism}: error {answer.error_code}")
        if self._sasl.complete:
            if answer.auth_bytes:
                raise LoginFailed("the broker sent a token after the last one")
        elif self._respond(conversation, bytes(answer.auth_bytes)):
            return
        self.session_lifetime_ms = answer.session_lifetime_ms
        conversation.limit_frames(None)
        self.state = LoginState.COMPLETE
        self.complete = True

    # -- frames

    def _shake_hands(self, conversation: Conversation) -> None:
        request = SaslHandshakeRequest(mechanism=self._mechanism)
        self._send(conversation, request, _HANDSHAKE_VERSION, LoginState.HANDSHAKE)

    def _respond(self, conversation: Conversation, challenge: bytes) -> bool:
        """Send the mechanism's answer to a challenge. Returns False when it has none, and the login is over.

        Raises LoginFailed: the mechanism has no answer, and is not at its end.
        """
        token = self._sasl.respond(challenge)
        if token is not None:
            request = SaslAuthenticateRequest(auth_bytes=token)
            self._send(conversation, request, self._authenticate_version, LoginState.TOKENS)
        elif not self._sasl.complete:
            raise LoginFailed("the mechanism has no answer to the broker's token")
        return token is not None

    def _send(self, conversation: Conversation, message: Message, version: int, state: LoginState) -> None:
        number = next(self._numbers)
        out = bytearray(_SIZE.size)
        out += encode_request_header(message.api_key, version, number, self._client_id)
        pieces: list[Any] = message.encoders[version](message, out)
        _SIZE.pack_into(out, 0, sum(map(len, pieces)) - _SIZE.size)
        self._expected = (message.api_key, version, number)
        self.state = state
        conversation.send(pieces)

    def _decode(self, frame: bytes, answer_class: type[M]) -> M:
        """Decode the answer to the last request. Raises DecodeError."""
        api_key, version, number = self._expected
        correlation_id, position = decode_response_header(frame, response_header_version(api_key, version))
        if correlation_id != number:
            raise DecodeError(f"Correlation id for response ({correlation_id}) does not match request's ({number})")
        body, _ = answer_class.decode(frame, version, position)
        return body

    _STEPS: ClassVar = {
        LoginState.VERSIONS: _take_versions,
        LoginState.HANDSHAKE: _take_handshake,
        LoginState.TOKENS: _take_token,
    }
    """State -> what its answer does. Functions: bound methods would make each login a reference cycle."""
