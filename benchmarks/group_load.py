"""What members of consumer groups cost a broker: 1,000 groups of three heartbeat and commit, here and in Apache Kafka.

    python -m benchmarks.group_load [--systems apache-kafka apache-kafka-4 barnabas barnabas-queue] [--rounds 3]

Every member has a connection of its own, as consumers have. All systems are up at once, each with all its groups, and
each round goes round them, cell by cell:

* `idle`: the groups exist and say nothing; share of a core.
* `heartbeat, paced`: every member once in three seconds, as consumers do.
* `heartbeat` and `commit`: as many as are answered, 32 on their way; a commit is of ten partitions.

Figures are medians over the rounds: the whole process's CPU time by request, requests a second, latencies as clients
see them; and the ratio of CPU times to the first system in the same round (lowest and highest).
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.group_members import PARTITIONS, Members, raise_descriptor_limit
from benchmarks.process_usage import cpu_seconds, resident_mib
from benchmarks.systems import BEFORE, KAFKA_4, NAMES, REFERENCE, make_system
from tests.support.server_process import ServerProcess

HEARTBEAT_SECONDS = 3.0
IN_FLIGHT = 32
IDLE, PACED, HEARTBEAT, COMMIT = "idle", "heartbeat, paced", "heartbeat", "commit"
CELLS = (IDLE, PACED, HEARTBEAT, COMMIT)
SETTINGS = {
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "50",
    "group.initial.rebalance.delay.ms": "3000",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}
FIGURES = ("requests/s", "p50 us", "p99 us", "CPU us", "CPU ratio", "by round")
Result = dict[str, Any]


def measure(server: ServerProcess, members: Members, cell: str, seconds: float) -> Result:
    """One cell of one system in one round."""
    before = cpu_seconds(server.pid)
    if cell == IDLE:
        time.sleep(seconds)
        used = cpu_seconds(server.pid) - before
        return {"cpu_us": used.total / seconds * 1e6, "resident_mib": resident_mib(server.pid)}
    kind = COMMIT if cell == COMMIT else HEARTBEAT
    rate = len(members.all) / HEARTBEAT_SECONDS if cell == PACED else 0
    load = members.run(kind, seconds, in_flight=IN_FLIGHT, rate=rate)
    used = cpu_seconds(server.pid) - before
    return {
        "cpu_us": used.total / load.requests * 1e6,
        "requests_per_second": load.requests / load.seconds,
        "p50_us": load.p50_us,
        "p99_us": load.p99_us,
        "client_share": load.client_cpu_seconds / load.seconds,
        "cpu_share": used.total / load.seconds,
    }


def report(results: list[Result]) -> str:
    """A markdown table."""
    systems = list(dict.fromkeys(each["system"] for each in results))
    lines = [f"| | system | {' | '.join(FIGURES)} |", "|" + "---|" * (len(FIGURES) + 2)]
    for cell in dict.fromkeys(each["cell"] for each in results):
        of_cell = [each for each in results if each["cell"] == cell]
        reference = {each["round"]: each["cpu_us"] for each in of_cell if each["system"] == systems[0]}
        for system in systems:
            mine = [each for each in of_cell if each["system"] == system]
            ratios = [each["cpu_us"] / reference[each["round"]] for each in mine if reference[each["round"]]]
            shown = [_median(mine, name) for name in ("requests_per_second", "p50_us", "p99_us", "cpu_us")]
            if cell == IDLE:
                shown[3] = f"{median(each['cpu_us'] for each in mine) / 1e4:.2f} % of a core"
            spread = f"{min(ratios):.2f}-{max(ratios):.2f}" if ratios else ""
            ratio = f"{median(ratios):.2f}" if ratios else ""
            lines.append(f"| {cell} | {system} | {' | '.join([*shown, ratio, spread])} |")
    return "\n".join(lines)


def _median(results: list[Result], name: str) -> str:
    values = [each[name] for each in results if name in each]
    return f"{median(values):,.0f}" if values else ""


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = [REFERENCE, KAFKA_4, "barnabas", "barnabas-queue"]
    parser.add_argument("--systems", nargs="+", default=default, choices=[*NAMES, BEFORE])
    parser.add_argument("--before", type=Path, help=f"directory with the package of the system {BEFORE}")
    parser.add_argument("--groups", type=int, default=1000)
    parser.add_argument("--members", type=int, default=3)
    parser.add_argument("--partitions", type=int, default=PARTITIONS, help="in a commit")
    parser.add_argument("--cells", nargs="+", default=list(CELLS), choices=CELLS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--output", type=Path, help="a JSON file of every figure")
    options = parser.parse_args()
    raise_descriptor_limit()
    results: list[Result] = []
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        servers = {name: make_system(name, place, None, SETTINGS, options.before) for name in options.systems}
        fleets = {}
        for name, server in servers.items():
            stack.callback(server.close)
            server.start()
            fleets[name] = Members(server.host, server.port)
            fleets[name].join(options.groups, options.members, options.partitions)
            for kind in (HEARTBEAT, COMMIT):
                fleets[name].run(kind, options.seconds / 2, in_flight=IN_FLIGHT)  # warm
        for number in range(options.rounds):
            for cell in options.cells:
                for name, server in servers.items():
                    about = {"system": name, "round": number, "cell": cell}
                    results.append(about | measure(server, fleets[name], cell, options.seconds))
        for members in fleets.values():
            members.leave()
    if options.output is not None:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(json.dumps(results, indent=1))
    print(f"\n{options.groups} groups of {options.members}, {options.rounds} rounds of {options.seconds:g} s a cell\n")
    print(report(results))


if __name__ == "__main__":
    main()
