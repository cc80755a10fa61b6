"""Logins, right and wrong, as scripts that run on any broker; each has an outcome that can be compared.

Used by test_same_logins.py. The outcome of a step is what the client is told, without what is random (nonces, salts).
At its end a script asks for metadata: is the connection logged in, or closed?
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.headers import encode_request_header
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.messages.message import Message
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.protocol.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from tests.support.raw_client import CLIENT_ID, ConnectionClosed
from tests.support.sasl_exchange import SaslRawClient, ScramDialogue, plain_token

USER, PASSWORD = "alice", "alice-knows-this"
LARGEST_FRAME = 524_288
CLOSED = "closed"
T = TypeVar("T")
_ANSWERS: tuple[type[Message], ...] = (
    ApiVersionsResponse,
    MetadataResponse,
    SaslAuthenticateResponse,
    SaslHandshakeResponse,
)


class Exchange:
    """One connection of a script. outcome: one entry a step, up to the close."""

    def __init__(self, client: SaslRawClient) -> None:
        self._client = client
        self.outcome: list[object] = []

    @property
    def is_closed(self) -> bool:
        return CLOSED in self.outcome

    def call(self, request: Message, version: int) -> bytes:
        """Send a request, and note its answer; the token in it."""
        answer_class = next(each for each in _ANSWERS if each.api_key == request.api_key)
        answer = self._attempt(lambda: self._client.call(request, version, answer_class))
        if answer is None:
            return b""
        token = b""
        if isinstance(answer, SaslAuthenticateResponse):
            token = bytes(answer.auth_bytes)
            self.outcome.append((answer.error_code, answer.error_message, answer.session_lifetime_ms, bool(token)))
        elif isinstance(answer, SaslHandshakeResponse):
            self.outcome.append((answer.error_code, sorted(answer.mechanisms)))
        else:
            self.outcome.append((answer.api_key.name, getattr(answer, "error_code", 0)))
        return token

    def raw(self, frame: bytes, size: int | None = None) -> bytes:
        """Send a frame that is perhaps no request, and note whether its answer has bytes; the answer."""
        size = len(frame) if size is None else size
        self._attempt(lambda: self._client.socket.sendall(struct.pack(">i", size) + frame))
        answer = self._attempt(self._client.receive_frame)
        if answer is not None:
            self.outcome.append(("frame", bool(answer)))
        return answer or b""

    def _attempt(self, step: Callable[[], T]) -> T | None:
        if self.is_closed:
            return None
        try:
            return step()
        except (ConnectionClosed, ConnectionError):
            self.outcome.append(CLOSED)
            return None

    # -- shorthand

    def handshake(self, mechanism: str, version: int = 1) -> None:
        self.call(SaslHandshakeRequest(mechanism), version)

    def authenticate(self, token: bytes, version: int = 2) -> bytes:
        return self.call(SaslAuthenticateRequest(token), version)

    def log_in(self, mechanism: str = "PLAIN") -> None:
        self.handshake(mechanism)
        if mechanism == "PLAIN":
            self.authenticate(plain_token(USER, PASSWORD))
        else:
            dialogue = ScramDialogue(mechanism, USER, PASSWORD)
            self.authenticate(dialogue.final_message(self.authenticate(dialogue.first_message())))

    def metadata(self) -> None:
        self.call(MetadataRequest(topics=[]), 1)


Script = Callable[[Exchange], object]


def run(script: Script, client: SaslRawClient) -> list[object]:
    """Run a script on a new connection; its outcome."""
    exchange = Exchange(client)
    script(exchange)
    exchange.metadata()
    return exchange.outcome


# -- PLAIN

_PLAIN_TOKENS = {
    "right": plain_token(USER, PASSWORD),
    "wrong password": plain_token(USER, "wrong"),
    "unknown user": plain_token("dave", PASSWORD),
    "no password": plain_token(USER, ""),
    "no user": plain_token("", PASSWORD),
    "the same authorization id": plain_token(USER, PASSWORD, USER),
    "another authorization id": plain_token(USER, PASSWORD, "root"),
    "one part": b"alice",
    "two parts": b"\0alice",
    "four parts": b"\0alice\0x\0y",
    "no token": b"",
    "no text": b"\0\xff\xfe\0\xff",
}


def _plain(token: bytes, version: int, exchange: Exchange) -> None:
    exchange.handshake("PLAIN")
    exchange.authenticate(token, version)


def _plain_in_bare_frames(token: bytes, exchange: Exchange) -> None:
    exchange.handshake("PLAIN", 0)
    exchange.raw(token)


# -- SCRAM


def _scram(mechanism: str, change: Callable[[bytes], bytes], exchange: Exchange, password: str = PASSWORD) -> None:
    """A login whose last message is changed."""
    dialogue = ScramDialogue(mechanism, USER, password)
    exchange.handshake(mechanism)
    exchange.authenticate(change(dialogue.final_message(exchange.authenticate(dialogue.first_message()))))


def _scram_first(message: bytes, exchange: Exchange) -> None:
    exchange.handshake("SCRAM-SHA-256")
    exchange.authenticate(message)


def _scram_in_bare_frames(exchange: Exchange) -> None:
    dialogue = ScramDialogue("SCRAM-SHA-512", USER, PASSWORD)
    exchange.handshake("SCRAM-SHA-512", 0)
    exchange.raw(dialogue.final_message(exchange.raw(dialogue.first_message())))


_FINAL_MESSAGES: dict[str, Callable[[bytes], bytes]] = {
    "right": lambda message: message,
    "another proof": lambda message: message[:-6] + b"AAAAA=",
    "no proof": lambda message: message.partition(b",p=")[0],
    "an empty proof": lambda message: message.partition(b"p=")[0] + b"p=",
    "another nonce": lambda message: message.replace(b"r=client-nonce", b"r=server-nonce", 1),
    "no nonce": lambda message: b"c=biws,p=" + message.partition(b"p=")[2],
    "garbage": lambda _: b"garbage",
    "nothing": lambda _: b"",
    "the first message again": lambda _: b"n,,n=alice,r=client-nonce",
}
_FIRST_MESSAGES = {
    "an unknown user": b"n,,n=dave,r=nonce",
    "no nonce": b"n,,n=alice",
    "no user": b"n,,r=nonce",
    "channel binding": b"p=tls-unique,,n=alice,r=nonce",
    "the same authorization id": b"n,a=alice,n=alice,r=nonce",
    "another authorization id": b"n,a=root,n=alice,r=nonce",
    "garbage": b"garbage",
    "nothing": b"",
    "an unknown token": b"n,,n=token,r=nonce,tokenauth=true",
}


# -- requests out of order


def _unknown_version(api_key: ApiKey, version: int, body: bytes, exchange: Exchange) -> None:
    exchange.raw(encode_request_header(api_key, version, 1, CLIENT_ID) + body)


def _in_order(*steps: Callable[[Exchange], object]) -> Script:
    def script(exchange: Exchange) -> None:
        for step in steps:
            step(exchange)

    return script


_HANDSHAKE = partial(Exchange.handshake, mechanism="PLAIN")
_VERSIONS = partial(Exchange.call, request=ApiVersionsRequest("client", "1"), version=3)
_TOKEN = partial(Exchange.authenticate, token=plain_token(USER, PASSWORD))
_OTHER_USER = partial(Exchange.authenticate, token=plain_token("dave", PASSWORD))
_LOG_IN = Exchange.log_in
_SCRAM_LOG_IN = partial(Exchange.log_in, mechanism="SCRAM-SHA-256")
"""A login whose session has an end."""

SCRIPTS: dict[str, Script] = {
    **{
        f"PLAIN v{version}: {name}": partial(_plain, token, version)
        for name, token in _PLAIN_TOKENS.items()
        for version in (0, 1, 2)
    },
    **{f"PLAIN in bare frames: {name}": partial(_plain_in_bare_frames, each) for name, each in _PLAIN_TOKENS.items()},
    **{
        f"{mechanism}, final message: {name}": partial(_scram, mechanism, change)
        for name, change in _FINAL_MESSAGES.items()
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
    },
    "SCRAM, wrong password": partial(_scram, "SCRAM-SHA-512", _FINAL_MESSAGES["right"], password="wrong"),
    **{f"SCRAM, first message: {name}": partial(_scram_first, message) for name, message in _FIRST_MESSAGES.items()},
    "SCRAM in bare frames": _scram_in_bare_frames,
    "a request first": Exchange.metadata,
    "a token first": _in_order(_TOKEN),
    "ApiVersions, then a login": _in_order(_VERSIONS, _LOG_IN),
    "ApiVersions twice": _in_order(_VERSIONS, _VERSIONS),
    "ApiVersions, then a request": _in_order(_VERSIONS),
    "a request after the handshake": _in_order(_HANDSHAKE),
    "ApiVersions after the handshake": _in_order(_HANDSHAKE, _VERSIONS),
    "two handshakes": _in_order(_HANDSHAKE, _HANDSHAKE),
    "an unknown mechanism": partial(Exchange.handshake, mechanism="CRAM-MD5"),
    "GSSAPI": partial(Exchange.handshake, mechanism="GSSAPI"),
    "a mechanism in small letters": partial(Exchange.handshake, mechanism="plain", version=0),
    "no mechanism": partial(Exchange.handshake, mechanism=""),
    "ApiVersions v99": partial(_unknown_version, ApiKey.API_VERSIONS, 99, b"\0\0\0"),
    "SaslHandshake v2": partial(_unknown_version, ApiKey.SASL_HANDSHAKE, 2, b"\0\5PLAIN"),
    "SaslAuthenticate v9": _in_order(_HANDSHAKE, partial(_unknown_version, ApiKey.SASL_AUTHENTICATE, 9, b"\0\0\0")),
    "a token of GSSAPI": partial(Exchange.raw, frame=b"\x60\x82\x02\x10gssapi"),
    "an empty frame": partial(Exchange.raw, frame=b""),
    "HTTP": partial(Exchange.raw, frame=b"T / HTTP/1.1\r\n\r\n", size=0x47455420),
    "a frame above the limit": partial(Exchange.raw, frame=b"x", size=LARGEST_FRAME + 1),
    "a negative size": partial(Exchange.raw, frame=b"x", size=-1),
    "a frame above the limit after the handshake": _in_order(
        _HANDSHAKE, partial(Exchange.raw, frame=b"x", size=LARGEST_FRAME + 1)
    ),
    "a handshake after the login": _in_order(_LOG_IN, _HANDSHAKE),
    "a token after the login": _in_order(_LOG_IN, _TOKEN),
    "ApiVersions after the login": _in_order(_LOG_IN, _VERSIONS),
    "a second login": _in_order(_SCRAM_LOG_IN, _SCRAM_LOG_IN),
    "a third login at once": _in_order(
        _SCRAM_LOG_IN, _SCRAM_LOG_IN, partial(Exchange.handshake, mechanism="SCRAM-SHA-256")
    ),
    "a second login by another mechanism": _in_order(_SCRAM_LOG_IN, _HANDSHAKE, _TOKEN),
    "a second login by an unknown mechanism": _in_order(_SCRAM_LOG_IN, partial(Exchange.handshake, mechanism="X")),
    "a second login without a token": _in_order(_SCRAM_LOG_IN, partial(Exchange.handshake, mechanism="SCRAM-SHA-256")),
    "a second login by a wrong message": _in_order(
        _SCRAM_LOG_IN,
        partial(Exchange.handshake, mechanism="SCRAM-SHA-256"),
        partial(Exchange.authenticate, token=b"garbage"),
    ),
}
