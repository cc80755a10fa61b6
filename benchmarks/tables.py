"""Compares tables with confluent-kafka's records: rows/s and CPU of each, in rounds that alternate.

    python -m benchmarks.tables                                  # everything: about five minutes
    python -m benchmarks.tables --records 200000 --rounds 1 --only 100-none
    TMPDIR=/dev/shm python -m benchmarks.tables                  # without the disk, where /dev/shm is memory

`send_table`, `poll_table` and `fetch_table` carry tables, which are in memory before the time begins and after it ends.
confluent-kafka carries records: a Python call for each one that is sent, and a Message with key and value looked at for
each one that is read. So the ratio says what a program gains whose data are tables, and nothing about the libraries'
speed with records. `fetch_table` keeps all of its rows: `confluent consume, kept` keeps keys and values as well. Memory
that a process touches for the first time may cost more than the decoding, and how much depends on the machine: so
`fetch_table, again` is the second call of a process that has dropped the first table.

Each library runs in a process of its own against one broker of ours, with its default settings and the row's codec;
every record has a key of 8 bytes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from barnabas.clients.admin import Admin, NewTopic
from tests.support.barnabas_process import BarnabasProcess

PARTITIONS = 4
_SECONDS = 300
_VALUES = 64


class Cell(NamedTuple):
    """What is sent and read."""

    value_bytes: int
    codec: str

    @property
    def name(self) -> str:
        """The name of the row in the report."""
        return f"{self.value_bytes}-{self.codec}"


CELLS = [Cell(value_bytes, codec) for value_bytes in (100, 1000) for codec in ("none", "lz4")]


class Task(NamedTuple):
    """One run of one library."""

    servers: str
    topic: str
    records: int
    cell: Cell


def rows_of(task: Task) -> tuple[list[bytes], list[bytes]]:
    """Return keys and values; half the bytes of a value repeat, so that a codec has something to do."""
    import random

    chance = random.Random(task.cell.value_bytes)
    half = task.cell.value_bytes // 2
    values = [chance.randbytes(half) + b"x" * (task.cell.value_bytes - half) for _ in range(_VALUES)]
    return [b"%08d" % number for number in range(task.records)], [values[n % _VALUES] for n in range(task.records)]


def send_table(task: Task) -> dict[str, float]:
    """Send one table."""
    import pyarrow as pa

    import barnabas.clients.arrow  # noqa: F401
    from barnabas.clients.producer import Producer

    keys, values = rows_of(task)
    table = pa.table({"key": keys, "value": values})
    with Producer(task.servers, compression_type=task.cell.codec) as producer:
        producer.partitions_for(task.topic)
        started = start()
        metadata = producer.send_table(task.topic, table, key="key").result(_SECONDS)
        return measured(started, metadata.record_count)


def confluent_produce(task: Task) -> dict[str, float]:
    """Send records."""
    from confluent_kafka import Producer

    delivered = 0

    def note(error: object, _message: object) -> None:
        nonlocal delivered
        if error is not None:
            raise RuntimeError(str(error))
        delivered += 1

    keys, values = rows_of(task)
    producer = Producer({"bootstrap.servers": task.servers, "compression.type": task.cell.codec})
    producer.list_topics(task.topic, _SECONDS)
    started = start()
    for key, value in zip(keys, values, strict=True):
        while True:
            try:
                producer.produce(task.topic, value, key, on_delivery=note)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    producer.flush()
    return measured(started, delivered)


def poll_table(task: Task) -> dict[str, float]:
    """Read with `Consumer.poll_table`."""
    import barnabas.clients.arrow  # noqa: F401  # an import is no part of the time, as with the others
    from barnabas.clients.consumer import Consumer, TopicPartition

    with Consumer(task.servers, auto_offset_reset="earliest") as consumer:
        consumer.assign(TopicPartition(task.topic, number) for number in range(PARTITIONS))
        for number in range(PARTITIONS):
            consumer.position(TopicPartition(task.topic, number))
        started = start()
        count = 0
        while count < task.records:
            count += consumer.poll_table(_SECONDS * 1000).num_rows
        return measured(started, count)


def fetch_table(task: Task) -> dict[str, float]:
    """Read with `fetch_table`: its connection is part of the time."""
    import barnabas.clients.arrow  # noqa: F401
    from barnabas.clients.consumer import fetch_table as fetch

    started = start()
    return measured(started, fetch(task.servers, task.topic).num_rows)


def fetch_table_again(task: Task) -> dict[str, float]:
    """Read with `fetch_table` into the memory of a table that was dropped."""
    fetch_table(task)
    return fetch_table(task)


def confluent_consume(task: Task) -> dict[str, float]:
    """Read records, look at the key and the value of each, and drop them."""
    return _consume(task, keep=False)


def confluent_consume_kept(task: Task) -> dict[str, float]:
    """Read records, and keep the key and the value of each."""
    return _consume(task, keep=True)


def _consume(task: Task, *, keep: bool) -> dict[str, float]:
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": task.servers, "group.id": "benchmark", "enable.auto.commit": False})
    consumer.assign([TopicPartition(task.topic, number, OFFSET_BEGINNING) for number in range(PARTITIONS)])
    count = size = uncounted = 0
    kept = []
    started = None
    while count < task.records:
        messages = [message for message in consumer.consume(5_000, _SECONDS) if not message.error()]
        pairs = [(message.key() or b"", message.value() or b"") for message in messages]
        size += sum(len(key) + len(value) for key, value in pairs)
        count += len(pairs)
        if keep:
            kept.append(pairs)
        # The time to connect does not count, and neither do the records of the first call.
        if started is None:
            started, uncounted = start(), count
    assert started is not None
    consumer.close()
    assert size == count * (8 + task.cell.value_bytes)
    return measured(started, count - uncounted)


class Started(NamedTuple):
    """The clocks at the start of a measurement."""

    seconds: float
    cpu_seconds: float


def start() -> Started:
    """Start the clocks."""
    return Started(time.perf_counter(), time.process_time())


def measured(started: Started, records: int) -> dict[str, float]:
    """Return the figures since `started`."""
    seconds, cpu_seconds = time.perf_counter() - started.seconds, time.process_time() - started.cpu_seconds
    return {"records": records, "seconds": seconds, "cpu_seconds": cpu_seconds}


TASKS: dict[str, Callable[[Task], dict[str, float]]] = {
    "send_table": send_table,
    "confluent produce": confluent_produce,
    "poll_table": poll_table,
    "fetch_table": fetch_table,
    "fetch_table, again": fetch_table_again,
    "confluent consume": confluent_consume,
    "confluent consume, kept": confluent_consume_kept,
}
PRODUCERS = ("send_table", "confluent produce")
AGAINST = {
    "send_table": "confluent produce",
    "poll_table": "confluent consume",
    "fetch_table": "confluent consume",
    "fetch_table, again": "confluent consume",
    "confluent consume, kept": "confluent consume",
}


def measure(servers: str, cell: Cell, records: int, rounds: int) -> None:
    """Run every task `rounds` times, and print a row for each."""
    results: dict[str, list[dict[str, float]]] = {name: [] for name in TASKS}
    for number in range(rounds):
        topics = {
            name: f"{cell.name}-{number}-{name.replace(' ', '-')}" for name in ("send_table", "confluent produce")
        }
        with Admin(servers) as admin:
            admin.create_topics([NewTopic(topic, PARTITIONS, 1) for topic in topics.values()])
        for name in TASKS if number % 2 == 0 else reversed(TASKS):
            # All read what the table has in this round; in an odd round the readers come first, and read the last one.
            before = f"{cell.name}-{number if number % 2 == 0 else number - 1}-send_table"
            task = [name, servers, topics.get(name, before), str(records), *map(str, cell)]
            command = [sys.executable, "-m", "benchmarks.tables", "--run", *task]
            done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=_SECONDS)
            results[name].append(json.loads(done.stdout))
    for name, some in results.items():
        ratio = ""
        if name in AGAINST:
            pairs = zip(some, results[AGAINST[name]], strict=True)
            ratio = f"{median(_rate(ours) / _rate(theirs) for ours, theirs in pairs):.2f}"
        cpu_us = median(each["cpu_seconds"] / each["records"] * 1e6 for each in some)
        print(f"| {cell.name} | {name} | {median(map(_rate, some)):,.0f} | {cpu_us:.2f} | {ratio} |", flush=True)


def _rate(result: dict[str, Any]) -> float:
    return float(result["records"] / result["seconds"])


def main() -> None:
    """Run the benchmark, or one task of it in this process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=[cell.name for cell in CELLS], action="append")
    parser.add_argument("--run", nargs=6, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.run:
        name, servers, topic, records, value_bytes, codec = arguments.run
        print(json.dumps(TASKS[name](Task(servers, topic, int(records), Cell(int(value_bytes), codec)))))
        return
    print("| cell | what | rows/s | CPU us a row | to confluent-kafka |\n|---|---|---|---|---|")
    for cell in CELLS:
        if arguments.only and cell.name not in arguments.only:
            continue
        with tempfile.TemporaryDirectory() as directory:
            broker = BarnabasProcess(Path(directory), {})
            broker.start()
            try:
                measure(broker.bootstrap_servers, cell, arguments.records, arguments.rounds)
            finally:
                broker.stop()


if __name__ == "__main__":
    main()
