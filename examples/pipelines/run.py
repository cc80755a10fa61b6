"""Runs an example from nothing: a broker, its topics and data, the pipeline, and the picture of the result.

    python -m examples.pipelines.run clickstream

Everything is in a directory that is removed at the end; the picture is written into the example's directory, or to the
second argument. The tests use the functions.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, Protocol, cast

from barnabas.clients.admin import Admin, NewTopic
from barnabas.clients.consumer import Consumer, ConsumerRecord
from barnabas.clients.producer import Producer
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.testing import broker

HERE = os.path.dirname(os.path.abspath(__file__))
NAMES = ("clickstream", "orders", "accounts", "flights")


class InputRecord(NamedTuple):
    """A record that an example begins with."""

    topic: str
    key: bytes | None
    value: bytes | None


class Outcome(NamedTuple):
    """What an example has written."""

    bootstrap_servers: str
    records: list[ConsumerRecord]
    """The committed records of its result."""
    directory: str
    """The directory with its checkpoints and files."""


class Example(Protocol):
    """The module `example` of each example."""

    TOPICS: dict[str, int]
    """The topics, with the number of their partitions."""
    RESULT: str
    """The topic with the result."""

    def records(self) -> Iterable[InputRecord]:
        """Return the input, in order."""

    def draw(self, result: list[ConsumerRecord], path: str) -> None:
        """Write a picture of the result as SVG."""


def example(name: str) -> Example:
    """Return an example's module."""
    return cast("Example", importlib.import_module(f"examples.pipelines.{name}.example"))


def prepare(bootstrap_servers: str, chosen: Example, records: Iterable[InputRecord]) -> None:
    """Create the topics and write the input. Raises ApiError."""
    with Admin(bootstrap_servers) as admin:
        admin.create_topics([NewTopic(topic, partitions, 1) for topic, partitions in chosen.TOPICS.items()])
    with Producer(bootstrap_servers) as producer:
        for future in [producer.send(each.topic, each.value, each.key) for each in records]:
            future.result()


def run_pipeline(bootstrap_servers: str, name: str, directory: str) -> None:
    """Run the example's file until all is read. Raises CalledProcessError."""
    command = [sys.executable, "-m", "barnabas", "pipeline", "run", os.path.join(HERE, name, "pipeline.yaml")]
    given = ["-p", f"brokers={bootstrap_servers}", "-p", f"checkpoints={directory}"]
    subprocess.run([*command, *given], check=True, stdin=subprocess.DEVNULL)


def committed(bootstrap_servers: str, topic: str, partitions: int) -> list[ConsumerRecord]:
    """Return the committed records of a topic. Raises ApiError, ClientTimeout."""
    assigned = [TopicPartition(topic, partition) for partition in range(partitions)]
    found: list[ConsumerRecord] = []
    with (
        Consumer(bootstrap_servers, auto_offset_reset="earliest", isolation_level="read_committed") as consumer,
        Consumer(bootstrap_servers) as written,
    ):
        consumer.assign(assigned)
        # The ends of all that is written: the coordinator may still be writing the last transaction's markers.
        ends = written.end_offsets(assigned)
        while any(consumer.position(partition) < end for partition, end in ends.items()):
            found += consumer.poll(200)
    return found


@contextmanager
def whole(
    name: str, records: Iterable[InputRecord] | None = None, run: Callable[[str, str, str], None] = run_pipeline
) -> Iterator[Outcome]:
    """Run an example with a broker of its own, and yield what it has written; the broker runs until the block ends.

    run: runs the file, as `run_pipeline` does in a process of its own.
    """
    chosen = example(name)
    with tempfile.TemporaryDirectory(prefix="barnabas-example-") as directory, broker() as running:
        prepare(running.bootstrap_servers, chosen, chosen.records() if records is None else records)
        run(running.bootstrap_servers, name, directory)
        servers = running.bootstrap_servers
        yield Outcome(servers, committed(servers, chosen.RESULT, chosen.TOPICS[chosen.RESULT]), directory)


def main() -> None:
    """Run the example that the command line names."""
    if len(sys.argv) < 2 or sys.argv[1] not in NAMES:
        sys.exit(f"usage: python -m examples.pipelines.run {{{','.join(NAMES)}}} [PICTURE]")
    name = sys.argv[1]
    picture = sys.argv[2] if len(sys.argv) > 2 else os.path.join(HERE, name, "result.svg")
    with whole(name) as outcome:
        example(name).draw(outcome.records, picture)
        print(f"{name}: {len(outcome.records)} records; {picture}")


if __name__ == "__main__":
    main()
