"""A channel's life: handshake and authentication by fake ones, the delayed close of a refused peer, the last answer."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from barnabas.transport.channel.authenticator import AuthenticationFailed, Conversation
from barnabas.transport.channel.kafka_channel import ChannelState, KafkaChannel
from barnabas.transport.channel.transport_layer import PlaintextTransportLayer
from barnabas.transport.selector import Selector
from tests.support.memory_network import MemoryNetwork, MemorySocket, framed
from tests.support.mock_clock import MockClock

DELAY_MS = 100
IDLE_MS = 10_000


class FakeAuthenticator:
    """Answers every frame with `got:` + frame; "alice" passes, "mallory" does not."""

    def __init__(self) -> None:
        self.complete = False
        self.principal = "User:ANONYMOUS"
        self.closed = False

    def authenticate(self, conversation: Conversation) -> None:
        while not self.complete and (frame := conversation.receive_frame()) is not None:
            word = bytes(frame)
            if word == b"mallory":
                raise AuthenticationFailed("Authentication failed: who is mallory?", answer=[framed(b"no")])
            conversation.send([framed(b"got:" + word)])
            if word == b"alice":
                self.principal = "User:alice"
                self.complete = True

    def close(self) -> None:
        self.closed = True


class HandshakingTransport(PlaintextTransportLayer):
    """Wants one byte, "H", before it is ready; any other is a failed handshake."""

    def __init__(self, stream_socket: Any) -> None:
        super().__init__(stream_socket)
        self.ready = False

    def handshake(self) -> None:
        try:
            byte = self.recv(1)
        except BlockingIOError:
            return
        if byte != b"H":
            raise AuthenticationFailed("SSL handshake failed")
        self.ready = True


class World:
    """A Selector whose connections handshake and authenticate."""

    def __init__(self, delay_ms: float = DELAY_MS, transport: type = PlaintextTransportLayer) -> None:
        self.network = MemoryNetwork()
        self.clock = MockClock()
        self.authenticators: list[FakeAuthenticator] = []
        self.selector = Selector(
            self.clock,
            poller=self.network.poller,
            max_idle_ms=IDLE_MS,
            channel_builder=lambda stream_socket: (transport(stream_socket), self.new_authenticator()),
            failed_authentication_delay_ms=delay_ms,
        )

    def new_authenticator(self) -> FakeAuthenticator:
        self.authenticators.append(FakeAuthenticator())
        return self.authenticators[-1]

    def accepted(self, connection_id: str, capacity: int | None = None) -> MemorySocket:
        server, client = self.network.pair(capacity)
        self.selector.register(connection_id, server)
        return client

    def channel(self, connection_id: str) -> KafkaChannel:
        channel = self.selector.channel(connection_id)
        assert channel is not None
        return channel

    def is_closing(self, connection_id: str) -> bool:
        return self.selector._channels.is_closing(self.channel(connection_id))

    def poll(self) -> dict[str, ChannelState]:
        self.selector.poll(300)
        return self.selector.disconnected

    def frames(self) -> list[bytes]:
        result = []
        for channel in self.selector.completed_receives:
            while (frame := channel.take_receive()) is not None:
                result.append(bytes(frame))
        return result


@pytest.fixture
def world() -> World:
    return World()


def test_a_slow_conversation_is_followed_piece_by_piece(world: World) -> None:
    client = world.accepted("a")
    for piece in (b"", *(bytes([byte]) for byte in framed(b"hello", b"alice"))):
        assert not world.selector.is_channel_ready("a")
        assert world.poll() == {}
        assert world.selector.connected == []
        client.send(piece)
    world.poll()
    assert world.selector.connected == ["a"]
    assert client.take() == framed(b"got:hello", b"got:alice")
    assert world.channel("a").principal == "User:alice"
    assert world.selector.counters.successful_authentications == 1
    client.send(framed(b"request"))
    world.poll()
    assert world.frames() == [b"request"]


def test_each_word_of_a_conversation_costs_one_receive(world: World) -> None:
    server, client = world.network.pair()
    world.selector.register("a", server)
    for word in (b"hello", b"again", b"alice"):
        before = server.receives
        client.send(framed(word))
        world.poll()
        assert server.receives - before == 1
    assert world.selector.connected == ["a"]
    before = server.receives
    world.poll()
    assert server.receives == before
    client.send(framed(b"request"))
    world.poll()
    assert world.frames() == [b"request"]


def test_requests_pipelined_behind_the_last_word_are_served(world: World) -> None:
    client = world.accepted("a")
    client.send(framed(b"alice", b"one", b"two"))
    world.poll()
    assert world.selector.connected == ["a"]
    assert world.frames() == [b"one", b"two"]
    client.send(framed(b"three"))
    world.poll()
    assert world.frames() == [b"three"]


def test_a_large_request_behind_the_last_word_is_read_without_another_event(world: World) -> None:
    client = world.accepted("a")
    client.send(framed(b"alice", bytes(300_000)))
    found: list[bytes] = []
    for _ in range(4):
        world.poll()
        found += world.frames()
    assert [len(frame) for frame in found] == [300_000]


def test_handshake_then_authentication_in_one_segment() -> None:
    world = World(transport=HandshakingTransport)
    client = world.accepted("a")
    world.poll()
    client.send(b"H" + framed(b"alice", b"one"))
    world.poll()
    assert world.selector.connected == ["a"]
    assert world.frames() == [b"one"]


def test_a_failed_handshake_closes_at_once() -> None:
    world = World(transport=HandshakingTransport)
    client = world.accepted("a")
    client.send(b"X")
    assert world.poll() == {"a": ChannelState.AUTHENTICATION_FAILED}
    assert client.finished
    assert world.selector.counters.failed_authentications == 1


def test_who_is_refused_hears_of_it_after_the_delay(world: World, caplog: pytest.LogCaptureFixture) -> None:
    client = world.accepted("a")
    client.send(framed(b"mallory", b"a request", b"another"))
    with caplog.at_level(logging.INFO):
        assert world.poll() == {}
    assert [record.getMessage() for record in caplog.records] == [
        "Failed authentication with a (Authentication failed: who is mallory?)"
    ]
    assert world.channel("a").state is ChannelState.AUTHENTICATION_FAILED
    client.send(framed(b"please"))  # is not heard
    world.clock.advance(DELAY_MS - 1)
    assert world.poll() == {}
    assert world.network.poller.timeouts[-1] == pytest.approx(0.001)
    assert client.take() == b""
    world.clock.advance(1)
    assert world.poll() == {"a": ChannelState.AUTHENTICATION_FAILED}
    assert client.take() == framed(b"no")
    assert client.finished
    assert not client.broken  # a reset would have lost the answer
    assert world.frames() == []
    assert world.selector.connected == []
    assert world.selector.counters.failed_authentications == 1
    assert world.authenticators[0].closed


def test_the_refused_are_closed_in_order_of_their_refusal(world: World) -> None:
    for name in "abc":
        world.accepted(name).send(framed(b"mallory"))
        world.poll()
        world.clock.advance(40)
    world.selector.close("b")
    assert world.poll() == {"a": ChannelState.AUTHENTICATION_FAILED}
    world.clock.advance(80)
    assert world.poll() == {"c": ChannelState.AUTHENTICATION_FAILED}
    assert world.selector.channels == []


def test_without_a_delay_the_answer_leaves_at_once() -> None:
    world = World(delay_ms=0)
    client = world.accepted("a")
    client.send(framed(b"mallory"))
    assert world.poll() == {"a": ChannelState.AUTHENTICATION_FAILED}
    assert client.take() == framed(b"no")


def test_a_refused_peer_that_does_not_read_its_answer_expires(world: World) -> None:
    client = world.accepted("a", capacity=3)
    client.send(framed(b"mallory"))
    world.poll()
    world.clock.advance(DELAY_MS)
    assert world.poll() == {}
    assert world.is_closing("a")
    world.clock.advance(IDLE_MS + 1)
    assert world.poll() == {"a": ChannelState.EXPIRED}


def test_an_answer_of_the_authenticator_that_does_not_fit_leaves_later(world: World) -> None:
    client = world.accepted("a", capacity=6)
    client.send(framed(b"alice"))
    world.poll()
    received = b""
    for _ in range(4):
        received += client.take()
        world.poll()
    assert received == framed(b"got:alice")
    assert world.selector.is_channel_ready("a")


def test_a_peer_that_leaves_in_the_middle_of_its_authentication(world: World) -> None:
    client = world.accepted("a")
    client.send(b"\0\0")
    client.finish()
    assert world.poll() == {"a": ChannelState.AUTHENTICATE}


def test_nonsense_instead_of_authentication(world: World) -> None:
    client = world.accepted("a")
    client.send(b"\xff\xff\xff\xff")
    assert world.poll() == {"a": ChannelState.AUTHENTICATE}


def test_a_connection_that_never_authenticates_expires(world: World) -> None:
    world.accepted("a")
    world.clock.advance(IDLE_MS + 1)
    assert world.poll() == {"a": ChannelState.EXPIRED}


# -- closing


def ready(world: World, capacity: int | None = None) -> MemorySocket:
    client = world.accepted("a", capacity)
    client.send(framed(b"alice"))
    for _ in range(5):
        world.poll()
        client.take()
    return client


def test_an_answer_on_its_way_to_a_peer_that_finished_leaves_before_the_close(world: World) -> None:
    client = ready(world, capacity=10)
    client.send(framed(b"one", b"two"))
    client.finish()
    world.poll()
    assert world.frames() == [b"one", b"two"]
    world.selector.send("a", [bytes(25)])
    for _ in range(2):
        assert world.poll() == {}
    channel = world.channel("a")
    assert world.is_closing("a")
    assert world.selector.lowest_priority_channel() is channel
    received = 0
    while world.selector.channel("a") is not None:
        received += len(client.take())
        world.poll()
    assert received + len(client.take()) == 25
    assert world.selector.disconnected == {"a": ChannelState.READY}


def test_an_answer_to_a_peer_that_vanished_is_a_failed_send(world: World) -> None:
    client = ready(world, capacity=10)
    world.selector.send("a", [bytes(25)])
    world.poll()
    client.finish()
    world.poll()
    assert world.is_closing("a")
    client.reset()
    world.poll()
    world.poll()
    assert world.selector.channels == []


def test_closing_when_sent_reads_nothing_more(world: World) -> None:
    client = ready(world, capacity=10)
    channel = world.channel("a")
    channel.outgoing.add([bytes(15)])
    world.selector.io.close_when_sent(channel)
    client.send(framed(b"too late"))
    assert world.poll() == {}
    assert len(client.take()) == 10
    assert world.poll() == {"a": ChannelState.READY}
    assert len(client.take()) == 5
    assert world.frames() == []
    world.selector.io.close_when_sent(channel)  # again is harmless


def test_bytes_and_connections_are_counted(world: World) -> None:
    client = ready(world)
    client.send(framed(b"12345"))
    world.poll()
    world.frames()
    world.selector.send("a", [b"123"])
    world.poll()
    assert world.selector.counters.bytes_received == 9 + 9
    assert world.selector.counters.bytes_sent == 13 + 3
    client.reset()
    world.poll()
    assert world.selector.counters.bytes_received == 18
    assert world.selector.counters.bytes_sent == 16
    assert (world.selector.counters.connections_created, world.selector.counters.connections_closed) == (1, 1)
    assert world.selector.counters.select_calls > 0
