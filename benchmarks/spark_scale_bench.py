"""The broker, the Spark session and the topics under `spark_scale`, and the micro-batches of a query that it watches.

Called by the cells of `spark_scale`, on the main thread; no lock.
"""

from __future__ import annotations

import io
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from barnabas.clients.admin import Admin, NewTopic
from barnabas.clients.producer import Producer
from barnabas.testing import BrokerProcess, broker
from benchmarks.spark_processes import PeakMemory, cpu_by_role, memory_by_role

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

VALUE_BYTES = 1000
_SECONDS = 600

PIPELINE = """\
name: scale
brokers: {brokers}
trigger: available-now
sources:
  rows:
    topic: {source}
    schema: {schema}
    options: {options}
transforms:
  changed: {{sql: "SELECT {columns} FROM rows"}}
sinks:
  out: {{from: changed, topic: {target}}}
"""


class Bench(NamedTuple):
    """The broker, the session and the scratch directory of one cell."""

    spark: SparkSession
    running: BrokerProcess
    scratch: Path

    @property
    def servers(self) -> str:
        """The broker's address."""
        return self.running.bootstrap_servers

    def cpu(self) -> dict[str, float]:
        """CPU seconds by kind of process."""
        return cpu_by_role(os.getpid(), self.running.pid)

    def memory(self) -> dict[str, float]:
        """Resident MiB of the largest process of each kind."""
        return memory_by_role(os.getpid(), self.running.pid)

    def peak(self) -> PeakMemory:
        """Return what watches the memory of all processes."""
        return PeakMemory(os.getpid(), self.running.pid)


class MicroBatch(NamedTuple):
    """One micro-batch with rows: its number, its steps in milliseconds, and CPU and memory when it was noticed."""

    number: int
    steps: Mapping[str, float]
    cpu: Mapping[str, float]
    memory: Mapping[str, float]


@contextmanager
def running_bench(directory: Path, *, connector: bool) -> Iterator[Bench]:
    """Yield a broker and a session; their files are removed at the end. connector: with Spark's Kafka connector.

    Raises SystemExit: a query failed, with Spark's words.
    """
    from pyspark.errors import PySparkException

    from barnabas_spark.session import local_session

    settings = {}
    if connector:
        from tests.spark.connector.connector_session import connector_settings

        settings = connector_settings()
    with (
        tempfile.TemporaryDirectory(dir=directory, prefix="spark-scale-") as scratch,
        broker(data_dir=os.path.join(scratch, "data")) as running,
        local_session("scale", scratch, settings=settings) as spark,
    ):
        try:
            yield Bench(spark, running, Path(scratch))
        except PySparkException as error:
            # Its text is in the JVM, which ends with the session.
            raise SystemExit(str(error)) from error


# -- topics


def create(bench: Bench, topic: str, partitions: int) -> None:
    """Create a topic."""
    with Admin(bench.servers) as admin:
        admin.create_topics([NewTopic(topic, partitions, 1)])


def fill(
    bench: Bench,
    topic: str,
    records: int,
    partitions: int,
    *,
    value: bytes | None = None,
    value_bytes: int = VALUE_BYTES,
) -> None:
    """Write records to the first partitions in turn."""
    import pyarrow as pa

    given = value if value is not None else os.urandom(value_bytes)
    at_once = max(1, min(100_000, 32_000_000 // len(given)))
    with Producer(bench.servers) as producer:
        for first in range(0, records, at_once):
            count = min(at_once, records - first)
            numbers = pa.array([(first + number) % partitions for number in range(count)], pa.int32())
            table = pa.table({"value": [given] * count, "partition": numbers})
            producer.send_table(topic, table, partition="partition").result(_SECONDS)


# -- queries


def run_stream(bench: Bench, name: str, topic: str, per_batch: int) -> list[MicroBatch]:
    """Read a topic to its end in micro-batches of so many rows, by the format `name`, and return those with rows."""
    reader = bench.spark.readStream.format(name).option("kafka.bootstrap.servers", bench.servers)
    frame = reader.option("subscribe", topic).option("startingOffsets", "earliest")
    query = (
        frame.option("maxOffsetsPerTrigger", str(per_batch))
        .load()
        .writeStream.format("noop")
        .option("checkpointLocation", tempfile.mkdtemp(dir=bench.scratch))
        .trigger(availableNow=True)
        .start()
    )
    found: dict[int, MicroBatch] = {}
    while query.isActive:
        note_progress(bench, query, found)
        time.sleep(0.1)
    query.awaitTermination()
    note_progress(bench, query, found)
    return [found[number] for number in sorted(found)]


def note_progress(bench: Bench, query: StreamingQuery, found: dict[int, MicroBatch]) -> None:
    """Take down the micro-batches that are new, with the CPU that was spent until now."""
    # The JVM's reports, from the last one back: `recentProgress` renders all hundred of them.
    reports = query._jsq.recentProgress()  # noqa: SLF001
    newest = max(found, default=-1)
    fresh = []
    for number in range(len(reports) - 1, -1, -1):
        if reports[number].batchId() <= newest:
            break
        fresh.append(json.loads(reports[number].json()))
    if fresh:
        cpu, memory = bench.cpu(), bench.memory()
        for each in fresh:
            if each["numInputRows"]:
                found[each["batchId"]] = MicroBatch(each["batchId"], dict(each["durationMs"]), cpu, memory)


def run_pipeline(
    bench: Bench,
    source: str,
    target: str,
    schema: str,
    columns: str,
    options: Mapping[str, str],
    is_stopping: Callable[[], bool] = lambda: False,
) -> None:
    """Run a pipeline file in the session."""
    from rich.console import Console

    from barnabas_spark.pipeline import run
    from barnabas_spark.pipeline.pipeline_file import read_pipeline
    from barnabas_spark.pipeline.run_display import RunDisplay

    directory = Path(tempfile.mkdtemp(dir=bench.scratch))
    path = directory / "scale.yaml"
    given = json.dumps({"startingOffsets": "earliest", **options})
    names = {"brokers": bench.servers, "source": source, "target": target, "schema": schema, "columns": columns}
    path.write_text(PIPELINE.format(**names, options=given))
    display = RunDisplay(Console(file=io.StringIO()))
    run.run_pipeline(read_pipeline(os.fspath(path), {}, {}), display, is_stopping, lambda *_: nullcontext(bench.spark))
