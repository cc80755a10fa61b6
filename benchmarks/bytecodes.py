"""Counts the bytecodes that a network thread runs per request: what a change costs, on a machine too busy to time it.

    python -m benchmarks.bytecodes                                     # every cell, by package
    python -m benchmarks.bytecodes --cells p-10c heartbeat --functions 30
    PYTHONPATH=../other-version/src python -m benchmarks.bytecodes     # the same of another version

The Processor of a broker in this process is traced, opcode by opcode, while a client sends the cell's request one at a
time; counts are the same in every run, but for the requests that add an index entry or roll a segment. What C code does
(system calls, checksums, built-ins) is not seen. The loop around a request counts fully here; in a busy broker several
requests share it.
"""

from __future__ import annotations

import argparse
import itertools
import socket
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from barnabas.broker.broker_server import BrokerServer
from barnabas.clients.admin import Admin, ScramAlteration, ScramMechanism
from barnabas.config.kafka_config import KafkaConfig
from barnabas.config.server_defaults import SERVER_DEFAULTS
from barnabas.network.processor import Processor
from benchmarks.fetch_sessions import IDLE, NEW_SESSION, full_frames, places, session_frames, topic_of
from benchmarks.group_members import Members, quiet_consumer_heartbeat
from benchmarks.secured_connections import Login, secure, tls_context
from benchmarks.systems import SHARED
from benchmarks.wire_requests import (
    Buffer,
    Connection,
    batch_of_count,
    batch_of_size,
    fetch_frame,
    list_offsets_frame,
    metadata_frame,
    produce_frame,
    session_fetch_frame,
    session_of_fetch_answer,
)
from tests.support.certificates import CertificateAuthority

WARM, COUNTED = 50, 200
OLD_BATCHES = 300
"""More than a segment remembers the places of."""
TOPIC = "counted"
Counts = Counter[tuple[str, str]]


class CountedProcessors:
    """Counts the opcodes of every Processor's thread, by file and function, while `counting`."""

    def __init__(self) -> None:
        self.counts: Counts = Counter()
        self.calls: Counts = Counter()
        self.counting = False
        original = Processor.run

        def run(processor: Processor) -> None:
            sys.settrace(self._called)
            original(processor)

        Processor.run = run  # type: ignore[method-assign, assignment]

    def _called(self, frame: FrameType, event: str, _: Any) -> Callable[..., Any]:
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        if self.counting:
            self.calls[frame.f_code.co_filename, frame.f_code.co_qualname] += 1
        return self._stepped

    def _stepped(self, frame: FrameType, event: str, _: Any) -> Callable[..., Any]:
        if self.counting and event == "opcode":
            self.counts[frame.f_code.co_filename, frame.f_code.co_qualname] += 1
        return self._stepped


FETCHED_TOGETHER = 100
"""Partitions of the cells of fetch sessions."""
SESSION_CELLS = {"f-100 full": False, "f-100 in a session": True}
SECURED = {"p-10c, TLS": "p-10c", "p-16k, TLS": "p-16k", "a login by SCRAM": ""}
"""Cell -> the cell of the same request in plaintext; empty: a login."""
USER, PASSWORD = "alice", "of-the-benchmark"
LISTENERS = {"PLAINTEXT": "PLAINTEXT", "TLS": "SSL", "LOGIN": "SASL_PLAINTEXT"}
CONSUMER_HEARTBEAT = "heartbeat, KIP-848"
GROUP_CELLS = {"heartbeat": ("heartbeat", 1), "commit": ("commit", 1), "commit of 10": ("commit", 10)}


def _requests(first_offset: int = 0) -> dict[str, bytes]:
    small, _ = batch_of_count(1, 1000), 1
    large, _ = batch_of_size(16 * 1024, 100)
    return {
        "p-10c": produce_frame(TOPIC, 0, small, 1),
        "p-10c, acks=all": produce_frame(TOPIC, 0, small, -1),
        "p-16k": produce_frame(TOPIC, 0, large, 1),
        "f-16k": fetch_frame(TOPIC, 0, first_offset, 16 * 1024),
        "f-1m": fetch_frame(TOPIC, 0, first_offset, 1 << 20),
        "metadata of a topic": metadata_frame(TOPIC),
        "latest offset": list_offsets_frame(TOPIC, 0, -1),
        "earliest offset": list_offsets_frame(TOPIC, 0, -2),
    }


def _fetches(connection: Connection, *, in_session: bool) -> Iterator[Buffer]:
    """Fetches of many partitions that have nothing new."""
    topic = topic_of(FETCHED_TOGETHER)
    if not in_session:
        return full_frames(FETCHED_TOGETHER, IDLE)
    frame = session_fetch_frame(topic, places(FETCHED_TOGETHER, 0, IDLE), *NEW_SESSION)
    return session_frames(FETCHED_TOGETHER, IDLE, session_of_fetch_answer(connection.call(frame)))


def _fill_partitions(connection: Connection) -> None:
    topic = topic_of(FETCHED_TOGETHER)
    connection.create_topic(topic, FETCHED_TOGETHER)
    for partition in range(FETCHED_TOGETHER):
        connection.call(produce_frame(topic, partition, batch_of_count(1, 100), 1))


def _member_requests(port: int, kind: str, partitions: int) -> tuple[Connection, Iterator[bytes]]:
    """The requests of the one member of a group, and its connection."""
    members = Members("127.0.0.1", port)
    members.join(1, 1, partitions, prefix=f"{kind}-{partitions}")
    (member,) = members.all
    return member.connection, itertools.repeat(getattr(member, kind))


def _secured_settings(place: Path) -> dict[str, str]:
    """Listeners of each kind, and a certificate, whose authority is in `trust.pem`."""
    authority = CertificateAuthority()
    authority.write_pem(place / "trust.pem")
    key_store = authority.issue("server").write_pem(place / "server.pem")
    return {
        "listeners": ",".join(f"{name}://127.0.0.1:0" for name in LISTENERS),
        "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in LISTENERS.items()),
        "inter.broker.listener.name": "PLAINTEXT",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(key_store),
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
    }


def _secured_visits(name: str, ports: Mapping[str, int], trust: Path, request: bytes) -> Callable[[], object]:
    """What is counted of a secured cell, once: a request over TLS, or a login."""
    if SECURED[name]:
        connection = Connection("localhost", ports["TLS"], 4 << 20)
        secure(connection, tls_context(str(trust)))
        return lambda: connection.call(request)
    with Admin(f"127.0.0.1:{ports['PLAINTEXT']}") as admin:
        admin.alter_user_scram_credentials([ScramAlteration(USER, ScramMechanism.SCRAM_SHA_256, PASSWORD)])
    login = Login.of_user("SCRAM-SHA-256", USER, PASSWORD)

    def visit() -> None:
        connection = Connection("127.0.0.1", ports["LOGIN"])
        try:
            secure(connection, None, login)
        finally:
            connection.close()

    return visit


def layer_of(file: str) -> str:
    """The package of ours a file belongs to."""
    if "/barnabas/" in file:
        return Path(file.split("/barnabas/")[1]).parts[0]
    return "protocol" if file.startswith("<") else "standard library"


def main() -> None:
    """Print a line a cell, and the functions if asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    cells = [*_requests(), *SESSION_CELLS, *GROUP_CELLS, CONSUMER_HEARTBEAT, *SECURED]
    parser.add_argument("--cells", nargs="+", default=cells, choices=cells)
    parser.add_argument("--functions", type=int, default=0, help="also list this many functions")
    options = parser.parse_args()
    counted = CountedProcessors()
    with tempfile.TemporaryDirectory() as place, tempfile.TemporaryDirectory() as data_dir:
        settings = _secured_settings(Path(place)) | {"log.dirs": data_dir, "num.network.threads": "1"}
        settings |= {"offsets.topic.replication.factor": "1", "group.initial.rebalance.delay.ms": "0"}
        broker = BrokerServer(KafkaConfig.parse(SERVER_DEFAULTS | SHARED | settings, "the benchmark"))
        broker.startup()
        ports = {endpoint.listener_name: endpoint.port for endpoint in broker.bound_endpoints}
        connection = Connection("127.0.0.1", ports["PLAINTEXT"], 4 << 20)
        connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        connection.create_topic(TOPIC)
        batch, count = batch_of_size(100_000, 1000)
        for _ in range(OLD_BATCHES):
            connection.call(produce_frame(TOPIC, 0, batch, 1))
        _fill_partitions(connection)
        requests = _requests(first_offset=10 * count)
        for name in options.cells:
            frames: Iterator[Buffer]
            if name in SECURED:
                request = requests.get(SECURED[name], b"")
                _count(counted, _secured_visits(name, ports, Path(place) / "trust.pem", request))
                _show(name, counted, options.functions)
                continue
            if name in requests:
                asking, frames = connection, itertools.repeat(requests[name])
            elif name in SESSION_CELLS:
                asking, frames = connection, _fetches(connection, in_session=SESSION_CELLS[name])
            elif name == CONSUMER_HEARTBEAT:
                asking = connection
                frames = itertools.repeat(quiet_consumer_heartbeat(connection, "consumers"))
            else:
                asking, frames = _member_requests(ports["PLAINTEXT"], *GROUP_CELLS[name])
            _count(counted, partial(_call_next, asking, frames))
            _show(name, counted, options.functions)
        connection.close()
        broker.shutdown()


def _call_next(connection: Connection, frames: Iterator[Buffer]) -> None:
    connection.call(next(frames))


def _count(counted: CountedProcessors, visit: Callable[[], object]) -> None:
    for number in range(WARM + COUNTED):
        if number == WARM:
            counted.counts.clear()
            counted.calls.clear()
            counted.counting = True
        visit()
    counted.counting = False


def _show(name: str, counted: CountedProcessors, functions: int) -> None:
    layers: Counter[str] = Counter()
    for (file, _), count in counted.counts.items():
        layers[layer_of(file)] += count
    parts = ", ".join(f"{layer} {count / COUNTED:.0f}" for layer, count in layers.most_common())
    calls = counted.calls.total() / COUNTED
    print(f"{name}: {counted.counts.total() / COUNTED:.0f} bytecodes, {calls:.0f} calls of Python functions ({parts})")
    for (file, function), count in counted.counts.most_common(functions):
        times = counted.calls[file, function] / COUNTED
        print(f"  {count / COUNTED:7.1f} in {times:5.2f} calls  {layer_of(file)}: {Path(file).stem}.{function}")


if __name__ == "__main__":
    main()
