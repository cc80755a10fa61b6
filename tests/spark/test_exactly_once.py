"""Rows that Spark writes again - after a crash between the sink's commit and its own, or half-way - are there once."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.spark.committed_records import committed_values
from tests.spark.known_records import write

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


def numbers(values: list[bytes | None]) -> list[int]:
    return sorted(int(value or b"") for value in values)


class CountingQuery:
    """A stream from one topic to another, and its checkpoint. Rows from number `fail_from` on raise."""

    def __init__(self, spark: SparkSession, bootstrap_servers: str, source: str, target: str, checkpoint: Path) -> None:
        self._spark = spark
        self._bootstrap_servers = bootstrap_servers
        self._source = source
        self._target = target
        self.checkpoint = checkpoint

    def run(self, *, tasks: int = 1, fail_from: int = 1 << 40) -> None:
        stream = (
            self._spark.readStream.format("barnabas")
            .option("kafka.bootstrap.servers", self._bootstrap_servers)
            .option("subscribe", self._source)
            .option("startingOffsets", "earliest")
            .load()
            .selectExpr(f"if(int(string(value)) >= {fail_from}, raise_error('row'), string(value)) value")
        )
        (
            (stream.repartition(1) if tasks == 1 else stream)
            .writeStream.format("barnabas")
            .trigger(availableNow=True)
            .option("kafka.bootstrap.servers", self._bootstrap_servers)
            .option("topic", self._target)
            .option("exactlyOnce", "true")
            .option("checkpointLocation", os.fspath(self.checkpoint))
            .start()
            .awaitTermination()
        )

    def forget_commits(self, batch: int) -> None:
        """Leave the checkpoint as a crash does that comes after the transaction, and before all other notes."""
        for name in (f"{batch}", f".{batch}.crc"):
            (self.checkpoint / "commits" / name).unlink()
        shutil.rmtree(self.checkpoint / "barnabas-sink")


@pytest.mark.slow
@pytest.mark.parametrize("tasks", [1, 2])
def test_a_micro_batch_whose_transaction_is_committed_is_not_written_again(
    spark: SparkSession, bootstrap_servers: str, new_topic: Callable[[int], str], tmp_path: Path, tasks: int
) -> None:
    source, target = new_topic(2), new_topic(2)
    query = CountingQuery(spark, bootstrap_servers, source, target, tmp_path / "checkpoint")
    write(spark.range(100).selectExpr("cast(id as string) value"), bootstrap_servers, topic=source)
    query.run(tasks=tasks)
    write(spark.range(100, 110).selectExpr("cast(id as string) value"), bootstrap_servers, topic=source)
    query.run(tasks=tasks)
    query.forget_commits(1)
    write(spark.range(110, 120).selectExpr("cast(id as string) value"), bootstrap_servers, topic=source)
    query.run(tasks=tasks)
    assert numbers(committed_values(bootstrap_servers, target, 2)) == list(range(120))


def test_a_micro_batch_that_fails_half_way_leaves_no_committed_row(
    spark: SparkSession, bootstrap_servers: str, new_topic: Callable[[int], str], tmp_path: Path
) -> None:
    source, target = new_topic(1), new_topic(2)
    query = CountingQuery(spark, bootstrap_servers, source, target, tmp_path / "checkpoint")
    # More rows than an Arrow batch has: the first batches are sent before the row that raises is reached.
    write(spark.range(0, 60_000, 1, 1).selectExpr("cast(id as string) value"), bootstrap_servers, topic=source)
    with pytest.raises(PySparkException, match="row"):
        query.run(tasks=2, fail_from=59_999)
    query.run(tasks=2)
    assert numbers(committed_values(bootstrap_servers, target, 2)) == list(range(60_000))


def test_a_version_of_a_batch_write_is_written_once(
    spark: SparkSession, bootstrap_servers: str, new_topic: Callable[[int], str]
) -> None:
    target = new_topic(2)
    for version, first in ((0, 0), (0, 0), (3, 10), (2, 20), (3, 10)):
        frame = spark.range(first, first + 10, 1, 1).selectExpr("cast(id as string) value")
        write(frame, bootstrap_servers, topic=target, txnAppId=target, txnVersion=str(version))
    assert numbers(committed_values(bootstrap_servers, target, 2)) == list(range(20))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"txnAppId": "a"}, "'txnAppId' and 'txnVersion' belong together"),
        ({"exactlyOnce": "true"}, "option 'exactlyOnce' belongs to streams"),
        ({"txnAppId": "a", "txnVersion": "-1"}, "option 'txnVersion' is '-1'; it must be a whole number from 0 on"),
    ],
)
def test_wrong_options_are_told(
    spark: SparkSession, bootstrap_servers: str, options: dict[str, str], said: str
) -> None:
    with pytest.raises(PySparkException, match=said):
        write(spark.range(1).selectExpr("'x' value"), bootstrap_servers, topic="t", **options)
