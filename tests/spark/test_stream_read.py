"""`spark.readStream.format("barnabas")`: checkpoints, limits, and a start that does not move."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader

from barnabas.clients.admin import Admin, NewPartitions
from barnabas_spark.topic_offsets import query_lag
from tests.spark.known_records import KnownRecord, produce

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

PARTITIONS = 2


class Collector:
    """A sink for foreachBatch that can be told to fail once."""

    def __init__(self) -> None:
        self.batches: dict[int, list[tuple[int, int]]] = {}
        self.fail_in: int | None = None

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        if batch_id == self.fail_in:
            self.fail_in = None
            raise RuntimeError("told to fail")
        self.batches[batch_id] = [(row.partition, row.offset) for row in frame.select("partition", "offset").collect()]

    @property
    def places(self) -> list[tuple[int, int]]:
        return sorted(place for batch in self.batches.values() for place in batch)


@pytest.fixture
def topic(new_topic: Callable[[int], str]) -> str:
    return new_topic(PARTITIONS)


@pytest.fixture
def reader(spark: SparkSession, bootstrap_servers: str, topic: str) -> DataStreamReader:
    return (
        spark.readStream.format("barnabas")
        .option("kafka.bootstrap.servers", bootstrap_servers)
        .option("subscribe", topic)
    )


def run(frame: DataFrame, collector: Collector, checkpoint: Path) -> list[Any]:
    """Process what is there now; the progress of each micro-batch."""
    query = (
        frame.writeStream.foreachBatch(collector)
        .option("checkpointLocation", os.fspath(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return [progress for progress in query.recentProgress if progress.numInputRows]


def places(records: list[KnownRecord]) -> list[tuple[int, int]]:
    return [(record.partition, record.offset) for record in records]


def test_a_stream_goes_on_where_it_was(
    reader: DataStreamReader, bootstrap_servers: str, topic: str, tmp_path: Path
) -> None:
    reader = reader.option("startingOffsets", "earliest").option("commitGroupId", f"{topic}-lag")
    frame = reader.option("maxOffsetsPerTrigger", 100).load()
    collector = Collector()
    known = produce(bootstrap_servers, topic, PARTITIONS, range(250))
    progress = run(frame, collector, tmp_path)
    assert [sum(query_lag(json.loads(each.json)).values()) for each in progress] == [150, 50, 0]
    with Admin(bootstrap_servers) as admin:
        committed = admin.list_group_offsets(f"{topic}-lag")
    assert {partition.partition: each.offset for partition, each in committed.items()} == {0: 125, 1: 125}
    assert [each.numInputRows for each in progress] == [100, 100, 50]
    assert collector.places == places(known)
    assert json.loads(progress[-1].sources[0].endOffset) == {topic: {"0": 125, "1": 125}}
    assert json.loads(progress[0].sources[0].latestOffset) == {topic: {"0": 125, "1": 125}}

    known += produce(bootstrap_servers, topic, PARTITIONS, range(250, 300))
    collector.fail_in = 3
    with pytest.raises(PySparkException, match="told to fail"):
        run(frame, collector, tmp_path)
    run(frame, collector, tmp_path)
    assert collector.places == sorted(places(known))
    assert sorted(collector.batches) == [0, 1, 2, 3]
    assert run(frame, collector, tmp_path) == []


def test_latest_means_the_same_when_the_first_batch_is_planned_again(
    reader: DataStreamReader, bootstrap_servers: str, topic: str, tmp_path: Path
) -> None:
    """Spark asks anew where the stream starts: it would skip what has come, and miss partitions that are new."""
    old = produce(bootstrap_servers, topic, PARTITIONS, range(20))
    frame = reader.load()
    collector = Collector()
    collector.fail_in = 0
    with pytest.raises(PySparkException, match="told to fail"):
        run(frame, collector, tmp_path)
    with Admin(bootstrap_servers) as admin:
        admin.create_partitions({topic: NewPartitions(PARTITIONS + 1)})
    new = produce(bootstrap_servers, topic, PARTITIONS + 1, range(20, 50))
    run(frame, collector, tmp_path)
    assert collector.places == sorted(places(new))
    assert not set(collector.places) & set(places(old))
    assert run(frame, collector, tmp_path) == []


def test_a_start_beyond_the_end_is_data_loss(
    reader: DataStreamReader, bootstrap_servers: str, topic: str, tmp_path: Path
) -> None:
    produce(bootstrap_servers, topic, PARTITIONS, range(10))
    ahead = json.dumps({topic: {"0": 3, "1": 1_000}})
    with pytest.raises(PySparkException, match=r"gives 1000 for .*-1, which ends at offset 5.*failOnDataLoss"):
        run(reader.option("startingOffsets", ahead).load(), Collector(), tmp_path / "fails")
    collector = Collector()
    frame = reader.option("startingOffsets", ahead).option("failOnDataLoss", "false").load()
    run(frame, collector, tmp_path / "goes-on")
    assert collector.places == [(0, 3), (0, 4)]


def test_a_pattern_finds_topics_and_few_offsets_wait(
    spark: SparkSession, bootstrap_servers: str, topic: str, tmp_path: Path
) -> None:
    frame = (
        spark.readStream.format("barnabas")
        .option("kafka.bootstrap.servers", bootstrap_servers)
        .option("subscribePattern", f"^{topic.replace('-', '.')}$")
        .option("startingTimestamp", 0)
        .option("minOffsetsPerTrigger", 20)
        .option("maxOffsetsPerTrigger", 60)
        .load()
    )
    collector = Collector()
    known = produce(bootstrap_servers, topic, PARTITIONS, range(70))
    progress = run(frame, collector, tmp_path)
    # Ten offsets are left: too few for a micro-batch of their own, until the query starts again.
    assert [each.numInputRows for each in progress] == [60]
    assert [each.numInputRows for each in run(frame, collector, tmp_path)] == [10]
    assert collector.places == places(known)


def test_options_of_batch_queries_are_refused(reader: DataStreamReader, tmp_path: Path) -> None:
    with pytest.raises(PySparkException, match=r"'endingOffsets'.*not valid in a streaming query"):
        run(reader.option("endingOffsets", "latest").load(), Collector(), tmp_path)
