"""Spark's Kafka connector and our source answer the same queries with the same rows, and reject the same ones."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.spark.connector.batch_cases import ROW_QUERIES, Query
from tests.spark.connector.comparison import SourceUnderTest, compared_rows
from tests.spark.connector.error_cases import ERROR_QUERIES
from tests.spark.connector.recorded_answers import is_recorded, read_answers, recorded_form
from tests.spark.connector.topics import EVERY_TOPIC, ComparedTopics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.java, pytest.mark.timeout(300)]

TOPICS = EVERY_TOPIC
# The connector asks for the ends of a partition after each fetch, and waits behind its own next fetch for that long.
_QUICK = {"kafka.fetch.max.wait.ms": "5"}


@pytest.fixture(scope="module")
def theirs(connector: SparkSession, topics: ComparedTopics) -> SourceUnderTest:
    return SourceUnderTest(connector, "kafka", topics, _QUICK)


@pytest.fixture(scope="module")
def ours(connector: SparkSession, topics: ComparedTopics) -> SourceUnderTest:
    connector.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    return SourceUnderTest(connector, "barnabas", topics, _QUICK)


@pytest.mark.parametrize("query", ROW_QUERIES, ids=lambda query: query.name)
def test_the_same_rows(theirs: SourceUnderTest, ours: SourceUnderTest, topics: ComparedTopics, query: Query) -> None:
    expected, found = theirs.answer(query), ours.answer(query)
    assert (expected.error, found.error) == (None, None)
    assert found.columns == expected.columns
    assert found.rows == expected.rows
    # What differs on purpose must differ, or docs/spark.md is wrong.
    assert (found.tasks == expected.tasks) == (query.differs is None)
    if is_recorded(query):
        assert recorded_form(compared_rows(expected, topics)) == read_answers()[query.name]


@pytest.mark.parametrize("query", ERROR_QUERIES, ids=lambda query: query.name)
def test_the_same_errors(theirs: SourceUnderTest, ours: SourceUnderTest, query: Query) -> None:
    assert query.fails is not None
    expected, found = theirs.answer(query), ours.answer(query)
    assert found.error is not None
    assert re.search(query.fails.ours, found.error, re.DOTALL), found.error
    if query.fails.theirs is None:
        assert expected.error is None
    else:
        assert expected.error is not None
        assert re.search(query.fails.theirs, expected.error, re.DOTALL), expected.error
