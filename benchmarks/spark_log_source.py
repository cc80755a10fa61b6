"""Compares the log source with our own source: rows/s, and CPU of Spark and of the broker, in rounds that alternate.

    python -m benchmarks.spark_log_source                                # two minutes
    python -m benchmarks.spark_log_source --records 300000 --rounds 2    # 30 s

One broker of ours, one local Spark session. Both sources read the same topic, all columns but headers, into a sum over
keys and values. The CPU of Spark is that of its JVM and all Python workers.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from barnabas.clients.admin import Admin, NewTopic
from barnabas.clients.producer import Producer
from barnabas.testing import BrokerProcess, broker
from barnabas_spark import table
from benchmarks.process_usage import cpu_seconds
from benchmarks.spark_cpu import cpu_of_children

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TOPIC = "measured"
_SECONDS = 300


class Run(NamedTuple):
    """One reading of the whole topic. CPU in seconds."""

    source: str
    seconds: float
    spark_cpu: float
    broker_cpu: float


def main() -> None:
    """Parse the command line, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--value-bytes", type=int, default=100)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--split-mib", type=int, default=32)
    parser.add_argument("--codec", default="none", choices=("none", "gzip", "snappy", "lz4", "zstd"))
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    from barnabas_spark.session import local_session

    with (
        broker(replica_high_watermark_checkpoint_interval_ms=500) as running,
        tempfile.TemporaryDirectory() as scratch,
        local_session("measure", scratch) as spark,
    ):
        _fill(running, arguments)
        runs = []
        for number in range(arguments.rounds + 1):
            for source in ("barnabas", "barnabas-log"):
                run = _measure(spark, running, source, arguments)
                # The first round starts workers and fills caches.
                if number:
                    runs.append(run)
    _report(runs, arguments)


def _fill(running: BrokerProcess, arguments: argparse.Namespace) -> None:
    import pyarrow as pa

    with Admin(running.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(TOPIC, arguments.partitions, 1)])
    value = (b"0123456789abcdef" * (arguments.value_bytes // 16 + 1))[: arguments.value_bytes]
    with Producer(running.bootstrap_servers, compression_type=arguments.codec) as producer:
        for first in range(0, arguments.records, 200_000):
            count = min(200_000, arguments.records - first)
            keys = [b"%08d" % number for number in range(first, first + count)]
            rows = pa.table({"key": keys, "value": [value] * count})
            producer.send_table(TOPIC, rows, key="key").result(_SECONDS)
    # The log source reads up to the high watermark that the broker has written down.
    time.sleep(1.5)


def _measure(spark: SparkSession, running: BrokerProcess, source: str, arguments: argparse.Namespace) -> Run:
    """Read the topic once. Raises AssertionError unless every record was read."""
    spark_before, broker_before = cpu_of_children({running.pid}), cpu_seconds(running.pid).total
    started = time.perf_counter()
    [row] = (
        _frame(spark, running, source, arguments).selectExpr("count(1)", "sum(length(key) + length(value))").collect()
    )
    seconds = time.perf_counter() - started
    assert tuple(row) == (arguments.records, arguments.records * (8 + arguments.value_bytes)), row
    spark_cpu = cpu_of_children({running.pid}) - spark_before
    return Run(source, seconds, spark_cpu, cpu_seconds(running.pid).total - broker_before)


def _frame(spark: SparkSession, running: BrokerProcess, source: str, arguments: argparse.Namespace) -> DataFrame:
    if source == "barnabas":
        return table(spark, TOPIC, bootstrap_servers=running.bootstrap_servers)
    return table(spark, TOPIC, path=running.data_dir, splitBytes=arguments.split_mib << 20)


def _report(runs: Sequence[Run], arguments: argparse.Namespace) -> None:
    print(
        f"{arguments.records:,} records of {arguments.value_bytes} bytes, {arguments.partitions} partitions, medians:"
    )
    print(f"{'source':14} {'rows/s':>12} {'Spark CPU s':>12} {'broker CPU s':>13}")
    for source in ("barnabas", "barnabas-log"):
        mine = [run for run in runs if run.source == source]
        rate = arguments.records / median(run.seconds for run in mine)
        spark_cpu, broker_cpu = median(run.spark_cpu for run in mine), median(run.broker_cpu for run in mine)
        print(f"{source:14} {rate:12,.0f} {spark_cpu:12.2f} {broker_cpu:13.2f}")
    pairs = zip(runs[::2], runs[1::2], strict=True)
    print(f"log source / source, median of rounds: {median(one.seconds / log.seconds for one, log in pairs):.2f}")


if __name__ == "__main__":
    main()
