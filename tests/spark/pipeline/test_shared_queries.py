"""Several sinks of one query: each has every row once, whatever of a micro-batch was written before a crash."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from barnabas.clients.producer import Producer
from barnabas_spark.pipeline.checkpoint_layout import CheckpointLayout
from barnabas_spark.pipeline.pipeline_error import RunFailed
from tests.spark.committed_records import committed_values
from tests.spark.pipeline.pipeline_in_session import orders, run_in_session

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

FILE = """\
name: shop
brokers: {brokers}
sources:
  orders:
    topic: {source}
    schema: id BIGINT, amount BIGINT
    options: {{startingOffsets: earliest, maxOffsetsPerTrigger: {limit}}}
transforms:
  doubled: {{sql: "SELECT id, amount * 2 AS double, id % 3 AS third FROM orders"}}
sinks:
  # A query of the name of its first sink.
  first: {{from: doubled, topic: {target}, key: string(third)}}
  again: {{from: doubled, query: first, topic: {target}}}
  files: {{from: doubled, query: first, parquet: {files}, partition_by: [third]}}
  table: {{from: doubled, query: first, iceberg: shop.orders, catalog: warehouse}}
"""


class SharedQuery:
    """A pipeline with one query that writes a topic twice, files, and a table."""

    def __init__(self, directory: Path, bootstrap_servers: str, source: str, target: str) -> None:
        self.directory = directory
        self.bootstrap_servers = bootstrap_servers
        self.source, self.target = source, target
        self.files = directory / "files"
        self.path = directory / "shop.yaml"
        self.layout = CheckpointLayout(os.fspath(directory / "checkpoints" / "shop"))
        self.write(limit=10)

    def write(self, limit: int) -> None:
        self.path.write_text(
            FILE.format(
                brokers=self.bootstrap_servers, source=self.source, target=self.target, files=self.files, limit=limit
            )
        )

    def produce(self, numbers: range) -> None:
        with Producer(self.bootstrap_servers) as producer:
            for future in [producer.send(self.source, value) for value in orders(numbers)]:
                future.result()

    def forget_commit(self, batch: int) -> None:
        """Leave the checkpoint as a crash does that comes after all sinks, and before Spark's own note."""
        for name in (f"{batch}", f".{batch}.crc"):
            (Path(self.layout.query("first")) / "commits" / name).unlink()

    def kill_a_run(self, seconds: float) -> None:
        """Start a run as a process, and kill it with Spark's, so long after it has planned its next micro-batch."""
        command = [sys.executable, "-m", "barnabas", "pipeline", "run", os.fspath(self.path)]
        before = self.layout.planned("first")
        run = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
        try:
            while self.layout.planned("first") == before and run.poll() is None:
                time.sleep(0.02)
            time.sleep(seconds)
        finally:
            os.killpg(run.pid, signal.SIGKILL)
            run.wait()

    def check(self, spark: SparkSession, numbers: range) -> None:
        """Check that each sink has every row once."""
        rows = sorted((number, 2 * number, number % 3) for number in numbers)
        in_topic = [json.loads(value or b"") for value in committed_values(self.bootstrap_servers, self.target, 1)]
        assert sorted(map(_row, in_topic)) == sorted([*rows, *rows])
        # Spark reads by the log beside the files, as any reader must that wants each row once.
        assert (
            sorted(map(tuple, spark.read.parquet(os.fspath(self.files)).select("id", "double", "third").collect()))
            == rows
        )
        assert sorted(map(_row, self.table())) == rows

    def table(self) -> list[dict[str, Any]]:
        from pyiceberg.catalog import load_catalog

        catalog = load_catalog("default", type="sql", uri=f"sqlite:///{self.directory}/warehouse/catalog.db")
        found: list[dict[str, Any]] = catalog.load_table("shop.orders").scan().to_arrow().to_pylist()
        return found


def _row(row: dict[str, Any]) -> tuple[int, ...]:
    return row["id"], row["double"], row["third"]


@pytest.fixture
def shared(tmp_path: Path, bootstrap_servers: str, new_topic: Callable[[int], str]) -> SharedQuery:
    return SharedQuery(tmp_path, bootstrap_servers, new_topic(2), new_topic(1))


def test_a_sink_that_fails_and_one_that_was_written_are_right_after_the_next_run(
    spark: SparkSession, shared: SharedQuery
) -> None:
    shared.produce(range(15))
    # The topic is written, then the files cannot be.
    shared.files.write_text("in the way")
    with pytest.raises(RunFailed, match=r"shop\.yaml:12: first failed in micro-batch 0, .*SinkFailed: sinks\.files: "):
        run_in_session(spark, os.fspath(shared.path), {})
    shared.files.unlink()
    run_in_session(spark, os.fspath(shared.path), {})
    shared.check(spark, range(15))
    # All sinks were written, and Spark has not noted it: nothing is written again.
    shared.forget_commit(1)
    run_in_session(spark, os.fspath(shared.path), {})
    shared.check(spark, range(15))
    # The next micro-batch goes on.
    shared.produce(range(15, 20))
    run_in_session(spark, os.fspath(shared.path), {})
    shared.check(spark, range(20))


@pytest.mark.slow
@pytest.mark.timeout(3_000)
def test_each_sink_has_every_row_once_however_often_the_run_is_killed(spark: SparkSession, shared: SharedQuery) -> None:
    chance = random.Random(14)
    shared.write(limit=20)
    shared.produce(range(400))
    for _ in range(4):
        shared.kill_a_run(chance.uniform(0, 4))
    run_in_session(spark, os.fspath(shared.path), {})
    shared.check(spark, range(400))
