"""How long a broker with many partitions takes to come back: after a stop in order, and after kill -9.

    python -m benchmarks.startup [--partitions 1000] [--rounds 3] [--systems apache-kafka barnabas] [--directory DIR]

Every system gets a topic of so many partitions and a few batches in each. A round stops and starts it, produces to
every partition once more, kills it and starts it again. The time is from the start of the process until Metadata names
a leader for every partition; Apache Kafka's ZooKeeper is up before that, and its old session over. CPU seconds are the
broker's own. Prints medians, and the ratios to Apache Kafka of the same run.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from benchmarks.process_usage import cpu_seconds, resident_mib
from benchmarks.systems import NAMES, REFERENCE, make_system
from benchmarks.wire_requests import (
    BadAnswer,
    Connection,
    batch_of_size,
    check_create_topics_answer,
    check_produce_answer,
    create_topics_frame,
    leader_count,
    metadata_frame,
    produce_frame,
)
from tests.support.apache_kafka import ApacheKafka
from tests.support.server_process import ServerProcess

TOPIC = "many"
BATCHES_PER_PARTITION = 5
BATCH_BYTES, VALUE_BYTES = 16_384, 1000
START_SECONDS = 300
SESSION_SECONDS = 6
"""Of Apache Kafka with ZooKeeper: a killed broker cannot register again before its old session has ended."""

Figures = dict[str, list[float]]


def create_topic(connection: Connection, topic: str, partitions: int) -> float:
    """Create it; seconds until every partition has a leader."""
    began = time.perf_counter()
    check_create_topics_answer(connection.call(create_topics_frame(topic, partitions)))
    wait_for_leaders(connection, topic, partitions)
    return time.perf_counter() - began


def wait_for_leaders(connection: Connection, topic: str, partitions: int) -> None:
    """Return when Metadata names a leader for so many partitions of the topic."""
    deadline = time.monotonic() + START_SECONDS
    while leader_count(connection.call(metadata_frame(topic)))[1] < partitions:
        if time.monotonic() > deadline:
            raise BadAnswer(f"{topic} does not get its {partitions} leaders")
        time.sleep(0.01)


def produce_everywhere(connection: Connection, topic: str, partitions: int, batches: int) -> float:
    """Batches to every partition in turn, one request at a time; seconds."""
    batch, _ = batch_of_size(BATCH_BYTES, VALUE_BYTES)
    began = time.perf_counter()
    for _ in range(batches):
        for partition in range(partitions):
            check_produce_answer(connection.call(produce_frame(topic, partition, batch, 1)))
    return time.perf_counter() - began


class Candidate:
    """One system and what was measured of it."""

    def __init__(self, server: ServerProcess, partitions: int) -> None:
        self.server = server
        self.partitions = partitions
        self.figures: Figures = {}

    def prepare(self) -> None:
        """Start it and fill it."""
        self.server.start()
        connection = self._connect()
        self._note("create s", create_topic(connection, TOPIC, self.partitions))
        self._note("first produce s", produce_everywhere(connection, TOPIC, self.partitions, BATCHES_PER_PARTITION))
        connection.close()

    def run_round(self) -> None:
        """Stop, start, produce, kill, start."""
        server = self.server
        began = time.perf_counter()
        self._stop()
        self._note("stop s", time.perf_counter() - began)
        self._start("clean")
        connection = self._connect()
        produce_everywhere(connection, TOPIC, self.partitions, 1)
        connection.close()
        server.kill()
        if isinstance(server, ApacheKafka):
            time.sleep(SESSION_SECONDS + 3)
        self._start("killed")
        self._note("MiB", resident_mib(server.pid))

    def _stop(self) -> None:
        """Without ZooKeeper: it stays up, so that its start is not counted."""
        if isinstance(self.server, ApacheKafka):
            ServerProcess.stop(self.server, 120)
        else:
            self.server.stop(120)

    def _start(self, what: str) -> None:
        began = time.perf_counter()
        self.server.start()
        connection = self._connect()
        wait_for_leaders(connection, TOPIC, self.partitions)
        self._note(f"{what} s", time.perf_counter() - began)
        self._note(f"{what} CPU s", cpu_seconds(self.server.pid).total)
        connection.close()

    def _connect(self) -> Connection:
        return Connection(self.server.host, self.server.port, 1 << 20)

    def _note(self, name: str, value: float) -> None:
        self.figures.setdefault(name, []).append(value)


def report(found: Mapping[str, Figures]) -> str:
    """A table of medians, with ratios to the reference."""
    names = list(next(iter(found.values())))
    lines = [f"| | {' | '.join(f'{system} | ratio' for system in found)} |", "|" + "---|" * (1 + 2 * len(found))]
    for name in names:
        line = f"| {name} |"
        for figures in found.values():
            value = median(figures[name])
            reference = median(found[REFERENCE][name]) if REFERENCE in found else 0.0
            ratio = f"{value / reference:.2f}" if reference else "-"
            line += f" {value:.2f} | {ratio} |"
        lines.append(line)
    return "\n".join(lines)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--systems", nargs="+", choices=NAMES, default=[REFERENCE, "barnabas"])
    parser.add_argument("--directory", help="where data directories are made; the system's temporary one if unset")
    options = parser.parse_args()
    extra = {REFERENCE: {"zookeeper.session.timeout.ms": str(SESSION_SECONDS * 1000)}}
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=options.directory)))
        candidates: dict[str, Candidate] = {}
        for name in options.systems:
            server = make_system(name, place, None, extra.get(name, {}))
            stack.callback(server.close)
            candidates[name] = Candidate(server, options.partitions)
            candidates[name].prepare()
        for _ in range(options.rounds):
            for candidate in candidates.values():
                candidate.run_round()
        print(f"\n{options.partitions} partitions, {options.rounds} rounds, medians\n")
        print(report({name: candidate.figures for name, candidate in candidates.items()}))


if __name__ == "__main__":
    main()
