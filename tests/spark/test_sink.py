"""Writing DataFrames and streams to topics, and reading them back."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from barnabas.clients.admin import Admin, NewTopic
from barnabas.clients.consumer import Consumer
from barnabas.clients.producer.partition_choice import partition_for_key
from barnabas.protocol.topic_partition import TopicPartition
from tests.spark.known_records import CODECS, write

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


Row: TypeAlias = tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]
"""Partition, key, value, headers."""


def records_of(bootstrap_servers: str, topic: str, partitions: int) -> list[Row]:
    """Everything in the topic, read by a client that has nothing to do with Spark."""
    found: list[Row] = []
    with Consumer(bootstrap_servers, auto_offset_reset="earliest") as consumer:
        assignment = [TopicPartition(topic, partition) for partition in range(partitions)]
        consumer.assign(assignment)
        ends = consumer.end_offsets(assignment)
        while len(found) < sum(ends.values()):
            found.extend((each.partition, each.key, each.value, tuple(each.headers)) for each in consumer.poll(1_000))
    return found


@pytest.mark.parametrize("codec", CODECS)
def test_rows_come_back_by_another_client(
    spark: SparkSession, bootstrap_servers: str, new_topic: Callable[[int], str], codec: str
) -> None:
    topic = new_topic(3)
    frame = spark.range(0, 500, 1, 2).selectExpr(
        "if(id % 10 = 0, null, cast(id as string)) key",
        "if(id % 7 = 0, null, concat('value ', id)) value",
        "transform(sequence(1, id % 3 + 1), i -> struct(concat('h', i) as key, encode(id, 'utf-8') as value)) headers",
    )
    expected = [(row.key, row.value, row.headers) for row in frame.collect()]
    write(frame, bootstrap_servers, topic=topic, **{"kafka.compression.type": codec})
    found = records_of(bootstrap_servers, topic, 3)
    as_written = [
        (
            None if key is None else key.encode(),
            None if value is None else value.encode(),
            tuple((header.key, bytes(header.value)) for header in headers),
        )
        for key, value, headers in expected
    ]
    assert sorted(map(repr, as_written)) == sorted(repr(row[1:]) for row in found)
    for partition, key, _, _ in found:
        assert key is None or partition == partition_for_key(key, 3)


def test_topic_and_partition_columns(
    spark: SparkSession, bootstrap_servers: str, new_topic: Callable[[int], str]
) -> None:
    topics = [new_topic(2), new_topic(2)]
    frame = spark.createDataFrame(
        [(topics[0], 1, "a"), (topics[1], 0, "b"), (topics[0], 0, "c")], "topic string, partition int, value string"
    )
    write(frame, bootstrap_servers)
    assert sorted(row[::2] for row in records_of(bootstrap_servers, topics[0], 2)) == [(0, b"c"), (1, b"a")]
    assert [row[::2] for row in records_of(bootstrap_servers, topics[1], 2)] == [(0, b"b")]


def test_a_micro_batch_that_is_committed_is_not_written_again(
    spark: SparkSession, bootstrap_servers: str, new_topic: Callable[[int], str], tmp_path: Path
) -> None:
    """Spark plans a micro-batch again when it died after the sink's commit and before its own."""
    source, target = new_topic(2), new_topic(2)
    write(spark.range(100).selectExpr("cast(id as string) value"), bootstrap_servers, topic=source)
    checkpoint = tmp_path / "checkpoint"

    def run() -> None:
        stream = (
            spark.readStream.format("barnabas")
            .option("kafka.bootstrap.servers", bootstrap_servers)
            .option("subscribe", source)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", 60)
            .load()
        )
        writer = stream.select("value").writeStream.format("barnabas").trigger(availableNow=True)
        writer = writer.option("kafka.bootstrap.servers", bootstrap_servers).option("topic", target)
        writer.option("checkpointLocation", os.fspath(checkpoint)).start().awaitTermination()

    run()
    assert len(records_of(bootstrap_servers, target, 2)) == 100
    for name in ("1", ".1.crc"):
        (checkpoint / "commits" / name).unlink()
    write(spark.range(100, 110).selectExpr("cast(id as string) value"), bootstrap_servers, topic=source)
    run()
    values = [int(row[2] or b"") for row in records_of(bootstrap_servers, target, 2)]
    assert sorted(values) == list(range(110))


@pytest.mark.parametrize(
    ("columns", "options", "said"),
    [
        (["key"], {"topic": "t"}, "column 'value' is missing; the columns are key"),
        (["cast(1 as int) value"], {"topic": "t"}, "column 'value' is int; it must be string or binary: cast it"),
        (["'x' value"], {}, "no topic: set option 'topic'"),
        (["'x' value", "map('a', 'b') headers"], {"topic": "t"}, "'headers' is map<string,string>; it must be array"),
        (["'x' value"], {"topic": "t", "kafka.acks": "0"}, "'kafka.acks' is '0'"),
        (["'x' value", "9 partition"], {"topic": "%s"}, "names partition 9; topic .* has 0 to 1"),
    ],
)  # fmt: skip
def test_what_cannot_be_written_is_said(
    spark: SparkSession,
    bootstrap_servers: str,
    new_topic: Callable[[int], str],
    columns: list[str],
    options: dict[str, str],
    said: str,
) -> None:
    frame = spark.range(1).selectExpr("'k' key").selectExpr(*columns)
    options = {name: value.replace("%s", new_topic(2)) if "%s" in value else value for name, value in options.items()}
    with pytest.raises(PySparkException, match=said):
        write(frame, bootstrap_servers, **options)


def test_a_topic_is_never_overwritten(spark: SparkSession, bootstrap_servers: str) -> None:
    writer = spark.range(1).selectExpr("'x' value").write.format("barnabas").mode("overwrite")
    with pytest.raises(PySparkException, match="only ever appended to"):
        writer.option("kafka.bootstrap.servers", bootstrap_servers).option("topic", "t").save()


def test_a_large_record_needs_the_sinks_option_and_the_topics(
    spark: SparkSession, bootstrap_servers: str, new_topic: Callable[[int], str]
) -> None:
    topic = new_topic(1)
    large = spark.range(1).selectExpr("repeat('x', 2000000) value")
    with pytest.raises(PySparkException, match=r"larger than 1048576, which is the value of the max\.request\.size"):
        write(large, bootstrap_servers, topic=topic)
    with pytest.raises(PySparkException, match="MESSAGE_TOO_LARGE"):
        write(large, bootstrap_servers, topic=topic, **{"kafka.max.request.size": "3000000"})
    roomy = f"{topic}-roomy"
    with Admin(bootstrap_servers) as admin:
        admin.create_topics([NewTopic(roomy, 1, 1, configs={"max.message.bytes": "3000000"})])
    write(large, bootstrap_servers, topic=roomy, **{"kafka.max.request.size": "3000000"})
