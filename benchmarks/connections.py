"""What connections cost: how fast they come and go, and what idle ones take from a busy one; against Apache Kafka.

    python -m benchmarks.connections [--systems apache-kafka barnabas] [--idle 0 100 1000] [--rounds 3] [--seconds 5]

All systems are up at once, and each round goes round them. First one client after the other connects, asks for the
API versions (so that the connection has been served, not merely accepted) and closes: connections a second, and the
broker's CPU per connection. Then so many connections are opened, each asks for the API versions once and is idle from
there on, while one client produces 100 byte records, acks=1, one at a time: produces a second, p50 and p99, the
broker's CPU per produce, its CPU while nobody asks for anything, and its resident memory per idle connection: what it
grew by since it was warm (a JVM's heap hides most of that). Prints medians over the rounds, and ratios to Apache Kafka
of the same run; --output keeps every figure.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.broker import run_load
from benchmarks.figure_table import Result, figure_table
from benchmarks.process_usage import cpu_seconds, resident_mib
from benchmarks.systems import NAMES, REFERENCE, make_system
from benchmarks.wire_requests import Connection
from tests.support.server_process import ServerProcess

DESCRIPTORS = 8192
IDLE_SECONDS = 3.0
TOPIC = "busy"
API_VERSIONS = bytes.fromhex("0000000d 0012 0000 00000001 0003 626566")  # v0, client id "bef"

CHURN = "connect, ask once, close"
FIGURES = {
    "connections/s": "connections_per_second",
    "CPU us a connection": "cpu_us_per_connection",
    "produce/s": "requests_per_second",
    "p50 us": "p50_us",
    "p99 us": "p99_us",
    "CPU us a produce": "cpu_us_per_request",
    "idle, share of a core": "idle_share",
    "KiB a connection": "kib_per_connection",
}


def come_and_go(server: ServerProcess, seconds: float) -> Result:
    """Connections one after the other."""
    before = cpu_seconds(server.pid)
    count = 0
    began = time.perf_counter()
    while (elapsed := time.perf_counter() - began) < seconds:
        connection = Connection(server.host, server.port)
        connection.call(API_VERSIONS)
        connection.close()
        count += 1
    used = cpu_seconds(server.pid) - before
    return {"connections_per_second": count / elapsed, "cpu_us_per_connection": used.total / count * 1e6}


@contextmanager
def idle_connections(server: ServerProcess, count: int) -> Iterator[None]:
    """So many, each of which has asked for something once."""
    connections = []
    try:
        for _ in range(count):
            connection = Connection(server.host, server.port)
            connections.append(connection)
            connection.call(API_VERSIONS)
        yield
    finally:
        for connection in connections:
            connection.close()


def busy_beside_idle(server: ServerProcess, count: int, seconds: float, empty_mib: float) -> Result:
    """One busy client beside `count` idle ones; `empty_mib` is what the broker took before there was any."""
    with idle_connections(server, count):
        held_mib = resident_mib(server.pid) - empty_mib
        before = cpu_seconds(server.pid)
        time.sleep(IDLE_SECONDS)
        idle_share = (cpu_seconds(server.pid) - before).total / IDLE_SECONDS
        load = run_load(server, "produce", TOPIC, seconds, "--batch-bytes", "170", "--value-bytes", "100")
    load["idle_share"] = idle_share
    if count:
        load["kib_per_connection"] = held_mib * 1024 / count
    return load


def measure(servers: dict[str, ServerProcess], idle_counts: Sequence[int], rounds: int, seconds: float) -> list[Result]:
    """Every figure of every round."""
    results = []
    empty_mib = {name: resident_mib(server.pid) for name, server in servers.items()}
    for number in range(rounds):
        for name, server in servers.items():
            cell: Result = {"system": name, "round": number, "cell": CHURN}
            results.append(cell | come_and_go(server, seconds))
        for count in idle_counts:
            for name, server in servers.items():
                cell = {"system": name, "round": number, "cell": f"{count} idle connections"}
                results.append(cell | busy_beside_idle(server, count, seconds, empty_mib[name]))
    return results


def report(results: list[Result]) -> str:
    """Return the table; ratios are to the reference if it was measured, else to the first system."""
    is_measured = any(result["system"] == REFERENCE for result in results)
    return figure_table(results, FIGURES, REFERENCE if is_measured else results[0]["system"])


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--systems", nargs="+", default=[REFERENCE, "barnabas"], choices=NAMES)
    parser.add_argument("--idle", nargs="+", type=int, default=[0, 100, 1000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--output", type=Path, help="a JSON file of every figure")
    parser.add_argument("--directory", help="where data directories are made; the system's temporary one if unset")
    options = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(DESCRIPTORS, most), most))
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=options.directory)))
        servers = {name: make_system(name, place, None, {}) for name in options.systems}
        for server in servers.values():
            stack.callback(server.close)
            server.start()
            run_load(server, "produce", TOPIC, 2.0, "--batch-bytes", "170", "--value-bytes", "100")  # warm
            come_and_go(server, 2.0)
        results = measure(servers, options.idle, options.rounds, options.seconds)
    if options.output is not None:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(json.dumps(results, indent=1))
    print(f"\n{options.rounds} rounds of {options.seconds:g} s a cell, medians (ratio to {options.systems[0]})\n")
    print(report(results))


if __name__ == "__main__":
    main()
