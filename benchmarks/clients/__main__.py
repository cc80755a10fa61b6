"""Compares client libraries: records/s, CPU and latency of each, in rounds that alternate, with ratios of one run.

    python -m benchmarks.clients produce                             # everything: about ten minutes
    python -m benchmarks.clients consume                             # everything: about fifteen minutes
    python -m benchmarks.clients consume --records 100000 --rounds 2 --only 1000-none-skewed
    python -m benchmarks.clients consume --libraries barnabas confluent-kafka
    python -m benchmarks.clients latency                             # three minutes

One broker of ours serves all; each library runs in a process of its own, one at a time. Ratios are medians of the
ratios within a round, ours to the other's, with the lowest and the highest.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from barnabas.clients.admin import Admin, NewTopic
from benchmarks.clients import consumers, latency, producers
from benchmarks.clients.workload import PARTITIONS, WORKLOADS, Workload, fill
from tests.support.barnabas_process import BarnabasProcess

OURS = "barnabas"
_SECONDS = 300
_RECORDS = 300_000
_RECORDS_PER_SECOND = 1_000
_LATENCY_SECONDS = 10

Results = dict[str, list[dict[str, float]]]


class Plan(NamedTuple):
    """What is measured: the broker, the libraries, the number of records and of rounds."""

    servers: str
    libraries: Sequence[str]
    records: int
    rounds: int
    only: Sequence[str] | None


def in_rounds(plan: Plan, command_of: Callable[[str, int], list[str]]) -> Results:
    """Run the command of each library in each round, and return what the commands printed."""
    results: Results = {name: [] for name in plan.libraries}
    for number in range(plan.rounds):
        # The order changes with the round: whatever comes first in a round has the same advantage for all.
        first = number % len(plan.libraries)
        for name in (*plan.libraries[first:], *plan.libraries[:first]):
            command = [sys.executable, "-m", *command_of(name, number)]
            output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=_SECONDS).stdout
            results[name].append(json.loads(output))
    return results


def measure_consumers(plan: Plan) -> None:
    """Fill each workload's topic, let each library read it in each round, and print a row for each library."""
    print("| records | library | records/s | CPU us a record | ours to theirs |\n|---|---|---|---|---|")
    for workload in _chosen(WORKLOADS, plan.only):
        records = fill(plan.servers, workload, plan.records)
        arguments = [plan.servers, workload.topic, str(PARTITIONS), str(records)]
        results = in_rounds(plan, lambda name, _, rest=arguments: ["benchmarks.clients.consumers", name, *rest])  # type: ignore[misc]
        print(*rows(workload.topic, results), sep="\n", flush=True)


def measure_producers(plan: Plan) -> None:
    """Let each library fill a topic of its own in each round, and print a row for each library."""
    print("| records | library | records/s | CPU us a record | ours to theirs |\n|---|---|---|---|---|")
    for workload in _chosen([each for each in WORKLOADS if not each.is_skewed], plan.only):

        def command(name: str, number: int, workload: Workload = workload) -> list[str]:
            topic = f"{workload.topic}-{name}-{number}"
            create_topic(plan.servers, topic)
            sending = [plan.servers, topic, str(workload.value_bytes), workload.codec, str(plan.records)]
            return ["benchmarks.clients.producers", name, *sending]

        print(*rows(workload.topic, in_rounds(plan, command)), sep="\n", flush=True)


def measure_latencies(plan: Plan) -> None:
    """Let each library send and read a topic of its own in each round, and print its latencies."""
    print("| library | p50 ms | p95 ms | p99 ms | highest ms |\n|---|---|---|---|---|")

    def command(name: str, number: int) -> list[str]:
        topic = f"latency-{name}-{number}"
        create_topic(plan.servers, topic)
        records = _LATENCY_SECONDS * _RECORDS_PER_SECOND
        return ["benchmarks.clients.latency", name, plan.servers, topic, str(records), str(_RECORDS_PER_SECOND)]

    for library, rounds in in_rounds(plan, command).items():
        figures = [median(each[name] for each in rounds) for name in ("p50", "p95", "p99", "highest")]
        print(f"| {library} | " + " | ".join(f"{figure:.1f}" for figure in figures) + " |", flush=True)


def create_topic(servers: str, topic: str) -> None:
    """Create a topic with the number of partitions that all workloads have."""
    with Admin(servers) as admin:
        admin.create_topics([NewTopic(topic, PARTITIONS, 1)])


def rows(name: str, results: Results) -> Iterable[str]:
    """Yield a row of the table for each library: rate, CPU a record, and our ratio of the same rounds."""
    for library, rounds in results.items():
        rate = median(each["records"] / each["seconds"] for each in rounds)
        cpu_us = median(each["cpu_seconds"] / each["records"] * 1e6 for each in rounds)
        ours = _ours_like(library)
        ratio = ""
        if library != ours and ours in results:
            pairs = zip(results[ours], rounds, strict=True)
            ratios = sorted(_rate(mine) / _rate(theirs) for mine, theirs in pairs)
            ratio = f"{median(ratios):.2f} ({ratios[0]:.2f}-{ratios[-1]:.2f})"
        yield f"| {name} | {library} | {rate:,.0f} | {cpu_us:.1f} | {ratio} |"


def _ours_like(library: str) -> str:
    """Return which of ours a library is compared with: the one with asyncio, or without idempotence, if it is so."""
    if library == "aiokafka":
        return f"{OURS}-aio"
    return OURS + library.removeprefix("kafka-python") if library.startswith("kafka-python") else OURS


def _rate(result: dict[str, float]) -> float:
    return result["records"] / result["seconds"]


def _chosen(workloads: Iterable[Workload], only: Sequence[str] | None) -> list[Workload]:
    return [each for each in workloads if only is None or each.topic in only]


KINDS: dict[str, tuple[Callable[[Plan], None], Iterable[str]]] = {
    "consume": (measure_consumers, consumers.LIBRARIES),
    "produce": (measure_producers, producers.LIBRARIES),
    "latency": (measure_latencies, latency.LIBRARIES),
}


def main() -> None:
    """Run the benchmark that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=list(KINDS))
    parser.add_argument("--records", type=int, default=_RECORDS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--libraries", nargs="+", help="default: all")
    parser.add_argument("--only", nargs="+", choices=[each.topic for each in WORKLOADS], metavar="WORKLOAD")
    options: Any = parser.parse_args()
    measure, libraries = KINDS[options.what]
    chosen = options.libraries or list(libraries)
    if unknown := sorted(set(chosen) - set(libraries)):
        parser.error(f"unknown library {unknown[0]}; there are {', '.join(libraries)}")
    with tempfile.TemporaryDirectory() as directory:
        broker = BarnabasProcess(Path(directory), {"num.partitions": str(PARTITIONS)})
        broker.start()
        try:
            measure(Plan(broker.bootstrap_servers, chosen, options.records, options.rounds, options.only))
        finally:
            broker.stop()


if __name__ == "__main__":
    main()
