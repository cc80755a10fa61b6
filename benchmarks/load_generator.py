"""The load generator: one process, raw sockets, requests encoded once. Started by `benchmarks.broker`.

It prints `ready` when its connections and topic exist, waits for a line on standard input (the caller samples the
broker's CPU time in between), runs, prints one line of JSON: a `Load`. Also a command of its own:

    python -m benchmarks.load_generator produce --port 9092 --topic t --batch-bytes 16384 --value-bytes 100 --depth 5
    python -m benchmarks.load_generator produce --port 9092 --topic t --batch-bytes 16384 --partitions 100 --depth 5
    python -m benchmarks.load_generator produce --port 9092 --topic t --batch-bytes 16384 --acks 0 --depth 64
    python -m benchmarks.load_generator fetch --port 9092 --topic t --max-bytes 1048576
    python -m benchmarks.load_generator metadata --port 9092
"""

from __future__ import annotations

import argparse
import collections
import itertools
import json
import select
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

import crc32c

from benchmarks.secured_connections import Login, secure, tls_context
from benchmarks.wire_requests import (
    BadAnswer,
    Buffer,
    Connection,
    ProducerId,
    batch_of_count,
    batch_of_size,
    check_produce_answer,
    fetch_frame,
    list_offsets_frame,
    metadata_of_all_frame,
    next_offset,
    offset_of_list_offsets_answer,
    produce_frame,
    records_of_fetch_answer,
)

RECEIVE_BYTES = 1 << 16
FETCH_SLACK_BYTES = 2 << 20
MICROSECONDS = 1e6
LATEST = -1
"""The timestamp that asks for the end of a partition."""


@dataclass(frozen=True)
class Load:
    """What one run did; `bytes` are record batch bytes, latencies microseconds from send to answer."""

    requests: int
    records: int
    bytes: int
    seconds: float
    client_cpu_seconds: float
    p50_us: float
    p99_us: float
    p999_us: float


class Latencies:
    """Collected seconds per request."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def percentile_us(self, share: float) -> float:
        """The latency that `share` of the requests did not exceed."""
        ordered = sorted(self.seconds)
        return ordered[min(int(len(ordered) * share), len(ordered) - 1)] * MICROSECONDS


def load_summary(
    latencies: Latencies, records: int, size: int, seconds: float, cpu_seconds: float, requests: int | None = None
) -> Load:
    """What one run did. requests: where not each of them has a latency."""
    percentiles = (latencies.percentile_us(share) for share in (0.5, 0.99, 0.999))
    answered = len(latencies.seconds) if requests is None else requests
    return Load(answered, records, size, seconds, cpu_seconds, *percentiles)


def idempotent_frames(frame: bytes, batch: bytes, count: int, producer: ProducerId) -> Iterator[Buffer]:
    """The frame of `batch` again and again, each time with the next sequence numbers and their checksum.

    What an iteration gives is valid until the next one.
    """
    changing = bytearray(frame)
    start = frame.index(batch)
    struct.pack_into(">qh", changing, start + 43, *producer)
    with memoryview(changing) as view, view[start + 21 : start + len(batch)] as covered:
        for sequence in itertools.count(0, count):
            struct.pack_into(">i", changing, start + 53, sequence & 0x7FFFFFFF)
            struct.pack_into(">I", changing, start + 17, crc32c.crc32c(covered))
            yield changing


class ProduceRun:
    """Sends produce requests: over each connection, `depth` in flight, answers in order."""

    def __init__(
        self,
        next_frame: Callable[[], Buffer],
        connections: list[socket.socket],
        depth: int,
        limit: int,
        seconds: float,
    ) -> None:
        self._next_frame = next_frame
        self._connections = connections
        self._depth = depth
        self._limit = limit
        self._seconds = seconds
        self._last_answer = b""
        self.latencies = Latencies()

    def run(self) -> None:
        """Run for the time given, or until the limit of requests is sent, and drain."""
        if len(self._connections) == 1:
            self._run_one(self._connections[0])
        else:
            self._run_many()
        check_produce_answer(self._last_answer)

    def _run_one(self, connection: socket.socket) -> None:
        """Without epoll: it would cost as much as the rest of a small request."""
        next_frame, depth, limit = self._next_frame, self._depth, self._limit
        clock, done = time.perf_counter, self.latencies.seconds
        sent_at: collections.deque[float] = collections.deque()
        sent, pending, end = 0, b"", clock() + self._seconds
        while True:
            while len(sent_at) < depth and sent < limit:
                sent_at.append(clock())
                connection.sendall(next_frame())
                sent += 1
            if not sent_at:
                return
            pending += _receive(connection)
            now = clock()
            pending = self._count_answers(pending, sent_at, now, done)
            if now > end:
                limit = 0

    def _run_many(self) -> None:
        next_frame, clock, done = self._next_frame, time.perf_counter, self.latencies.seconds
        poller, peers = select.epoll(), {}
        for connection in self._connections:
            peers[connection.fileno()] = _Peer(connection)
            poller.register(connection.fileno(), select.EPOLLIN)
        sent = in_flight = 0
        end = clock() + self._seconds
        for _ in range(self._depth):
            for peer in peers.values():
                peer.send(next_frame(), clock())
                sent += 1
                in_flight += 1
        while in_flight:
            for number, _ in poller.poll():
                peer = peers[number]
                data = peer.pending + _receive(peer.connection)
                now = clock()
                waiting = len(peer.sent_at)
                peer.pending = self._count_answers(data, peer.sent_at, now, done)
                answered = waiting - len(peer.sent_at)
                in_flight -= answered
                if now > end or sent >= self._limit:
                    continue
                for _ in range(answered):
                    peer.send(next_frame(), clock())
                sent += answered
                in_flight += answered
        poller.close()

    def _count_answers(self, data: bytes, sent_at: collections.deque[float], now: float, done: list[float]) -> bytes:
        """Take whole answers off the front of `data`; the rest."""
        position = 0
        while len(data) - position >= 4:
            end = position + 4 + int.from_bytes(data[position : position + 4], "big")
            if end > len(data):
                break
            self._last_answer = data[position + 4 : end]
            done.append(now - sent_at.popleft())
            position = end
        return data[position:] if position else data


class UnacknowledgedRun:
    """Sends produce requests with acks=0, which are never answered, over one connection.

    Behind every `depth` of them it asks for the end of the partition: a broker answers in order, so that answer says
    that the requests before it are done, and how many records are stored. A latency is that of `depth` requests.
    """

    def __init__(self, frame: Buffer, connection: Connection, topic: str, depth: int) -> None:
        self._frames = bytes(frame) * depth
        self._connection = connection
        self._ask = list_offsets_frame(topic, 0, LATEST)
        self._depth = depth
        self._first_offset = self._end_offset()
        self.latencies = Latencies()

    def run(self, limit: int, seconds: float) -> int:
        """Run for the time given, or until `limit` requests are sent; how many were sent."""
        clock, done = time.perf_counter, self.latencies.seconds
        sent, end = 0, clock() + seconds
        while sent < limit and clock() < end:
            sent_at = clock()
            self._connection.socket.sendall(self._frames)
            self._end_offset()
            done.append(clock() - sent_at)
            sent += self._depth
        return sent

    def check(self, records: int) -> None:
        """Raise BadAnswer unless so many records were stored: a client with acks=0 is told of no error."""
        stored = self._end_offset() - self._first_offset
        if stored != records:
            raise BadAnswer(f"{records} records were sent with acks=0, {stored} are stored")

    def _end_offset(self) -> int:
        return offset_of_list_offsets_answer(self._connection.call(self._ask))


class _Peer:
    """One of many connections."""

    __slots__ = ("connection", "pending", "sent_at")

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.pending = b""
        self.sent_at: collections.deque[float] = collections.deque()

    def send(self, frame: Buffer, now: float) -> None:
        self.sent_at.append(now)
        self.connection.sendall(frame)


def _receive(connection: socket.socket) -> bytes:
    data = connection.recv(RECEIVE_BYTES)
    if not data:
        raise BadAnswer("the broker closed the connection")
    return data


def _connect(arguments: argparse.Namespace, buffer_bytes: int = RECEIVE_BYTES) -> Connection:
    connection = Connection(arguments.host, arguments.port, buffer_bytes)
    if arguments.trust or arguments.login:
        login = Login.of_user("PLAIN", *arguments.login.split(":", 1)) if arguments.login else None
        secure(connection, tls_context(arguments.trust) if arguments.trust else None, login)
    return connection


def run_produce(arguments: argparse.Namespace) -> Load:
    """The command `produce`. Raises ValueError for several connections or partitions with acks=0."""
    if not arguments.acks and (arguments.connections, arguments.partitions, arguments.idempotent) != (1, 1, False):
        raise ValueError("with acks=0 there is one connection, one partition and no idempotent producer")
    if arguments.batch_bytes:
        batch, count = batch_of_size(arguments.batch_bytes, arguments.value_bytes)
    else:
        batch, count = batch_of_count(1, arguments.value_bytes), 1
    connections = [_connect(arguments) for _ in range(arguments.connections)]
    connections[0].create_topic(arguments.topic, arguments.partitions)
    for connection in connections:
        connection.socket.settimeout(None)  # a time-out would cost a poll per call
    limit = max(arguments.max_total_bytes // len(batch), 1)
    frames = [produce_frame(arguments.topic, number, batch, arguments.acks) for number in range(arguments.partitions)]
    repeated: Iterator[Buffer] = itertools.cycle(frames)
    if arguments.idempotent:
        repeated = idempotent_frames(frames[0], batch, count, connections[0].producer_id())
    if not arguments.acks:
        unacknowledged = UnacknowledgedRun(frames[0], connections[0], arguments.topic, arguments.depth)
        return _run_unacknowledged(arguments, unacknowledged, count, limit, len(batch))
    run = ProduceRun(
        repeated.__next__, [each.socket for each in connections], arguments.depth, limit, arguments.seconds
    )
    wait_for_start(arguments)
    started, cpu = time.perf_counter(), time.process_time()
    run.run()
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    requests = len(run.latencies.seconds)
    return load_summary(run.latencies, requests * count, requests * len(batch), seconds, cpu)


def _run_unacknowledged(
    arguments: argparse.Namespace, run: UnacknowledgedRun, count: int, limit: int, batch_bytes: int
) -> Load:
    wait_for_start(arguments)
    started, cpu = time.perf_counter(), time.process_time()
    sent = run.run(limit, arguments.seconds)
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    run.check(sent * count)
    return load_summary(run.latencies, sent * count, sent * batch_bytes, seconds, cpu, sent)


def run_fetch(arguments: argparse.Namespace) -> Load:
    """The command `fetch`: one request at a time through the partition, and from its start again at its end."""
    connection = _connect(arguments, arguments.max_bytes + FETCH_SLACK_BYTES)
    latencies, total, offset, clock = Latencies(), 0, 0, time.perf_counter
    wait_for_start(arguments)
    started, cpu = clock(), time.process_time()
    while clock() - started < arguments.seconds:
        sent_at = clock()
        answer = connection.call(fetch_frame(arguments.topic, 0, offset, arguments.max_bytes))
        fetched = records_of_fetch_answer(answer)
        following = next_offset(answer, fetched)
        offset = 0 if following is None or following >= arguments.end_offset else following
        latencies.seconds.append(clock() - sent_at)
        total += fetched.end - fetched.start
    return load_summary(latencies, 0, total, clock() - started, time.process_time() - cpu)


def run_metadata(arguments: argparse.Namespace) -> Load:
    """The command `metadata`: of all topics, one request at a time; `bytes` are those of the answers."""
    connection = _connect(arguments)
    latencies, total, clock, frame = Latencies(), 0, time.perf_counter, metadata_of_all_frame()
    wait_for_start(arguments)
    started, cpu = clock(), time.process_time()
    while clock() - started < arguments.seconds:
        sent_at = clock()
        total += len(connection.call(frame))
        latencies.seconds.append(clock() - sent_at)
    return load_summary(latencies, 0, total, clock() - started, time.process_time() - cpu)


def wait_for_start(arguments: argparse.Namespace) -> None:
    """Say that everything is ready, and wait for a line, if that was asked for."""
    if arguments.wait:
        print("ready", flush=True)
        sys.stdin.readline()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="A raw Kafka load generator.")
    commands = parser.add_subparsers(required=True)
    produce = commands.add_parser("produce")
    produce.set_defaults(run=run_produce)
    produce.add_argument("--batch-bytes", type=int, default=0, help="0: one record a batch")
    produce.add_argument("--value-bytes", type=int, default=100)
    produce.add_argument("--connections", type=int, default=1)
    produce.add_argument(
        "--depth", type=int, default=1, help="requests in flight per connection; with acks=0: between two questions"
    )
    produce.add_argument("--acks", type=int, default=1)
    produce.add_argument("--partitions", type=int, default=1, help="sent to in turn")
    produce.add_argument("--idempotent", action="store_true", help="numbered; only to partition 0")
    produce.add_argument("--max-total-bytes", type=int, default=1 << 40)
    fetch = commands.add_parser("fetch")
    fetch.set_defaults(run=run_fetch)
    fetch.add_argument("--max-bytes", type=int, default=1 << 20)
    fetch.add_argument("--end-offset", type=int, default=1 << 62, help="begin anew when this offset is reached")
    metadata = commands.add_parser("metadata")
    metadata.set_defaults(run=run_metadata)
    for command in (produce, fetch, metadata):
        command.add_argument("--host", default="127.0.0.1")
        command.add_argument("--port", type=int, required=True)
        command.add_argument("--topic", required=command is not metadata)
        command.add_argument("--trust", help="a PEM file: connect by TLS to a broker whose authority it has")
        command.add_argument("--login", metavar="USER:PASSWORD", help="log in by PLAIN")
        command.add_argument("--seconds", type=float, default=3.0)
        command.add_argument("--wait", action="store_true", help="print `ready` and wait for a line before starting")
    return parser


def main() -> None:
    """Run one command and print its `Load` as JSON."""
    arguments = _parser().parse_args()
    print(json.dumps(asdict(arguments.run(arguments))), flush=True)


if __name__ == "__main__":
    main()
