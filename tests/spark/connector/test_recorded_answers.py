"""Our source gives the rows that Spark's Kafka connector gave, and rejects what it should: without Spark's JVM."""

from __future__ import annotations

import pytest

from barnabas_spark.columns import default_schema
from barnabas_spark.options.option_values import OptionValues
from barnabas_spark.reading.batch_reader import batch_reader
from barnabas_spark.reading.client_cache import connections
from barnabas_spark.source import check_options
from tests.spark.connector.batch_cases import Query
from tests.spark.connector.comparison import query_options
from tests.spark.connector.error_cases import ERROR_QUERIES
from tests.spark.connector.recorded_answers import (
    RECORDED_QUERIES,
    ComparedRow,
    RecordedAnswer,
    read_answers,
    recorded_form,
)
from tests.spark.connector.topics import ComparedTopics

TOPICS = {"plain", "half", "codec-gzip", "codec-lz4", "codec-zstd", *(query.topic for query in RECORDED_QUERIES)}


@pytest.fixture(scope="module")
def recorded() -> dict[str, RecordedAnswer]:
    return read_answers()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("query", RECORDED_QUERIES, ids=lambda query: query.name)
def test_rows_are_those_of_the_connector(
    topics: ComparedTopics, recorded: dict[str, RecordedAnswer], query: Query
) -> None:
    assert recorded_form(rows_of(topics, query)) == recorded[query.name]


def test_every_recorded_answer_has_its_query(recorded: dict[str, RecordedAnswer]) -> None:
    assert list(recorded) == [query.name for query in RECORDED_QUERIES]


@pytest.mark.parametrize("query", ERROR_QUERIES, ids=lambda query: query.name)
def test_wrong_queries_are_rejected(topics: ComparedTopics, query: Query) -> None:
    assert query.fails is not None
    with pytest.raises(Exception, match=query.fails.ours):
        rows_of(topics, query)


def rows_of(topics: ComparedTopics, query: Query) -> list[ComparedRow]:
    """What the source's reader yields, planned and read in this process as Spark does in its own."""
    options = query_options(query, topics, ours=True)
    try:
        check_options(options)
        wants_headers = OptionValues(options).boolean("includeHeaders", default=False)
        reader = batch_reader(options, default_schema(wants_headers))
        return [
            ComparedRow(
                topics.short(row["topic"]),
                row["partition"],
                row["offset"],
                None if query.topic == "append-time" else round(row["timestamp"].timestamp() * 1000),
                row["timestampType"],
                row["key"],
                row["value"],
                tuple((header["key"], header["value"]) for header in row.get("headers") or ()),
            )
            for partition in reader.partitions()
            for batch in reader.read(partition)
            for row in batch.to_pylist()
        ]
    finally:
        connections.close()
