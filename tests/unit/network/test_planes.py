"""Listeners of both planes, over loopback with real threads: what holds one up does not hold up the other. No sleep."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.config.listeners import EndPoint
from barnabas.network.connections.channel_builders import CONTROL_PLANE
from barnabas.network.network_config import ListenerConfig, NetworkConfig
from barnabas.network.request_handler import RequestHandlerPool
from barnabas.network.requests.request_channel import RequestHandling
from barnabas.network.requests.request_metrics import RequestMetrics
from barnabas.network.socket_server import SocketServer
from barnabas.runtime.clock import SystemClock
from tests.support.memory_network import framed
from tests.unit.network.network_harness import HarnessApis, HarnessParser, NetworkHarness, ask, never, read

QUEUE_SIZE = 3
HANDLERS = 2


def end_point(name: str) -> EndPoint:
    return EndPoint("127.0.0.1", 0, name, "PLAINTEXT")


class Broker:
    """Three listeners. Requests "block" until `release` is set; any other is answered."""

    def __init__(self, **settings: Any) -> None:
        self.harness = NetworkHarness()
        self.harness.brief = False
        self.harness.on_request = self.on_request
        self.parsed = threading.Semaphore(0)
        self.released: list[bytes] = []
        self.blocked = threading.Semaphore(0)
        self.release = threading.Event()
        config = NetworkConfig(
            broker_id=7,
            inter_broker_listener="INTERNAL",
            queued_max_requests=QUEUE_SIZE,
            any_listener=ListenerConfig(network_threads=2),
            **settings,
        )
        clock = SystemClock()
        names = ("CLIENTS", "INTERNAL", "CONTROLLER")
        self.sockets = SocketServer(
            config,
            [end_point(name) for name in names],
            RequestHandling(HarnessParser(self.parse), HarnessApis(self.harness.handle), RequestMetrics()),
            clock,
            never,
        )
        self.pools = [
            RequestHandlerPool(self.sockets.data_plane_request_channel, self.harness.handle, clock, HANDLERS, never)
        ]
        channel = self.sockets.control_plane_request_channel
        if channel is not None:
            self.pools.append(RequestHandlerPool(channel, self.harness.handle, clock, 1, never, prefix=CONTROL_PLANE))
        self.bound = [end.listener_name for end in self.sockets.bind()]
        for pool in self.pools:
            pool.start()

    def parse(self, frame: Any, context: Any, channel: Any, received_ns: int, processor_id: int, _: Any) -> Any:
        """Count the frames that are given back."""
        released = self.released
        request = self.harness.parse(
            frame, context, channel, received_ns, processor_id, lambda: released.append(bytes(frame))
        )
        self.parsed.release()
        return request

    def on_request(self, request: Any) -> None:
        if request.body == b"block":
            self.blocked.release()
            self.release.wait(60)
        if request.body == b"who":
            context = request.connection
            answer = f"{context.plane} {context.from_privileged_listener} {threading.current_thread().name}"
            request.channel.send(request, [framed(answer.encode())])
            return
        NetworkHarness.answer(request)

    def connect(self, listener: str) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.sockets.bound_port(listener)), timeout=30)

    def close(self) -> None:
        self.release.set()
        self.sockets.shutdown()
        for pool in self.pools:
            pool.shutdown()
        self.harness.processor.close()


@pytest.fixture
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    made = Broker(**getattr(request, "param", {"control_plane_listener": "CONTROLLER"}))
    yield made
    made.close()


one_plane = pytest.mark.parametrize("broker", [{}], indirect=True, ids=["one plane"])


def test_the_controller_is_answered_while_the_data_plane_is_full(broker: Broker) -> None:
    broker.sockets.enable_request_processing()
    channel = broker.sockets.data_plane_request_channel
    clients = [broker.connect("CLIENTS") for _ in range(HANDLERS + QUEUE_SIZE + 5)]
    for client in clients[:HANDLERS]:
        client.sendall(framed(b"block"))
    for _ in range(HANDLERS):
        assert broker.blocked.acquire(timeout=30)
    for client in clients[HANDLERS:]:
        client.sendall(framed(b"waiting"))
    # As long as the controller's requests are answered nothing of the data plane can be: all its handlers are blocked.
    with broker.connect("CONTROLLER") as controller:
        while channel.request_queue_size < QUEUE_SIZE:
            assert ask(controller, b"order") == [b"re:order"]
        assert [ask(controller, b"order") for _ in range(100)] == [[b"re:order"]] * 100
    assert channel.request_queue_size == QUEUE_SIZE
    broker.release.set()
    assert [read(client) for client in clients] == [b"re:block"] * HANDLERS + [b"re:waiting"] * (QUEUE_SIZE + 5)
    for client in clients:
        client.close()


def test_each_plane_has_its_threads_and_its_queue(broker: Broker) -> None:
    broker.sockets.enable_request_processing()
    assert broker.sockets.control_plane_request_channel is not None
    assert broker.sockets.control_plane_request_channel.capacity == 20
    seen = {}
    for listener in broker.bound:
        with broker.connect(listener) as client:
            seen[listener] = ask(client, b"who")[0].decode().rpartition("-")[0]
    assert seen == {
        "CONTROLLER": "control-plane True control-plane-kafka-request-handler",
        "INTERNAL": "data-plane False data-plane-kafka-request-handler",
        "CLIENTS": "data-plane False data-plane-kafka-request-handler",
    }
    names = [thread.name for thread in threading.enumerate() if thread.name.startswith("control-plane")]
    port = broker.sockets.bound_port("CONTROLLER")
    assert sorted(names) == [
        "control-plane-kafka-network-thread-7-ListenerName(CONTROLLER)-PLAINTEXT-0",
        "control-plane-kafka-request-handler-0",
        f"control-plane-kafka-socket-acceptor-ListenerName(CONTROLLER)-PLAINTEXT-{port}",
    ]
    assert broker.sockets.control_plane_request_channel.response_queue_sizes == {0: 0}


@one_plane
def test_without_a_control_plane_the_brokers_listener_is_privileged(broker: Broker) -> None:
    broker.sockets.enable_request_processing()
    assert broker.sockets.control_plane_request_channel is None
    assert broker.bound == ["INTERNAL", "CLIENTS", "CONTROLLER"]
    with broker.connect("INTERNAL") as internal, broker.connect("CONTROLLER") as other:
        assert ask(internal, b"who")[0].startswith(b"data-plane True")
        assert ask(other, b"who")[0].startswith(b"data-plane False")


@pytest.mark.parametrize(
    ("broker", "early"),
    [
        ({"control_plane_listener": "CONTROLLER"}, ["CONTROLLER"]),
        ({}, ["INTERNAL"]),
        ({"early_start_listeners": frozenset(["CLIENTS"])}, ["INTERNAL", "CLIENTS"]),
    ],
    indirect=["broker"],
)
def test_the_controller_comes_in_before_everybody_else(broker: Broker, early: list[str]) -> None:
    assert broker.bound[0] == early[0]
    clients = {listener: broker.connect(listener) for listener in broker.bound}
    for client in clients.values():
        client.sendall(framed(b"hello"))
    broker.sockets.enable_controller_requests()
    for listener in early:
        assert read(clients.pop(listener)) == b"re:hello"
    assert [acceptor.listener.name for acceptor in broker.sockets.acceptors if acceptor.is_started] == early
    broker.sockets.enable_request_processing()
    for client in clients.values():
        assert read(client) == b"re:hello"


def test_a_stop_drains_both_planes(broker: Broker) -> None:
    broker.sockets.enable_request_processing()
    clients = [broker.connect(listener) for listener in broker.bound]
    for client in clients:
        client.sendall(framed(b"block"))
        assert broker.blocked.acquire(timeout=30)
    # INTERNAL and CLIENTS have both handlers of their plane, CONTROLLER the one of its own.
    stopping = threading.Thread(target=broker.sockets.stop_processing_requests, args=(30_000,))
    stopping.start()
    broker.release.set()
    assert [read(client) for client in clients] == [b"re:block"] * 3
    stopping.join(30)
    assert not stopping.is_alive()


def test_what_nobody_handled_gives_its_frame_back(broker: Broker) -> None:
    broker.sockets.enable_request_processing()
    for pool in broker.pools:
        pool.shutdown()
    clients = [broker.connect("CLIENTS") for _ in range(QUEUE_SIZE + 2)]
    for client in clients:
        client.sendall(framed(b"x"))
    for _ in clients:
        assert broker.parsed.acquire(timeout=30)
    broker.sockets.shutdown()
    assert broker.released == [b"x"] * (QUEUE_SIZE + 2)
    assert broker.sockets.data_plane_request_channel.request_queue_size == 0
    for client in clients:
        client.close()


def test_nothing_starts_after_a_stop(broker: Broker) -> None:
    broker.sockets.shutdown()
    broker.sockets.enable_request_processing()
    broker.sockets.reconfigure(NetworkConfig(any_listener=ListenerConfig(network_threads=5)))
    assert not any(acceptor.is_started or len(acceptor.processors) > 2 for acceptor in broker.sockets.acceptors)
    with pytest.raises(RuntimeError, match="stopped"):
        broker.sockets.add_listeners([end_point("NEW")])


def test_listeners_come_and_go(broker: Broker) -> None:
    broker.sockets.enable_request_processing()
    (bound,) = broker.sockets.add_listeners([end_point("NEW")])
    assert broker.sockets.bound_port("NEW") == bound.port
    with pytest.raises(ValueError, match="CLIENTS already"):
        broker.sockets.add_listeners([end_point("OTHER"), end_point("CLIENTS")])
    idle, busy, other = broker.connect("NEW"), broker.connect("NEW"), broker.connect("CLIENTS")
    assert ask(idle, b"hello") + ask(other, b"hello") == [b"re:hello"] * 2
    busy.sendall(framed(b"block"))
    assert broker.blocked.acquire(timeout=30)
    broker.sockets.remove_listeners([end_point("NEW")])
    assert idle.recv(1) == b""
    with pytest.raises(KeyError):
        broker.sockets.bound_port("NEW")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", bound.port), timeout=30)
    assert ask(other, b"still here") == [b"re:still here"]
    broker.release.set()
    assert read(busy) == b"re:block"
    assert busy.recv(1) == b""
    assert all(processor.await_shutdown(30) for processor in broker.sockets._retiring)
    assert broker.sockets.connection_count == 1
    (again,) = broker.sockets.add_listeners([end_point("NEW")])
    with socket.create_connection(("127.0.0.1", again.port), timeout=30) as client:
        assert ask(client, b"back") == [b"re:back"]


def test_a_listener_that_cannot_be_opened_leaves_none_of_the_new_ones(broker: Broker) -> None:
    broker.sockets.enable_request_processing()
    taken = EndPoint("127.0.0.1", broker.sockets.bound_port("CLIENTS"), "TAKEN", "PLAINTEXT")
    with pytest.raises(OSError, match="failed to bind"):
        broker.sockets.add_listeners([end_point("NEW"), taken])
    assert [acceptor.listener.name for acceptor in broker.sockets.acceptors] == ["CONTROLLER", "INTERNAL", "CLIENTS"]
    assert len(broker.sockets.data_plane_request_channel.response_queue_sizes) == 4


def test_settings_of_one_listener_change_while_running(broker: Broker) -> None:
    broker.sockets.enable_request_processing()
    own = ListenerConfig(network_threads=4, max_connections=3)
    everybody = ListenerConfig(network_threads=1)
    broker.sockets.reconfigure(
        NetworkConfig(
            inter_broker_listener="INTERNAL",
            control_plane_listener="CONTROLLER",
            any_listener=everybody,
            listeners={"CLIENTS": own},
        )
    )
    threads = {acceptor.listener.name: len(acceptor.processors) for acceptor in broker.sockets.acceptors}
    assert threads == {"CONTROLLER": 1, "INTERNAL": 1, "CLIENTS": 4}
