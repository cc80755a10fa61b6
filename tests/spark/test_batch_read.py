"""`spark.read.format("barnabas")` against known records."""

from __future__ import annotations

import datetime as dt
import json
import random
from collections.abc import Callable

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from barnabas_spark import table
from tests.spark.known_records import FIRST_TIMESTAMP_MS, KnownRecord, produce, rows

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

PARTITIONS = 3
RECORDS = 600
PLACE = ("topic", "partition", "offset", "timestamp")


@pytest.fixture(scope="module")
def topic(new_topic: Callable[[int], str]) -> str:
    return new_topic(PARTITIONS)


@pytest.fixture(scope="module")
def known(bootstrap_servers: str, topic: str) -> list[KnownRecord]:
    return produce(bootstrap_servers, topic, PARTITIONS, range(RECORDS))


@pytest.fixture
def load(spark: SparkSession, bootstrap_servers: str, topic: str) -> Callable[..., DataFrame]:
    def _load(schema: str | None = None, **options: object) -> DataFrame:
        reader = spark.read.format("barnabas").option("kafka.bootstrap.servers", bootstrap_servers)
        if "assign" not in options:
            reader = reader.option("subscribe", topic)
        for name, value in options.items():
            reader = reader.option(name, str(value))
        return (reader.schema(schema) if schema else reader).load()

    return _load


def test_every_column_of_every_codec_is_as_it_was_produced(
    load: Callable[..., DataFrame], known: list[KnownRecord]
) -> None:
    frame = load(includeHeaders=True)
    assert rows(frame) == known
    assert [row[0] for row in frame.select("timestampType").distinct().collect()] == [0]
    first = frame.orderBy("timestamp").first()
    assert first is not None
    assert first.timestamp.replace(tzinfo=dt.UTC).timestamp() == pytest.approx(known[0].timestamp_ms / 1000, abs=0.001)


def test_without_headers_the_columns_are_those_of_sparks_kafka_source(load: Callable[..., DataFrame]) -> None:
    assert load().columns == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]


@pytest.mark.usefixtures("known")
def test_a_schema_picks_columns(load: Callable[..., DataFrame]) -> None:
    frame = load("offset bigint, headers array<struct<key: string, value: binary>>")
    assert frame.columns == ["offset", "headers"]
    assert frame.selectExpr("sum(size(headers))", "count(headers)").collect() == [(RECORDS, RECORDS)]
    unread = load("headers array<struct<key: string, value: binary>>", includeHeaders=False)
    assert unread.selectExpr("sum(size(headers))", "count(headers)").collect() == [(0, RECORDS)]


def test_offsets_choose_what_is_read(load: Callable[..., DataFrame], topic: str, known: list[KnownRecord]) -> None:
    starting, ending = {"0": 5, "1": -2, "2": 7}, {"0": 50, "1": 60, "2": -1}
    frame = load(
        includeHeaders=True, startingOffsets=json.dumps({topic: starting}), endingOffsets=json.dumps({topic: ending})
    )
    expected = [
        record
        for record in known
        if starting[f"{record.partition}"] <= record.offset
        and (record.partition == 2 or record.offset < ending[f"{record.partition}"])
    ]
    assert rows(frame) == expected


def test_times_choose_what_is_read(load: Callable[..., DataFrame], topic: str, known: list[KnownRecord]) -> None:
    first_ms, last_ms = min(each.timestamp_ms for each in known), max(each.timestamp_ms for each in known)
    middle_ms = (first_ms + last_ms) // 2
    # The records of a partition are not in the order of their times: the first one that is as young decides.
    first = {
        index: min(each.offset for each in known if each.partition == index and each.timestamp_ms >= middle_ms)
        for index in range(PARTITIONS)
    }
    frame = load(includeHeaders=True, startingTimestamp=middle_ms)
    assert rows(frame) == [record for record in known if record.offset >= first[record.partition]]
    before = load(includeHeaders=True, endingOffsetsByTimestamp=json.dumps({topic: dict.fromkeys("012", middle_ms)}))
    assert rows(before) == [record for record in known if record.offset < first[record.partition]]
    late = {"startingTimestamp": last_ms + 1}
    with pytest.raises(PySparkException, match=rf"'startingTimestamp': {topic}-0, which ends at offset 200, has no"):
        load(**late).collect()
    assert load(**late, startingOffsetsByTimestampStrategy="latest").collect() == []


def test_partitions_can_be_assigned_and_cut(
    load: Callable[..., DataFrame], topic: str, known: list[KnownRecord]
) -> None:
    frame = load(assign=json.dumps({topic: [2, 0]}), includeHeaders=True, minPartitions=7)
    assert 6 <= frame.rdd.getNumPartitions() <= 8
    assert rows(frame) == [record for record in known if record.partition != 1]
    assert load(maxRecordsPerPartition=50).rdd.getNumPartitions() == 12
    shared = load(minRecordsPerPartition=RECORDS, includeHeaders=True)
    assert shared.rdd.getNumPartitions() == 1
    assert rows(shared) == known


def test_filters_choose_offsets(
    spark: SparkSession, bootstrap_servers: str, topic: str, known: list[KnownRecord]
) -> None:
    """The rows of Spark's own filters, from fewer tasks; a new table for each query: a DataFrame keeps its plan."""
    unfiltered = table(spark, topic, bootstrap_servers=bootstrap_servers, columns=PLACE).cache()
    assert unfiltered.count() == len(known)
    chance = random.Random(14)
    conditions = [condition_at_random(chance) for _ in range(7)]
    for condition in [*conditions, "offset = 17", "partition = 1 or offset = 5", "timestamp < timestamp_millis(5)"]:
        whole = table(
            spark,
            topic,
            bootstrap_servers=bootstrap_servers,
            columns=PLACE,
            push_filters=True,
            maxRecordsPerPartition=40,
        )
        expected = sorted(unfiltered.where(condition).collect())
        chosen = whole.where(condition)
        assert sorted(chosen.collect()) == expected, condition
        tasks = chosen.rdd.getNumPartitions()
        # The last two say nothing by which offsets could be chosen. Without a range, Spark still has one task.
        assert tasks == 15 if " or " in condition or "timestamp <" in condition else tasks < 15, condition
    unfiltered.unpersist()


def condition_at_random(chance: random.Random) -> str:
    """Return a condition by which 40 offsets of a partition, or a partition, are left out."""
    last = RECORDS // PARTITIONS
    choices = [
        f"partition in (0, {chance.randrange(PARTITIONS)})",
        f"offset > {chance.randrange(40, last)}",
        f"offset <= {chance.randrange(last - 40)}",
    ]
    # By time alone perhaps fewer are left out: the records are not in the order of their times.
    by_time = f"timestamp >= timestamp_micros({FIRST_TIMESTAMP_MS * 1000 + chance.randrange(RECORDS * 1000)})"
    return " and ".join(
        [*chance.sample(choices, chance.randint(1, 2)), *chance.sample([by_time], chance.randint(0, 1))]
    )


def test_a_query_that_stops_early_leaves_the_connections_usable(
    load: Callable[..., DataFrame], known: list[KnownRecord]
) -> None:
    small_fetches = {"kafka.max.partition.fetch.bytes": 3_000, "includeHeaders": True}
    assert len(load(**small_fetches).limit(3).collect()) == 3
    assert rows(load(**small_fetches)) == known


def test_offsets_that_are_not_there_fail_or_are_left_out(
    load: Callable[..., DataFrame], topic: str, known: list[KnownRecord]
) -> None:
    beyond = {
        "startingOffsets": json.dumps({topic: {"0": 0, "1": 1_000, "2": 0}}),
        "endingOffsets": json.dumps({topic: {"0": 200, "1": 2_000, "2": 200}}),
        "includeHeaders": True,
    }
    with pytest.raises(PySparkException, match=r"gives 2000 for .*-1, which ends at offset 200.*failOnDataLoss"):
        load(**beyond).collect()
    assert rows(load(**beyond, failOnDataLoss=False)) == [record for record in known if record.partition != 1]


@pytest.mark.parametrize(
    ("options", "schema", "said"),
    [
        ({"startingOffset": "earliest"}, None, "did you mean 'startingOffsets'"),
        ({"startingOffsets": '{"%s": {"0": 1}}'}, None, "option 'startingOffsets' must give.*-1 is missing"),
        ({"includeHeaders": "1"}, None, "'includeHeaders' is '1'; it must be true or false"),
        ({}, "value string", "column 'value' the type string; it is binary"),
        ({}, "vlaue binary", "the schema asks for column 'vlaue'"),
    ],
)
def test_wrong_options_are_named(
    load: Callable[..., DataFrame], topic: str, options: dict[str, str], schema: str | None, said: str
) -> None:
    with pytest.raises((AnalysisException, PySparkException), match=said):
        load(schema, **{name: value.replace("%s", topic) for name, value in options.items()}).collect()


def test_an_empty_topic_has_no_rows(
    spark: SparkSession, bootstrap_servers: str, new_topic: Callable[[int], str]
) -> None:
    reader = spark.read.format("barnabas").option("kafka.bootstrap.servers", bootstrap_servers)
    assert reader.option("subscribe", new_topic(2)).load().collect() == []


def test_a_topic_that_is_not_there_is_named(spark: SparkSession, bootstrap_servers: str) -> None:
    reader = spark.read.format("barnabas").option("kafka.bootstrap.servers", bootstrap_servers)
    with pytest.raises(PySparkException, match="no-such-topic"):
        reader.option("subscribe", "no-such-topic").load().collect()
