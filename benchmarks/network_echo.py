"""What the network layer costs per request: an echo with a trivial handler, against a bare event loop.

    python benchmarks/network_echo.py [seconds per cell]

Three servers, each in its own process, in the same run: `loop` is the least a single-threaded Python server can do
(edge-triggered epoll, one recv, one send; the loop of the prototype that set our aims), `inline` and `queue` are
barnabas.network in its two modes. The client is one process with one selector. Prints requests/s, the server's CPU
per request (user and kernel apart), and the ratio to `loop`.
"""

from __future__ import annotations

import os
import resource
import select
import signal
import socket
import struct
import sys
import time
from multiprocessing import get_context
from typing import Any

LENGTH = struct.Struct(">i")
START = struct.Struct(">hhi")


# -- servers


class LoopRequest:
    """As little as a request can be."""

    __slots__ = ("api", "channel", "completed", "correlation", "dequeued", "received", "version")

    api: int
    channel: list[Any]
    completed: int
    correlation: int
    dequeued: int
    received: int
    version: int


class LoopServer:
    """The prototype's event loop: no queue, no states, no limits."""

    def __init__(self) -> None:
        self.epoll = select.epoll()
        self.connections: dict[int, list[Any]] = {}

    def run(self, listener: socket.socket) -> None:
        """Serve for ever."""
        self.epoll.register(listener.fileno(), select.EPOLLIN)
        ready: set[int] = set()
        while True:
            for fd, _ in self.epoll.poll(0 if ready else 0.3):
                if fd == listener.fileno():
                    accepted, _ = listener.accept()
                    accepted.setblocking(False)
                    accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    self.connections[accepted.fileno()] = [accepted, b"", []]
                    flags = select.EPOLLIN | select.EPOLLOUT | select.EPOLLET | select.EPOLLRDHUP
                    self.epoll.register(accepted.fileno(), flags)
                else:
                    ready.add(fd)
            for fd in list(ready):
                if not self.serve(fd):
                    ready.discard(fd)

    def serve(self, fd: int) -> bool:
        """One recv, its requests, one send."""
        connection = self.connections[fd]
        try:
            data = connection[0].recv(65536)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            connection[0].close()
            return False
        received = time.perf_counter_ns()
        more = len(data) == 65536
        if connection[1]:
            data = connection[1] + data
            connection[1] = b""
        position, end = 0, len(data)
        while end - position >= 4:
            (size,) = LENGTH.unpack_from(data, position)
            if end - position - 4 < size:
                break
            self.handle(connection, data[position + 4 : position + 4 + size], received)
            position += 4 + size
        connection[1] = data[position:]
        out = connection[2]
        if out:
            if len(out) > 1:
                connection[0].sendmsg(out)
            else:
                connection[0].send(out[0])
            out.clear()
        return more

    def handle(self, connection: list[Any], frame: bytes, received: int) -> None:
        """The trivial handler."""
        request = LoopRequest()
        request.channel = connection
        request.received = received
        request.api, request.version, request.correlation = START.unpack_from(frame, 0)
        request.dequeued = time.perf_counter_ns()
        connection[2].append(LENGTH.pack(4) + LENGTH.pack(request.correlation))
        request.completed = time.perf_counter_ns()


def serve_loop(listener: socket.socket) -> None:
    """The bare loop."""
    LoopServer().run(listener)


def serve_barnabas(port_pipe: Any, inline: bool) -> None:
    """barnabas.network with a trivial handler."""
    from barnabas.api.apis import Apis
    from barnabas.api.registry import Registry
    from barnabas.api.request import Handler, Request
    from barnabas.api.request_parser import RequestParser
    from barnabas.config.listeners import EndPoint
    from barnabas.network.network_config import NetworkConfig
    from barnabas.network.request_handler import RequestHandlerPool
    from barnabas.network.requests.request_channel import RequestHandling
    from barnabas.network.requests.request_metrics import RequestMetrics
    from barnabas.network.socket_server import SocketServer
    from barnabas.protocol.api_keys import ApiKey
    from barnabas.protocol.headers import parse_request_header
    from barnabas.purgatory.action_queue import ActionQueue
    from barnabas.runtime.clock import SystemClock

    class Parser(RequestParser):
        """Reads the header alone."""

        def parse(
            self,
            buffer: Any,
            connection: Any,
            channel: Any,
            received_ns: int,
            processor_id: int = 0,
            release: Any = None,
        ) -> Any:
            header, _ = parse_request_header(buffer)
            size = len(buffer)
            return Request(header, None, handler, connection, channel, received_ns, processor_id, True, size, release)

    class Echo(Apis):
        """Answers with the correlation id."""

        def handle(self, request: Any) -> None:
            request.channel.send(request, [LENGTH.pack(4) + LENGTH.pack(request.header.correlation_id)])
            request.release_buffer()

    handler = Handler(ApiKey.METADATA, lambda request: None)
    apis = Echo(ActionQueue(), lambda: 0)
    config = NetworkConfig(inline_requests=inline)
    clock = SystemClock()
    end_point = EndPoint("127.0.0.1", 0, "PLAINTEXT", "PLAINTEXT")
    server = SocketServer(
        config,
        [end_point],
        RequestHandling(Parser(Registry(())), apis, RequestMetrics()),
        clock,
        lambda error: os._exit(1),
    )
    bound = server.bind()
    pool = RequestHandlerPool(server.data_plane_request_channel, apis.handle, clock, 8, lambda error: os._exit(1))
    pool.start()
    server.enable_request_processing()
    port_pipe.send(bound[0].port)
    signal.pause()


# -- client


class Client:
    """Closed loop: each connection keeps `depth` requests in flight."""

    def __init__(self, port: int, connections: int, depth: int, size: int) -> None:
        body = START.pack(0, 9, 7) + b"\xff\xff" + bytes(max(size - 10, 0))
        self.request = LENGTH.pack(len(body)) + body
        self.sockets = [socket.create_connection(("127.0.0.1", port)) for _ in range(connections)]
        for connection in self.sockets:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.depth = depth

    def run(self, seconds: float) -> tuple[int, float, list[float]]:
        """Requests answered, seconds, latencies of one connection at depth 1."""
        epoll = select.epoll()
        by_fd = {connection.fileno(): connection for connection in self.sockets}
        for connection in self.sockets:
            epoll.register(connection.fileno(), select.EPOLLIN)
        for connection in self.sockets:
            connection.sendall(self.request * self.depth)
        latencies: list[float] = []
        answered = 0
        started = last = time.perf_counter()
        deadline = started + seconds
        one = len(self.sockets) == 1 and self.depth == 1
        while last < deadline:
            for fd, _ in epoll.poll(1):
                connection = by_fd[fd]
                count = len(connection.recv(65536)) // 8
                answered += count
                if one:
                    now = time.perf_counter()
                    latencies.append(now - last)
                    last = now
                connection.sendall(self.request * count)
            if not one:
                last = time.perf_counter()
        elapsed = time.perf_counter() - started
        for connection in self.sockets:
            connection.close()
        return answered, elapsed, latencies


def cpu_seconds(pid: int) -> tuple[float, float]:
    """User and kernel time of a process."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    tick = os.sysconf("SC_CLK_TCK")
    return int(fields[11]) / tick, int(fields[12]) / tick


def start_servers() -> dict[str, tuple[Any, int]]:
    """Server name -> process, port."""
    context = get_context("spawn")
    servers: dict[str, tuple[Any, int]] = {}
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    loop = context.Process(target=serve_loop, args=(listener,), daemon=True)
    loop.start()
    servers["loop"] = (loop, listener.getsockname()[1])
    for name in ("inline", "queue"):
        ours, theirs = context.Pipe()
        process = context.Process(target=serve_barnabas, args=(theirs, name == "inline"), daemon=True)
        process.start()
        servers[name] = (process, ours.recv())
    return servers


CELLS = (
    ("100 B, 1 connection", 1, 1, 100),
    ("1 KB, 10 connections", 10, 1, 1024),
    ("1 KB, 10 x 5 in flight", 10, 5, 1024),
)


def main() -> None:
    """Print the table."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 2.0
    servers = start_servers()
    columns = f"{'req/s':>8} {'ratio':>6} {'user us':>8} {'kernel us':>9} {'p50 us':>7} {'p99 us':>7}"
    print(f"{'cell':24} {'server':8} {columns}")
    for cell, connections, depth, size in CELLS:
        results: dict[str, list[tuple[float, ...]]] = {name: [] for name in servers}
        for _ in range(3):
            for name, (process, port) in servers.items():
                client = Client(port, connections, depth, size)
                before = cpu_seconds(process.pid)
                answered, elapsed, latencies = client.run(seconds / 3)
                after = cpu_seconds(process.pid)
                latencies.sort()
                p50 = latencies[len(latencies) // 2] * 1e6 if latencies else 0.0
                p99 = latencies[len(latencies) * 99 // 100] * 1e6 if latencies else 0.0
                user, kernel = ((b - a) / answered * 1e6 for a, b in zip(before, after, strict=True))
                results[name].append((answered / elapsed, user, kernel, p50, p99))
        base = sorted(results["loop"])[1][0]
        for name, rounds in results.items():
            rate, user, kernel, p50, p99 = sorted(rounds)[1]
            print(
                f"{cell:24} {name:8} {rate:8.0f} {rate / base:6.2f} {user:8.1f} {kernel:9.1f} {p50:7.0f} {p99:7.0f}",
                flush=True,
            )
    for process, _ in servers.values():
        process.terminate()
    print("client CPU s:", round(resource.getrusage(resource.RUSAGE_SELF).ru_utime, 1))


if __name__ == "__main__":
    main()
