"""What request metrics cost, as a share of the CPU that a request takes: they stay on, so it must be at most 5 %.

    python -m benchmarks.metrics_cost
    python -m benchmarks.metrics_cost --rounds 7 --seconds 2

A broker in this process serves one connection from another; requests are small and run at once, which is the dearest
case for whatever is done per request. The cost of a request is the CPU time of its network thread, user and kernel,
over the requests it served, metrics included. The cost of metrics is RequestMetrics.record alone, called again and
again with a request that the broker had finished, less an empty call's loop. CPU times, so a busy machine changes both
alike; medians over the rounds, which alternate.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from barnabas.broker.broker_server import BrokerServer
from barnabas.config.kafka_config import KafkaConfig
from barnabas.config.server_defaults import SERVER_DEFAULTS
from barnabas.network.processor import Processor
from barnabas.network.requests.request_metrics import RequestMetrics
from benchmarks.systems import SHARED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from barnabas.api.request import Request

CELLS = {
    "produce 100 B, 1 in flight": ("produce", "--value-bytes", "100"),
    "produce 100 B, 5 in flight": ("produce", "--value-bytes", "100", "--depth", "5"),
    "fetch 4 KiB, 1 in flight": ("fetch", "--max-bytes", "4096", "--end-offset", "100"),
}
CALLS = 50_000
PROMISED_SHARE = 0.05


class NetworkThread:
    """The CPU clock of the one Processor of a broker in this process."""

    def __init__(self) -> None:
        self._clock = self._number = -1
        self._run = Processor.run

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Learn of the thread when it starts."""
        original = self._run

        def run(processor: Processor) -> None:
            self._clock = time.pthread_getcpuclockid(threading.get_ident())
            self._number = threading.get_native_id()
            original(processor)

        Processor.run = run  # type: ignore[assignment, method-assign]
        try:
            yield
        finally:
            Processor.run = original  # type: ignore[method-assign]

    def cpu_ns(self) -> int:
        """CPU time it has used."""
        return time.clock_gettime_ns(self._clock)

    def user_share(self) -> float:
        """How much of that was not the kernel's; sampled by the kernel, so good over seconds."""
        with open(f"/proc/self/task/{self._number}/stat") as stat:
            fields = stat.read().rpartition(")")[2].split()
        user, kernel = int(fields[11]), int(fields[12])
        return user / max(user + kernel, 1)


@contextmanager
def broker(data_dir: str) -> Iterator[BrokerServer]:
    """One network thread, as by default."""
    settings = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": data_dir, "num.network.threads": "1"}
    server = BrokerServer(KafkaConfig.parse(SERVER_DEFAULTS | SHARED | settings, "the benchmark"))
    server.startup()
    try:
        yield server
    finally:
        server.shutdown()


def load(port: int, arguments: tuple[str, ...], seconds: float) -> int:
    """Run the load generator; requests it made."""
    place = ["--port", str(port), "--topic", "t", "--seconds", str(seconds)]
    command = [sys.executable, "-m", "benchmarks.load_generator", *arguments, *place]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(json.loads(done.stdout)["requests"])


@contextmanager
def last_request() -> Iterator[list[Request[Any]]]:
    """What was recorded last, kept in a list of one."""
    original = RequestMetrics.record
    kept: list[Request[Any]] = []

    def record(metrics: RequestMetrics, request: Request[Any]) -> None:
        kept[:] = [request]
        original(metrics, request)

    RequestMetrics.record = record  # type: ignore[assignment, method-assign]
    try:
        yield kept
    finally:
        RequestMetrics.record = original  # type: ignore[method-assign]


def nanoseconds_a_call(call: Callable[[Any], object], argument: Any) -> float:
    """CPU time of one call, loop included."""
    started_ns = time.thread_time_ns()
    for _ in range(CALLS):
        call(argument)
    return (time.thread_time_ns() - started_ns) / CALLS


def empty_loop_ns() -> float:
    """CPU time of one turn of the loop alone."""
    started_ns = time.thread_time_ns()
    for _ in range(CALLS):
        pass
    return (time.thread_time_ns() - started_ns) / CALLS


def measure(rounds: int, seconds: float) -> tuple[dict[str, tuple[float, float]], float]:
    """By cell: nanoseconds of a request, and of recording it; and how much of the former was user time."""
    samples: dict[str, Request[Any]] = {}
    requests: dict[str, list[float]] = {name: [] for name in CELLS}
    records: dict[str, list[float]] = {name: [] for name in CELLS}
    with tempfile.TemporaryDirectory() as data_dir, last_request() as kept, broker(data_dir) as server:
        for name, arguments in CELLS.items():
            load(server.bound_endpoints[0].port, arguments, 0.3)
            samples[name] = kept[0]
    thread = NetworkThread()
    with tempfile.TemporaryDirectory() as data_dir, thread.watched(), broker(data_dir) as server:
        for _ in range(rounds):
            for name, arguments in CELLS.items():
                before_ns = thread.cpu_ns()
                count = load(server.bound_endpoints[0].port, arguments, seconds)
                requests[name].append((thread.cpu_ns() - before_ns) / count)
                recorded_ns = nanoseconds_a_call(RequestMetrics().record, samples[name])
                records[name].append(recorded_ns - empty_loop_ns())
        user_share = thread.user_share()
    return {name: (statistics.median(requests[name]), statistics.median(records[name])) for name in CELLS}, user_share


def main() -> None:
    """Print a table; exit status 1 if the promise is not kept."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.5)
    options = parser.parse_args()
    found, user_share = measure(options.rounds, options.seconds)
    print("| request | CPU, us | without the kernel's | its metrics, us | share | of user time |")
    print("|---|---|---|---|---|---|")
    for name, (request_ns, record_ns) in found.items():
        user_ns = request_ns * user_share
        print(
            f"| {name} | {request_ns / 1000:.1f} | {user_ns / 1000:.1f} | {record_ns / 1000:.2f} "
            f"| {record_ns / request_ns:.1%} | {record_ns / user_ns:.1%} |"
        )
    if any(record_ns > PROMISED_SHARE * request_ns * user_share for request_ns, record_ns in found.values()):
        raise SystemExit(f"more than {PROMISED_SHARE:.0%} of a request")


if __name__ == "__main__":
    main()
