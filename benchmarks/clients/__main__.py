"""Compares client libraries: records/s and CPU of each, in rounds that alternate, with ratios of the same run.

    python -m benchmarks.clients consume                             # everything: about fifteen minutes
    python -m benchmarks.clients consume --records 100000 --rounds 2 --only 1000-none-skewed
    python -m benchmarks.clients consume --libraries barnabas confluent-kafka

One broker of ours serves all; each library runs in a process of its own, one at a time. Ratios are medians of the
ratios within a round, ours to the other's.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.clients.consumers import LIBRARIES
from benchmarks.clients.workload import PARTITIONS, WORKLOADS, Workload, fill
from tests.support.barnabas_process import BarnabasProcess

OURS = "barnabas"
_SECONDS = 300


def measure_consumers(servers: str, workload: Workload, records: int, libraries: Sequence[str], rounds: int) -> None:
    """Fill the workload's topic, let each library read it `rounds` times, and print a row for each library."""
    records = fill(servers, workload, records)
    results: dict[str, list[dict[str, float]]] = {name: [] for name in libraries}
    for number in range(rounds):
        # The order changes with the round: whatever comes first in a round has the same advantage for all.
        first = number % len(libraries)
        for name in (*libraries[first:], *libraries[:first]):
            command = [sys.executable, "-m", "benchmarks.clients.consumers", name, servers, workload.topic]
            command += [str(PARTITIONS), str(records)]
            output = subprocess.run(command, check=True, capture_output=True, text=True, timeout=_SECONDS).stdout
            results[name].append(json.loads(output))
    print(*rows(workload.topic, results), sep="\n", flush=True)


def rows(name: str, results: dict[str, list[dict[str, float]]]) -> Iterable[str]:
    """Yield a row of the table for each library: rate, CPU a record, and our ratio of the same rounds."""
    for library, rounds in results.items():
        rate = median(each["records"] / each["seconds"] for each in rounds)
        cpu_us = median(each["cpu_seconds"] / each["records"] * 1e6 for each in rounds)
        ratio = ""
        if library != OURS and OURS in results:
            pairs = zip(results[OURS], rounds, strict=True)
            ratios = sorted(_rate(ours) / _rate(theirs) for ours, theirs in pairs)
            ratio = f"{median(ratios):.2f} ({ratios[0]:.2f}-{ratios[-1]:.2f})"
        yield f"| {name} | {library} | {rate:,.0f} | {cpu_us:.1f} | {ratio} |"


def _rate(result: dict[str, float]) -> float:
    return result["records"] / result["seconds"]


def main() -> None:
    """Run the benchmark that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["consume"])
    parser.add_argument("--records", type=int, default=300_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--libraries", nargs="+", choices=list(LIBRARIES), default=list(LIBRARIES))
    parser.add_argument("--only", nargs="+", choices=[each.topic for each in WORKLOADS], metavar="WORKLOAD")
    options: Any = parser.parse_args()
    print("| records | library | records/s | CPU us a record | ours to theirs |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as directory:
        broker = BarnabasProcess(Path(directory), {"num.partitions": str(PARTITIONS)})
        broker.start()
        try:
            for workload in WORKLOADS:
                if options.only is None or workload.topic in options.only:
                    measure_consumers(
                        broker.bootstrap_servers, workload, options.records, options.libraries, options.rounds
                    )
        finally:
            broker.stop()


if __name__ == "__main__":
    main()
