"""Writes the rows of a micro-batch to the sinks of a query, each exactly once unless it says otherwise.

Made by `query_start` on the driver's main thread. Spark calls the writers on a thread of its own, one at a time for
each query; they touch nothing that another thread changes. No lock.

A query that crashes repeats its last micro-batch, under its number, and every writer is called with it again. So each
one knows by itself what it has written: a topic by the note in its transaction, an Iceberg table by a property of its
last commit, Parquet files that are appended by a list in the checkpoint. What replaces a table writes it again.

Notes in topics and tables have the id that Spark gives a checkpoint when it is new, never the name of a query alone: a
query that begins anew, and another one that writes to the same place, have written nothing yet.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame

from barnabas_spark.pipeline.appended_files import AppendedFiles
from barnabas_spark.pipeline.checkpoint_layout import spark_id
from barnabas_spark.pipeline.plan import PlannedQuery, topic_options
from barnabas_spark.pipeline.query_failure import cause_in
from barnabas_spark.pipeline.specification import Sink

Show = Callable[[str, int, DataFrame, int], None]
"""Shows the rows of a micro-batch: the sink's name, the micro-batch's number, the rows, how many to show at most."""
Writer = Callable[[DataFrame, int], None]
"""Writes the rows of a micro-batch, of which the number is given."""


class SinkFailed(Exception):
    """One of several sinks that could not be written. The message names it, with the cause."""


def micro_batch_writer(query: PlannedQuery, checkpoint: str, show: Show) -> Writer:
    """Return what writes a query's micro-batches to all its sinks."""
    writers = [(planned, _writer(place, query, checkpoint, show)) for place, planned in enumerate(query.sinks)]
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


def _writer(place: int, query: PlannedQuery, checkpoint: str, show: Show) -> Writer:
    planned = query.sinks[place]
    sink = planned.sink
    # Two sinks of a query may write to one topic or table: each has its own notes there.
    suffix = f"-{sink.name}" if len(query.sinks) > 1 else ""
    if sink.topic is not None:
        return lambda rows, number: _write_topic(rows, number, sink, f"{_query_id(checkpoint)}{suffix}")
    if planned.iceberg is not None:
        table = planned.iceberg
        return lambda rows, number: table.write(rows, f"{_query_id(checkpoint)}{suffix}", number)
    if sink.parquet is not None:
        if sink.mode == "append":
            return AppendedFiles(sink, checkpoint, place).write
        return lambda rows, number: _replace_files(rows, number, sink)
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


def _query_id(checkpoint: str) -> str:
    """Return the id of the checkpoint, which Spark has written by now. Raises OSError, ValueError."""
    found = spark_id(checkpoint)
    if found is None:
        raise FileNotFoundError(f"Spark's file {checkpoint}/metadata is gone")
    return found
