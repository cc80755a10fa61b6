"""Writes the rows of a micro-batch to the sinks of a query, each exactly once unless it says otherwise.

Made by `query_start` on the driver's main thread. Spark calls the writers on a thread of its own, one at a time for
each query; they touch nothing that another thread changes. No lock.

A query that crashes repeats its last micro-batch, under its number, and every writer is called with it again. So each
one knows by itself what it has written: a topic by the note in its transaction, an Iceberg table by a property of its
last commit, Parquet files that are appended by Spark's own log beside them. What replaces a table writes it again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame

from barnabas_spark.pipeline.plan import PlannedQuery, PlannedSink
from barnabas_spark.pipeline.query_failure import cause_in
from barnabas_spark.pipeline.specification import Sink
from barnabas_spark.pipeline.topic_options import topic_options

Show = Callable[[str, int, DataFrame, int], None]
"""Shows the rows of a micro-batch: the sink's name, the micro-batch's number, the rows, how many to show at most."""
Writer = Callable[[DataFrame, int], None]
"""Writes the rows of a micro-batch, of which the number is given."""


class SinkFailed(Exception):
    """One of several sinks that could not be written. The message names it, with the cause."""


def micro_batch_writer(query: PlannedQuery, checkpoint: str, show: Show) -> Writer:
    """Return what writes a query's micro-batches to all its sinks."""
    writers = [(planned, _writer(planned, query, checkpoint, show)) for planned in query.sinks]
    if len(writers) == 1:
        planned, write = writers[0]
        return lambda rows, number: write(planned.written(rows), number)

    def write_all(rows: DataFrame, number: int) -> None:
        # Kept, because each sink reads the rows: they are computed once, and state is changed once.
        rows = rows.persist()
        try:
            for planned, write in writers:
                try:
                    write(planned.written(rows), number)
                except Exception as error:
                    raise SinkFailed(f"sinks.{planned.sink.name}: {cause_in(str(error))}") from error
        finally:
            rows.unpersist()

    return write_all


def _writer(planned: PlannedSink, query: PlannedQuery, checkpoint: str, show: Show) -> Writer:
    sink = planned.sink
    # Two sinks of a query may write to one topic or table: each has its own notes there.
    suffix = f"-{sink.name}" if len(query.sinks) > 1 else ""
    if sink.topic is not None:
        return lambda rows, number: _write_topic(rows, number, sink, f"{_query_id(checkpoint)}{suffix}")
    if planned.iceberg is not None:
        table = planned.iceberg
        return lambda rows, number: table.write(rows, f"{_query_id(checkpoint)}{suffix}", number)
    if sink.parquet is not None:
        return lambda rows, number: (_append_files if sink.mode == "append" else _replace_files)(rows, number, sink)
    return lambda rows, number: show(sink.name, number, rows, sink.console_rows or 0)


def _write_topic(rows: DataFrame, number: int, sink: Sink, writer_id: str) -> None:
    """Write to a topic, in one transaction unless the sink is at-least-once. Raises Spark's errors."""
    once = {}
    if sink.is_exactly_once:
        rows = rows.repartition(1)
        once = {"txnAppId": writer_id, "txnVersion": str(number)}
    rows.write.format("barnabas").mode("append").options(**topic_options(sink), **once).save()


def _replace_files(rows: DataFrame, _number: int, sink: Sink) -> None:
    # A micro-batch that is repeated writes the same whole table again.
    writer = rows.write.mode("overwrite").options(**sink.options)
    (writer.partitionBy(*sink.partition_by) if sink.partition_by else writer).parquet(sink.parquet)


def _append_files(rows: DataFrame, number: int, sink: Sink) -> None:
    """Append files as Spark's own sink of a stream does, with its log of micro-batches. Raises Spark's errors."""
    session: Any = rows.sparkSession
    jvm = session._jvm  # noqa: SLF001 Spark shows this sink to streams only, and foreachBatch gets batches
    file_sink = jvm.org.apache.spark.sql.execution.streaming.sinks.FileStreamSink(
        session._jsparkSession,  # noqa: SLF001
        sink.parquet,
        jvm.org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat(),
        jvm.PythonUtils.toSeq(list(sink.partition_by)),
        jvm.PythonUtils.toScalaMap({"path": sink.parquet, **sink.options}),
    )
    file_sink.addBatch(number, rows._jdf)  # noqa: SLF001


def _query_id(checkpoint: str) -> str:
    """Return the id that Spark has given the checkpoint; one that is begun anew has another. Raises OSError."""
    with open(os.path.join(checkpoint, "metadata"), encoding="utf-8") as file:
        return str(json.load(file)["id"])
