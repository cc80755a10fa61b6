"""A Processor without threads or sockets: a test says what arrives, calls the verbs, and looks at what left."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable
from typing import Any

from barnabas.api.apis import Apis
from barnabas.api.registry import Registry
from barnabas.api.request import ConnectionContext, Handler, Request
from barnabas.api.request_parser import RequestParser
from barnabas.network.connections.channel_builders import ServedListener
from barnabas.network.connections.connection import Connection
from barnabas.network.connections.connection_quotas import ConnectionQuotas
from barnabas.network.network_config import ListenerConfig, NetworkConfig
from barnabas.network.processor import Processor
from barnabas.network.request_handler import RequestHandler
from barnabas.network.requests.request_channel import RequestChannel, RequestHandling, RequestPath
from barnabas.network.requests.request_metrics import RequestMetrics
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import InvalidRequest
from barnabas.protocol.headers import RequestHeader
from barnabas.protocol.message_index import request_class
from barnabas.protocol.messages.message import Message
from barnabas.purgatory.action_queue import ActionQueue
from barnabas.transport.channel.authenticator import Authenticator, PlaintextAuthenticator
from barnabas.transport.channel.transport_layer import PlaintextTransportLayer
from barnabas.transport.frame_buffer_pool import FrameBufferPool
from barnabas.transport.memory_pool import NONE, MemoryPool
from barnabas.transport.selector import Selector
from tests.support.memory_network import MemoryNetwork, MemorySocket, framed
from tests.support.mock_clock import MockClock
from tests.support.recording_channel import RecordingChannel

HANDLER = Handler(ApiKey.PRODUCE, lambda request: None)
"""Not asked: the harness parses and handles."""
LISTENER = ServedListener("PLAINTEXT", "PLAINTEXT")


def never(error: BaseException) -> None:
    """No error is fatal in these tests."""
    raise AssertionError("fatal") from error


class HarnessParser(RequestParser):
    """Calls the harness's `parse`."""

    def __init__(self, parse: Callable[..., Request[Any]]) -> None:
        super().__init__(Registry(()))
        self.parse_frame = parse

    def parse(self, *arguments: Any, **named: Any) -> Request[Any]:
        return self.parse_frame(*arguments, **named)


class HarnessApis(Apis):
    """Calls the harness's `handle`."""

    def __init__(self, handle: Callable[[Request[Any]], None]) -> None:
        super().__init__(ActionQueue(), lambda: 0)
        self.handle_request = handle

    def handle(self, request: Request[Any]) -> None:
        self.handle_request(request)


class HarnessMetrics(RequestMetrics):
    """Calls what the harness says for each completed request."""

    def __init__(self, record: Callable[[Request[Any]], None]) -> None:
        super().__init__()
        self.record_request = record

    def record(self, request: Request[Any]) -> None:
        self.record_request(request)


class NetworkHarness:
    """A request is its frame; the handler answers `b"re:" + frame` unless a test replaces `on_request`."""

    def __init__(
        self,
        *,
        inline: bool = True,
        queue_size: int = 500,
        limits: NetworkConfig | None = None,
        idle_ms: int = -1,
        memory_pool: MemoryPool = NONE,
        authenticator: Callable[[], Authenticator] = PlaintextAuthenticator,
        clock: MockClock | None = None,
        listener: ServedListener = LISTENER,
    ) -> None:
        self.network = MemoryNetwork()
        self.clock = MockClock() if clock is None else clock
        self.request_channel = RequestChannel(queue_size)
        self.quotas = ConnectionQuotas(limits or NetworkConfig(), self.clock)
        self.quotas.add_listener(LISTENER.name, ListenerConfig())
        self.pool = FrameBufferPool(fail_on_leak=True)
        self.selector = Selector(
            self.clock,
            poller=self.network.poller,
            pool=self.pool,
            max_idle_ms=idle_ms,
            max_receive_bytes=1 << 20,
            memory_pool=memory_pool,
            channel_builder=lambda stream_socket: (
                PlaintextTransportLayer(stream_socket, portable_file_sends=True),
                authenticator(),
            ),
        )
        self.brief = True
        self.seen: list[bytes] = []
        self.completed: list[Request[Any]] = []
        self.on_request: Callable[[Request[Any]], None] = self.answer
        self.parser = HarnessParser(self.parse)
        handling = RequestHandling(self.parser, HarnessApis(self.handle), HarnessMetrics(self.completed.append))
        path = RequestPath(self.request_channel, handling, may_run_at_once=inline)
        self.processor = Processor(0, "processor", listener, self.selector, path, self.quotas, self.clock, never)
        self.handler = RequestHandler("handler", self.request_channel, self.handle, self.clock, never)

    def connect(self, capacity: int | None = None, host: str = "127.0.0.1") -> MemorySocket:
        """An accepted connection; returns the client's end."""
        server, client = self.network.pair(capacity, host)
        self.quotas.increment(LISTENER.name, host)
        assert self.processor.accept(server, host, may_block=False)
        return client

    def turn(self, count: int = 1) -> None:
        """Turns of the loop, each followed by the handler's work."""
        for _ in range(count):
            self.processor_turn()
            while self.request_channel.request_queue_size:
                self.handler.run_once(0)

    def processor_turn(self) -> None:
        """One turn of the loop; what is called between turns comes from "another thread"."""
        self.processor.answers.thread_id = threading.get_ident()
        self.processor.run_once()
        self.processor.answers.thread_id = -1

    def settle(self) -> None:
        """Enough turns for whatever is under way."""
        self.turn(6)

    def is_running(self) -> bool:
        """Whether the Processor's loop would take another turn."""
        return self.processor.is_running

    def connections(self) -> list[Connection]:
        """What the Processor serves."""
        return self.processor._connections.all()

    def parse(
        self,
        frame: Any,
        context: Any,
        channel: Any,
        received_ns: int,
        processor_id: int,
        release: Callable[[], None] | None,
    ) -> Request[Any]:
        """A frame that begins with "bad" is none of ours."""
        if bytes(frame[:3]) == b"bad":
            raise InvalidRequest("unknown API key 99 (version 3)")
        request: Request[Any] = Request(
            RequestHeader(0, 9, 1, "client", 2),
            bytes(frame),
            HANDLER,
            context,
            channel,
            received_ns=received_ns,
            processor_id=processor_id,
            brief=self.brief,
            request_size=len(frame),
            release=release,
        )
        return request

    def handle(self, request: Request[Any]) -> None:
        """The api layer."""
        self.seen.append(request.body)
        try:
            self.on_request(request)
        finally:
            request.release_buffer()

    @staticmethod
    def answer(request: Request[Any]) -> None:
        """Answer at once."""
        body: Any = request.body
        request.channel.send(request, [framed(b"re:" + body[:40])])


MILLISECOND = 1_000_000
START = 10**15


def handler(api_key: ApiKey, max_version: int = 12) -> Handler:
    return Handler(api_key, lambda request: None, versions=(0, max_version))


PRODUCE, FETCH, METADATA = handler(ApiKey.PRODUCE), handler(ApiKey.FETCH, 17), handler(ApiKey.METADATA)


def finished(
    of: Handler,
    body: Message | None = None,
    response: Message | None = None,
    *,
    version: int = 9,
    stages_ms: tuple[float, ...] = (0, 2, 0, 0, 1),
    processor_id: int = 0,
    throttle_ms: int = 0,
    sizes: tuple[int, int] = (100, 50),
) -> Request[Any]:
    """A request whose stages lasted so long: request queue, local, remote, response queue, send."""
    context = ConnectionContext("id", "127.0.0.1", "PLAINTEXT", "PLAINTEXT")
    context.client_software_name, context.client_software_version = "old-client", "0.1"
    request: Request[Any] = Request(
        RequestHeader(of.api_key, version, 1, "client", 2),
        body if body is not None else request_class(of.api_key)(),
        of,
        context,
        RecordingChannel(),
        received_ns=START,
        processor_id=processor_id,
        request_size=sizes[0],
    )
    request.response, request.response_size, request.throttle_time_ms = response, sizes[1], throttle_ms
    times = [START]
    for stage_ms in stages_ms:
        times.append(times[-1] + int(stage_ms * MILLISECOND))
    request.dequeued_ns, request.local_complete_ns, request.response_complete_ns = times[1:4]
    request.response_dequeued_ns, request.sent_ns = times[4:]
    return request


def ask(client: socket.socket, *frames: bytes) -> list[bytes]:
    """Send requests; read as many answers."""
    client.sendall(framed(*frames))
    return [read(client) for _ in frames]


def read(client: socket.socket) -> bytes:
    (size,) = struct.unpack(">i", read_exactly(client, 4))
    return read_exactly(client, size)


def read_exactly(client: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = client.recv(size - len(data))
        assert piece, "the server closed the connection"
        data += piece
    return data
