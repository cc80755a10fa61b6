"""Starts the query of one sink.

Called by `run` on the driver's main thread. Spark calls the functions for micro-batches on a thread of its own, one at
a time for each query; they touch nothing that another thread changes. No lock.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from barnabas_spark.pipeline.plan import PlannedQuery
from barnabas_spark.pipeline.specification import AVAILABLE_NOW, CONTINUOUS, Sink
from barnabas_spark.pipeline.topic_options import topic_options

if TYPE_CHECKING:
    from barnabas_spark.pipeline.iceberg.iceberg_table import IcebergTable

Show = Callable[[str, int, DataFrame, int], None]
"""Shows the rows of a micro-batch: the sink's name, the micro-batch's number, the rows, how many to show at most."""


def start_query(query: PlannedQuery, trigger: str, checkpoint: str, show: Show) -> StreamingQuery:
    """Start one query. Raises Spark's errors."""
    sink = query.sink
    rows = query.rows.repartition(1) if sink.topic is not None and sink.is_exactly_once else query.rows
    writer = rows.writeStream.queryName(query.name).outputMode(sink.mode).option("checkpointLocation", checkpoint)
    if trigger == AVAILABLE_NOW:
        writer = writer.trigger(availableNow=True)
    elif trigger != CONTINUOUS:
        writer = writer.trigger(processingTime=trigger)
    return _with_sink(writer, query, checkpoint, show).start()


def _with_sink(writer: DataStreamWriter, query: PlannedQuery, checkpoint: str, show: Show) -> DataStreamWriter:
    sink = query.sink
    if sink.topic is not None:
        if sink.mode == "append":
            once = {"exactlyOnce": "true"} if sink.is_exactly_once else {}
            return writer.format("barnabas").options(**topic_options(sink), **once)
        # Spark lets no Python sink write a stream in mode update, so these modes go by micro-batches.
        return writer.foreachBatch(_topic_writer(sink, checkpoint))
    if query.iceberg is not None:
        return writer.foreachBatch(_iceberg_writer(query.iceberg, checkpoint))
    if sink.parquet is not None:
        if sink.mode == "append":
            files = writer.format("parquet").options(**sink.options).option("path", sink.parquet)
            return files.partitionBy(*sink.partition_by) if sink.partition_by else files
        return writer.foreachBatch(_file_writer(sink))
    return writer.foreachBatch(lambda rows, number: show(query.name, number, rows, sink.console_rows or 0))


def _topic_writer(sink: Sink, checkpoint: str) -> Callable[[DataFrame, int], None]:
    def write(rows: DataFrame, number: int) -> None:
        once = {}
        if sink.is_exactly_once:
            # The id that Spark has given the checkpoint: removed and begun anew, it is another query.
            once = {"txnAppId": _query_id(checkpoint), "txnVersion": str(number)}
        rows.write.format("barnabas").mode("append").options(**topic_options(sink), **once).save()

    return write


def _iceberg_writer(table: IcebergTable, checkpoint: str) -> Callable[[DataFrame, int], None]:
    return lambda rows, number: table.write(rows, _query_id(checkpoint), number)


def _query_id(checkpoint: str) -> str:
    """Return the query's id from the checkpoint's metadata. Raises OSError."""
    with open(os.path.join(checkpoint, "metadata"), encoding="utf-8") as file:
        return str(json.load(file)["id"])


def _file_writer(sink: Sink) -> Callable[[DataFrame, int], None]:
    def write(rows: DataFrame, _number: int) -> None:
        # A micro-batch that is repeated writes the same whole table again.
        writer = rows.write.mode("overwrite").options(**sink.options)
        (writer.partitionBy(*sink.partition_by) if sink.partition_by else writer).parquet(sink.parquet)

    return write
