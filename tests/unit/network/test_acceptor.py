"""Whom the Acceptor gives a connection to, and what it does with those nobody takes. No sockets: a pipe to poll."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from barnabas.config.listeners import EndPoint
from barnabas.network.acceptor import Acceptor
from barnabas.network.connections.channel_builders import ServedListener
from barnabas.network.connections.connection_quotas import ConnectionQuotas
from barnabas.network.connections.connection_table import NewConnection
from barnabas.network.network_config import ListenerConfig, NetworkConfig
from tests.support.memory_network import MemoryNetwork, MemorySocket
from tests.support.mock_clock import MockClock
from tests.unit.network.network_harness import never

END_POINT = EndPoint("127.0.0.1", 9092, "PLAINTEXT", "PLAINTEXT")
LISTENER = ServedListener("PLAINTEXT", "PLAINTEXT")


class FakeServerSocket:
    """Hands out what a test has put into `waiting`: sockets, or errors to raise."""

    def __init__(self) -> None:
        self._read_fd, self._write_fd = os.pipe()
        self.network = MemoryNetwork()
        self.waiting: list[MemorySocket | OSError] = []

    def connect(self, host: str = "10.0.0.1") -> MemorySocket:
        server, client = self.network.pair(host=host)
        self.waiting.append(server)
        return client

    def fileno(self) -> int:
        return self._read_fd

    def accept(self) -> Any:
        if not self.waiting:
            raise BlockingIOError
        first = self.waiting.pop(0)
        if isinstance(first, OSError):
            raise first
        return first, first.getpeername()

    def close(self) -> None:
        os.close(self._read_fd)
        os.close(self._write_fd)


class FakeProcessor:
    """Takes connections while it has room; "waiting" for room makes some."""

    def __init__(self, number: int, room: int) -> None:
        self.processor_id = number
        self.name = str(number)
        self.connection_count = 0
        self.room = room
        self.taken: list[Any] = []
        self.asked_to_wait = 0
        self.started = 0
        self.stopped = False
        self.unconfigured: list[Any] = []

    def accept(self, stream_socket: Any, address: str, may_block: bool) -> bool:
        if not self.room:
            if not may_block:
                return False
            self.asked_to_wait += 1
        else:
            self.room -= 1
        self.taken.append(stream_socket)
        return True

    def start(self) -> None:
        self.started += 1

    def begin_retirement(self, time_ms: float) -> list[Any]:
        withdrawn, self.unconfigured = self.unconfigured, []
        return withdrawn

    def begin_shutdown(self) -> None:
        self.stopped = True

    def await_shutdown(self) -> bool:
        return self.stopped


class World:
    def __init__(self, rooms: list[int], limits: NetworkConfig | None = None) -> None:
        self.server_socket = FakeServerSocket()
        self.clock = MockClock()
        self.quotas = ConnectionQuotas(limits or NetworkConfig(), self.clock)
        self.quotas.add_listener(LISTENER.name, ListenerConfig())
        self.made: list[FakeProcessor] = []
        self.rooms = rooms
        self.acceptor = Acceptor(
            END_POINT,
            LISTENER,
            self.server_socket,
            ListenerConfig(send_buffer_bytes=4321),
            self.quotas,
            self.new_processor,
            self.clock,
            never,
        )
        self.acceptor.add_processors(len(rooms))

    def new_processor(self, listener: ServedListener) -> Any:
        number = len(self.made)
        self.made.append(FakeProcessor(number, self.rooms[number] if number < len(self.rooms) else 20))
        return self.made[-1]

    def accept(self, count: int) -> list[int]:
        """So many clients connect; how many connections each Processor has then."""
        for _ in range(count):
            self.server_socket.connect()
        self.acceptor.accept_new_connections()
        return [len(processor.taken) for processor in self.made]


@pytest.fixture
def world() -> Iterator[World]:
    made = World([20, 20, 20])
    yield made
    made.acceptor.close()


def test_connections_go_round(world: World) -> None:
    assert world.accept(7) == [3, 2, 2]
    assert world.accept(2) == [3, 3, 3]
    assert world.quotas.total == 9


def test_accepted_sockets_are_undelayed_kept_alive_and_sized(world: World) -> None:
    world.accept(1)
    assert sorted(world.made[0].taken[0].options.values()) == [1, 1, 4321]


def test_a_full_processor_is_passed_over_and_only_the_last_is_waited_for() -> None:
    world = World([1, 1, 1])
    assert world.accept(4) == [1, 1, 2]
    assert [processor.asked_to_wait for processor in world.made] == [0, 0, 1]
    world.acceptor.close()


def test_an_address_with_too_many_is_closed_without_a_word() -> None:
    world = World([20], NetworkConfig(max_connections_per_ip=1))
    first, second = world.server_socket.connect("10.0.0.1"), world.server_socket.connect("10.0.0.1")
    other = world.server_socket.connect("10.0.0.2")
    world.acceptor.accept_new_connections()
    assert [client.finished for client in (first, second, other)] == [False, True, False]
    assert world.quotas.total == 2
    world.acceptor.close()


def test_an_address_that_connects_too_often_is_closed_after_a_delay() -> None:
    world = World([20])
    world.quotas.update_ip_connection_rate_quota("10.0.0.1", 1)
    clients = [world.server_socket.connect("10.0.0.1") for _ in range(12)]
    other = world.server_socket.connect("10.0.0.2")
    world.acceptor.accept_new_connections()
    world.acceptor.close_throttled_connections()
    assert [client.finished for client in clients] == [False] * 12
    assert world.quotas.total == 11
    world.clock.advance(1000)
    world.acceptor.close_throttled_connections()
    assert [client.finished for client in clients] == [False] * 10 + [True] * 2
    assert not other.finished
    world.server_socket.connect("10.0.0.1")
    world.acceptor.accept_new_connections()
    world.acceptor.close()


def test_an_error_while_accepting_is_survived(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.server_socket.waiting.append(OSError(24, "Too many open files"))
    assert world.accept(1) == [0, 0, 0]
    assert "Too many open files" in caplog.text
    assert world.accept(0) == [1, 0, 0]


def test_a_client_that_has_gone_is_no_error_and_keeps_no_other_waiting(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    world.server_socket.waiting.append(ConnectionAbortedError(errno.ECONNABORTED, "Software caused connection abort"))
    gone, _ = world.server_socket.network.pair(host="10.0.0.1")
    gone.setsockopt = refused(OSError(errno.EINVAL, "Invalid argument"))  # type: ignore[method-assign]
    world.server_socket.waiting.append(gone)
    assert world.accept(1) == [1, 0, 0]
    assert caplog.records == []
    assert gone.closed
    assert world.quotas.total == 1


def test_an_accepted_connection_that_lacks_memory_is_told_of(world: World, caplog: pytest.LogCaptureFixture) -> None:
    poor, _ = world.server_socket.network.pair(host="10.0.0.1")
    poor.setsockopt = refused(OSError(errno.ENOBUFS, "No buffer space available"))  # type: ignore[method-assign]
    world.server_socket.waiting.append(poor)
    world.acceptor.accept_new_connections()
    assert [(record.levelname, record.exc_info) for record in caplog.records] == [("WARNING", None)]
    assert "No buffer space available" in caplog.text


def refused(error: OSError) -> Callable[..., None]:
    """A call that raises."""

    def call(*_arguments: object) -> None:
        raise error

    return call


def test_processors_start_once_and_later_ones_at_once(world: World) -> None:
    assert [processor.started for processor in world.made] == [0, 0, 0]
    world.acceptor.start_processors()
    world.acceptor.start_processors()
    world.acceptor.add_processors(1)
    assert [processor.started for processor in world.made] == [1, 1, 1, 1]


def test_what_a_removed_processor_has_not_begun_with_goes_to_another(world: World) -> None:
    client = world.server_socket.connect()
    world.acceptor.accept_new_connections()
    first = world.made[0]
    (stream_socket,) = first.taken
    first.unconfigured = [NewConnection(stream_socket, "10.0.0.1")]
    world.acceptor.remove_processors(0)
    assert len(world.acceptor.processors) == 3
    world.acceptor._processors._processors.reverse()
    assert [removed.processor_id for removed in world.acceptor.remove_processors(1)] == [0]
    assert [len(processor.taken) for processor in world.made[1:]] == [1, 0]
    assert not client.finished
    assert world.quotas.total == 1


def test_the_last_processors_are_removed_and_the_round_goes_on(world: World) -> None:
    world.accept(2)
    removed = world.acceptor.remove_processors(2)
    assert [processor.processor_id for processor in removed] == [1, 2]
    assert all(processor.stopped for processor in world.made[1:])
    assert world.accept(2) == [3, 1, 0]
