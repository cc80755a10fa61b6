"""A pipeline that goes from one topic to another, run in this process and in a session that is there already."""

from __future__ import annotations

import io
import json
import os
import shutil
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path

from pyspark.sql import SparkSession
from rich.console import Console

from barnabas.clients.admin import Admin, NewTopic
from barnabas.clients.producer import Producer
from barnabas_spark.pipeline.checkpoint_layout import CheckpointLayout
from barnabas_spark.pipeline.pipeline_file import read_pipeline
from barnabas_spark.pipeline.run import run_pipeline
from barnabas_spark.pipeline.run_display import RunDisplay
from tests.spark.committed_records import committed_values

_FILE = """\
name: shop
brokers: {brokers}
trigger: {trigger}
sources:
  orders:
    {choice}
    schema: id BIGINT, amount DOUBLE
    options: {options}
transforms:
  large: {transform}
sinks:
  out: {{from: large, topic: {target}, delivery: {delivery}, options: {sink_options}}}
"""
TRANSFORM_LINE, SINK_LINE = 10, 12
DOUBLED = '{sql: "SELECT id, amount * 2 AS double FROM orders"}'


def run_in_session(
    spark: SparkSession, path: str, parameters: Mapping[str, str], is_stopping: Callable[[], bool] = lambda: False
) -> None:
    """Run a pipeline file in a session that stays open, and show nothing. Raises what a run raises."""
    display = RunDisplay(Console(file=io.StringIO()))
    run_pipeline(read_pipeline(path, parameters, {}), display, is_stopping, lambda *_: nullcontext(spark))


class PipelineInSession:
    """One pipeline file in a directory. Its attributes may be changed between two runs."""

    def __init__(self, spark: SparkSession, directory: Path, bootstrap_servers: str, source: str, target: str) -> None:
        self._spark = spark
        self.directory = directory
        self.bootstrap_servers = bootstrap_servers
        self.source, self.target = source, target
        self.choice = f"topic: {source}"
        self.trigger = "available-now"
        self.options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "10"}
        self.sink_options: dict[str, str] = {}
        self.transform = DOUBLED
        self.delivery = "exactly-once"

    @property
    def path(self) -> Path:
        return self.directory / "shop.yaml"

    @property
    def layout(self) -> CheckpointLayout:
        return CheckpointLayout(os.fspath(self.directory / "checkpoints" / "shop"))

    def create(self, *topics: str) -> None:
        """Create topics of one partition."""
        with Admin(self.bootstrap_servers) as admin:
            admin.create_topics([NewTopic(topic, 1, 1) for topic in topics])

    def produce(self, values: list[bytes]) -> None:
        """Write records to the source, in order."""
        with Producer(self.bootstrap_servers) as producer:
            for future in [producer.send(self.source, value) for value in values]:
                future.result()

    def run(self, is_stopping: Callable[[], bool] = lambda: False) -> None:
        """Write the file and run it. Raises what a run raises."""
        self.path.write_text(
            _FILE.format(
                brokers=self.bootstrap_servers,
                trigger=self.trigger,
                choice=self.choice,
                options=json.dumps(self.options),
                transform=self.transform,
                target=self.target,
                delivery=self.delivery,
                sink_options=json.dumps(self.sink_options),
            )
        )
        run_in_session(self._spark, os.fspath(self.path), {}, is_stopping)

    def written(self) -> list[int]:
        """The ids of the committed records of the target, in order."""
        found = committed_values(self.bootstrap_servers, self.target, 1)
        return sorted(int(json.loads(value or b"")["id"]) for value in found)

    def forget_commit(self, batch: int) -> None:
        """Leave the checkpoint as a crash does that comes after the sink's transaction, and before Spark's own note."""
        checkpoint = Path(self.layout.query("out"))
        for name in (f"{batch}", f".{batch}.crc"):
            (checkpoint / "commits" / name).unlink()
        shutil.rmtree(checkpoint / "barnabas-sink", ignore_errors=True)


def orders(numbers: range) -> list[bytes]:
    """The values of the source's records."""
    return [json.dumps({"id": number, "amount": number}).encode() for number in numbers]
