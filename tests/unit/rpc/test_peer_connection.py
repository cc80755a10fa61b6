"""One connection to one broker: one attempt a call, one answer a request, and nothing of an exchange that failed."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest

from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.protocol.messages.message import Message
from barnabas.rpc.client_request import RequestBuilder
from barnabas.rpc.connection_states import ConnectionState, Node
from barnabas.rpc.network_client_config import NetworkClientConfig
from barnabas.rpc.peer_connection import ConnectionLost, PeerConnection
from barnabas.transport.channel.authenticator import AuthenticationFailed
from barnabas.transport.channel.kafka_channel import ChannelState
from tests.support.mock_clock import MockClock
from tests.support.scripted_selector import ScriptedSelector, SentRequest
from tests.unit.rpc.network_client_harness import LIFE_MS, RENEWAL_MS, authenticator

NODE = Node(7, "a", 9092)
ID = str(NODE.id)
REQUEST_MS = 5_000
SETUP_MS, LONGEST_SETUP_MS = 10_000, 30_000


class Setting:
    """A connection to a node that answers each Fetch by one of the same session, unless `answer` says otherwise."""

    def __init__(self) -> None:
        self.clock = MockClock()
        self.selector = ScriptedSelector(self.clock)
        self.selector.passes_time = True
        self.selector.responder = self._respond
        self.answer: Callable[[SentRequest], Message | None] = lambda request: FetchResponse(
            session_id=request.body.session_id
        )
        self.addresses = ["10.0.0.1", "10.0.0.2"]
        self.connection = PeerConnection(
            NODE,
            self.selector,
            NetworkClientConfig(
                request_timeout_ms=REQUEST_MS,
                connection_setup_timeout_ms=SETUP_MS,
                connection_setup_timeout_max_ms=LONGEST_SETUP_MS,
            ),
            self.clock,
            resolve=lambda host, port: self.addresses,
        )

    def _respond(self, request: SentRequest) -> Message | None:
        return self.answer(request)

    @property
    def now_ms(self) -> int:
        return self.connection.now_ms()

    def call(self, number: int = 1, **options: Any) -> int:
        """The session of the answer to a request."""
        self.connection.await_ready(30_000, **options)
        answer = self.connection.exchange(FetchRequest(session_id=number))
        assert isinstance(answer, FetchResponse)
        return answer.session_id

    def fail(self, text: str = "") -> None:
        with pytest.raises(ConnectionLost, match=text):
            self.call()
        assert self.connection.state is ConnectionState.DISCONNECTED
        assert self.selector.channels == {}


@pytest.fixture
def setting() -> Setting:
    return Setting()


# -- connecting


def test_a_connection_that_was_lost_since_the_last_request_is_made_again(setting: Setting) -> None:
    assert setting.call(3) == 3
    setting.selector.disconnect(ID)
    assert setting.call(4) == 4
    assert len(setting.selector.attempts) == 2


def test_a_connection_that_a_poll_has_just_seen_is_not_looked_at_again(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    setting.call()
    polls: list[float] = []
    poll = setting.selector.poll

    def counted_poll(timeout_ms: float) -> None:
        polls.append(timeout_ms)
        poll(timeout_ms)

    monkeypatch.setattr(setting.selector, "poll", counted_poll)
    setting.call(trusted_ms=50)
    assert polls == [1_000]
    setting.clock.advance(51)
    setting.call(trusted_ms=50)
    assert polls == [1_000, 0, 1_000]


def test_a_refused_connection_is_reported_at_once(setting: Setting) -> None:
    setting.selector.refused.add(ID)
    for attempts in (1, 2):
        setting.fail(r"Connection to a:9092 \(id: 7\) failed")
        assert len(setting.selector.attempts) == attempts
    setting.selector.refused.clear()
    assert setting.call(9) == 9
    assert len(setting.selector.attempts) == 3


def test_an_attempt_that_hangs_ends_with_its_own_timeout_or_with_the_callers(
    setting: Setting, caplog: pytest.LogCaptureFixture
) -> None:
    setting.selector.connects = False
    started_ms = setting.now_ms
    setting.fail("failed")
    assert setting.now_ms - started_ms == SETUP_MS + 1
    assert [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING] == [
        "Cannot connect to broker a:9092 (id: 7): no answer yet. Still waiting.",
        "Cannot connect to broker a:9092 (id: 7): connection timed out. Trying again.",
    ]
    with pytest.raises(ConnectionLost, match="Failed to connect within 700 ms"):
        setting.connection.await_ready(700)
    assert setting.now_ms - started_ms == SETUP_MS + 701
    assert setting.selector.channels == {}


def test_attempts_without_a_disconnect_in_between_take_turns_with_the_addresses_and_wait_longer(
    setting: Setting,
) -> None:
    setting.selector.connects = False
    lasted_ms = []
    for _ in range(3):
        assert not setting.connection.ready()
        started_ms = setting.now_ms
        while setting.connection.state is ConnectionState.CONNECTING:
            setting.connection.watch(1_000)
        lasted_ms.append(setting.now_ms - started_ms)
    assert lasted_ms == [SETUP_MS + 1, 2 * SETUP_MS + 1, LONGEST_SETUP_MS + 1]
    assert [address for _, (address, _) in setting.selector.attempts] == ["10.0.0.1", "10.0.0.2", "10.0.0.1"]
    setting.connection.disconnect()
    setting.selector.connects = True
    setting.call()
    assert setting.selector.attempts[-1] == (ID, ("10.0.0.1", 9092))


def test_a_rejected_login_is_reported_with_the_brokers_words(
    setting: Setting, caplog: pytest.LogCaptureFixture
) -> None:
    setting.selector.connects = False
    assert not setting.connection.ready()
    setting.selector.connect_errors[ID] = AuthenticationFailed("no such user")
    setting.selector.disconnect(ID, ChannelState.AUTHENTICATION_FAILED)
    setting.connection.watch(0)
    assert [record.getMessage() for record in caplog.records] == [
        "Connection to node 7 failed authentication due to: no such user",
        "Cannot connect to broker a:9092 (id: 7): no such user. Trying again.",
    ]


def test_a_login_is_renewed_before_the_next_request(setting: Setting) -> None:
    setting.selector.authenticators[ID] = authenticator()
    setting.call()
    setting.clock.advance(RENEWAL_MS)
    assert not setting.connection.ready()
    assert setting.selector.reauthenticating == {ID}
    assert setting.connection.state is ConnectionState.CONNECTING
    setting.connection.watch(0)
    assert not setting.connection.ready()
    setting.selector.authenticators[ID] = authenticator()
    setting.selector.finish_reauthentication(ID)
    assert setting.call(5) == 5
    assert len(setting.selector.attempts) == 1, "it is the same connection"
    setting.clock.advance(LIFE_MS)
    setting.fail("failed")  # the node does not answer the next login
    setting.selector.reauthenticating.clear()
    assert setting.call(6) == 6


# -- requests


@pytest.mark.parametrize("trusted_ms", [-1, 50])
def test_a_late_answer_is_not_taken_for_that_of_the_next_request(setting: Setting, trusted_ms: int) -> None:
    setting.call()
    started_ms = setting.now_ms
    answer, setting.answer = setting.answer, lambda request: None
    setting.fail("Connection to 7 was disconnected before the response was read")
    assert setting.now_ms - started_ms == REQUEST_MS + 1
    setting.answer = answer
    assert setting.call(2, trusted_ms=trusted_ms) == 2
    assert len(setting.selector.attempts) == 2


@pytest.mark.parametrize("frame", [b"", b"\0\0", b"\0\0\0\x63\0" + bytes(20)])
def test_an_unreadable_answer_ends_the_connection(
    setting: Setting, frame: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    setting.answer = lambda request: setting.selector.answer_raw(ID, frame)
    setting.fail("before the response was read")
    assert caplog.messages[0].startswith("Node 7 sent an answer that cannot be read: ")


def test_an_answer_to_no_request_ends_the_connection(setting: Setting) -> None:
    setting.call()
    setting.selector.answer_raw(ID, b"\0\0\0\1")
    assert setting.call(8) == 8
    assert len(setting.selector.attempts) == 2


def test_an_answer_counts_that_came_before_the_connection_was_lost(setting: Setting) -> None:
    answer = setting.answer

    def answer_and_leave(request: SentRequest) -> Message | None:
        setting.selector.disconnect(ID)
        return answer(request)

    setting.answer = answer_and_leave
    assert setting.call(4) == 4
    assert setting.connection.state is ConnectionState.DISCONNECTED


def test_a_request_that_cannot_be_written_is_not_sent(setting: Setting) -> None:
    setting.connection.await_ready(30_000)

    def build(version: int) -> Message:
        raise ValueError(f"not in version {version}")

    with pytest.raises(ValueError, match="not in version 17"):
        setting.connection.exchange(RequestBuilder(FetchRequest, build, (4, 17)))
    assert setting.call(2) == 2
    assert setting.selector.sent == []


def test_a_throttled_node_gets_the_next_request_later(setting: Setting) -> None:
    setting.answer = lambda request: FetchResponse(throttle_time_ms=1_500)
    setting.call()
    throttled_ms = setting.now_ms
    assert not setting.connection.ready()
    setting.call()
    assert setting.now_ms - throttled_ms >= 1_500
    with pytest.raises(ConnectionLost, match="within 100 ms"):
        setting.connection.await_ready(100)


# -- interruptions


def test_an_interruption_ends_what_waits_and_what_follows(setting: Setting) -> None:
    setting.call()

    def interrupt(request: SentRequest) -> None:
        thread = threading.Thread(target=setting.connection.interrupt)
        thread.start()
        thread.join()

    setting.answer = interrupt
    setting.fail("Client was shutdown before response was read")
    for _ in range(2):
        setting.fail(r"Client for a:9092 \(id: 7\) was shut down before it was connected")
    assert len(setting.selector.attempts) == 1
    setting.connection.close()
    setting.connection.interrupt()
    setting.connection.close()
