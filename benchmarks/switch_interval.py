"""What the switch interval buys and costs: latency beside threads that compute, throughput without them.

    python -m benchmarks.switch_interval
    python -m benchmarks.switch_interval --intervals 5 1 0.5 0.2 --spinning 1 --seconds 3

A broker in this process answers one connection with one request in flight, first alone, then beside threads that run
Python without a pause, as a cleaner or a handler with real work would. `broker/process_tuning.py` sets the interval by
these figures. Rounds alternate over the intervals; medians are shown.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from barnabas.broker.broker_server import BrokerServer
from barnabas.config.kafka_config import KafkaConfig
from barnabas.config.server_defaults import SERVER_DEFAULTS
from benchmarks.systems import SHARED

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def spinning_threads(count: int) -> Iterator[None]:
    """`count` threads that compute until the block ends."""
    done = threading.Event()

    def spin() -> None:
        number = 0
        while not done.is_set():
            for _ in range(1000):
                number = (number * 31 + 7) % 1_000_003

    threads = [threading.Thread(target=spin, daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        done.set()
        for thread in threads:
            thread.join()


def load(port: int, topic: str, seconds: float, *arguments: str) -> dict[str, Any]:
    """One run of the load generator."""
    command = [sys.executable, "-m", "benchmarks.load_generator", "produce", "--port", str(port), "--topic", topic]
    done = subprocess.run([*command, "--seconds", str(seconds), *arguments], capture_output=True, text=True, check=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def main() -> None:
    """Print a table: a row per interval."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--intervals", nargs="+", type=float, default=[5, 2, 1, 0.5, 0.2, 0.1], help="milliseconds")
    parser.add_argument("--spinning", type=int, default=1, help="threads that compute")
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    seen: dict[float, list[tuple[float, float, float, float]]] = {interval: [] for interval in options.intervals}
    with tempfile.TemporaryDirectory() as data_dir:
        settings = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": data_dir}
        broker = BrokerServer(KafkaConfig.parse(SERVER_DEFAULTS | SHARED | settings, "the benchmark"))
        broker.startup()
        port = broker.bound_endpoints[0].port
        load(port, "warm", 1)
        for _ in range(options.rounds):
            for interval in options.intervals:
                sys.setswitchinterval(interval / 1000)
                alone = load(port, "alone", options.seconds, "--connections", "10")
                with spinning_threads(options.spinning):
                    beside = load(port, "beside", options.seconds)
                rate = alone["requests"] / alone["seconds"]
                beside_rate = beside["requests"] / beside["seconds"]
                seen[interval].append((rate, beside["p50_us"], beside["p99_us"], beside_rate))
        broker.shutdown()
    base = statistics.median(row[0] for row in seen[options.intervals[0]])
    print(f"| interval ms | 10 connections alone, req/s | ratio | beside {options.spinning}: p50 us | p99 us | req/s |")
    print("|---|---|---|---|---|---|")
    for interval, rows in seen.items():
        rate, p50, p99, beside_rate = (statistics.median(column) for column in zip(*rows, strict=True))
        print(f"| {interval:g} | {rate:,.0f} | {rate / base:.2f} | {p50:,.0f} | {p99:,.0f} | {beside_rate:,.0f} |")


if __name__ == "__main__":
    main()
