"""The authenticator of a SASL connection: from its first frame to its login, and each later login (KIP-368).

Made for each connection by its listener; called by the thread that owns the channel, so no lock. A table leads from
state to state:

    INITIAL ─► HANDSHAKE_OR_VERSIONS ─(ApiVersions)─► HANDSHAKE ─(SaslHandshake)─► AUTHENTICATE ─► COMPLETE
                        └────────────(SaslHandshake)──────────────────────────────────►

A client may send ApiVersions, then SaslHandshake with a mechanism, then the mechanism's tokens: with SaslHandshake v1
in SaslAuthenticate requests, with v0 as bare frames (KIP-152). Any other request closes the connection. A login that
fails is answered after `connection.failed.authentication.delay.ms` (the Selector's setup does both).

A login that follows another one on the same connection (KIP-368) begins in HANDSHAKE. If it chooses another mechanism,
its next request fails it, and not the handshake itself: as in Kafka, whose clients and metrics expect that.

A client that has not logged in may send what a login needs (`api.brief`), since every other connection of the thread
waits until then: frames of LOGIN_FRAME_BYTES, and tokens of `sasl.server.max.receive.size` only once it has chosen the
mechanism that has such tokens. A longer frame closes the connection, before any of it is kept.

Kafka: SaslServerAuthenticator.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, Final, NamedTuple, NoReturn

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import DecodeError, ErrorCode
from barnabas.protocol.headers import RequestHeader, parse_request_header, response_frame
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.messages.message import Message
from barnabas.protocol.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from barnabas.runtime.clock import NANOSECONDS_PER_MILLISECOND, Clock
from barnabas.security.sasl.mechanisms import MECHANISMS
from barnabas.security.sasl.sasl_server import (
    AnswerVersions,
    Login,
    LoginRejected,
    SaslServer,
    SaslServerFactory,
    refused,
)
from barnabas.transport.channel.authenticator import (
    ANONYMOUS,
    LOGIN_FRAME_BYTES,
    AuthenticationFailed,
    Conversation,
)

logger = logging.getLogger(__name__)

LONG_TOKENS: Final = frozenset(each.name for each in MECHANISMS.values() if each.has_long_tokens)
"""The mechanisms whose tokens may be longer: those of identity providers that list a user's groups have 50 KB and
more. What can be said before a signature is checked is bounded there."""
_SIZE_BYTES: Final = 4
_NAMES_SOFTWARE_SINCE: Final = 3
_BARE: Final = -1
"""The version of tokens that come without a request around them: after SaslHandshake v0."""
_LIFETIME_SINCE: Final = 1
"""The version of SaslAuthenticate whose answer has the session's lifetime."""
_API_NAMES: Final[Mapping[int, str]] = {int(key): key.name for key in ApiKey}
_REQUEST_CLASSES: Final[Mapping[int, type[Message]]] = {
    int(request.api_key): request for request in (ApiVersionsRequest, SaslHandshakeRequest, SaslAuthenticateRequest)
}


class _SaslState(Enum):
    """What the client has to send next."""

    INITIAL = "a first request"
    HANDSHAKE_OR_VERSIONS = "SaslHandshake or ApiVersions"
    HANDSHAKE = "SaslHandshake"
    AUTHENTICATE = "a token"
    OTHER_MECHANISM = "anything: the login fails, since its mechanism is not that of the first login"
    COMPLETE = "nothing: the login has succeeded"
    FAILED = "nothing: the login has failed"


class _SaslEvent(Enum):
    """What the client has sent, as far as the state depends on it."""

    REQUEST = "a request, not a token of GSSAPI"
    VERSIONS_ANSWERED = "ApiVersions of a known version"
    MECHANISM_CHOSEN = "SaslHandshake with an enabled mechanism"
    MECHANISM_CHANGED = "SaslHandshake with another mechanism than that of the first login"
    LOGGED_IN = "the last token of the exchange"
    REJECTED = "anything that ends the login"


_TRANSITIONS: Final[Mapping[tuple[_SaslState, _SaslEvent], _SaslState]] = {
    (_SaslState.INITIAL, _SaslEvent.REQUEST): _SaslState.HANDSHAKE_OR_VERSIONS,
    (_SaslState.HANDSHAKE_OR_VERSIONS, _SaslEvent.VERSIONS_ANSWERED): _SaslState.HANDSHAKE,
    (_SaslState.HANDSHAKE_OR_VERSIONS, _SaslEvent.MECHANISM_CHOSEN): _SaslState.AUTHENTICATE,
    (_SaslState.HANDSHAKE, _SaslEvent.MECHANISM_CHOSEN): _SaslState.AUTHENTICATE,
    (_SaslState.HANDSHAKE, _SaslEvent.MECHANISM_CHANGED): _SaslState.OTHER_MECHANISM,
    (_SaslState.AUTHENTICATE, _SaslEvent.LOGGED_IN): _SaslState.COMPLETE,
    **{
        (state, _SaslEvent.REJECTED): _SaslState.FAILED
        for state in _SaslState
        if state not in (_SaslState.COMPLETE, _SaslState.FAILED)
    },
}
"""(state, event) -> the next state. A pair that is not here cannot happen."""

_ALLOWED_REQUESTS: Final[Mapping[_SaslState, frozenset[int]]] = {
    _SaslState.HANDSHAKE_OR_VERSIONS: frozenset((int(ApiKey.API_VERSIONS), int(ApiKey.SASL_HANDSHAKE))),
    _SaslState.HANDSHAKE: frozenset((int(ApiKey.SASL_HANDSHAKE),)),
    _SaslState.AUTHENTICATE: frozenset((int(ApiKey.SASL_AUTHENTICATE),)),
}
"""State -> the keys of the APIs whose requests may come."""


class ClientSoftware(NamedTuple):
    """The name and the version of the client's library, as its ApiVersions request has them."""

    name: str
    version: str


class SaslRules(NamedTuple):
    """The settings of one listener, and what all its logins share. mechanisms: name -> maker of a login's server."""

    mechanisms: Mapping[str, SaslServerFactory]
    max_receive_bytes: int
    answer_versions: AnswerVersions
    max_session_ms: Mapping[str, int]
    """Mechanism -> how long a session lasts at most (`connections.max.reauth.ms`); 0: for ever."""
    clock: Clock


class PreviousLogin(NamedTuple):
    """The first login of a connection, whose mechanism and principal a later one has to have."""

    mechanism: str
    principal: str


class SaslServerAuthenticator:
    """The authenticator (transport.authenticator.Authenticator) of one login on one connection."""

    __slots__ = (
        "_mechanism",
        "_previous",
        "_rules",
        "_server",
        "_state",
        "_tokens_version",
        "client_software",
        "complete",
        "is_token",
        "principal",
        "session_ends_ns",
        "session_lifetime_ms",
    )

    def __init__(self, rules: SaslRules, previous: PreviousLogin | None = None) -> None:
        """previous: the login that this one follows on the same connection; None: this is the first one."""
        self._rules = rules
        self._previous = previous
        self._state = _SaslState.INITIAL if previous is None else _SaslState.HANDSHAKE
        self._mechanism = ""
        self._server: SaslServer | None = None
        self._tokens_version = _BARE
        """The latest version of the SaslAuthenticate requests in which the client's tokens come."""
        self.complete = False
        self.principal = ANONYMOUS
        self.is_token = False
        """Whether the client has logged in by a delegation token: it may then not create others."""
        self.session_ends_ns: int | None = None
        """When the client has to have logged in again, by the clock's nanoseconds; None: never."""
        self.session_lifetime_ms = 0
        """How long the session lasts, as the answer says; 0: for ever, or no longer than this moment."""
        self.client_software: ClientSoftware | None = None
        """The client's software; None: it has not named it."""

    def authenticate(self, conversation: Conversation) -> None:
        """Answer the frames that are there. Raises AuthenticationFailed when the login fails."""
        if self._state is _SaslState.INITIAL or self._previous is not None:
            conversation.limit_frames(self._longest_frame)
        while not self.complete:
            frame = conversation.receive_frame()
            if frame is None:
                return
            try:
                answer = self._answer(bytes(frame))
            except AuthenticationFailed:
                self._move(_SaslEvent.REJECTED)
                raise
            if answer:
                conversation.send(answer)
            if self._mechanism in LONG_TOKENS:
                conversation.limit_frames(self._longest_frame)
        conversation.limit_frames(None)

    def close(self) -> None:
        """Drop the login's server, and with it the credential."""
        self._server = None

    def renewal(self) -> SaslServerAuthenticator:
        """Return the authenticator of the next login on this connection."""
        return SaslServerAuthenticator(self._rules, PreviousLogin(self._mechanism, self.principal))

    @property
    def can_reauthenticate(self) -> bool:
        """Whether the client knows session lifetimes, and so logs in again (SaslAuthenticate v1 and later)."""
        return self._tokens_version >= _LIFETIME_SINCE

    # -- frames

    @property
    def _longest_frame(self) -> int:
        longest = self._rules.max_receive_bytes
        has_long_tokens = self._state is _SaslState.AUTHENTICATE and self._mechanism in LONG_TOKENS
        return longest if has_long_tokens else min(longest, LOGIN_FRAME_BYTES)

    def _answer(self, frame: bytes) -> Sequence[Any]:
        if self._state is _SaslState.OTHER_MECHANISM:
            raise AuthenticationFailed(
                f"The mechanism of the re-authentication, {self._mechanism}, is not that of the first login"
            )
        if self._state is _SaslState.AUTHENTICATE and self._tokens_version == _BARE:
            token = self._evaluate(frame)
            return (len(token).to_bytes(_SIZE_BYTES, "big") + token,)
        try:
            header, offset = parse_request_header(frame)
        except DecodeError as error:
            self._reject_first_frame(f"unreadable request header of {len(frame)} bytes", error)
        name = _API_NAMES.get(header.api_key)
        if name is None:
            self._reject_first_frame(f"unknown API key {header.api_key}", None)
        if self._state is _SaslState.INITIAL:
            self._move(_SaslEvent.REQUEST)
        if header.api_key not in _ALLOWED_REQUESTS[self._state]:
            raise AuthenticationFailed(
                f"Unexpected Kafka request of type {name} during SASL "
                + ("authentication." if self._state is _SaslState.AUTHENTICATE else "handshake."),
                self._unexpected(header),
            )
        request_class = _REQUEST_CLASSES[header.api_key]
        if not request_class.min_version <= header.api_version <= request_class.max_version:
            return self._unsupported_version(header, name)
        try:
            request, _ = request_class.decoders[header.api_version](frame, offset)
        except DecodeError as error:
            raise AuthenticationFailed(f"unreadable body of {name} v{header.api_version}: {error}") from error
        if isinstance(request, ApiVersionsRequest):
            return self._versions(header, request)
        if isinstance(request, SaslHandshakeRequest):
            return self._handshake(header, request)
        return self._token(header, request)

    def _reject_first_frame(self, reason: str, cause: DecodeError | None) -> NoReturn:
        """Reject a frame that is no request; a first one may be a token of GSSAPI, of clients of Kafka 0.9.

        Raises AuthenticationFailed, always.
        """
        if self._state is _SaslState.INITIAL:
            reason = f"Exception handling first SASL packet from client, GSSAPI is not supported by server: {reason}"
        raise AuthenticationFailed(reason) from cause

    def _unexpected(self, header: RequestHeader) -> Sequence[Any]:
        """Return the answer to a request out of order: ILLEGAL_SASL_STATE, where its messages have an error."""
        if self._state is not _SaslState.AUTHENTICATE or header.api_key != ApiKey.SASL_HANDSHAKE:
            return ()
        if header.api_version not in (0, 1):
            return ()
        return response_frame(header, SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=[]))[0]

    def _unsupported_version(self, header: RequestHeader, name: str) -> Sequence[Any]:
        if header.api_key != ApiKey.API_VERSIONS:
            raise AuthenticationFailed(f"Version {header.api_version} is not supported for apiKey {name}")
        # The client asks again, with a version that the answer names (KIP-511).
        return response_frame(header, self._rules.answer_versions(None, header.api_version), 0)[0]

    # -- requests

    def _versions(self, header: RequestHeader, request: ApiVersionsRequest) -> Sequence[Any]:
        answer = self._rules.answer_versions(request, header.api_version)
        if answer.error_code == ErrorCode.NONE:
            if header.api_version >= _NAMES_SOFTWARE_SINCE:
                self.client_software = ClientSoftware(request.client_software_name, request.client_software_version)
            self._move(_SaslEvent.VERSIONS_ANSWERED)
        return response_frame(header, answer)[0]

    def _handshake(self, header: RequestHeader, request: SaslHandshakeRequest) -> Sequence[Any]:
        mechanisms = self._rules.mechanisms
        mechanism = request.mechanism
        make_server = mechanisms.get(mechanism)
        answer = SaslHandshakeResponse(error_code=ErrorCode.NONE, mechanisms=[*mechanisms])
        if make_server is None:
            answer.error_code = ErrorCode.UNSUPPORTED_SASL_MECHANISM
            shown = ascii(mechanism[:64])
            raise AuthenticationFailed(f"Unsupported SASL mechanism {shown}", response_frame(header, answer)[0])
        self._tokens_version = 0 if header.api_version >= 1 else _BARE
        self._mechanism = mechanism
        if self._previous is not None and mechanism != self._previous.mechanism:
            self._move(_SaslEvent.MECHANISM_CHANGED)
        else:
            self._server = make_server()
            self._move(_SaslEvent.MECHANISM_CHOSEN)
        return response_frame(header, answer)[0]

    def _token(self, header: RequestHeader, request: SaslAuthenticateRequest) -> Sequence[Any]:
        # A client sends several, and one of the version that knows lifetimes is enough.
        self._tokens_version = max(self._tokens_version, header.api_version)
        try:
            token = self._evaluate(bytes(request.auth_bytes))
        except AuthenticationFailed as error:
            answer = SaslAuthenticateResponse(
                error_code=ErrorCode.SASL_AUTHENTICATION_FAILED,
                error_message=self._answer_text(error),
                auth_bytes=b"",
            )
            raise AuthenticationFailed(str(error), response_frame(header, answer)[0]) from error
        return response_frame(
            header,
            SaslAuthenticateResponse(
                error_code=ErrorCode.NONE,
                error_message="",  # Kafka's, though the field may be null
                auth_bytes=token,
                session_lifetime_ms=self.session_lifetime_ms,
            ),
        )[0]

    def _evaluate(self, token: bytes) -> bytes:
        """Pass a token to the mechanism. Raises AuthenticationFailed: it rejects the login."""
        server = self._server
        if server is None:
            raise AuthenticationFailed("The connection is closed")
        try:
            answer = server.evaluate(token)
        except LoginRejected as error:
            raise AuthenticationFailed(f"SASL mechanism {self._mechanism}: {error}") from error
        login = server.login
        if login is not None:
            self._accept(login)
        return answer

    def _accept(self, login: Login) -> None:
        """Take the outcome of the exchange. Raises AuthenticationFailed: the login is another user's than before."""
        principal, previous = f"User:{login.user}", self._previous
        if previous is not None and principal != previous.principal:
            before, now = (each.replace(":", ".", 1) for each in (previous.principal, principal))
            rejected = refused(f"Cannot change principals during re-authentication from {before}: {now}")
            raise AuthenticationFailed(str(rejected)) from rejected
        lifetime_ms = self._rules.max_session_ms[self._mechanism] or None
        clock = self._rules.clock
        if login.expires_ms is not None:
            left_ms = max(login.expires_ms - clock.milliseconds(), 0)
            lifetime_ms = left_ms if lifetime_ms is None else min(left_ms, lifetime_ms)
        if lifetime_ms is not None:
            self.session_lifetime_ms = lifetime_ms
            self.session_ends_ns = clock.nanoseconds() + lifetime_ms * NANOSECONDS_PER_MILLISECOND
        self.principal = principal
        self.is_token = login.is_token
        self._move(_SaslEvent.LOGGED_IN)
        self.complete = True

    def _answer_text(self, error: AuthenticationFailed) -> str:
        """Return the answer's text, which tells neither whether the user exists nor what was wrong with the message."""
        cause = error.__cause__
        if isinstance(cause, LoginRejected) and cause.client_text is not None:
            return cause.client_text
        return (
            f"Authentication failed during {'' if self._previous is None else 're-'}authentication due to invalid "
            f"credentials with SASL mechanism {self._mechanism}"
        )

    def _move(self, event: _SaslEvent) -> None:
        self._state = _TRANSITIONS[self._state, event]
