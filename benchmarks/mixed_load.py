"""Who is delayed by whom, when requests run at once and when all go through the queue.

    python -m benchmarks.mixed_load                                   # both modes, every load; about twelve minutes
    python -m benchmarks.mixed_load --clients produce --loads nothing fetch metadata produce all          # four of them
    python -m benchmarks.mixed_load --modes at-once --turns 0.25 1 4 16 --loads all       # the time budget of a turn
    python -m benchmarks.mixed_load --before ../other-version/src --modes at-once before

One small client is timed: it produces a record of 100 B, or heartbeats, or commits an offset, one in flight. Beside it
run, each in a process of its own: fetches of 1 MB over two connections, Metadata of all of 1,000 topics, produces of
100 KB, five in flight; heartbeats of 300 members, 1,000 a second in all; commits of ten offsets, 300 a second; or all
of them. The brokers are up at once and the rounds go round them; figures are medians of the rounds, with the rate that
the load beside reached, for a mode that serves the small client by starving the large ones has won nothing.
`TURN_NS`, `SLOW_REQUEST_NS` and the marks `brief` are set by these figures (docs/decisions).
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.wire_requests import Connection, check_create_topics_answer, create_topics_frame

TOPICS = 1000
FETCHED_BYTES = 300_000_000
LARGE = ("--batch-bytes", "100000", "--value-bytes", "1000", "--depth", "5")
RAW, MEMBERS = "benchmarks.load_generator", "benchmarks.group_members"
ALONE = ("--groups", "1", "--members", "1", "--in-flight", "1", "--partitions", "1")
CLIENTS: dict[str, tuple[str, ...]] = {
    "produce": (RAW, "produce", "--topic", "small", "--value-bytes", "100"),
    "heartbeat": (MEMBERS, "heartbeat", "--prefix", "small-heartbeat", *ALONE),
    "commit": (MEMBERS, "commit", "--prefix", "small-commit", *ALONE),
}
LOADS: dict[str, tuple[tuple[str, ...], ...]] = {
    "nothing": (),
    "fetch": ((RAW, "fetch", "--topic", "fetched", "--max-bytes", str(1 << 20)),) * 2,
    "metadata": ((RAW, "metadata"),),
    "produce": ((RAW, "produce", "--topic", "large", *LARGE),),
    "heartbeats": ((MEMBERS, "heartbeat", "--prefix", "heartbeats", "--groups", "100", "--rate", "1000"),),
    "commits": ((MEMBERS, "commit", "--prefix", "commits", "--groups", "10", "--rate", "300"),),
}
LOADS["all"] = tuple(command for load in LOADS.values() for command in load)
GROUPS = {"offsets.topic.replication.factor": "1", "group.initial.rebalance.delay.ms": "500"}
QUEUE = ("--set", "inline.requests.enable=false")


class Broker:
    """A broker in a process of its own; `arguments` go to `benchmarks.adjusted_broker`."""

    def __init__(self, stack: ExitStack, arguments: list[str], place: Path | None) -> None:
        data_dir = stack.enter_context(tempfile.TemporaryDirectory())
        environment = os.environ | ({} if place is None else {"PYTHONPATH": f"{place.resolve()!s}:{Path.cwd()!s}"})
        command = [sys.executable, "-m", "benchmarks.adjusted_broker", "--data-dir", data_dir, *arguments]
        command += [word for name, value in GROUPS.items() for word in ("--set", f"{name}={value}")]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        stack.callback(self._process.communicate)
        assert self._process.stdout is not None
        self.port: int = json.loads(self._process.stdout.readline())["PLAINTEXT"]

    def prepare(self) -> None:
        """Make the topics, and fill the one that is fetched."""
        connection = Connection("127.0.0.1", self.port)
        for number in range(TOPICS):
            check_create_topics_answer(connection.call(create_topics_frame(f"topic-{number:05}", 1)))
        connection.create_topic("small")
        connection.close()
        fill = (RAW, "produce", "--topic", "fetched", *LARGE, "--max-total-bytes", str(FETCHED_BYTES))
        self.result(self.start(fill, 300))

    def start(self, command: tuple[str, ...], seconds: float) -> subprocess.Popen[str]:
        """Start a load generator against it, and return when it is ready to begin."""
        words = [sys.executable, "-m", *command, "--port", str(self.port), "--seconds", str(seconds), "--wait"]
        process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        process.stdout.readline()
        return process

    @staticmethod
    def begin(process: subprocess.Popen[str]) -> None:
        """Let it begin."""
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()

    @staticmethod
    def result(process: subprocess.Popen[str]) -> dict[str, Any]:
        """What a load generator saw; it begins, unless it has."""
        output, _ = process.communicate("\n")
        if process.returncode:
            raise RuntimeError(f"a load generator failed: {process.args!r}")
        load: dict[str, Any] = json.loads(output)
        return load


def run(broker: Broker, client: str, load: tuple[tuple[str, ...], ...], seconds: float) -> tuple[float, ...]:
    """Of the small client latencies in microseconds (p50, p99, p99.9) and the rate; of the load beside it MB/s and
    requests a second."""
    beside = [broker.start(command, seconds + 1) for command in load]
    small_client = broker.start(CLIENTS[client], seconds)
    for process in beside:
        broker.begin(process)
    small = broker.result(small_client)
    done = [broker.result(process) for process in beside]
    latencies = (small["p50_us"], small["p99_us"], small["p999_us"])
    megabytes = sum(each["bytes"] / each["seconds"] / 1e6 for each in done)
    return (
        *latencies,
        small["requests"] / small["seconds"],
        megabytes,
        sum(each["requests"] / each["seconds"] for each in done),
    )


def _modes(options: argparse.Namespace) -> dict[str, tuple[list[str], Path | None]]:
    modes: dict[str, tuple[list[str], Path | None]] = {}
    for mode in options.modes:
        if mode == "queue":
            modes[mode] = (list(QUEUE), None)
        elif mode == "before":
            modes[mode] = ([], options.before)
        else:
            modes[mode] = ([], None)
    for turn in options.turns:
        modes[f"turn {turn:g} ms"] = (["--turn-ms", str(turn)], None)
    for slow in options.slow:
        modes[f"slow {slow:g} ms"] = (["--slow-ms", str(slow)], None)
    return modes


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--modes", nargs="*", default=["at-once", "queue"], choices=["at-once", "queue", "before"])
    parser.add_argument("--turns", nargs="*", type=float, default=[], help="also brokers with these budgets, ms")
    parser.add_argument("--slow", nargs="*", type=float, default=[], help="also with these limits of one request, ms")
    parser.add_argument("--before", type=Path, help="directory with the package of the mode `before`")
    parser.add_argument("--clients", nargs="+", default=list(CLIENTS), choices=list(CLIENTS), help="the small one")
    parser.add_argument("--loads", nargs="+", default=list(LOADS), choices=list(LOADS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3)
    options = parser.parse_args()
    seen: defaultdict[tuple[str, str, str], list[tuple[float, ...]]] = defaultdict(list)
    with ExitStack() as stack:
        brokers = {name: Broker(stack, *how) for name, how in _modes(options).items()}
        for broker in brokers.values():
            broker.prepare()
        for _ in range(options.rounds):
            for client, load in itertools.product(options.clients, options.loads):
                for name, broker in brokers.items():
                    seen[client, load, name].append(run(broker, client, LOADS[load], options.seconds))
    columns = ("client", "beside", "mode", "p50 us", "p99 us", "p99.9 us", "req/s", "beside, MB/s", "beside, req/s")
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    for key, rows in seen.items():
        figures = (statistics.median(column) for column in zip(*rows, strict=True))
        print(f"| {' | '.join(key)} | {' | '.join(f'{figure:,.0f}' for figure in figures)} |")


if __name__ == "__main__":
    main()
