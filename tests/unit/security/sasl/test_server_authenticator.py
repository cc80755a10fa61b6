"""The authenticator of SASL connections: orders of requests, logins of each mechanism, what is rejected and how."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.config.secret import Secret
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.headers import decode_response_header, encode_request_header, response_header_version
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.messages.message import Message
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from barnabas.security.sasl.mechanisms import LOGIN_FRAME_BYTES
from barnabas.security.sasl.sasl_config import SaslConfig
from barnabas.security.sasl.sasl_listener import SaslListener
from barnabas.security.sasl.sasl_server import Login, LoginParts
from barnabas.security.sasl.scram_mechanism import SCRAM_MECHANISMS
from barnabas.security.sasl.server_authenticator import SaslRules, SaslServerAuthenticator
from barnabas.transport.channel.authenticator import AuthenticationFailed
from tests.support.mock_clock import MockClock
from tests.support.mock_scheduler import MockScheduler
from tests.support.sasl_exchange import JAAS, PASSWORD, Credentials, ScramDialogue, plain_token, versions

SCRAM = tuple(SCRAM_MECHANISMS)
LIMIT = 1000


def listener(clock: MockClock | None = None, max_reauth_ms: int = 0, **of_mechanism: int) -> SaslListener:
    """A listener. of_mechanism: settings of one mechanism (`connections.max.reauth.ms`)."""
    clock = clock or MockClock()
    config = SaslConfig(
        ("PLAIN", *SCRAM),
        LIMIT,
        max_reauth_ms=max_reauth_ms,
        logins={"PLAIN": Secret(JAAS)},
        max_reauth_ms_of=of_mechanism,
    )
    return SaslListener("EXTERNAL", config, LoginParts(Credentials(), versions, clock, MockScheduler(clock)))


LISTENER = listener()


class Connection:
    """A client in memory, and the Conversation of its authenticator."""

    def __init__(self, authenticator: SaslServerAuthenticator | None = None) -> None:
        self.authenticator = LISTENER.authenticator() if authenticator is None else authenticator
        self.limit: int | None = None
        self._frames: deque[bytes] = deque()
        self._sent: deque[bytes] = deque()

    def receive_frame(self) -> bytes | None:
        return self._frames.popleft() if self._frames else None

    def send(self, frame: Sequence[Any]) -> None:
        self._sent.append(b"".join(bytes(piece) for piece in frame))

    def limit_frames(self, max_bytes: int | None) -> None:
        self.limit = max_bytes

    def frame(self, frame: bytes) -> bytes | None:
        """Send a frame; the broker's answer without its size, which must be right."""
        self._frames.append(frame)
        self.authenticator.authenticate(self)
        return unframed(self._sent.popleft()) if self._sent else None

    def call(self, request: Message, version: int, answer: type[Message]) -> Any:
        frame = self.frame(encoded(request, version))
        assert frame is not None
        return decoded(frame, answer, version)

    def handshake(self, mechanism: str, version: int = 1) -> Any:
        return self.call(SaslHandshakeRequest(mechanism), version, SaslHandshakeResponse)

    def authenticate(self, token: bytes, version: int = 2) -> bytes:
        answer = self.call(SaslAuthenticateRequest(token), version, SaslAuthenticateResponse)
        assert (answer.error_code, answer.error_message) == (ErrorCode.NONE, "")
        return bytes(answer.auth_bytes)

    def rejected(self, frame: bytes) -> tuple[str, bytes]:
        """Send a frame that is rejected; the reason in the log, and the answer (empty: none)."""
        self._frames.append(frame)
        with pytest.raises(AuthenticationFailed) as caught:
            self.authenticator.authenticate(self)
        assert not self.authenticator.complete
        assert self.authenticator.principal == "User:ANONYMOUS"
        assert self.authenticator.session_ends_ns is None
        answer = b"".join(bytes(piece) for piece in caught.value.answer)
        assert PASSWORD not in str(caught.value)
        assert PASSWORD.encode() not in answer
        return str(caught.value), unframed(answer) if answer else b""


def encoded(request: Message, version: int) -> bytes:
    header = encode_request_header(request.api_key, version, 7, "client")
    return b"".join([header, *(bytes(piece) for piece in request.encode(version))])


def decoded(frame: bytes, answer: type[Message], version: int) -> Any:
    correlation_id, offset = decode_response_header(frame, response_header_version(answer.api_key, version))
    assert correlation_id == 7
    message, end = answer.decode(frame, version, offset)
    assert end == len(frame)
    return message


def unframed(frame: bytes) -> bytes:
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    return frame[4:]


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("ask_versions", [False, True])
def test_plain_in_requests(version: int, ask_versions: bool) -> None:
    connection = Connection()
    if ask_versions:
        connection.call(ApiVersionsRequest("kafkacat", "1.0"), 3, ApiVersionsResponse)
        assert connection.authenticator.client_software == ("kafkacat", "1.0")
    answer = connection.handshake("PLAIN")
    assert (answer.error_code, answer.mechanisms) == (ErrorCode.NONE, ["PLAIN", *SCRAM])
    assert connection.limit == LIMIT
    assert connection.authenticate(plain_token("alice", PASSWORD), version) == b""
    assert connection.authenticator.complete
    assert connection.authenticator.principal == "User:alice"
    assert not connection.authenticator.is_token
    assert connection.limit is None


class AnyToken:
    """A SASL server that takes one token."""

    login: Login | None = None

    def evaluate(self, token: bytes) -> bytes:
        self.login = Login("alice")
        return b""


@pytest.mark.parametrize("most", [524_288, 1000])
@pytest.mark.parametrize(("mechanism", "has_long_tokens"), [("PLAIN", False), (SCRAM[0], False), ("OAUTHBEARER", True)])
def test_a_client_may_send_what_a_login_needs(mechanism: str, has_long_tokens: bool, most: int) -> None:
    """Half a megabyte of anything took the network thread from all clients for 0.2 s."""
    rules = SaslRules({mechanism: AnyToken}, most, versions, {mechanism: 0}, MockClock())
    connection = Connection(SaslServerAuthenticator(rules))
    limits = []
    connection.authenticator.authenticate(connection)
    limits.append(connection.limit)
    connection.call(ApiVersionsRequest(), 3, ApiVersionsResponse)
    limits.append(connection.limit)
    connection.handshake(mechanism)
    limits.append(connection.limit)
    connection.authenticate(b"token")
    limits.append(connection.limit)
    short = min(most, LOGIN_FRAME_BYTES)
    assert limits == [short, short, most if has_long_tokens else short, None]
    # The next login on the connection begins with a handshake again.
    again = Connection(connection.authenticator.renewal())
    again.authenticator.authenticate(again)
    assert again.limit == short


def test_plain_in_bare_frames() -> None:
    connection = Connection()
    connection.handshake("PLAIN", 0)
    assert connection.frame(plain_token("alice", PASSWORD, "alice")) == b""
    assert connection.authenticator.principal == "User:alice"


@pytest.mark.parametrize("mechanism", SCRAM)
@pytest.mark.parametrize("handshake_version", [0, 1])
def test_scram(mechanism: str, handshake_version: int) -> None:
    connection, dialogue = Connection(), ScramDialogue(mechanism, "alice", PASSWORD)
    connection.handshake(mechanism, handshake_version)
    take = connection.authenticate if handshake_version else connection.frame
    server_first = take(dialogue.first_message())
    assert server_first is not None
    assert not connection.authenticator.complete
    server_final = take(dialogue.final_message(server_first))
    assert server_final is not None
    assert dialogue.is_servers(server_final)
    assert connection.authenticator.principal == "User:alice"


@pytest.mark.parametrize("mechanism", SCRAM)
@pytest.mark.parametrize(
    ("nonce", "is_accepted"),
    [
        ("{client}{server}", True),
        ("{client}{client}{server}", True),  # librdkafka before 2.6.1
        ("other-{client}{server}", True),
        ("{client}{server}{server}", False),
        ("{server}", False),
        ("{client}", False),
        ("{client}{server}.", False),
    ],
)
def test_the_final_nonce_must_end_with_the_servers_as_in_kafka(mechanism: str, nonce: str, is_accepted: bool) -> None:
    """Kafka 3.9: `clientFinalMessage.nonce().endsWith(serverFirstMessage.nonce())`. The proof covers what was sent."""
    connection, dialogue = Connection(), ScramDialogue(mechanism, "alice", PASSWORD)
    connection.handshake(mechanism)
    answer = connection.authenticate(dialogue.first_message())
    client = dialogue.first.nonce
    final = dialogue.final_message(answer, lambda both: nonce.format(client=client, server=both.removeprefix(client)))
    if is_accepted:
        assert dialogue.is_servers(connection.authenticate(final))
        assert connection.authenticator.principal == "User:alice"
    else:
        _reject(connection, mechanism, final)


def test_a_longer_nonce_does_not_replace_the_proof() -> None:
    connection, dialogue = Connection(), ScramDialogue("SCRAM-SHA-256", "alice", "wrong")
    connection.handshake("SCRAM-SHA-256")
    answer = connection.authenticate(dialogue.first_message())
    _reject(connection, "SCRAM-SHA-256", dialogue.final_message(answer, lambda nonce: f"client-nonce{nonce}"))


def test_a_delegation_token_stands_for_its_owner() -> None:
    connection, dialogue = Connection(), ScramDialogue("SCRAM-SHA-512", "token-1", PASSWORD)
    dialogue.first = dialogue.first.make("token-1", "nonce", {"tokenauth": "true"})
    connection.handshake("SCRAM-SHA-512")
    connection.authenticate(dialogue.final_message(connection.authenticate(dialogue.first_message())))
    assert connection.authenticator.principal == "User:carol"
    assert connection.authenticator.is_token


INVALID = "Authentication failed during authentication due to invalid credentials with SASL mechanism "


@pytest.mark.parametrize(
    ("token", "told"),
    [
        (plain_token("alice", "wrong"), "Authentication failed: Invalid username or password"),
        (plain_token("dave", PASSWORD), "Authentication failed: Invalid username or password"),
        (plain_token("alice", ""), "Authentication failed: password not specified"),
        (plain_token("", PASSWORD), "Authentication failed: username not specified"),
        (
            plain_token("alice", PASSWORD, "root"),
            "Authentication failed: Client requested an authorization id that is different from username",
        ),
        (b"alice", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"\0alice\0x\0y", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
    ],
)
def test_plain_is_rejected(token: bytes, told: str) -> None:
    connection = Connection()
    connection.handshake("PLAIN")
    reason, frame = connection.rejected(encoded(SaslAuthenticateRequest(token), 1))
    answer = decoded(frame, SaslAuthenticateResponse, 1)
    assert (answer.error_code, answer.error_message) == (ErrorCode.SASL_AUTHENTICATION_FAILED, told)
    assert told in reason


def test_scram_is_rejected_without_telling_why() -> None:
    for mechanism in SCRAM:
        _reject_first(mechanism, ScramDialogue(mechanism, "bob", PASSWORD).first_message())
        _reject_first(mechanism, b"n,,n=alice")
        _reject_first(mechanism, b"p=tls-unique,,n=alice,r=nonce")
        _reject_final(mechanism, ScramDialogue(mechanism, "alice", "wrong"))
        replayed = Connection()
        replayed.handshake(mechanism)
        dialogue = ScramDialogue(mechanism, "alice", PASSWORD)
        final = dialogue.final_message(replayed.authenticate(dialogue.first_message()))
        replayed.authenticate(final)
        for message in (final, final.replace(b"c=biws", b"c=eSws"), dialogue.first_message(), b""):
            connection = Connection()
            connection.handshake(mechanism)
            connection.authenticate(dialogue.first_message())
            _reject(connection, mechanism, message)


def _reject_first(mechanism: str, message: bytes) -> None:
    connection = Connection()
    connection.handshake(mechanism)
    _reject(connection, mechanism, message)


def _reject_final(mechanism: str, dialogue: ScramDialogue) -> None:
    connection = Connection()
    connection.handshake(mechanism)
    _reject(connection, mechanism, dialogue.final_message(connection.authenticate(dialogue.first_message())))


def _reject(connection: Connection, mechanism: str, message: bytes) -> None:
    _, frame = connection.rejected(encoded(SaslAuthenticateRequest(message), 2))
    answer = decoded(frame, SaslAuthenticateResponse, 2)
    assert (answer.error_code, answer.error_message) == (
        ErrorCode.SASL_AUTHENTICATION_FAILED,
        INVALID + mechanism,
    )


def test_an_unknown_mechanism_is_answered_with_those_that_are_enabled() -> None:
    for mechanism in ("GSSAPI", "plain", "", "SCRAM-SHA-1"):
        _, frame = Connection().rejected(encoded(SaslHandshakeRequest(mechanism), 1))
        answer = decoded(frame, SaslHandshakeResponse, 1)
        assert (answer.error_code, answer.mechanisms) == (
            ErrorCode.UNSUPPORTED_SASL_MECHANISM,
            ["PLAIN", *SCRAM],
        )


def test_requests_out_of_order_are_rejected() -> None:
    # Before the handshake: any other request, and tokens.
    for request in (MetadataRequest(topics=[]), SaslAuthenticateRequest(b"x")):
        reason, answer = Connection().rejected(encoded(request, 0))
        assert "Unexpected Kafka request of type" in reason
        assert answer == b""
    # A second ApiVersions.
    connection = Connection()
    connection.call(ApiVersionsRequest(), 0, ApiVersionsResponse)
    assert connection.rejected(encoded(ApiVersionsRequest(), 0))[1] == b""
    # After the handshake: anything but tokens.
    connection = Connection()
    connection.handshake("PLAIN")
    _, frame = connection.rejected(encoded(SaslHandshakeRequest("PLAIN"), 1))
    assert decoded(frame, SaslHandshakeResponse, 1).error_code == ErrorCode.ILLEGAL_SASL_STATE
    connection = Connection()
    connection.handshake("PLAIN")
    assert "METADATA during SASL authentication" in connection.rejected(encoded(MetadataRequest(topics=None), 1))[0]


def test_an_unknown_version_of_api_versions_is_answered_and_asked_again() -> None:
    connection = Connection()
    header = encode_request_header(ApiVersionsRequest.api_key, 99, 7, "client")
    frame = connection.frame(header + b"\0\0\0")
    assert frame is not None
    assert decoded(frame, ApiVersionsResponse, 0).error_code == ErrorCode.UNSUPPORTED_VERSION
    connection.call(ApiVersionsRequest(), 0, ApiVersionsResponse)
    connection.handshake("PLAIN")


@pytest.mark.parametrize("token", [b"\x60\x82\x02\x10gssapi", b"", b"\0", b"GET / HTTP/1.1\r\n\r\n"])
def test_a_first_frame_that_is_no_request_is_rejected(token: bytes) -> None:
    reason, answer = Connection().rejected(token)
    assert "GSSAPI is not supported by server" in reason
    assert answer == b""


def test_unknown_versions_of_sasl_requests_are_rejected() -> None:
    header = encode_request_header(SaslHandshakeRequest.api_key, 2, 7, "client")
    assert "Version 2 is not supported" in Connection().rejected(header + b"\0\5PLAIN")[0]
    connection = Connection()
    connection.handshake("PLAIN")
    header = encode_request_header(SaslAuthenticateRequest.api_key, 9, 7, "client")
    assert "Version 9 is not supported" in connection.rejected(header + b"\0")[0]


def test_the_server_is_gone_when_the_connection_closes() -> None:
    connection = Connection()
    connection.handshake("PLAIN")
    connection.authenticator.close()
    with pytest.raises(AuthenticationFailed, match="closed"):
        connection.frame(encoded(SaslAuthenticateRequest(plain_token("alice", PASSWORD)), 1))


# -- sessions


def log_in_by_token(connection: Connection) -> Any:
    """Log in by the delegation token, which expires at 10**13 ms; the last answer."""
    dialogue = ScramDialogue("SCRAM-SHA-512", "token-1", PASSWORD, is_token=True)
    connection.handshake("SCRAM-SHA-512")
    final = dialogue.final_message(connection.authenticate(dialogue.first_message()))
    return connection.call(SaslAuthenticateRequest(final), 2, SaslAuthenticateResponse)


def log_in(connection: Connection, user: str = "alice") -> Any:
    connection.handshake("PLAIN")
    return connection.call(SaslAuthenticateRequest(plain_token(user, PASSWORD)), 2, SaslAuthenticateResponse)


@pytest.mark.parametrize(
    ("for_all", "of_scram", "left_ms", "expected_ms"),
    [
        (0, None, 5000, 5000),
        (1000, None, 5000, 1000),
        (9000, None, 5000, 5000),
        (1000, 9000, 5000, 5000),
        (9000, 1000, 5000, 1000),
        (9000, 0, 5000, 5000),
        (1000, None, -1, 0),
    ],
)
def test_a_session_lasts_as_its_settings_and_its_token_allow(
    for_all: int, of_scram: int | None, left_ms: int, expected_ms: int
) -> None:
    clock = MockClock(10**13 - left_ms)
    own = {} if of_scram is None else {"SCRAM-SHA-512": of_scram}
    connection = Connection(listener(clock, for_all, **own).authenticator())
    assert log_in_by_token(connection).session_lifetime_ms == expected_ms
    assert connection.authenticator.session_ends_ns == clock.nanoseconds() + expected_ms * 1_000_000


def test_a_session_without_a_limit_has_no_end() -> None:
    connection = Connection()
    assert log_in(connection).session_lifetime_ms == 0
    assert connection.authenticator.session_ends_ns is None


@pytest.mark.parametrize(("version", "can"), [(0, False), (1, True), (2, True)])
def test_a_client_that_knows_lifetimes_can_log_in_again(version: int, can: bool) -> None:
    connection = Connection()
    connection.handshake("PLAIN")
    connection.authenticate(plain_token("alice", PASSWORD), version)
    assert connection.authenticator.can_reauthenticate is can
    connection = Connection()
    connection.handshake("PLAIN", 0)
    connection.frame(plain_token("alice", PASSWORD))
    assert not connection.authenticator.can_reauthenticate


def test_a_later_login_begins_a_new_session() -> None:
    clock = MockClock()
    first = Connection(listener(clock, 1000).authenticator())
    log_in(first)
    clock.advance(900)
    second = Connection(first.authenticator.renewal())
    assert log_in(second).session_lifetime_ms == 1000
    assert second.authenticator.session_ends_ns == clock.nanoseconds() + 1_000_000_000
    log_in(Connection(second.authenticator.renewal()))


def test_a_later_login_is_of_the_same_user() -> None:
    first = Connection()
    log_in(first)
    again = Connection(first.authenticator.renewal())
    again.handshake("PLAIN")
    _, frame = again.rejected(encoded(SaslAuthenticateRequest(plain_token("bob", PASSWORD)), 2))
    answer = decoded(frame, SaslAuthenticateResponse, 2)
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert answer.error_message == "Cannot change principals during re-authentication from User.alice: User.bob"
    again = Connection(first.authenticator.renewal())
    again.handshake("PLAIN", 0)
    assert again.rejected(plain_token("bob", PASSWORD))[1] == b""


def test_a_later_login_is_by_the_same_mechanism() -> None:
    first = Connection()
    log_in(first)
    again = Connection(first.authenticator.renewal())
    assert again.handshake("SCRAM-SHA-256").error_code == ErrorCode.NONE
    dialogue = ScramDialogue("SCRAM-SHA-256", "alice", PASSWORD)
    reason, answer = again.rejected(encoded(SaslAuthenticateRequest(dialogue.first_message()), 2))
    assert "is not that of the first login" in reason
    assert answer == b""


def test_a_later_login_begins_with_a_handshake() -> None:
    first = Connection()
    log_in(first)
    for request in (ApiVersionsRequest(), SaslAuthenticateRequest(plain_token("alice", PASSWORD))):
        assert Connection(first.authenticator.renewal()).rejected(encoded(request, 0))[1] == b""
    again = Connection(first.authenticator.renewal())
    again.handshake("PLAIN")
    _, frame = again.rejected(encoded(SaslAuthenticateRequest(b"x"), 2))
    assert "Invalid SASL/PLAIN response" in decoded(frame, SaslAuthenticateResponse, 2).error_message


@given(st.lists(st.binary(max_size=60) | st.sampled_from(["handshake", "versions", "scram", "plain"]), max_size=6))
def test_no_sequence_of_frames_logs_in_without_the_password(frames: list[bytes | str]) -> None:
    connection = Connection()
    known = {
        "handshake": encoded(SaslHandshakeRequest("SCRAM-SHA-256"), 1),
        "versions": encoded(ApiVersionsRequest(), 0),
        "scram": encoded(SaslAuthenticateRequest(b"n,,n=alice,r=nonce"), 1),
        "plain": encoded(SaslHandshakeRequest("PLAIN"), 0),
    }
    try:
        for frame in frames:
            connection.frame(known[frame] if isinstance(frame, str) else frame)
    except AuthenticationFailed:
        pass
    assert not connection.authenticator.complete


def test_nothing_secret_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    test_plain_in_bare_frames()
    test_scram("SCRAM-SHA-256", 1)
    assert PASSWORD not in caplog.text
    assert PASSWORD not in repr(LISTENER.__dict__)
