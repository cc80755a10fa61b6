"""Starts a query of a pipeline.

Called by `run` on the driver's main thread; no state, no lock.
"""

from __future__ import annotations

from pyspark.sql.streaming.query import StreamingQuery

from barnabas_spark.pipeline.micro_batches import Show, micro_batch_writer
from barnabas_spark.pipeline.plan import PlannedQuery
from barnabas_spark.pipeline.specification import AVAILABLE_NOW, CONTINUOUS
from barnabas_spark.pipeline.topic_options import topic_options


def start_query(query: PlannedQuery, trigger: str, checkpoint: str, show: Show) -> StreamingQuery:
    """Start one query. Raises Spark's errors."""
    planned = query.sinks[0]
    sink = planned.sink
    # Spark's own way into topics and files, where there is one: not for several sinks, and Spark lets no sink in Python
    # write a stream in mode update.
    is_native = len(query.sinks) == 1 and sink.mode == "append" and (sink.topic or sink.parquet) is not None
    rows = planned.written(query.rows) if is_native else query.rows
    if is_native and sink.topic is not None and sink.is_exactly_once:
        rows = rows.repartition(1)
    writer = rows.writeStream.queryName(query.name).outputMode(query.mode).option("checkpointLocation", checkpoint)
    if trigger == AVAILABLE_NOW:
        writer = writer.trigger(availableNow=True)
    elif trigger != CONTINUOUS:
        writer = writer.trigger(processingTime=trigger)
    if not is_native:
        writer = writer.foreachBatch(micro_batch_writer(query, checkpoint, show))
    elif sink.topic is not None:
        once = {"exactlyOnce": "true"} if sink.is_exactly_once else {}
        writer = writer.format("barnabas").options(**topic_options(sink), **once)
    else:
        writer = writer.format("parquet").options(**sink.options).option("path", sink.parquet)
        if sink.partition_by:
            writer = writer.partitionBy(*sink.partition_by)
    return writer.start()
