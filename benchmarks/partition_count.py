"""What a request costs a broker with many partitions, next to one with few; and what an idle partition costs.

    python -m benchmarks.partition_count [--few 10] [--many 5000] [--rounds 7] [--requests 10000] [--directory DIR]

Two brokers of ours, one topic each. A round sends the same number of requests, one at a time, to each broker in turn:
produce of one small batch, and fetch of the newest batch, to the partitions one after the other. Prints the broker's
CPU microseconds per request (medians over the rounds), the ratio of many to few with the interval that holds its
median with 95 % confidence, CPU while idle, and resident memory per partition.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from benchmarks.process_usage import cpu_seconds, resident_mib
from benchmarks.startup import create_topic
from benchmarks.wire_requests import (
    Connection,
    batch_of_size,
    check_produce_answer,
    fetch_frame,
    next_offset,
    produce_frame,
    records_of_fetch_answer,
)
from tests.support.barnabas_process import BarnabasProcess

TOPIC = "load"
VALUE_BYTES = 100
BATCH_BYTES = 1000
MAX_FETCH_BYTES = 1_048_576
IDLE_SECONDS = 30
RESAMPLES = 2000

Request = Callable[[int], None]


class Broker:
    """A broker with a topic of so many partitions, and what its requests cost."""

    def __init__(self, directory: Path, partitions: int) -> None:
        self.partitions = partitions
        self.server = BarnabasProcess(directory)
        self.offsets = [0] * partitions
        self.cost: dict[str, list[float]] = {"produce": [], "fetch": []}
        self._next = 0
        self.batch, self.batch_records = batch_of_size(BATCH_BYTES, VALUE_BYTES)

    def prepare(self) -> None:
        """Start it, make the topic, and write to every partition once."""
        self.server.start()
        self.empty_mib = resident_mib(self.server.pid)
        self.connection = Connection(self.server.host, self.server.port, 1 << 20)
        self.create_seconds = create_topic(self.connection, TOPIC, self.partitions)
        self.created_mib = resident_mib(self.server.pid)
        for partition in range(self.partitions):
            self.produce(partition)

    def produce(self, partition: int) -> None:
        """One batch to one partition."""
        check_produce_answer(self.connection.call(produce_frame(TOPIC, partition, self.batch, 1)))
        self.offsets[partition] += self.batch_records

    def fetch(self, partition: int) -> None:
        """The newest batch of one partition."""
        offset = self.offsets[partition] - self.batch_records
        answer = self.connection.call(fetch_frame(TOPIC, partition, offset, MAX_FETCH_BYTES))
        if next_offset(answer, records_of_fetch_answer(answer)) != self.offsets[partition]:
            raise ValueError(f"partition {partition} does not end at {self.offsets[partition]}")

    def run(self, what: str, requests: int) -> None:
        """Send requests to partitions one after the other, and note what one cost."""
        request: Request = self.produce if what == "produce" else self.fetch
        before = cpu_seconds(self.server.pid)
        for number in range(self._next, self._next + requests):
            request(number % self.partitions)
        self._next += requests
        used = cpu_seconds(self.server.pid) - before
        self.cost[what].append(used.total / requests * 1e6)

    def idle_share(self) -> float:
        """CPU it takes while nobody asks for anything, as a share of a core."""
        before = cpu_seconds(self.server.pid)
        time.sleep(IDLE_SECONDS)
        return (cpu_seconds(self.server.pid) - before).total / IDLE_SECONDS


def interval_of_median(values: Sequence[float], chance: random.Random) -> tuple[float, float]:
    """Bounds that hold the median with 95 % confidence, by resampling."""
    medians = sorted(median(chance.choices(values, k=len(values))) for _ in range(RESAMPLES))
    return medians[RESAMPLES // 40], medians[-RESAMPLES // 40]


def report(few: Broker, many: Broker) -> str:
    """A table: costs with their ratio, idle share, memory."""
    chance = random.Random(1)
    lines = [f"| | {few.partitions} partitions | {many.partitions} partitions | ratio (95 %) |", "|---|---|---|---|"]
    for what in ("produce", "fetch"):
        ratios = [of_many / of_few for of_few, of_many in zip(few.cost[what], many.cost[what], strict=True)]
        low, high = interval_of_median(ratios, chance)
        cost = f"{median(few.cost[what]):.1f} | {median(many.cost[what]):.1f}"
        lines.append(f"| {what}, CPU us a request | {cost} | {median(ratios):.2f} ({low:.2f}-{high:.2f}) |")
    lines.append(f"| created in s | {few.create_seconds:.2f} | {many.create_seconds:.2f} | |")
    written_mib = [resident_mib(broker.server.pid) for broker in (few, many)]
    lines.append(f"| resident MiB | {written_mib[0]:.0f} | {written_mib[1]:.0f} | |")
    for what, resident in (("created", many.created_mib), ("written to", written_mib[1])):
        per_partition = (resident - many.empty_mib) * 1024 / many.partitions
        lines.append(f"| KiB a partition, {what} | | {per_partition:.1f} | |")
    lines.append(f"| idle, share of a core | {few.idle_share():.2%} | {many.idle_share():.2%} | |")
    return "\n".join(lines)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--few", type=int, default=10)
    parser.add_argument("--many", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--directory", help="where data directories are made; the system's temporary one if unset")
    options = parser.parse_args()
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=options.directory)))
        brokers = [Broker(place / str(count), count) for count in (options.few, options.many)]
        for broker in brokers:
            stack.callback(broker.server.close)
            broker.prepare()
        for _ in range(options.rounds):
            for what in ("produce", "fetch"):
                for broker in brokers:
                    broker.run(what, options.requests)
        print(f"\n{options.rounds} rounds of {options.requests} requests, medians\n")
        print(report(*brokers))


if __name__ == "__main__":
    main()
