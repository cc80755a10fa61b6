"""What one setting is worth: the same loads on brokers that differ in it alone, all up at once, in alternating rounds.

    python -m benchmarks.one_setting num.network.threads 1 2 3 --cells p-10c p-16k
    python -m benchmarks.one_setting num.io.threads 1 2 8 --cells p-10c --override inline.requests.enable=false

Prints a table: each value's median, and its ratio to the first value's in the same round (median of the rounds).
docs/tuning.md has such tables.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path

from benchmarks.broker import MAX_BYTES_PER_RUN, START_SECONDS, load_topic, run_load
from benchmarks.cells import CELLS
from benchmarks.systems import make_system

CELLS_BY_NAME = {cell.name: cell for cell in CELLS}


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("setting")
    parser.add_argument("values", nargs="+")
    parser.add_argument("--cells", nargs="+", default=["p-10c", "p-16k"], choices=CELLS_BY_NAME)
    parser.add_argument("--override", action="append", default=[], metavar="KEY=VALUE", help="for every broker")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3)
    options = parser.parse_args()
    shared = dict(pair.split("=", 1) for pair in options.override)
    cells = [CELLS_BY_NAME[name] for name in options.cells]
    figures: dict[tuple[str, str], list[float]] = defaultdict(list)
    cpu: dict[tuple[str, str], list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as directory, ExitStack() as running:
        servers = {}
        for number, value in enumerate(options.values):
            place = Path(directory) / str(number)
            place.mkdir()
            server = make_system("barnabas", place, None, shared | {options.setting: value})
            running.enter_context(server.running())
            servers[value] = server
            server.wait_for_brokers(START_SECONDS)
            for cell in cells:
                load_topic(server, cell)
        for round_number in range(-1, options.rounds):  # round -1 warms up
            for cell in cells:
                for value, server in servers.items():
                    size = () if cell.command == "fetch" else ("--max-total-bytes", str(MAX_BYTES_PER_RUN))
                    topic = cell.name if cell.command == "fetch" else f"{cell.name}-{round_number}"
                    seconds = options.seconds if round_number >= 0 else 1
                    result = run_load(server, cell.command, topic, seconds, *cell.arguments, *size)
                    if round_number >= 0:
                        figures[cell.name, value].append(result[cell.figure])
                        cpu[cell.name, value].append(result["cpu_us_per_request"])
    print(f"| load | {options.setting} | | ratio | broker's CPU, us a request |")
    print("|---|---|---|---|---|")
    for cell in cells:
        first = figures[cell.name, options.values[0]]
        for value in options.values:
            found = figures[cell.name, value]
            ratio = statistics.median(one / other for one, other in zip(found, first, strict=True))
            used = statistics.median(cpu[cell.name, value])
            print(
                f"| {cell.what} | {value} | {statistics.median(found):,.0f} {cell.figure.replace('_per_', '/')} "
                f"| {ratio:.2f} | {used:.0f} |"
            )


if __name__ == "__main__":
    main()
