"""Compares the log source with our own source: rows/s, and CPU of Spark and of the broker, in rounds that alternate.

    python -m benchmarks.spark_log_source                                # two minutes
    python -m benchmarks.spark_log_source --records 8000000              # five minutes on two free cores
    python -m benchmarks.spark_log_source --records 300000 --rounds 2    # 30 s
    python -m benchmarks.spark_log_source --columns value                # less of what both sources share

One broker of ours, one local Spark session. Our source, the log source, and `table(..., spark_reads_sidecars=True)`
read the same topic, all columns but headers or those named, into a sum over keys and values. Values are pieces of
random digits, so that Parquet gains nothing by repetitions. The CPU of Spark is that of its JVM and all Python workers.
The last two columns: our source's CPU and time divided by those of each way, round by round.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from barnabas.clients.admin import Admin, NewTopic
from barnabas.clients.producer import Producer
from barnabas.runtime.files import OperatingSystemFiles
from barnabas.testing import BrokerProcess, broker
from barnabas_spark import table
from barnabas_spark.log_source.sidecar_job import SidecarJob
from benchmarks.process_usage import cpu_seconds
from benchmarks.spark_cpu import cpu_of_children

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TOPIC = "measured"
SOURCE, LOG, SIDECARS = "source", "log source", "sidecars"
SOURCES = (SOURCE, LOG, SIDECARS)
_SEGMENT_BYTES = 16 << 20
"""Nearly all records lie in sealed segments, as those of a long history do."""
_KEY_BYTES = 8
_STEP = 7919
"""A prime number: neighbours have different values."""
_SECONDS = 300


class Run(NamedTuple):
    """One reading of the whole topic. CPU in seconds."""

    source: str
    seconds: float
    spark_cpu: float
    broker_cpu: float

    @property
    def cpu(self) -> float:
        """All of it."""
        return self.spark_cpu + self.broker_cpu


def main() -> None:
    """Parse the command line, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--value-bytes", type=int, default=100)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--split-mib", type=int, default=128, help="the source's own default")
    parser.add_argument("--codec", default="none", choices=("none", "gzip", "snappy", "lz4", "zstd"))
    parser.add_argument("--columns", nargs="+", help="those to read; all but headers without this option")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    from barnabas_spark.session import local_session

    with (
        broker(replica_high_watermark_checkpoint_interval_ms=500) as running,
        tempfile.TemporaryDirectory() as scratch,
        # With the heap of `spark_source`, so that both benchmarks' rows of our source can be compared.
        local_session("measure", scratch, driver_memory="2g") as spark,
    ):
        _fill(running, arguments)
        job = SidecarJob([running.data_dir], [TOPIC], OperatingSystemFiles(read_only=True))
        print(f"{sum(1 for _ in job.build())} sidecars")
        runs = []
        for number in range(arguments.rounds + 1):
            for source in SOURCES:
                run = _measure(spark, running, source, arguments)
                # The first round starts workers and fills caches.
                if number:
                    runs.append(run)
    _report(runs, arguments)


def _fill(running: BrokerProcess, arguments: argparse.Namespace) -> None:
    import pyarrow as pa

    with Admin(running.bootstrap_servers) as admin:
        configs = {"segment.bytes": str(_SEGMENT_BYTES)}
        admin.create_topics([NewTopic(TOPIC, arguments.partitions, 1, configs=configs)])
    digits = random.Random(1).randbytes(1 << 20).hex().encode()
    places = len(digits) - arguments.value_bytes
    with Producer(running.bootstrap_servers, compression_type=arguments.codec) as producer:
        for first in range(0, arguments.records, 200_000):
            count = min(200_000, arguments.records - first)
            keys = [b"%0*d" % (_KEY_BYTES, number) for number in range(first, first + count)]
            starts = (number * _STEP % places for number in range(first, first + count))
            values = [digits[start : start + arguments.value_bytes] for start in starts]
            rows = pa.table({"key": keys, "value": values})
            producer.send_table(TOPIC, rows, key="key").result(_SECONDS)
    # The log source reads up to the high watermark that the broker has written down.
    time.sleep(1.5)


def _measure(spark: SparkSession, running: BrokerProcess, source: str, arguments: argparse.Namespace) -> Run:
    """Read the topic once. Raises AssertionError unless every record was read."""
    spark_before, broker_before = cpu_of_children({running.pid}), cpu_seconds(running.pid).total
    started = time.perf_counter()
    sizes = {
        name: size
        for name, size in (("key", _KEY_BYTES), ("value", arguments.value_bytes))
        if name in (arguments.columns or ("key", "value"))
    }
    total = f"sum({' + '.join(f'length({name})' for name in sizes) or '0'})"
    [row] = _frame(spark, running, source, arguments).selectExpr("count(1)", total).collect()
    seconds = time.perf_counter() - started
    assert tuple(row) == (arguments.records, arguments.records * sum(sizes.values())), row
    spark_cpu = cpu_of_children({running.pid}) - spark_before
    return Run(source, seconds, spark_cpu, cpu_seconds(running.pid).total - broker_before)


def _frame(spark: SparkSession, running: BrokerProcess, source: str, arguments: argparse.Namespace) -> DataFrame:
    if source == SOURCE:
        return table(spark, TOPIC, bootstrap_servers=running.bootstrap_servers, columns=arguments.columns)
    return table(
        spark,
        TOPIC,
        path=running.data_dir,
        columns=arguments.columns,
        spark_reads_sidecars=source == SIDECARS,
        splitBytes=arguments.split_mib << 20,
        sidecars=source == SIDECARS,
    )


def _report(runs: Sequence[Run], arguments: argparse.Namespace) -> None:
    print(
        f"{arguments.records:,} records of {arguments.value_bytes} bytes, {arguments.partitions} partitions,"
        f" medians of {arguments.rounds} rounds"
    )
    print(f"{'source':14} {'rows/s':>10} {'CPU s':>7} {'Spark':>7} {'broker':>7} {'CPU':>6} {'time':>6}")
    source_runs = [run for run in runs if run.source == SOURCE]
    for source in SOURCES:
        mine = [run for run in runs if run.source == source]
        rate = arguments.records / median(run.seconds for run in mine)
        spent = [median(getattr(run, name) for run in mine) for name in ("cpu", "spark_cpu", "broker_cpu")]
        columns = " ".join(f"{seconds:7.2f}" for seconds in spent)
        cpu = median(ours.cpu / one.cpu for ours, one in zip(source_runs, mine, strict=True))
        wall = median(ours.seconds / one.seconds for ours, one in zip(source_runs, mine, strict=True))
        print(f"{source:14} {rate:10,.0f} {columns} {cpu:5.2f}x {wall:5.2f}x")


if __name__ == "__main__":
    main()
