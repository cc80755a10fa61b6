"""What a source and a sink of a pipeline file make of rows, without a run."""

from __future__ import annotations

from typing import TypeVar

from pyspark.sql import DataFrame

from barnabas_spark.pipeline.pipeline_file import Pipeline
from barnabas_spark.pipeline.rows import QueryRows
from barnabas_spark.pipeline.sinks.sink import PlannedSink, Sink
from barnabas_spark.pipeline.sources import TopicSource

Kind = TypeVar("Kind")


def of_kind(part: object, kind: type[Kind]) -> Kind:
    """A source or a sink, which is of this kind."""
    assert isinstance(part, kind)
    return part


def source_of(pipeline: Pipeline) -> TopicSource:
    """The first source."""
    return of_kind(pipeline.sources[0], TopicSource)


def planned(rows: DataFrame, sink: Sink) -> PlannedSink:
    """What the sink writes of these rows. Raises FormatError, RegistryFailed, Spark's errors."""
    return sink.planned(QueryRows(rows, sink.reads, sink.delete_when))


def written(rows: DataFrame, sink: Sink) -> DataFrame:
    """The rows as the sink writes them. Raises as `planned` does."""
    return planned(rows, sink).written(rows)
