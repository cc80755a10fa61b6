"""The Selector over sockets in memory: connects, frames both ways, muting, loss, expiry."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.transport.channel.authenticator import AuthenticationFailed, Conversation, PlaintextAuthenticator
from barnabas.transport.channel.kafka_channel import ChannelState
from barnabas.transport.channel.transport_layer import PlaintextTransportLayer
from barnabas.transport.selector import Selector
from tests.support.memory_network import MemoryNetwork, MemorySocket, framed
from tests.support.mock_clock import MockClock

ADDRESS = ("127.0.0.1", 9092)
MAX_IDLE_MS = 1000


class World:
    """A Selector, its network and its clock."""

    def __init__(self, **options: Any) -> None:
        self.network = MemoryNetwork()
        self.clock = MockClock()
        self.selector = Selector(
            self.clock,
            poller=self.network.poller,
            open_socket=self.network.open_socket,
            max_idle_ms=MAX_IDLE_MS,
            max_receive_bytes=1 << 20,
            **options,
        )

    def accepted(self, connection_id: str, capacity: int | None = None) -> MemorySocket:
        """Register a connection; returns the client's end."""
        server, client = self.network.pair(capacity)
        self.selector.register(connection_id, server)
        return client

    def poll(self) -> None:
        self.selector.poll(300)

    def received(self) -> dict[str, list[bytes]]:
        """Poll, and take every frame."""
        self.poll()
        result: dict[str, list[bytes]] = {}
        for channel in self.selector.completed_receives:
            while (frame := channel.take_receive()) is not None:
                result.setdefault(channel.connection_id, []).append(bytes(frame))
        return result


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.selector.close_all()


def test_a_client_connects_sends_and_receives(world: World) -> None:
    servers = world.network.listen(ADDRESS)
    world.selector.connect("node-0", ADDRESS)
    assert not world.selector.is_channel_ready("node-0")
    world.poll()
    assert world.selector.connected == ["node-0"]
    assert world.selector.is_channel_ready("node-0")
    world.selector.send("node-0", [framed(b"question")])
    world.poll()
    assert [channel.connection_id for channel in world.selector.completed_sends] == ["node-0"]
    assert servers[0].take() == framed(b"question")
    servers[0].send(framed(b"one", b"two"))
    assert world.received() == {"node-0": [b"one", b"two"]}
    world.poll()
    assert not world.selector.completed_sends
    assert not world.selector.connected


def test_a_completed_send_ends_the_wait_only_of_those_who_want_to_know(world: World) -> None:
    servers = world.network.listen(ADDRESS)
    world.selector.connect("node-0", ADDRESS)
    world.poll()
    timeouts = world.network.poller.timeouts
    for send, completed in ((world.selector.send, ["node-0"]), (world.selector.send_at_once, [])):
        send("node-0", [framed(b"question")])
        world.poll()
        assert [channel.connection_id for channel in world.selector.completed_sends] == completed
        assert (timeouts[-1] == 0) == bool(completed)
        assert servers[0].take() == framed(b"question")


def test_a_send_at_once_is_finished_by_the_polls_or_found_lost_by_them(world: World) -> None:
    servers = world.network.listen(ADDRESS)
    world.selector.connect("node-0", ADDRESS)
    world.poll()
    servers[0].capacity = 6
    world.selector.send_at_once("node-0", [framed(b"question")])
    assert servers[0].take() == framed(b"question")[:6]
    world.poll()
    assert servers[0].take() == framed(b"question")[6:]
    servers[0].reset()
    world.selector.send_at_once("node-0", [framed(b"question")])
    world.poll()
    assert world.selector.disconnected == {"node-0": ChannelState.FAILED_SEND}
    with pytest.raises(KeyError):
        world.selector.send_at_once("node-0", [framed(b"question")])


def test_a_loss_between_two_polls_is_not_reported_of_a_new_connection_with_the_same_id(world: World) -> None:
    servers = world.network.listen(ADDRESS)
    world.selector.connect("node-0", ADDRESS)
    world.poll()
    servers[0].reset()
    world.selector.send_at_once("node-0", [framed(b"question")])
    world.selector.close("node-0")
    world.selector.connect("node-0", ADDRESS)
    world.poll()
    assert world.selector.disconnected == {}
    assert world.selector.connected == ["node-0"]
    assert world.selector.is_channel_ready("node-0")


def test_a_refused_connect_is_reported(world: World) -> None:
    world.selector.connect("node-0", ("127.0.0.1", 1))
    world.poll()
    assert world.selector.disconnected == {"node-0": ChannelState.NOT_CONNECTED}
    assert world.selector.channel("node-0") is None


def test_connections_are_kept_alive_and_undelayed(world: World) -> None:
    servers = world.network.listen(ADDRESS)
    world.selector.connect("node-0", ADDRESS, send_buffer_bytes=1234, receive_buffer_bytes=-1)
    assert servers[0].peer is not None
    assert sorted(servers[0].peer.options.values()) == [1, 1, 1234]


def test_a_connection_id_is_used_once(world: World) -> None:
    world.accepted("a")
    with pytest.raises(ValueError, match="already a connection for id a"):
        world.accepted("a")


def test_one_send_at_a_time(world: World) -> None:
    world.accepted("a", capacity=3)
    world.selector.send("a", [b"abcdef"])
    world.poll()
    with pytest.raises(RuntimeError, match="in progress"):
        world.selector.send("a", [b"x"])
    with pytest.raises(KeyError):
        world.selector.send("unknown", [b"x"])


def test_a_long_send_goes_on_when_there_is_room(world: World) -> None:
    client = world.accepted("a", capacity=4)
    world.selector.send("a", [b"abcdef"])
    world.poll()
    assert not world.selector.completed_sends
    assert client.take() == b"abcd"
    world.poll()
    assert [channel.connection_id for channel in world.selector.completed_sends] == ["a"]
    assert client.take() == b"ef"


def test_sending_to_a_peer_that_is_gone_is_reported_once(world: World) -> None:
    client = world.accepted("a")
    client.reset()
    world.selector.send("a", [b"x"])
    world.poll()
    assert world.selector.disconnected == {"a": ChannelState.FAILED_SEND}
    world.poll()
    assert world.selector.disconnected == {}


def test_a_muted_channel_is_not_read_and_loses_nothing(world: World) -> None:
    client = world.accepted("a")
    channel = world.selector.channel("a")
    assert channel is not None
    channel.mute()
    client.send(framed(b"one"))
    assert world.received() == {}
    assert world.received() == {}
    world.selector.io.unmute(channel)
    assert world.received() == {"a": [b"one"]}


def test_frames_behind_the_first_wait_for_it(world: World) -> None:
    client = world.accepted("a")
    client.send(framed(b"one", b"two", b"three"))
    world.poll()
    (channel,) = world.selector.completed_receives
    assert channel.receive == b"one"
    assert channel.take_receive() == b"one"
    channel.mute()
    world.poll()
    assert not world.selector.completed_receives
    world.selector.io.unmute(channel)
    assert world.received() == {"a": [b"two", b"three"]}


def test_the_poller_is_not_waited_for_while_there_is_something_to_read(world: World) -> None:
    client = world.accepted("a")
    client.send(framed(bytes(100_000)))
    world.poll()
    world.poll()
    assert world.network.poller.timeouts == [0.3, 0]
    assert len(world.selector.completed_receives) == 1


def test_a_muted_channel_whose_peer_is_gone_is_reported(world: World) -> None:
    client = world.accepted("a")
    channel = world.selector.channel("a")
    assert channel is not None
    channel.mute()
    client.reset()
    world.poll()
    assert world.selector.disconnected == {"a": ChannelState.READY}


def test_requests_left_by_a_peer_that_is_gone_are_still_read(world: World) -> None:
    client = world.accepted("a")
    channel = world.selector.channel("a")
    assert channel is not None
    channel.mute()
    client.send(framed(b"one", b"two"))
    client.reset()
    world.poll()
    assert world.selector.disconnected == {}
    world.selector.io.unmute(channel)
    assert world.received() == {"a": [b"one", b"two"]}
    world.poll()
    assert list(world.selector.disconnected) == ["a"]


def test_a_peer_that_only_finished_sending_is_answered_first(world: World) -> None:
    client = world.accepted("a")
    client.send(framed(b"one"))
    client.finish()
    assert world.received() == {"a": [b"one"]}
    channel = world.selector.channel("a")
    assert channel is not None
    channel.outgoing.add([b"answer"])
    assert world.selector.io.write(channel)
    assert client.take() == b"answer"
    world.poll()
    assert list(world.selector.disconnected) == ["a"]


def test_nonsense_costs_one_connection_and_one_line(world: World, caplog: pytest.LogCaptureFixture) -> None:
    bad, good = world.accepted("bad"), world.accepted("good")
    bad.send(b"\xff\xff\xff\xff")
    good.send(framed(b"fine"))
    assert world.received() == {"good": [b"fine"]}
    assert list(world.selector.disconnected) == ["bad"]
    assert bad.finished
    (line,) = [record.getMessage() for record in caplog.records]
    assert line == "Closing connection bad: Invalid receive (size = -1)"


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        (bytes.fromhex("16030100d1010000cd0303"), "these bytes begin a TLS handshake"),
        (b"GET / HTTP/1.1", "these bytes begin an HTTP request"),
    ],
)
def test_another_protocol_is_named(world: World, caplog: pytest.LogCaptureFixture, sent: bytes, told: str) -> None:
    world.accepted("bad").send(sent)
    world.received()
    assert list(world.selector.disconnected) == ["bad"]
    (line,) = [record.getMessage() for record in caplog.records]
    assert told in line


def test_idle_connections_expire_oldest_first(world: World) -> None:
    first, second = world.accepted("first"), world.accepted("second")
    world.clock.advance(400)
    first.send(framed(b"x"))
    world.received()
    world.clock.advance(700)
    world.poll()
    assert world.selector.disconnected == {"second": ChannelState.EXPIRED}
    assert second.finished
    oldest = world.selector.lowest_priority_channel()
    assert oldest is not None
    assert oldest.connection_id == "first"
    world.clock.advance(301)
    world.poll()
    assert world.selector.disconnected == {"first": ChannelState.EXPIRED}
    assert world.selector.lowest_priority_channel() is None


def test_sending_counts_as_activity(world: World) -> None:
    world.accepted("a")
    world.clock.advance(900)
    world.selector.send("a", [b"x"])
    world.poll()
    world.clock.advance(900)
    world.poll()
    assert world.selector.disconnected == {}


def test_closing_ourselves_is_not_reported(world: World) -> None:
    client = world.accepted("a")
    world.selector.close("a")
    world.selector.close("a")
    world.poll()
    assert world.selector.disconnected == {}
    assert client.finished


def test_a_wakeup_before_the_poll_keeps_it_from_waiting(world: World) -> None:
    world.selector.wakeup()
    world.poll()
    world.poll()
    assert world.network.poller.timeouts == [0, 0.3]


def test_a_refused_authentication_closes_the_channel() -> None:
    class Refusing(PlaintextAuthenticator):
        def __init__(self) -> None:
            super().__init__()
            self.complete = False

        def authenticate(self, conversation: Conversation) -> None:
            raise AuthenticationFailed("no")

    world = World(channel_builder=lambda stream_socket: (PlaintextTransportLayer(stream_socket), Refusing()))
    client = world.accepted("a")
    world.poll()
    assert world.selector.disconnected == {"a": ChannelState.AUTHENTICATION_FAILED}
    assert client.finished
    world.selector.close_all()
