"""The memory that a large topic takes in Spark and in the broker, when a batch query of our source reads it.

    python -m benchmarks.spark_scale                                     # one gigabyte: two minutes
    python -m benchmarks.spark_scale --gigabytes 10 --directory /large   # needs 11 GB of disk

A growing part of the topic is read. Memory that is bounded does not grow with the part. CPU is in seconds of all
processes, with the start of the query; on a busy machine only that counts.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from barnabas.clients.admin import Admin, NewTopic
from barnabas.clients.producer import Producer
from barnabas.testing import BrokerProcess, broker
from benchmarks.spark_processes import ROLES, PeakMemory, cpu_by_role

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTS = (0.1, 1.0)
"""Of the topic that are read."""
PARTITIONS = 4
VALUE_BYTES = 1000
TOPIC = "large"
_SECONDS = 600


class Bench(NamedTuple):
    """The broker and the session."""

    spark: SparkSession
    running: BrokerProcess

    def cpu(self) -> float:
        """CPU seconds of all processes."""
        return sum(cpu_by_role(os.getpid(), self.running.pid).values())

    def peak(self) -> PeakMemory:
        """Return what watches the memory of all processes."""
        return PeakMemory(os.getpid(), self.running.pid)


def main() -> None:
    """Parse the command line, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--directory", default=tempfile.gettempdir(), help="for the topic and Spark's files")
    arguments = parser.parse_args()
    count = int(arguments.gigabytes * 1e9 / VALUE_BYTES)
    with _bench(Path(arguments.directory)) as bench:
        started = time.perf_counter()
        _fill(bench, count)
        print(f"{count:,} rows of {VALUE_BYTES} bytes written in {time.perf_counter() - started:.0f} s")
        print(f"{'GB':>6} {'MB/s':>6} {'CPU s':>7}  peak MiB: {', '.join(ROLES)}")
        for part in PARTS:
            _measure(bench, int(count * part) // PARTITIONS)


@contextmanager
def _bench(directory: Path) -> Iterator[Bench]:
    from barnabas_spark.session import local_session

    with (
        tempfile.TemporaryDirectory(dir=directory, prefix="spark-scale-") as scratch,
        broker(data_dir=os.path.join(scratch, "data")) as running,
        local_session("scale", scratch) as spark,
    ):
        yield Bench(spark, running)


def _measure(bench: Bench, rows: int) -> None:
    """Read so many rows of each partition, and print what that took."""
    before, started = bench.cpu(), time.perf_counter()
    with bench.peak() as peak:
        seen = _read(bench, rows)
    seconds = time.perf_counter() - started
    assert seen == rows * PARTITIONS * VALUE_BYTES, f"{seen} bytes of {rows} rows a partition"
    peaks = " ".join(f"{peak.by_role.get(role, 0):6.0f}" for role in ROLES)
    print(f"{seen / 1e9:6.2f} {seen / 1e6 / seconds:6.0f} {bench.cpu() - before:7.1f}  {peaks}", flush=True)


def _read(bench: Bench, rows: int) -> int:
    ends = json.dumps({TOPIC: {str(number): rows for number in range(PARTITIONS)}})
    reader = bench.spark.read.format("barnabas").option("kafka.bootstrap.servers", bench.running.bootstrap_servers)
    frame = reader.option("subscribe", TOPIC).option("endingOffsets", ends).load()
    return int(frame.selectExpr("sum(length(value))").collect()[0][0])


def _fill(bench: Bench, records: int) -> None:
    """Write records to the partitions in turn."""
    import pyarrow as pa

    servers = bench.running.bootstrap_servers
    with Admin(servers) as admin:
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])
    value, at_once = os.urandom(VALUE_BYTES), 32_000
    with Producer(servers) as producer:
        for first in range(0, records, at_once):
            count = min(at_once, records - first)
            numbers = pa.array([(first + number) % PARTITIONS for number in range(count)], pa.int32())
            table = pa.table({"value": [value] * count, "partition": numbers})
            producer.send_table(TOPIC, table, partition="partition").result(_SECONDS)


if __name__ == "__main__":
    main()
