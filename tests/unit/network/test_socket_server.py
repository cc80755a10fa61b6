"""The whole layer put together, on loopback: the one test here with real sockets and threads, and still no sleep."""

from __future__ import annotations

import dataclasses
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.config.config_error import ConfigError
from barnabas.config.listeners import EndPoint
from barnabas.network.network_config import ListenerConfig, NetworkConfig
from barnabas.network.request_handler import RequestHandlerPool
from barnabas.network.requests.request_channel import RequestHandling
from barnabas.network.requests.request_metrics import RequestMetrics
from barnabas.network.socket_server import SocketServer
from barnabas.runtime.clock import SystemClock
from barnabas.runtime.logger_levels import set_logger_level
from tests.support.memory_network import framed
from tests.unit.network.network_harness import HarnessApis, HarnessParser, NetworkHarness, ask, never, read

LOOPBACK = EndPoint("127.0.0.1", 0, "PLAINTEXT", "PLAINTEXT")


class Server:
    """A SocketServer and its handlers; parsing and handling are the harness's."""

    def __init__(self, *end_points: EndPoint, **settings: Any) -> None:
        self.harness = NetworkHarness()
        threads, handlers = settings.pop("network_threads", 1), settings.pop("handler_threads", 8)
        config = NetworkConfig(broker_id=7, any_listener=ListenerConfig(network_threads=threads), **settings)
        self.config = config
        self.sockets = SocketServer(
            config,
            end_points or [LOOPBACK],
            RequestHandling(HarnessParser(self.harness.parse), HarnessApis(self.harness.handle), RequestMetrics()),
            SystemClock(),
            never,
        )
        self.handlers = RequestHandlerPool(
            self.sockets.data_plane_request_channel, self.harness.handle, SystemClock(), handlers, never
        )
        self.bound = self.sockets.bind()
        self.handlers.start()

    def connect(self, listener: int = 0) -> socket.socket:
        client = socket.create_connection(("127.0.0.1", self.bound[listener].port), timeout=30)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return client

    def resize(self, threads: int) -> None:
        """Change `num.network.threads`."""
        self.sockets.reconfigure(dataclasses.replace(self.config, any_listener=ListenerConfig(network_threads=threads)))

    def await_retired(self) -> None:
        """Wait until removed network threads are gone."""
        for processor in self.sockets._retiring:
            assert processor.await_shutdown(30)

    def close(self) -> None:
        self.sockets.shutdown()
        self.handlers.shutdown()
        self.harness.processor.close()


@pytest.fixture(params=[True, False], ids=["inline", "queue"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    made = Server(inline_requests=request.param, network_threads=3, handler_threads=3)
    yield made
    made.close()


def test_clients_may_connect_before_the_broker_is_ready(server: Server) -> None:
    with server.connect() as client:
        client.sendall(framed(b"early"))
        assert server.harness.seen == []
        server.sockets.enable_request_processing()
        server.sockets.enable_request_processing()
        assert read(client) == b"re:early"


def test_many_connections_each_in_order(server: Server) -> None:
    server.sockets.enable_request_processing()
    clients = [server.connect() for _ in range(100)]
    frames = [b"%d" % n for n in range(30)]
    for client in clients:
        client.sendall(framed(*frames))
    for client in clients:
        assert [read(client) for _ in frames] == [b"re:" + frame for frame in frames]
    assert server.sockets.connection_count == 100
    for client in clients:
        client.close()


def test_threads_bear_kafkas_names(server: Server) -> None:
    server.sockets.enable_request_processing()
    names = {thread.name for thread in threading.enumerate()}
    port = server.bound[0].port
    assert f"data-plane-kafka-socket-acceptor-ListenerName(PLAINTEXT)-PLAINTEXT-{port}" in names
    for number in range(3):
        assert f"data-plane-kafka-network-thread-7-ListenerName(PLAINTEXT)-PLAINTEXT-{number}" in names
        assert f"data-plane-kafka-request-handler-{number}" in names


def test_nonsense_on_one_connection_leaves_the_others(server: Server) -> None:
    server.sockets.enable_request_processing()
    with server.connect() as good, server.connect() as bad:
        assert ask(good, b"one") == [b"re:one"]
        bad.sendall(b"\xff\xff\xff\xffgarbage")
        assert bad.recv(100) == b""
        assert ask(good, b"two", b"three") == [b"re:two", b"re:three"]


def test_large_frames_over_real_sockets(server: Server) -> None:
    server.sockets.enable_request_processing()
    with server.connect() as client:
        for size in (65_535, 65_536, 100_000, 1_000_000, 5_000_000):
            assert ask(client, b"x" * size, b"small") == [b"re:" + b"x" * 40, b"re:small"]


def test_a_changed_level_acts_on_the_network_threads_that_run(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    server.sockets.enable_request_processing()
    with server.connect() as client:
        assert ask(client, b"before") == [b"re:before"]
        try:
            set_logger_level("kafka.network.Processor", "TRACE")
            assert all(each.answers.tracing for each in server.sockets.processors)
            assert ask(client, b"during") == [b"re:during"]
        finally:
            set_logger_level("kafka.network.Processor", None)
        assert not any(each.answers.tracing for each in server.sockets.processors)
        assert ask(client, b"after") == [b"re:after"]
    assert [record.levelname for record in caplog.records if "response: API key" in record.message] == ["TRACE"]


def test_a_stop_answers_what_was_taken_and_takes_nothing_new(server: Server) -> None:
    taken = threading.Event()
    finish = threading.Event()

    def on_request(request: Any) -> None:
        def answer() -> None:
            taken.set()
            finish.wait(30)
            NetworkHarness.answer(request)

        request.channel.resume(answer)

    server.harness.on_request = on_request
    server.sockets.enable_request_processing()
    with server.connect() as client:
        client.sendall(framed(b"taken"))
        assert taken.wait(30)
        stopper = threading.Thread(target=server.sockets.stop_processing_requests, args=(30_000,))
        stopper.start()
        finish.set()
        assert read(client) == b"re:taken"
        stopper.join(30)
        assert not stopper.is_alive()
        with pytest.raises(ConnectionRefusedError):
            server.connect()
        server.sockets.shutdown()
        assert client.recv(1) == b""
    server.sockets.shutdown()


def test_a_request_that_takes_too_long_is_given_up(server: Server) -> None:
    taken = threading.Event()
    server.harness.on_request = lambda request: taken.set()
    server.sockets.enable_request_processing()
    with server.connect() as client:
        client.sendall(framed(b"for ever"))
        assert taken.wait(30)
        assert server.sockets.stop_processing_requests(drain_ms=1) is False
        server.sockets.shutdown()
        assert client.recv(1) == b""


def test_network_threads_come_and_go(server: Server) -> None:
    server.sockets.enable_request_processing()
    server.resize(5)
    clients = [server.connect() for _ in range(5)]
    assert [ask(client, b"x") for client in clients] == [[b"re:x"]] * 5
    assert sorted(server.sockets.data_plane_request_channel.response_queue_sizes) == [0, 1, 2, 3, 4]
    server.resize(1)
    server.await_retired()
    assert [processor.processor_id for processor in server.sockets.processors] == [0]
    assert sorted(server.sockets.data_plane_request_channel.response_queue_sizes) == [0]
    with server.connect() as late:
        assert ask(late, b"late") == [b"re:late"]
    for client in clients:
        client.close()


def test_connections_of_one_address_are_limited() -> None:
    server = Server(max_connections_per_ip=2)
    server.sockets.enable_request_processing()
    first, second = server.connect(), server.connect()
    assert ask(first, b"a") + ask(second, b"b") == [b"re:a", b"re:b"]
    with server.connect() as third:
        assert third.recv(1) == b""
    first.close()
    second.close()
    server.close()


def test_the_brokers_listener_comes_first_and_must_exist() -> None:
    internal = EndPoint("127.0.0.1", 0, "INTERNAL", "PLAINTEXT")
    server = Server(LOOPBACK, internal, inter_broker_listener="INTERNAL")
    assert [end.listener_name for end in server.bound] == ["INTERNAL", "PLAINTEXT"]
    assert server.sockets.bound_port("PLAINTEXT") == server.bound[1].port
    server.close()
    with pytest.raises(ValueError, match="listener OTHER, which brokers connect to, is not among"):
        Server(LOOPBACK, inter_broker_listener="OTHER")


def test_a_listener_that_needs_tls_is_not_served_in_the_clear() -> None:
    with pytest.raises(ConfigError, match=r"SECURE://127.0.0.1:0 uses SSL; supported is only PLAINTEXT"):
        Server(EndPoint("127.0.0.1", 0, "SECURE", "SSL"))


def test_a_port_in_use_is_named_and_nothing_stays_open() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=f"failed to bind to 127.0.0.1:{port}"):
            Server(LOOPBACK, EndPoint("127.0.0.1", port, "OTHER", "PLAINTEXT"))


def test_all_interfaces_show_ipv4_clients_as_such() -> None:
    server = Server(EndPoint("", 0, "PLAINTEXT", "PLAINTEXT"))
    server.sockets.enable_request_processing()
    addresses = []

    def on_request(request: Any) -> None:
        addresses.append(request.connection.client_address)
        NetworkHarness.answer(request)

    server.harness.on_request = on_request
    with server.connect() as client:
        assert ask(client, b"x") == [b"re:x"]
    assert addresses == ["127.0.0.1"]
    server.close()
