"""Spark's Kafka connector writes to our broker, in batches and streams; our sink writes the same records."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from barnabas.clients.consumer import Consumer
from barnabas.protocol.topic_partition import TopicPartition
from tests.spark.connector.comparison import filled_in, reason
from tests.spark.connector.topics import ComparedTopics
from tests.spark.known_records import CODECS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.java, pytest.mark.timeout(300)]

TOPICS = ("plain", "transactions")
PARTITIONS = 3
_HEADERS = "transform(sequence(1, id % 3 + 1), i -> struct(concat('h', i) as key, encode(id, 'utf-8') as value))"


class Record(NamedTuple):
    """What both sinks must agree on, in the order of offsets."""

    partition: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class Write(NamedTuple):
    """Rows for a sink, of 200 numbers in the column `id`. `@out` is the sink's own topic."""

    name: str
    columns: tuple[str, ...]
    options: Mapping[str, str] = {"topic": "@out"}
    fails: tuple[str, str] | None = None
    """Expressions for the messages: the connector's, ours."""


_KEYED = ("cast(id % 17 as string) key", "concat('value ', id) value")

WRITES = (
    Write("keys and values", _KEYED),
    Write("binary", ("cast(cast(id as string) as binary) key", "cast('x' as binary) value")),
    Write("NULL values", ("cast(id as string) key", "if(id % 3 = 0, null, concat('value ', id)) value")),
    Write("empty keys and values", ("'' key", "'' value")),
    Write("headers", (*_KEYED, f"{_HEADERS} headers"), {"topic": "@out", "includeHeaders": "true"}),
    Write("partitions by a column", (*_KEYED, "cast(id % 3 as int) partition")),
    Write("some partitions by a column", (*_KEYED, "if(id % 2 = 0, cast(id % 3 as int), null) partition")),
    Write("the topic by a column", (*_KEYED, "'@out' topic"), {}),
    Write("the option before the column", (*_KEYED, "'@nowhere' topic")),
    *(Write(codec, _KEYED, {"topic": "@out", "kafka.compression.type": codec}) for codec in CODECS),
    Write("other columns beside", (*_KEYED, "id", "current_date() today")),
    Write("no value", ("cast(id as string) key",), fails=("value.* not found", "column 'value' is missing")),
    Write("numbers", ("id value",), fails=("value must be a", "column 'value' is bigint; it must be string or binary")),
    Write("no topic", _KEYED, {}, fails=("topic option required", "no topic: set option 'topic'")),
    Write("a NULL topic", (*_KEYED, "cast(null as string) topic"), {},
          fails=("contains a null topic", "a row has NULL in its 'topic' column")),
    Write("a wide partition", (*_KEYED, "id partition"), fails=("partition must be a", "'partition' is bigint")),
    Write("wrong headers", (*_KEYED, "map('a', 'b') headers"), {"topic": "@out", "includeHeaders": "true"},
          fails=("headers must be a", "'headers' is map")),
    Write("a serializer", _KEYED, {"topic": "@out", "kafka.key.serializer": "x"},
          fails=("'key.serializer' is not supported", "'kafka.key.serializer' .*cannot be set")),
)  # fmt: skip


@pytest.mark.parametrize("write", WRITES, ids=lambda write: write.name)
def test_the_same_records(connector: SparkSession, topics: ComparedTopics, write: Write) -> None:
    short = "out-" + re.sub("[^a-z0-9]", "-", write.name)
    errors = []
    written = []
    for sink in ("kafka", "barnabas"):
        out = f"{short}-{sink}"
        topics.create(out, PARTITIONS)
        # One task: so both have one order.
        rows = connector.range(0, 200, 1, 1).selectExpr(*(_named(each, topics, out) for each in write.columns))
        options = {name: _named(value, topics, out) for name, value in write.options.items()}
        errors.append(_save(rows, sink, options, topics))
        written.append(_records(topics, out))
    if write.fails is None:
        assert errors == [None, None]
        assert len(written[0]) == 200
        assert written[1] == written[0]
    else:
        for expression, error in zip(write.fails, errors, strict=True):
            assert error is not None
            assert re.search(expression, error, re.DOTALL | re.IGNORECASE), error
        assert written == [[], []]


def test_the_connector_streams_from_and_to_our_broker(
    connector: SparkSession, topics: ComparedTopics, tmp_path: Path
) -> None:
    """Two runs of a query with a checkpoint, a limit, and records that arrive between the runs; committed ones only."""
    topics.create("in-stream", 2)
    topics.create("out-stream", PARTITIONS)
    found: list[int] = []
    for indices in (range(100), range(100, 130)):
        topics.produce("in-stream", 2, indices, "zstd")
        query = (
            connector.readStream.format("kafka")
            .option("kafka.bootstrap.servers", topics.bootstrap_servers)
            .option("subscribe", topics.name("in-stream"))
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", 40)
            .option("kafka.isolation.level", "read_committed")
            .option("kafka.max.poll.records", 7)
            .load()
            .selectExpr("cast(offset as string) key", "concat(partition, ' ', offset) value")
            .writeStream.format("kafka")
            .option("kafka.bootstrap.servers", topics.bootstrap_servers)
            .option("topic", topics.name("out-stream"))
            .option("checkpointLocation", os.fspath(tmp_path))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        found += [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]
    assert found == [40, 40, 20, 30]
    values = [record.value for record in _records(topics, "out-stream")]
    assert sorted(values, key=repr) == sorted((b"%d %d" % (n % 2, n // 2) for n in range(130)), key=repr)


def test_the_connector_follows_our_broker(connector: SparkSession, topics: ComparedTopics, tmp_path: Path) -> None:
    """Records that come while the query runs, one micro-batch after the other."""
    topics.create("followed", 2)
    seen: list[int] = []
    query = (
        connector.readStream.format("kafka")
        .option("kafka.bootstrap.servers", topics.bootstrap_servers)
        .option("subscribe", topics.name("followed"))
        .option("startingOffsets", "earliest")
        .load()
        .writeStream.foreachBatch(lambda frame, _batch: seen.append(frame.count()))
        .option("checkpointLocation", os.fspath(tmp_path))
        .start()
    )
    try:
        for first in range(0, 60, 20):
            topics.produce("followed", 2, range(first, first + 20))
            query.processAllAvailable()
            assert sum(seen) == first + 20
    finally:
        query.stop()


def _named(text: str, topics: ComparedTopics, out: str) -> str:
    return filled_in(text.replace("@out", f"@{out}"), topics)


def _save(rows: DataFrame, sink: str, options: Mapping[str, str], topics: ComparedTopics) -> str | None:
    """Write the rows. Gives the reason of a failure."""
    writer = rows.write.format(sink).mode("append").options(**options)
    try:
        writer.option("kafka.bootstrap.servers", topics.bootstrap_servers).save()
    except (PySparkException, Py4JJavaError) as error:
        return reason(error)
    return None


def _records(topics: ComparedTopics, short: str) -> list[Record]:
    found: list[Record] = []
    with Consumer(topics.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        places = [TopicPartition(topics.name(short), number) for number in range(PARTITIONS)]
        consumer.assign(places)
        ends = sum(consumer.end_offsets(places).values())
        while len(found) < ends:
            found += [
                Record(each.partition, each.key, each.value, tuple(each.headers)) for each in consumer.poll(1_000)
            ]
    # Stable: within a partition the order stays.
    return sorted(found, key=lambda record: record.partition)
