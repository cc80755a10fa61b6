"""A Processor whose memory is limited: what requests and answers take is charged, and given back, in both modes."""

from __future__ import annotations

import gc
import logging
from collections import Counter
from typing import Any

import pytest

from barnabas.api.request import ConnectionContext, Request
from barnabas.network.connections.connection import Connection
from barnabas.transport.channel.frame_reader import FREE_BYTES, FrameReader
from barnabas.transport.channel.kafka_channel import KafkaChannel
from barnabas.transport.channel.open_channels import SWEEP_AT_LEAST
from barnabas.transport.channel.send import Send
from barnabas.transport.channel.transport_layer import PlaintextTransportLayer
from barnabas.transport.simple_memory_pool import SimpleMemoryPool
from tests.support.memory_network import framed
from tests.support.mock_clock import MockClock
from tests.unit.network.network_harness import NetworkHarness

POOL = 1 << 20
PARTS = (Connection, ConnectionContext, KafkaChannel, FrameReader, Send, PlaintextTransportLayer)


class World(NetworkHarness):
    """With a pool of 1 MiB."""

    def __init__(self, *, inline: bool = True, expansion: int = 1) -> None:
        self.memory = SimpleMemoryPool(POOL, POOL, MockClock().nanoseconds, request_expansion=expansion)
        super().__init__(inline=inline, memory_pool=self.memory)

    def assert_balanced(self) -> None:
        assert self.memory.available_memory == POOL
        assert self.memory.leaked == 0


@pytest.fixture(params=[True, False], ids=["inline", "queue"])
def world(request: pytest.FixtureRequest) -> World:
    return World(inline=request.param)


@pytest.mark.parametrize("size", [10, 9_000, 60_000, 70_000, 500_000])
def test_a_request_of_any_size_gives_back_what_it_took(world: World, size: int) -> None:
    charged: list[int] = []

    def on_request(request: Request[Any]) -> None:
        charged.append(POOL - world.memory.available_memory)
        world.answer(request)

    world.on_request = on_request
    client = world.connect()
    client.send(framed(bytes(size), b"next"))
    world.settle()
    assert [len(body) for body in world.seen] == [size, 4]
    assert charged == [size if size > 8192 else 0, 0]
    world.assert_balanced()


@pytest.mark.parametrize("size", [100, 9_000, 100_000])
def test_a_frame_that_is_no_request_gives_it_back_too(world: World, size: int) -> None:
    client = world.connect()
    client.send(framed(b"bad" + bytes(size)))
    world.settle()
    assert client.finished
    world.assert_balanced()


def test_answers_that_are_not_read_are_charged_until_they_are(world: World) -> None:
    world.on_request = lambda request: request.channel.send(request, [bytes(300_000)])
    client = world.connect(capacity=1000)
    client.send(framed(b"question"))
    world.settle()
    charged = POOL - world.memory.available_memory
    assert 0 <= charged - (299_000 - FREE_BYTES) <= len(b"question")
    while client.take():
        world.turn()
    world.assert_balanced()


def test_a_lost_connection_leaves_nothing_behind(world: World) -> None:
    held: list[Request[Any]] = []
    world.on_request = held.append
    client = world.connect()
    client.send(framed(bytes(100_000)) + framed(bytes(100_000))[:50_000])
    world.settle()
    client.reset()
    world.settle()
    world.answer(held[0])
    world.settle()
    assert world.connections() == []
    world.assert_balanced()


def test_small_requests_that_wait_for_a_handler_count_what_they_become() -> None:
    world = World(inline=False, expansion=8)
    client = world.connect()
    client.send(framed(bytes(7_000)))
    world.processor_turn()
    assert POOL - world.memory.available_memory == 8 * 7_000 - FREE_BYTES
    world.settle()
    world.assert_balanced()


def test_answers_handed_over_leave_before_a_close(world: World) -> None:
    """A client that pipelines a request and then nonsense has its answer, however slowly it reads."""
    world.on_request = lambda request: request.channel.send(request, [bytes(3_000)])
    client = world.connect(capacity=1000)
    client.send(framed(b"question"))
    world.settle()
    client.send(framed(b"bad"))
    world.settle()
    received = 0
    while taken := client.take():
        received += len(taken)
        world.settle()
    assert received == 3_000
    assert client.finished
    assert world.connections() == []
    world.assert_balanced()


def test_closed_connections_are_freed_without_the_garbage_collector(world: World) -> None:
    """But for a few, which are waiting to be swept out of the list of idle ones."""
    logging.disable()  # what is captured of a refusal holds on to everything
    gc.collect()
    gc.disable()
    try:
        before = sum(type(each) in PARTS for each in gc.get_objects())
        for number in range(3 * SWEEP_AT_LEAST):
            client = world.connect()
            client.send(framed(b"one", bytes(10_000)))
            world.turn()
            world.connections()[0].channel.measure_network_time()
            client.send(framed(b"two", b"bad" if number % 3 == 0 else b"three"))
            world.turn(2)
            client.reset()
            world.turn(2)
        world.completed.clear()
        assert world.connections() == []
        left = Counter(type(each) for each in gc.get_objects() if type(each) in PARTS)
        assert left.total() - before <= len(PARTS) * (SWEEP_AT_LEAST + 1), left
    finally:
        gc.enable()
        logging.disable(logging.NOTSET)
