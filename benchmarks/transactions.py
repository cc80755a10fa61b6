"""What transactions cost: short ones of one and of ten producers, and throughput with a commit every 100 ms.

    python -m benchmarks.transactions [--systems apache-kafka apache-kafka-4 barnabas barnabas-at-2] [--seconds 4]

All systems are up at once, and each round goes round them. The client is the same for all: Barnabas' own producer, a
process for each. `barnabas-at-2` is Barnabas with transaction.version 2, which Kafka 4 has by default and 3.9 has not.
First, transactions of one record: how many a second, and the time of a commit (median and p99), with one producer, then
with ten at once. Then records of 1 KB in batches of 16 KB, in transactions of 100 ms and without any: MB a second.
Prints medians over the rounds, and ratios to the first system of the same run; --output keeps every figure.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from multiprocessing.synchronize import Barrier
from pathlib import Path
from statistics import median
from typing import NamedTuple

from barnabas.clients.admin import Admin, FeatureUpdate, NewTopic
from barnabas.clients.producer import Producer
from benchmarks.figure_table import Result, figure_table
from benchmarks.systems import KAFKA_4, NAMES, REFERENCE, make_system
from tests.support.server_process import ServerProcess

AT_2 = "-at-2"
TOPIC = "transactions"
PARTITIONS = 10
SETTINGS = {
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "offsets.topic.replication.factor": "1",
}
VALUE = bytes(1000)
BATCH_BYTES = 16_384
COMMIT_SECONDS = 0.1
WARM_SECONDS = 1.0

FIGURES = {
    "transactions/s": "transactions_per_second",
    "commit, median ms": "commit_ms",
    "commit, p99 ms": "commit_p99_ms",
    "MB/s": "mb_per_second",
}


class Load(NamedTuple):
    """The work of one process. number: of its producer, and of its partition. seconds: after a second to get warm."""

    bootstrap: str
    number: int
    seconds: float


class Measured(NamedTuple):
    """What one process has done: the commits with their times, or the bytes that were acknowledged."""

    commit_seconds: list[float]
    sent_bytes: int = 0
    elapsed: float = 0.0


def short_transactions(load: Load) -> Measured:
    """Transactions of one record, one after the other."""
    times: list[float] = []
    with _producer(load, is_transactional=True, linger_ms=0) as producer:
        producer.init_transactions()
        began = time.perf_counter()
        while (now := time.perf_counter() - began) < WARM_SECONDS + load.seconds:
            producer.begin_transaction()
            producer.send(TOPIC, VALUE, partition=load.number)
            commits = time.perf_counter()
            producer.commit_transaction()
            if now >= WARM_SECONDS:
                times.append(time.perf_counter() - commits)
    return Measured(times)


def long_transactions(load: Load) -> Measured:
    """Batches of 16 KB, committed every 100 ms."""
    with _producer(load, is_transactional=True, linger_ms=5) as producer:
        producer.init_transactions()

        def send_until(end: float) -> int:
            with producer.transaction():
                return _send_until(producer, load, min(end, time.perf_counter() + COMMIT_SECONDS))

        return _stream(load, send_until)


def no_transactions(load: Load) -> Measured:
    """Batches of 16 KB of an idempotent producer."""
    with _producer(load, is_transactional=False, linger_ms=5) as producer:

        def send_until(end: float) -> int:
            sent = _send_until(producer, load, min(end, time.perf_counter() + COMMIT_SECONDS))
            producer.flush()
            return sent

        return _stream(load, send_until)


def _producer(load: Load, *, is_transactional: bool, linger_ms: int) -> Producer:
    name = f"bench-{load.number}" if is_transactional else None
    return Producer(
        load.bootstrap, transactional_id=name, linger_ms=linger_ms, batch_size=BATCH_BYTES, enable_idempotence=True
    )


def _send_until(producer: Producer, load: Load, end: float) -> int:
    sent = 0
    while time.perf_counter() < end:
        producer.send(TOPIC, VALUE, partition=load.number)
        sent += len(VALUE)
    return sent


def _stream(load: Load, send_until: Callable[[float], int]) -> Measured:
    began = time.perf_counter()
    while time.perf_counter() - began < WARM_SECONDS:
        send_until(began + WARM_SECONDS)
    began = time.perf_counter()
    sent = 0
    while time.perf_counter() - began < load.seconds:
        sent += send_until(began + load.seconds)
    return Measured([], sent, time.perf_counter() - began)


Work = Callable[[Load], Measured]
CELLS: dict[str, tuple[Work, int]] = {
    "one record, 1 producer": (short_transactions, 1),
    "one record, 10 producers": (short_transactions, 10),
    "16 KB batches, a commit every 100 ms": (long_transactions, 1),
    "16 KB batches, no transactions": (no_transactions, 1),
}
"""The work, and the number of producers, by the name of the cell."""


def _run(work: Work, load: Load, barrier: Barrier, results: multiprocessing.Queue[Measured]) -> None:
    barrier.wait()
    results.put(work(load))


def measure(server: ServerProcess, work: Work, producers: int, seconds: float) -> Result:
    """Run producers at once, each a process of its own. Raises TimeoutError (queue.Empty) when one of them fails."""
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(producers), context.Queue()
    bootstrap = f"{server.host}:{server.port}"
    processes = [
        context.Process(target=_run, args=(work, Load(bootstrap, number, seconds), barrier, results))
        for number in range(producers)
    ]
    for process in processes:
        process.start()
    measured: list[Measured] = [results.get(timeout=120 + seconds) for _ in processes]
    for process in processes:
        process.join()
    times = sorted(each for one in measured for each in one.commit_seconds)
    if not times:
        return {"mb_per_second": sum(one.sent_bytes / one.elapsed for one in measured) / 1e6}
    return {
        "transactions_per_second": len(times) / seconds,
        "commit_ms": 1000 * median(times),
        "commit_p99_ms": 1000 * times[len(times) * 99 // 100],
    }


def prepare(name: str, server: ServerProcess) -> None:
    """Make the topic, and raise the level of a system that is asked for at level 2."""
    with Admin(f"{server.host}:{server.port}") as admin:
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])
        if name.endswith(AT_2):
            admin.update_features({"transaction.version": FeatureUpdate(2)})


def report(results: Sequence[Result]) -> str:
    """Return the table; ratios are to the first system."""
    return figure_table(results, FIGURES, results[0]["system"])


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = [*NAMES, *(f"{name}{AT_2}" for name in NAMES if name.startswith("barnabas"))]
    systems = [REFERENCE, KAFKA_4, "barnabas", f"barnabas{AT_2}"]
    parser.add_argument("--systems", nargs="+", default=systems, choices=known)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--output", type=Path, help="a JSON file of every figure")
    parser.add_argument("--directory", help="where data directories are made; the system's temporary one if unset")
    options = parser.parse_args()
    results: list[Result] = []
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=options.directory)))
        servers: dict[str, ServerProcess] = {}
        for name in options.systems:
            servers[name] = make_system(name.removesuffix(AT_2), place / name, None, SETTINGS)
            stack.callback(servers[name].close)
            servers[name].start()
            prepare(name, servers[name])
        for number in range(options.rounds):
            for cell, (work, producers) in CELLS.items():
                for name, server in servers.items():
                    result: Result = {"system": name, "round": number, "cell": cell}
                    results.append(result | measure(server, work, producers, options.seconds))
    if options.output is not None:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(json.dumps(results, indent=1))
    print(f"\n{options.rounds} rounds of {options.seconds:g} s a cell, medians (ratio to {options.systems[0]})\n")
    print(report(results))


if __name__ == "__main__":
    main()
