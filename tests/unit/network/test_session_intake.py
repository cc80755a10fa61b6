"""Sessions of SASL connections in a Processor: logins on live connections, and requests after a session's end."""

from __future__ import annotations

import struct

import pytest

from barnabas.config.secret import Secret
from barnabas.network.connections.channel_builders import ServedListener
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.headers import decode_response_header, encode_request_header, response_header_version
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.messages.message import Message
from barnabas.protocol.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from barnabas.security.sasl.sasl_config import SaslConfig
from barnabas.security.sasl.sasl_listener import SaslListener
from barnabas.security.sasl.sasl_server import LoginParts
from barnabas.security.sasl.scram_mechanism import ScramCredential, ScramFormatter, TokenCredential
from tests.support.memory_network import MemorySocket, framed
from tests.support.mock_clock import MockClock
from tests.support.mock_scheduler import MockScheduler
from tests.support.sasl_exchange import plain_token
from tests.unit.network.network_harness import NetworkHarness

LIFE_MS = 10_000
JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="a" user_bob="b";'
ANSWERS: dict[ApiKey, type[Message]] = {
    ApiKey.SASL_HANDSHAKE: SaslHandshakeResponse,
    ApiKey.SASL_AUTHENTICATE: SaslAuthenticateResponse,
}
REQUEST = struct.pack(">hh", ApiKey.METADATA, 1) + b"a request"


class NoUsers:
    """SCRAM has no users here."""

    def of_user(self, mechanism: ScramFormatter, user: str) -> ScramCredential | None:
        return None

    def of_token(self, mechanism: ScramFormatter, token_id: str) -> TokenCredential | None:
        return None


def no_versions(request: ApiVersionsRequest | None, version: int) -> ApiVersionsResponse:
    return ApiVersionsResponse(error_code=0, api_keys=[])


def encoded(request: Message, version: int) -> bytes:
    header = encode_request_header(request.api_key, version, 7, "client")
    return b"".join([header, *(bytes(piece) for piece in request.encode(version))])


HANDSHAKE = encoded(SaslHandshakeRequest("PLAIN"), 1)
ALICE = encoded(SaslAuthenticateRequest(plain_token("alice", "a")), 2)
BOB = encoded(SaslAuthenticateRequest(plain_token("bob", "b")), 2)


class SaslHarness(NetworkHarness):
    """A Processor of a SASL listener, and a client of it."""

    def __init__(self, *, life_ms: int = LIFE_MS, inline: bool = True) -> None:
        clock = MockClock()
        config = SaslConfig(("PLAIN",), 1000, max_reauth_ms=life_ms, logins={"PLAIN": Secret(JAAS)})
        listener = SaslListener("PLAINTEXT", config, LoginParts(NoUsers(), no_versions, clock, MockScheduler(clock)))
        super().__init__(
            inline=inline,
            authenticator=listener.authenticator,
            clock=clock,
            listener=ServedListener("PLAINTEXT", "SASL_PLAINTEXT"),
        )
        self.clock.advance(1000)
        self.received = b""

    def log_in(self) -> MemorySocket:
        client = self.connect()
        self.settle()
        self.call(client, HANDSHAKE)
        assert self.call(client, ALICE).error_code == ErrorCode.NONE
        return client

    def exchange(self, client: MemorySocket, *frames: bytes) -> list[bytes]:
        """Send frames in one segment; the answers."""
        client.send(framed(*frames))
        self.settle()
        return self.answers(client)

    def answers(self, client: MemorySocket) -> list[bytes]:
        try:
            data = client.recv(1 << 20)
        except BlockingIOError:
            return []
        found = []
        while data:
            (size,) = struct.unpack_from(">i", data)
            found.append(data[4 : 4 + size])
            data = data[4 + size :]
        return found

    def call(self, client: MemorySocket, frame: bytes) -> SaslAuthenticateResponse:
        (answer,) = self.exchange(client, frame)
        return decoded(frame, answer)

    def is_closed(self, client: MemorySocket) -> bool:
        self.settle()
        return not self.connections()


def decoded(frame: bytes, answer: bytes) -> SaslAuthenticateResponse:
    key, version = struct.unpack_from(">hh", frame)
    _, offset = decode_response_header(answer, response_header_version(key, version))
    message, _ = ANSWERS[ApiKey(key)].decode(answer, version, offset)
    return message  # type: ignore[return-value]


@pytest.fixture(params=[True, False], ids=["inline", "queue"])
def harness(request: pytest.FixtureRequest) -> SaslHarness:
    return SaslHarness(inline=request.param)


def test_a_login_on_a_live_connection_begins_a_new_session(harness: SaslHarness) -> None:
    client = harness.log_in()
    for _ in range(3):
        harness.clock.advance(LIFE_MS - 1)
        assert harness.exchange(client, REQUEST) == [b"re:" + REQUEST]
        harness.call(client, HANDSHAKE)
        answer = harness.call(client, ALICE)
        assert (answer.error_code, answer.session_lifetime_ms) == (ErrorCode.NONE, LIFE_MS)
    sessions = harness.selector.counters.sessions
    assert (sessions.successful_reauthentications, sessions.expired) == (3, 0)
    assert harness.selector.counters.successful_authentications == 1
    assert harness.connections()[0].context.principal == "User:alice"


def test_a_request_after_the_end_closes_the_connection(harness: SaslHarness) -> None:
    client = harness.log_in()
    harness.clock.advance(LIFE_MS)
    assert harness.exchange(client, REQUEST) == []
    assert harness.is_closed(client)
    assert harness.selector.counters.sessions.expired == 1
    assert REQUEST not in harness.seen


def test_a_login_may_come_after_the_end(harness: SaslHarness) -> None:
    client = harness.log_in()
    harness.clock.advance(10 * LIFE_MS)
    harness.call(client, HANDSHAKE)
    assert harness.call(client, ALICE).error_code == ErrorCode.NONE
    assert harness.exchange(client, REQUEST) == [b"re:" + REQUEST]


def test_a_whole_login_between_requests_in_one_segment(harness: SaslHarness) -> None:
    client = harness.log_in()
    answers = harness.exchange(client, REQUEST, REQUEST, HANDSHAKE, ALICE, REQUEST, REQUEST)
    assert len(answers) == 6
    assert answers[:2] == answers[4:] == [b"re:" + REQUEST] * 2
    assert decoded(ALICE, answers[3]).session_lifetime_ms == LIFE_MS
    assert harness.connections()[0].session_ends_ns == harness.clock.nanoseconds() + LIFE_MS * 1_000_000
    assert not harness.connections()[0].inflight
    assert len(harness.completed) == 4


def test_no_request_is_answered_between_handshake_and_token(harness: SaslHarness) -> None:
    client = harness.log_in()
    harness.call(client, HANDSHAKE)
    assert harness.exchange(client, REQUEST) == []
    assert harness.is_closed(client)
    assert harness.seen == []


def test_another_user_is_rejected(harness: SaslHarness) -> None:
    client = harness.log_in()
    harness.call(client, HANDSHAKE)
    assert harness.call(client, BOB).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert harness.is_closed(client)
    counters = harness.selector.counters
    assert (counters.failed_authentications, counters.sessions.failed_reauthentications) == (0, 1)


def test_a_second_login_within_a_second_is_an_ordinary_request(harness: SaslHarness) -> None:
    client = harness.log_in()
    assert len(harness.exchange(client, HANDSHAKE, ALICE)) == 2
    harness.clock.advance(999)
    assert harness.exchange(client, HANDSHAKE) == [b"re:" + HANDSHAKE]
    harness.clock.advance(1)
    assert len(harness.exchange(client, HANDSHAKE, ALICE)) == 2
    assert harness.selector.counters.sessions.successful_reauthentications == 2


def test_a_session_without_an_end_takes_no_other_login() -> None:
    harness = SaslHarness(life_ms=0)
    client = harness.log_in()
    harness.clock.advance(1000 * LIFE_MS)
    assert harness.exchange(client, HANDSHAKE) == [b"re:" + HANDSHAKE]


def test_a_login_that_came_before_the_accept_has_an_end(harness: SaslHarness) -> None:
    server, client = harness.network.pair(None, "127.0.0.1")
    client.send(framed(HANDSHAKE, ALICE))
    harness.quotas.increment("PLAINTEXT", "127.0.0.1")
    assert harness.processor.accept(server, "127.0.0.1", may_block=False)
    harness.settle()
    assert len(harness.answers(client)) == 2
    assert harness.connections()[0].context.principal == "User:alice"
    harness.clock.advance(LIFE_MS)
    assert harness.exchange(client, REQUEST) == []
    assert harness.is_closed(client)


def test_a_client_that_cannot_log_in_again_is_counted(harness: SaslHarness) -> None:
    harness.log_in()
    assert harness.selector.counters.sessions.without_reauthentication == 0
    client = harness.connect()
    harness.settle()
    harness.exchange(client, HANDSHAKE)
    harness.exchange(client, encoded(SaslAuthenticateRequest(plain_token("alice", "a")), 0))
    assert harness.selector.counters.sessions.without_reauthentication == 1
