"""The Selector with a limited MemoryPool: reading stops and goes on, every byte is given back, the slowest give way."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.transport.channel.frame_reader import FREE_BYTES
from barnabas.transport.channel.kafka_channel import ChannelState, KafkaChannel
from barnabas.transport.frame_buffer_pool import FrameBufferPool
from barnabas.transport.memory_pool import MemoryPool
from barnabas.transport.selector import Selector
from barnabas.transport.simple_memory_pool import SimpleMemoryPool
from tests.support.memory_network import MemoryNetwork, MemorySocket
from tests.support.mock_clock import MockClock

LARGE = 100_000
POOL = 250_000
CAPACITY = 4 << 20


def prefixed(size: int, sent: int | None = None) -> bytes:
    """A frame of that size, or its beginning."""
    return struct.pack(">i", size) + bytes(size if sent is None else sent)


class World:
    """A Selector with a pool, on a network in memory. `requests` are frames taken and not released yet."""

    def __init__(self, pool: MemoryPool | None = None, network: MemoryNetwork | None = None) -> None:
        self.clock = MockClock()
        self.network = network or MemoryNetwork(CAPACITY)
        self.pool = pool or SimpleMemoryPool(POOL, POOL, self.clock.nanoseconds, strict=True)
        self.buffers = FrameBufferPool(fail_on_leak=True)
        self.selector = Selector(
            self.clock,
            poller=self.network.poller,
            max_idle_ms=-1,
            max_receive_bytes=POOL * 2,
            pool=self.buffers,
            memory_pool=self.pool,
        )
        self.releases: list[Callable[[], None]] = []
        self.received: list[tuple[str, int]] = []
        self.lost: dict[str, ChannelState] = {}

    def accepted(self, connection_id: str, capacity: int = CAPACITY) -> MemorySocket:
        server, client = self.network.pair(capacity)
        self.selector.register(connection_id, server)
        return client

    def channel(self, connection_id: str) -> KafkaChannel:
        channel = self.selector.channel(connection_id)
        assert channel is not None
        return channel

    def poll(self, times: int = 3) -> None:
        for _ in range(times):
            self.selector.poll(300)
            self.lost |= self.selector.disconnected
            for channel in self.selector.completed_receives:
                while (frame := channel.take_receive()) is not None:
                    self.received.append((channel.connection_id, len(frame)))
                    if channel.reader.release is not None:
                        self.releases.append(channel.reader.release)
                    del frame
                assert channel.memory is not None
                channel.memory.update()

    def release(self) -> None:
        self.releases.pop(0)()

    def answer(self, connection_id: str, *pieces: Any) -> None:
        channel = self.channel(connection_id)
        channel.outgoing.add(list(pieces))
        self.selector.io.write(channel)
        assert channel.memory is not None
        channel.memory.update()

    def is_balanced(self) -> bool:
        return self.pool.available_memory == self.pool.size


@pytest.fixture
def world() -> World:
    return World()


def test_a_frame_is_charged_whole_before_it_is_received_and_given_back_with_its_release(world: World) -> None:
    client = world.accepted("a")
    client.send(prefixed(LARGE, sent=70_000))
    world.poll()
    assert world.pool.available_memory == POOL - LARGE
    client.send(bytes(LARGE - 70_000))
    world.poll()
    assert world.received == [("a", LARGE)]
    assert world.pool.available_memory == POOL - LARGE
    world.release()
    assert world.is_balanced()


def test_reads_stop_without_memory_and_resume_in_order_when_it_returns(world: World) -> None:
    clients = {name: world.accepted(name) for name in "abcde"}
    for client in clients.values():
        client.send(prefixed(LARGE))
        world.poll(1)
    world.poll()
    assert world.received == [("a", LARGE), ("b", LARGE)]
    assert world.network.poller.timeouts[-1] == 0.3  # nothing spins meanwhile
    read_so_far = [len(clients[name].peer.incoming) for name in "cde" if clients[name].peer]  # type: ignore[union-attr]
    assert all(read_so_far)  # what was not received fills the kernel's buffers, and stops the senders
    for expected in "cde":
        world.release()
        world.poll()
        assert world.received[-1] == (expected, LARGE)
    while world.releases:
        world.release()
    assert world.is_balanced()


def test_a_prefix_alone_takes_no_memory_from_others(world: World) -> None:
    client = world.accepted("a")
    client.send(prefixed(POOL, sent=8_000))
    world.poll()
    assert world.is_balanced()
    client.send(bytes(POOL - 8_000))
    world.poll()
    assert world.received == [("a", POOL)]


def test_a_pool_smaller_than_what_a_medium_frame_counts_still_takes_it() -> None:
    world = World(SimpleMemoryPool(70_000, 70_000, MockClock().nanoseconds, request_expansion=8))
    world.accepted("a").send(prefixed(50_000))
    world.poll()
    assert world.received == [("a", 50_000)]
    assert world.pool.is_out_of_memory
    world.release()
    assert world.is_balanced()


def test_large_frames_wait_apart_and_never_have_the_whole_pool() -> None:
    clock = MockClock()
    world = World(SimpleMemoryPool(1_000_000, 1_000_000, clock.nanoseconds, large_bytes=150_000))
    for name in "abc":
        world.accepted(name).send(prefixed(300_000, sent=10_000))
        world.poll()
    assert world.pool.available_memory == 700_000  # half of it has no room for a second large one
    for name in "defghij":
        world.accepted(name).send(prefixed(100_000))
        world.poll()
    assert len(world.received) == 7
    world.selector.close("a")
    world.poll()
    assert world.pool.available_memory == 0
    while world.releases:
        world.release()
    for name in "bc":
        world.selector.close(name)
        world.poll()
    assert world.is_balanced()


def test_small_frames_need_no_memory_of_the_pool(world: World) -> None:
    large, small = world.accepted("large"), world.accepted("small")
    large.send(prefixed(POOL))
    world.poll()
    assert world.pool.is_out_of_memory
    small.send(prefixed(1000))
    world.poll()
    assert world.received[-1] == ("small", 1000)


def test_what_lies_behind_a_request_in_progress_is_charged_but_for_the_free_bytes(world: World) -> None:
    client = world.accepted("a")
    client.send(prefixed(4_000) + prefixed(7_000) + prefixed(6_000))
    world.selector.poll(300)
    (channel,) = world.selector.completed_receives
    assert channel.memory is not None
    assert world.is_balanced()
    world.answer("a", bytes(CAPACITY + 30_000))
    assert world.pool.available_memory == POOL - (30_000 + 17_012 - FREE_BYTES)
    channel.memory.request_waits(4_000)  # the Processor puts it into the queue
    channel.memory.update()
    assert world.pool.available_memory == POOL - (34_000 + 17_012 - FREE_BYTES)
    channel.memory.request_bytes = 0
    client.take()
    world.poll()
    assert world.is_balanced()


def test_medium_frames_have_leases_that_count_what_they_become() -> None:
    world = World(SimpleMemoryPool(POOL, POOL, MockClock().nanoseconds, request_expansion=4))
    client = world.accepted("a")
    client.send(prefixed(40_000, sent=7_000))
    world.poll()
    assert world.is_balanced()
    client.send(bytes(20_000))
    world.poll()
    assert world.pool.available_memory == POOL - 160_000
    client.send(bytes(13_000) + prefixed(9_000))
    world.poll()
    assert world.received == [("a", 40_000), ("a", 9_000)]
    assert world.pool.available_memory == POOL - 196_000
    waiting = world.accepted("b")
    waiting.send(prefixed(20_000) + prefixed(100))
    world.poll()
    waiting.send(prefixed(20_000))
    world.poll()
    assert world.received[2:] == [("b", 20_000), ("b", 100)]
    world.release()
    world.poll()
    assert world.received[4:] == [("b", 20_000)]
    while world.releases:
        world.release()
    assert world.is_balanced()
    client.send(prefixed(60_000, sent=50_000))
    world.poll()
    assert world.pool.available_memory == POOL - 240_000
    client.reset()
    world.poll()
    assert world.is_balanced()


def test_answers_that_do_not_leave_are_charged_until_they_have_left(world: World) -> None:
    client = world.accepted("a", capacity=1000)
    world.answer("a", bytes(101_000))
    assert world.pool.available_memory == POOL - (100_000 - FREE_BYTES)
    while client.take():
        world.poll(1)
    assert world.is_balanced()


def test_closing_gives_back_what_was_held(world: World) -> None:
    half, unread, waiting = (world.accepted(name, capacity=1000) for name in ("half", "unread", "waiting"))
    half.send(prefixed(POOL - 50_000, sent=70_000))
    world.answer("unread", bytes(80_000))
    waiting.send(prefixed(LARGE))
    world.poll()
    assert world.pool.available_memory < LARGE
    for name in ("waiting", "half", "unread"):
        world.selector.close(name)
    assert world.is_balanced()
    assert world.pool.shortage == 0
    assert unread.finished


@pytest.mark.parametrize("size", [10_000, LARGE])
def test_a_whole_frame_that_nobody_took_gives_its_memory_back(world: World, size: int) -> None:
    client = world.accepted("a")
    client.send(prefixed(size))
    while not world.selector.completed_receives:
        world.selector.poll(300)
    assert world.pool.available_memory == POOL - size
    world.selector.close("a")
    assert world.is_balanced()


def test_what_waited_gets_the_memory_of_one_that_was_closed(world: World) -> None:
    half, waiting = world.accepted("half"), world.accepted("waiting")
    half.send(prefixed(POOL, sent=70_000))
    world.poll()
    waiting.send(prefixed(LARGE))
    world.poll()
    assert world.received == []
    half.reset()
    world.poll()
    assert world.received == [("waiting", LARGE)]


def test_memory_returned_by_another_thread_wakes_the_poll(world: World) -> None:
    client = world.accepted("a")
    client.send(prefixed(POOL))
    world.poll()
    world.accepted("b").send(prefixed(LARGE))
    world.poll()
    world.release()
    world.selector.poll(300)
    assert world.network.poller.timeouts[-1] == 0


def test_a_frame_that_never_gets_memory_closes_its_connection_alone(world: World) -> None:
    hopeless = world.accepted("hopeless")
    hopeless.send(prefixed(POOL + 1, sent=8192))
    world.poll()
    assert world.lost == {"hopeless": ChannelState.READY}
    assert world.is_balanced()


def test_half_received_frames_cannot_hold_the_memory_for_good(world: World) -> None:
    """The slowest gives way, and only while somebody needs what it holds."""
    dead, drip, quick = (world.accepted(name) for name in ("dead", "drip", "quick"))
    for client in (dead, drip, quick):
        client.send(prefixed(80_000, sent=66_000))
    world.poll()
    for _ in range(20):
        world.clock.advance(1000)
        drip.send(b"x")
        world.poll()
    assert world.lost == {}
    world.accepted("needy").send(prefixed(90_000))

    def second() -> None:
        world.clock.advance(1000)
        quick.send(bytes(2_000))
        drip.send(b"x")
        world.poll()

    world.poll()  # the first look: how fast they have been on the whole
    second()
    assert world.lost == {"dead": ChannelState.OUT_OF_MEMORY}
    assert world.received == [("needy", 90_000)]
    world.release()
    world.accepted("needier").send(prefixed(150_000))
    world.poll()
    second()
    assert world.lost == dict.fromkeys(("dead", "drip"), ChannelState.OUT_OF_MEMORY)
    assert world.received[1:] == [("needier", 150_000)]
    quick.send(bytes(10_000))
    world.poll()
    assert world.received[2:] == [("quick", 80_000)]


def test_who_is_being_handled_or_waits_himself_is_not_called_slow(world: World) -> None:
    handled, waiting = world.accepted("handled"), world.accepted("waiting")
    handled.send(prefixed(POOL))
    world.poll()
    world.channel("handled").mute()
    waiting.send(prefixed(LARGE))
    for _ in range(20):
        world.poll()
        world.clock.advance(1000)
    assert world.lost == {}
    world.release()
    world.poll()
    assert world.received[-1] == ("waiting", LARGE)


def test_answers_nobody_reads_give_way_to_a_frame_that_needs_memory(world: World) -> None:
    for number in range(5):
        world.accepted(f"unread{number}", capacity=1000)
        world.answer(f"unread{number}", bytes(FREE_BYTES + 51_000))
        world.clock.advance(10)
    assert world.pool.is_out_of_memory
    world.clock.advance(2000)
    world.poll()
    assert world.lost == {}  # nobody needs it
    world.accepted("needy").send(prefixed(60_000 + 10_000))
    world.poll()
    assert len(world.lost) == 2
    assert world.received == [("needy", 70_000)]


def test_far_beyond_the_limit_the_longest_silent_goes_at_once(world: World) -> None:
    for number in range(10):
        world.accepted(f"unread{number}", capacity=1000)
        world.answer(f"unread{number}", bytes(FREE_BYTES + 51_000))
        world.clock.advance(1)
        world.poll(1)
        assert world.pool.available_memory >= -(POOL // 8)
    world.poll(1)
    assert list(world.lost) == [f"unread{number}" for number in range(5)]


def test_idle_buffers_fit_into_what_the_pool_has_left(world: World) -> None:
    clients = [world.accepted(str(number)) for number in range(2)]
    for client in clients:
        client.send(prefixed(LARGE))
    world.poll()
    while world.releases:
        world.release()
    assert world.buffers.idle_bytes > 150_000
    world.pool.charge(POOL - 100_000)
    world.poll()
    assert world.buffers.idle_bytes <= 100_000 + 30_000  # of one frame, as it came
    world.pool.charge(100_000)
    world.poll()
    assert world.buffers.idle_bytes == 0


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 1 << 32))
def test_whatever_happens_every_byte_comes_back(seed: int) -> None:
    """Frames in any pieces on several connections of two Selectors, answers, losses, releases in any order."""
    chance = random.Random(seed)
    first = World()
    second = World(first.pool)
    worlds = (first, second)
    peers: dict[tuple[World, int], Peer] = {}
    for number in range(100):
        world = chance.choice(worlds)
        place = (world, chance.randrange(4))
        peer = peers.get(place)
        if peer is None or world.selector.channel(peer.name) is None:
            peers[place] = peer = Peer(f"c{number}", world.accepted(f"c{number}", capacity=30_000))
        match chance.randrange(7):
            case 0 | 1:
                peer.send(chance.choice((10, 5_000, 60_000, 65_536, 100_000, 200_000)), chance.random() * 1.3)
            case 2:
                world.answer(peer.name, bytes(chance.randrange(90_000)))
            case 3:
                peer.socket.take()
            case 4 if world.releases:
                world.releases.pop(chance.randrange(len(world.releases)))()
            case 5 if number % 5 == 0:
                peer.socket.reset()
                del peers[place]
            case _:
                world.clock.advance(chance.randrange(700))
        world.poll(chance.randrange(3))
    for world in worlds:
        while world.releases:
            world.release()
        for channel in world.selector.channels:
            world.selector.close(channel.connection_id)
    assert first.is_balanced()
    assert first.pool.shortage == 0
    assert isinstance(first.pool, SimpleMemoryPool)
    assert first.pool.leaked == 0


class Peer:
    """Sends whole frames, perhaps in two pieces."""

    def __init__(self, name: str, stream_socket: MemorySocket) -> None:
        self.name = name
        self.socket = stream_socket
        self._missing = 0

    def send(self, size: int, share: float) -> None:
        """A part of a new frame; first what the last one lacks."""
        self.socket.send(bytes(self._missing))
        sent = min(int(size * share), size)
        self._missing = size - sent
        self.socket.send(prefixed(size, sent))


def test_a_frame_larger_than_the_pool_gives_is_refused_though_others_wait() -> None:
    """In the queue, it would have made every poll fail once its turn came."""
    world = World(SimpleMemoryPool(POOL, POOL, MockClock().nanoseconds, large_bytes=POOL // 16))
    for name in "ab":
        world.accepted(name).send(prefixed(LARGE))
        world.poll()
    world.accepted("c").send(prefixed(POOL + 1, sent=20_000))
    world.poll()
    assert world.lost == {"c": ChannelState.READY}
    world.release()
    world.poll()
    assert [name for name, _ in world.received] == ["a", "b"]


def test_a_large_frame_that_never_comes_does_not_keep_other_large_ones_out() -> None:
    """There is memory for all, but not for large frames: whoever holds that and does nothing is given up."""
    size = 1 << 20
    world = World(SimpleMemoryPool(size, size, MockClock().nanoseconds, large_bytes=size // 16))
    reader = world.accepted("slow reader", capacity=1000)
    world.answer("slow reader", bytes(FREE_BYTES + 5_000))
    world.accepted("slow").send(prefixed(400_000, sent=20_000))
    world.poll()
    world.accepted("other").send(prefixed(300_000))
    for _ in range(30):
        world.clock.advance(100)
        world.poll(1)
    assert world.lost == {"slow": ChannelState.OUT_OF_MEMORY}
    assert world.received == [("other", 300_000)]
    assert not reader.finished
