"""Compares our Spark source and sink with Spark's own Kafka connector: rows/s, CPU of Spark and broker, micro-batches.

    python -m benchmarks.spark_source                                           # three minutes
    python -m benchmarks.spark_source --records 8000000 --rounds 5              # an hour
    python -m benchmarks.spark_source --brokers barnabas --cells micro-batch

Needs Java and Maven. One Spark session with both sources, on two cores; the brokers stay up, one for each system. The
variants of a cell run in turn, round after round, so that a busy machine slows all of them. `CPU s` sums Spark's JVM,
its Python workers and the broker; compare these where other programs run too. All columns but headers are read into a
sum over keys and values; checksums are checked. The last two columns are a variant's CPU and time over ours.

Below each variant of the cell `micro-batch` stands its account: Spark's own durations of a micro-batch's steps, and
what its tasks did (`spark_tasks`). "advised": with the options and settings of docs/spark.md for tiny micro-batches. "a
source that does nothing": Spark's Python API alone (`spark_floor`).
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.clients.admin import Admin, NewTopic
from barnabas.clients.producer import Producer
from barnabas.testing import broker
from benchmarks.process_usage import cpu_seconds
from benchmarks.spark_cpu import cpu_of_children
from benchmarks.spark_floor import FORMAT, FloorSource
from benchmarks.spark_tasks import job_count, job_steps
from tests.spark.connector.connector_session import connector_settings
from tests.support.apache_kafka import ApacheKafka

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CELLS = ("source", "stream", "sink", "micro-batch")
BROKERS = ("barnabas", "apache-kafka")
PARTITIONS = 4
MICRO_BATCHES = 12
_SECONDS = 300
_TUNED = {"kafka.max.poll.records": "10000"}
_ADVISED = {"minRecordsPerPartition": "1000"}
_WITHOUT_CHECKSUMS = {"fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs"}
_FULLY_TUNED = {**_TUNED, "kafka.fetch.max.wait.ms": "5", "kafka.max.partition.fetch.bytes": "4194304"}


class Place(NamedTuple):
    """A broker that runs."""

    name: str
    servers: str
    pid: int


class Variant(NamedTuple):
    """A format and its options, on a broker. `session`: settings of the session while its query starts."""

    name: str
    format: str
    options: Mapping[str, str]
    place: Place
    session: Mapping[str, str] = MappingProxyType({})


class Run(NamedTuple):
    """One run of a variant. Times in seconds; `steps` are those of a micro-batch, in milliseconds."""

    rows: int
    seconds: float
    spark_cpu: float
    broker_cpu: float
    steps: Mapping[str, float]

    @property
    def cpu(self) -> float:
        """All of it."""
        return self.spark_cpu + self.broker_cpu


class Measured(NamedTuple):
    """All runs of a variant, in the order of rounds."""

    variant: Variant
    runs: list[Run]


Work = Callable[["SparkSession", Variant, str, Path], Mapping[str, float]]


def main() -> None:
    """Parse the command line, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=400_000, help="of 100 bytes; a tenth of them of 1 KB")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cells", nargs="+", default=CELLS, choices=CELLS)
    parser.add_argument("--brokers", nargs="+", default=BROKERS, choices=BROKERS)
    arguments = parser.parse_args()
    from barnabas_spark.session import local_session

    sizes = {100: arguments.records, 1000: max(arguments.records // 10, MICRO_BATCHES)}
    with ExitStack() as stack:
        scratch = stack.enter_context(tempfile.TemporaryDirectory())
        places = [stack.enter_context(_running(name, Path(scratch))) for name in arguments.brokers]
        for place in places:
            for size, count in sizes.items():
                _fill(place, f"values-{size}", count, size)
            _fill(place, "tiny", MICRO_BATCHES * PARTITIONS, 100)
        session = local_session("measure", scratch, driver_memory="2g", settings=connector_settings())
        spark = stack.enter_context(session)
        spark.dataSource.register(FloorSource)
        for cell in arguments.cells:
            for size, count in sizes.items():
                if cell == "micro-batch" and size != 100:
                    continue
                rows = MICRO_BATCHES * PARTITIONS if cell == "micro-batch" else count
                runs = _measure(spark, places, cell, size, rows, arguments.rounds, Path(scratch))
                _report(cell, size, rows, runs)


@contextmanager
def _running(name: str, directory: Path) -> Iterator[Place]:
    if name == "barnabas":
        with broker() as ours:
            yield Place(name, ours.bootstrap_servers, ours.pid)
        return
    theirs = ApacheKafka(directory / name, {"offsets.topic.replication.factor": "1"})
    theirs.start()
    try:
        yield Place(name, theirs.bootstrap_servers, theirs.pid)
    finally:
        theirs.close()


def _fill(place: Place, topic: str, records: int, value_bytes: int) -> None:
    import pyarrow as pa

    with Admin(place.servers) as admin:
        admin.create_topics([NewTopic(topic, PARTITIONS, 1)])
    value = b"0123456789abcdef" * (value_bytes // 16 + 1)
    with Producer(place.servers) as producer:
        for first in range(0, records, 100_000):
            count = min(100_000, records - first)
            numbers = range(first, first + count)
            table = {"key": [b"%08d" % number for number in numbers], "value": [value[:value_bytes]] * count}
            partitions = pa.array([number % PARTITIONS for number in numbers], pa.int32())
            rows = pa.table({**table, "partition": partitions})
            producer.send_table(topic, rows, key="key", partition="partition").result(_SECONDS)


def _variants(places: Sequence[Place], cell: str) -> list[Variant]:
    """Ours, and the connector at its defaults; for some cells also tuned, as docs/spark.md advises."""
    found = []
    for place in places:
        found.append(Variant("ours", "barnabas", {}, place))
        found.append(Variant("connector", "kafka", {}, place))
        if cell == "source":
            found.append(Variant("connector, tuned", "kafka", _TUNED, place))
            found.append(Variant("connector, fully tuned", "kafka", _FULLY_TUNED, place))
        if cell == "micro-batch":
            found.append(Variant("ours, advised", "barnabas", _ADVISED, place, _WITHOUT_CHECKSUMS))
            found.append(Variant("connector, advised", "kafka", {}, place, _WITHOUT_CHECKSUMS))
    if cell == "micro-batch":
        options = {"batches": str(MICRO_BATCHES), "tasks": str(PARTITIONS)}
        found.append(Variant("a source that does nothing", FORMAT, options, places[0]))
    return found


def _measure(
    spark: SparkSession, places: Sequence[Place], cell: str, size: int, rows: int, rounds: int, scratch: Path
) -> list[Measured]:
    work: Work = {"source": _read, "stream": _stream, "sink": _write, "micro-batch": _micro_batches}[cell]
    measured = [Measured(variant, []) for variant in _variants(places, cell)]
    brokers = {place.pid for place in places}
    for number in range(rounds + 1):
        for variant, runs in measured:
            topic = "tiny" if cell == "micro-batch" else f"values-{size}"
            checkpoint = scratch / f"{cell}-{size}-{number}-{variant.place.name}-{variant.name}"
            jobs = job_count(spark)
            spark_before, broker_before = cpu_of_children(brokers), cpu_seconds(variant.place.pid).total
            started = time.perf_counter()
            steps = work(spark, variant, topic, checkpoint)
            seconds = time.perf_counter() - started
            broker_cpu = cpu_seconds(variant.place.pid).total - broker_before
            spark_cpu = cpu_of_children(brokers) - spark_before
            if cell == "micro-batch":
                steps = {**steps, **job_steps(spark, jobs)}
            run = Run(rows, seconds, spark_cpu, broker_cpu, steps)
            # The first round starts workers and fills caches.
            if number:
                runs.append(run)
    return measured


def _frame(spark: SparkSession, variant: Variant, topic: str) -> DataFrame:
    reader = spark.read.format(variant.format).option("kafka.bootstrap.servers", variant.place.servers)
    return reader.option("subscribe", topic).options(**variant.options).load()


def _read(spark: SparkSession, variant: Variant, topic: str, _checkpoint: Path) -> Mapping[str, float]:
    _frame(spark, variant, topic).selectExpr("count(1)", "sum(length(key) + length(value))").collect()
    return {}


def _stream(spark: SparkSession, variant: Variant, topic: str, checkpoint: Path) -> Mapping[str, float]:
    _run_stream(spark, variant, topic, checkpoint, {})
    return {}


def _micro_batches(spark: SparkSession, variant: Variant, topic: str, checkpoint: Path) -> Mapping[str, float]:
    for setting, value in variant.session.items():
        spark.conf.set(setting, value)
    try:
        progress = _run_stream(spark, variant, topic, checkpoint, {"maxOffsetsPerTrigger": str(PARTITIONS)})
    finally:
        for setting in variant.session:
            spark.conf.unset(setting)
    durations = [each["durationMs"] for each in progress if each["numInputRows"]]
    # The first micro-batch starts the query.
    return {step: median(each.get(step, 0) for each in durations[1:]) for step in durations[-1]}


def _run_stream(
    spark: SparkSession, variant: Variant, topic: str, checkpoint: Path, more: Mapping[str, str]
) -> list[Any]:
    reader = spark.readStream.format(variant.format).option("kafka.bootstrap.servers", variant.place.servers)
    options = {**variant.options, **more, "startingOffsets": "earliest"}
    query = (
        reader.option("subscribe", topic)
        .options(**options)
        .load()
        .writeStream.format("noop")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return list(query.recentProgress)


def _write(spark: SparkSession, variant: Variant, topic: str, _checkpoint: Path) -> Mapping[str, float]:
    """Write as many rows as the topic of values has, from numbers."""
    size = int(topic.rpartition("-")[2])
    with Admin(variant.place.servers) as admin:
        count = sum(found.offset for found in admin.list_offsets(_ends(admin, topic)).values())
        if "written" not in admin.list_topics():
            admin.create_topics([NewTopic("written", PARTITIONS, 1, {"retention.bytes": str(64 << 20)})])
    rows = spark.range(0, count, 1, PARTITIONS).selectExpr(
        "cast(lpad(id, 8, '0') as binary) key", f"cast(lpad(id, {size}, 'x') as binary) value"
    )
    writer = rows.write.format(variant.format).mode("append").options(**variant.options)
    writer.option("kafka.bootstrap.servers", variant.place.servers).option("topic", "written").save()
    return {}


def _ends(admin: Admin, topic: str) -> dict[Any, int]:
    from barnabas.protocol.topic_partition import TopicPartition

    found = admin.describe_topics([topic])[topic].partitions
    return {TopicPartition(topic, info.partition): -1 for info in found}


def _report(cell: str, size: int, rows: int, measured: Sequence[Measured]) -> None:
    """Print medians, and how much of the CPU and of the time of the connector our source takes, round by round."""
    print(f"\n{cell}, {rows:,} rows of {size} bytes, medians of {len(measured[0].runs)} rounds")
    print(f"{'broker':14} {'variant':24} {'rows/s':>10} {'CPU s':>7} {'Spark':>7} {'broker':>7} {'CPU':>6} {'time':>6}")
    for variant, runs in measured:
        ours = next(found for other, found in measured if other.name == "ours" and other.place == variant.place)
        cpu = median(theirs.cpu / mine.cpu for theirs, mine in zip(runs, ours, strict=True))
        wall = median(theirs.seconds / mine.seconds for theirs, mine in zip(runs, ours, strict=True))
        rate = rows / median(run.seconds for run in runs)
        spent = [median(getattr(run, name) for run in runs) for name in ("cpu", "spark_cpu", "broker_cpu")]
        columns = " ".join(f"{seconds:7.2f}" for seconds in spent)
        print(f"{variant.place.name:14} {variant.name:24} {rate:10,.0f} {columns} {cpu:5.2f}x {wall:5.2f}x")
        if cell == "micro-batch":
            steps = {step: median(run.steps.get(step, 0) for run in runs) for run in runs for step in run.steps}
            for line in account(steps):
                print(f"{'':14} {line}")


def account(steps: Mapping[str, float]) -> list[str]:
    """Return the lines that say where the milliseconds of a micro-batch go."""
    known = ("walCommit", "latestOffset", "getBatch", "queryPlanning", "addBatch", "commitOffsets")
    whole = steps["triggerExecution"]
    parts = [(step, steps.get(step, 0)) for step in known]
    parts.append(("rest", whole - sum(taken for _, taken in parts)))
    lines = [f"{whole:.0f} ms a micro-batch: " + ", ".join(f"{step} {taken:.0f}" for step, taken in parts)]
    if "job" in steps:
        around = steps["addBatch"] - steps["job"]
        job = f"job of {steps['tasks']:.0f} tasks {steps['job']:.0f}"
        lines.append(f"addBatch: plan and Python's partitions() {around:.0f}, {job}")
        inside = ", ".join(f"{step} {steps[step]:.0f}" for step in ("scheduler delay", "deserialize", "run"))
        lines.append(f"a task: {steps['task']:.0f} ({inside})")
    return lines


if __name__ == "__main__":
    main()
