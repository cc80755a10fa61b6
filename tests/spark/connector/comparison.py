"""Asks one source a query, and returns its rows or its error in a form in which two sources can be compared."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from tests.spark.connector.batch_cases import Query
from tests.spark.connector.recorded_answers import ComparedRow
from tests.spark.connector.topics import ComparedTopics, record_time_ms

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CHOICES = ("subscribe", "subscribepattern", "assign")
_SHOWN_CHARACTERS = 2_000
_PYTHON_ERROR = re.compile(r"^(?:pyspark\.errors|barnabas\w*)\.[\w.]+: (.+)$", re.MULTILINE)


class Answer(NamedTuple):
    """The result of a query. `error` is a message, or None."""

    columns: str
    rows: list[tuple[Any, ...]]
    tasks: int | None
    error: str | None


class SourceUnderTest:
    """A source by the name of its format, with the options that every query has."""

    def __init__(
        self, spark: SparkSession, name: str, topics: ComparedTopics, common: Mapping[str, str] | None = None
    ) -> None:
        self._spark = spark
        self.name = name
        self._topics = topics
        self._common = common or {}

    def answer(self, query: Query) -> Answer:
        """Run a batch query."""
        try:
            frame = self._load(query)
            if query.condition is not None:
                frame = frame.where(filled_in(query.condition, self._topics))
            if query.columns:
                frame = frame.selectExpr(*query.columns)
            else:
                frame = frame.selectExpr("*", "unix_millis(timestamp) as at")
            rows = sorted((_plain(row) for row in frame.collect()), key=repr)
            tasks = frame.rdd.getNumPartitions() if query.counts_tasks else None
            return Answer(frame.schema.simpleString(), rows, tasks, None)
        except (PySparkException, Py4JJavaError) as error:
            return Answer("", [], None, reason(error))

    def _load(self, query: Query) -> DataFrame:
        options = {**self._common, **query_options(query, self._topics, ours=self.name == "barnabas")}
        return self._spark.read.format(self.name).options(**options).load()


def query_options(query: Query, topics: ComparedTopics, *, ours: bool) -> dict[str, str]:
    """Return all options of the query, with the names and times of this run."""
    given = {"kafka.bootstrap.servers": topics.bootstrap_servers, **query.options, **(query.ours if ours else {})}
    if not {name.lower() for name in query.options} & set(CHOICES) and query.topic:
        given["subscribe"] = "@" + query.topic
    return {name: filled_in(value, topics) for name, value in given.items() if value != "-"}


def filled_in(text: str, topics: ComparedTopics) -> str:
    """Return the text with the names of topics and the times of records."""
    named = text.replace("@", f"{topics.prefix}.")
    return re.sub("#([0-9]+)", lambda match: str(record_time_ms(int(match[1]))), named)


def compared_rows(answer: Answer, topics: ComparedTopics) -> list[ComparedRow]:
    """Return the rows of a query for all columns in the form that is recorded."""
    names = re.findall(r"(\w+):", re.sub("<struct<.*?>>", "", answer.columns.removeprefix("struct<")))
    rows = [dict(zip(names, row, strict=True)) for row in answer.rows]
    return [
        ComparedRow(
            topics.short(row["topic"]),
            row["partition"],
            row["offset"],
            # The broker's own time.
            None if row["timestampType"] == 1 else row["at"],
            row["timestampType"],
            row["key"],
            row["value"],
            row.get("headers", ()),
        )
        for row in rows
    ]


def reason(error: Exception) -> str:
    """The source's own words: those of the Python error that Spark wraps, else the messages of the Java exceptions."""
    text = f"{error.java_exception}\n{_causes(error)}" if isinstance(error, Py4JJavaError) else str(error)
    raised = _PYTHON_ERROR.findall(text)
    if raised:
        return str(raised[-1])
    lines = [line for line in text.splitlines() if not line.lstrip().startswith(("at ", "... "))]
    return "\n".join(lines)[-_SHOWN_CHARACTERS:]


def _causes(error: Py4JJavaError) -> str:
    causes = []
    cause = error.java_exception.getCause()
    while cause is not None:
        causes.append(str(cause.toString()))
        cause = cause.getCause()
    return "\n".join(causes)


def _plain(row: Any) -> tuple[Any, ...]:
    return tuple(_plain_value(name, value) for name, value in row.asDict().items())


def _plain_value(name: str, value: Any) -> Any:
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, list):
        return tuple((header.key, None if header.value is None else bytes(header.value)) for header in value)
    # The connector gives a record without headers NULL, ours an empty array: see docs/spark.md.
    return () if name == "headers" and value is None else value
