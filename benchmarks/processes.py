"""What further processes are worth: `serve --processes` with 1 and 2 brokers (or more), all up at once, in rounds.

    python -m benchmarks.processes [--counts 1 2] [--rounds 5] [--seconds 3] [--compiled] [--cells p-10c p-16k]

Every round produces the same load to each row of brokers: as many load generators as the longest row has brokers, each
with a topic of its own, whose leader is another broker as far as there are others. The first line of a cell is the
reference; a ratio is the median of the ratios within each round. `cores` are the brokers' CPU seconds a second, and the
generators' beside them: where both together reach the cores of the machine, the generators limit the ratio.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple

from barnabas.clients.admin import Admin, NewTopic
from benchmarks.broker import MAX_BYTES_PER_RUN, Generator
from benchmarks.process_usage import cpu_seconds
from benchmarks.systems import COMPILED_PLACE
from tests.support.broker_row import BrokerRow
from tests.support.server_process import ServerProcess

CELLS: Final = {
    "p-10c": ("--connections", "10", "--value-bytes", "1000"),
    "p-16k": ("--connections", "2", "--batch-bytes", "16384", "--depth", "5"),
}
"""The arguments of each load generator."""


class Figures(NamedTuple):
    """What one run did, of all generators together; cores: CPU seconds a second."""

    requests_per_second: float
    mb_per_second: float
    broker_cores: float
    client_cores: float


def run(row: BrokerRow, cell: str, round_number: int, generators: int, seconds: float) -> Figures:
    """Produce to all brokers of a row at once."""
    names = [f"{cell}-{round_number}-{number}" for number in range(generators)]
    with Admin(row.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(name, assignments={0: [at % row.count]}) for at, name in enumerate(names)])
    arguments = (*CELLS[cell], "--max-total-bytes", str(MAX_BYTES_PER_RUN))
    loads = [Generator(_broker(row, at), "produce", name, seconds, *arguments) for at, name in enumerate(names)]
    brokers = row.process_ids().values()
    before = sum(cpu_seconds(process_id).total for process_id in brokers)
    for load in loads:
        load.go()
    results = [load.result() for load in loads]
    used = sum(cpu_seconds(process_id).total for process_id in brokers) - before
    longest = max(result["seconds"] for result in results)
    return Figures(
        sum(result["requests"] / result["seconds"] for result in results),
        sum(result["bytes"] / result["seconds"] for result in results) / 1e6,
        used / longest,
        sum(result["client_cpu_seconds"] for result in results) / longest,
    )


def _broker(row: BrokerRow, number: int) -> ServerProcess:
    """Where a generator connects to: one broker of the row."""
    broker = ServerProcess(row.directory)
    broker.port = row.port + number % row.count
    return broker


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--counts", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--cells", nargs="+", default=list(CELLS), choices=CELLS)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--compiled", action="store_true", help="the brokers are those of `make compiled`")
    options = parser.parse_args()
    environment = {**os.environ, "PYTHONPATH": str(COMPILED_PLACE)} if options.compiled else None
    figures: dict[tuple[str, int], list[Figures]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as directory, ExitStack() as running:
        rows = [BrokerRow(Path(directory) / str(count), count, environment=environment) for count in options.counts]
        for row in rows:
            running.enter_context(row.running())
        for round_number in range(-1, options.rounds):  # round -1 warms up
            for cell in options.cells:
                for row in rows:
                    seconds = options.seconds if round_number >= 0 else 1
                    found = run(row, cell, round_number, max(options.counts), seconds)
                    if round_number >= 0:
                        figures[cell, row.count].append(found)
    print(
        "| load of each generator | processes | requests/s | MB/s | ratio | lowest-highest | cores: brokers / clients |"
    )
    print("|---|---|---|---|---|---|---|")
    for (cell, count), found_of_count in figures.items():
        first = figures[cell, options.counts[0]]
        ratios = [
            one.requests_per_second / other.requests_per_second
            for one, other in zip(found_of_count, first, strict=True)
        ]
        middle = Figures(*map(statistics.median, zip(*found_of_count, strict=True)))
        print(
            f"| {cell} | {count} | {middle.requests_per_second:,.0f} | {middle.mb_per_second:,.0f} "
            f"| {statistics.median(ratios):.2f} | {min(ratios):.2f}-{max(ratios):.2f} "
            f"| {middle.broker_cores:.2f} / {middle.client_cores:.2f} |"
        )


if __name__ == "__main__":
    main()
