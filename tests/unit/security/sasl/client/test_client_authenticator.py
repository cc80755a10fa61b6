"""The login of a client, against a broker that is played by hand; its SCRAM by the example of RFC 7677."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from barnabas.config.secret import Secret
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.headers import parse_request_header, response_frame
from barnabas.protocol.message_index import request_class
from barnabas.protocol.messages.api_versions import ApiVersionsResponse
from barnabas.protocol.messages.message import Message
from barnabas.protocol.messages.sasl import SaslAuthenticateResponse, SaslHandshakeResponse
from barnabas.security.sasl.client.client_authenticator import (
    LONGEST_FRAME_BYTES,
    LoginFailed,
    LoginState,
    SaslClientAuthenticator,
    SaslLogin,
    SaslRejected,
)
from barnabas.security.sasl.client.oauthbearer_client import OAuthBearerClient
from barnabas.security.sasl.client.plain_client import PlainClient
from barnabas.security.sasl.client.scram_client import TOKEN_EXTENSIONS, ScramClient, ScramLogin
from barnabas.security.sasl.scram_mechanism import SCRAM_SHA_256, ClientFirst

PASSWORD = "pencil"
NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
CLIENT_FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def scram() -> ScramClient:
    return ScramClient(ScramLogin(SCRAM_SHA_256, "user", Secret(PASSWORD)), lambda: NONCE)


def plain() -> PlainClient:
    return PlainClient("alice", Secret(PASSWORD))


class Broker:
    """A Conversation whose other end a test plays: `answer` takes the request that was sent last."""

    def __init__(self, login: SaslLogin, authenticator: SaslClientAuthenticator | None = None) -> None:
        self.authenticator = authenticator or SaslClientAuthenticator(login, "client-1")
        self._frames: list[bytes] = []
        self._sent: list[bytes] = []
        self.limits: list[int | None] = []
        self.authenticator.authenticate(self)

    def receive_frame(self) -> bytes | None:
        return self._frames.pop(0) if self._frames else None

    def limit_frames(self, max_bytes: int | None) -> None:
        self.limits.append(max_bytes)

    def send(self, frame: Sequence[Any]) -> None:
        self._sent.append(b"".join(map(bytes, frame)))

    def answer(self, message: Message) -> Message:
        """Answer the request; returns it."""
        (frame,) = self._sent
        self._sent.clear()
        assert int.from_bytes(frame[:4], "big") == len(frame) - 4
        header, position = parse_request_header(frame[4:])
        assert header.client_id == "client-1"
        request, _ = request_class(header.api_key).decode(frame[4:], header.api_version, position)
        pieces, _ = response_frame(header, message)
        self._frames.append(b"".join(map(bytes, pieces))[4:])
        self.authenticator.authenticate(self)
        return request

    def versions(self, handshake: int = 1) -> None:
        ranges = [
            ApiVersionsResponse.ApiVersion(int(ApiKey.SASL_HANDSHAKE), 0, handshake),
            ApiVersionsResponse.ApiVersion(int(ApiKey.SASL_AUTHENTICATE), 0, 2),
        ]
        self.answer(ApiVersionsResponse(api_keys=ranges))

    def handshake(self) -> None:
        self.versions()
        self.answer(SaslHandshakeResponse(mechanisms=["PLAIN"]))


def test_plain_sends_the_password_once_and_is_complete_with_the_confirmation() -> None:
    broker = Broker(SaslLogin("PLAIN", plain))
    broker.handshake()
    assert broker.limits == [LONGEST_FRAME_BYTES]
    request = broker.answer(SaslAuthenticateResponse(session_lifetime_ms=60_000))
    assert request.auth_bytes == b"\0alice\0pencil"  # type: ignore[attr-defined]
    assert broker.authenticator.complete
    assert broker.limits == [LONGEST_FRAME_BYTES, None]
    assert broker.authenticator.session_lifetime_ms == 60_000


def test_a_later_login_begins_with_its_handshake() -> None:
    first = Broker(SaslLogin("PLAIN", plain))
    first.handshake()
    first.answer(SaslAuthenticateResponse(session_lifetime_ms=60_000))
    again = Broker(SaslLogin("PLAIN", plain), first.authenticator.renewal())
    again.answer(SaslHandshakeResponse(mechanisms=["PLAIN"]))
    request = again.answer(SaslAuthenticateResponse(session_lifetime_ms=50_000))
    assert request.auth_bytes == b"\0alice\0pencil"  # type: ignore[attr-defined]
    assert again.authenticator.complete
    assert again.authenticator.session_lifetime_ms == 50_000


def test_scram_takes_the_example_of_the_rfc() -> None:
    broker = Broker(SaslLogin("SCRAM-SHA-256", scram))
    broker.handshake()
    first = broker.answer(SaslAuthenticateResponse(auth_bytes=SERVER_FIRST))
    assert first.auth_bytes == b"n,,n=user,r=" + NONCE.encode()  # type: ignore[attr-defined]
    final = broker.answer(SaslAuthenticateResponse(auth_bytes=SERVER_FINAL))
    assert final.auth_bytes == CLIENT_FINAL  # type: ignore[attr-defined]
    assert broker.authenticator.complete


@pytest.mark.parametrize(
    ("messages", "text"),
    [
        ([b"r=other,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"], "Invalid server nonce"),
        ([b"r=rOprNGfwEbeRWgbNEkqO,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"], "Invalid server nonce"),
        ([SERVER_FIRST.replace(b"4096", b"4095")], "Requested iterations 4095"),
        ([SERVER_FIRST.replace(b"4096", b"100000000")], "Requested iterations 100000000"),
        ([b"nonsense"], "Invalid SCRAM server first message format"),
        ([SERVER_FIRST, SERVER_FINAL.replace(b"6", b"7", 1)], "Invalid server signature"),
        ([SERVER_FIRST, b"e=invalid-proof"], "invalid-proof"),
        ([SERVER_FIRST, b""], "Invalid SCRAM server final message format"),
    ],
)
def test_scram_trusts_no_server_that_breaks_the_rules(messages: list[bytes], text: str) -> None:
    broker = Broker(SaslLogin("SCRAM-SHA-256", scram))
    broker.handshake()
    *before, last = messages
    for message in before:
        broker.answer(SaslAuthenticateResponse(auth_bytes=message))
    with pytest.raises(SaslRejected, match=text) as caught:
        broker.answer(SaslAuthenticateResponse(auth_bytes=last))
    assert PASSWORD not in str(caught.value)
    assert not broker.authenticator.complete


def test_a_delegation_token_is_named_as_such() -> None:
    client = ScramClient(ScramLogin(SCRAM_SHA_256, "id", Secret("hmac"), TOKEN_EXTENSIONS))
    message = client.respond(b"")
    assert message is not None
    assert ClientFirst.parse(message).is_token


def test_oauthbearer_sends_its_token_and_hears_why_it_is_rejected() -> None:
    client = OAuthBearerClient(lambda: "abc")
    assert client.respond(b"") == b"n,,\x01auth=Bearer abc\x01\x01"
    assert client.respond(b'{"status":"invalid_token"}') == b"\x01", "the server's turn to end the login"
    assert not client.complete
    with pytest.raises(LoginFailed, match="goes on"):
        client.respond(b"")
    client = OAuthBearerClient(lambda: "abc")
    client.respond(b"")
    assert client.respond(b"") is None
    assert client.complete


def test_a_function_that_gives_no_token_ends_the_login() -> None:
    def fails() -> str:
        raise OSError("a secret of the identity provider")

    for new_token, text in ((fails, "OSError"), (lambda: "", "but a str"), (lambda: None, "but a NoneType")):
        with pytest.raises(LoginFailed, match=text) as caught:
            OAuthBearerClient(new_token).respond(b"")  # type: ignore[arg-type]
        assert "secret" not in str(caught.value)


def _old(broker: Broker) -> None:
    broker.versions(handshake=0)


def _disabled(broker: Broker) -> None:
    broker.versions()
    code = ErrorCode.UNSUPPORTED_SASL_MECHANISM
    broker.answer(SaslHandshakeResponse(error_code=code, mechanisms=["SCRAM-SHA-512"]))


def _wrong_password(broker: Broker) -> None:
    broker.handshake()
    code = ErrorCode.SASL_AUTHENTICATION_FAILED
    text = "Authentication failed: Invalid username or password"
    broker.answer(SaslAuthenticateResponse(error_code=code, error_message=text))


def _other_answer(broker: Broker) -> None:
    broker.answer(SaslAuthenticateResponse(error_message="longer than the frame has entries"))


@pytest.mark.parametrize(
    ("play", "text"),
    [
        (_old, "no SaslHandshake v1"),
        (_disabled, r"mechanism 'PLAIN' not enabled in the server, enabled mechanisms are \[SCRAM-SHA-512\]"),
        (_wrong_password, "Authentication failed: Invalid username or password"),
        (_other_answer, "answer in SASL PLAIN cannot be read"),
    ],
)
def test_a_rejected_login_has_the_words_of_the_broker_and_no_secret(play: Callable[[Broker], None], text: str) -> None:
    broker = Broker(SaslLogin("PLAIN", plain))
    with pytest.raises(SaslRejected, match=text) as caught:
        play(broker)
    assert PASSWORD not in str(caught.value)
    assert broker.authenticator.state is not LoginState.COMPLETE
