"""Starts a query of a pipeline.

Called by `run` on the driver's main thread; no state, no lock.
"""

from __future__ import annotations

from pyspark.sql.streaming.query import StreamingQuery

from barnabas_spark.pipeline.micro_batches import Show, micro_batch_writer
from barnabas_spark.pipeline.plan import PlannedQuery, topic_options
from barnabas_spark.pipeline.specification import AVAILABLE_NOW, CONTINUOUS


def start_query(query: PlannedQuery, trigger: str, checkpoint: str, show: Show) -> StreamingQuery:
    """Start one query. Raises Spark's errors."""
    planned = query.sinks[0]
    sink = planned.sink
    # Spark's own way into topics, where there is one: not for several sinks, and Spark lets no sink in Python write a
    # stream in mode update. Its way into files drops the rows of a second writer: see `appended_files`.
    is_native = len(query.sinks) == 1 and sink.mode == "append" and sink.topic is not None
    rows = planned.written(query.rows) if is_native else query.rows
    if is_native and sink.is_exactly_once:
        rows = rows.repartition(1)
    writer = rows.writeStream.queryName(query.name).outputMode(query.mode).option("checkpointLocation", checkpoint)
    if trigger == AVAILABLE_NOW:
        writer = writer.trigger(availableNow=True)
    elif trigger != CONTINUOUS:
        writer = writer.trigger(processingTime=trigger)
    if is_native:
        once = {"exactlyOnce": "true"} if sink.is_exactly_once else {}
        writer = writer.format("barnabas").options(**topic_options(sink), **once)
    else:
        writer = writer.foreachBatch(micro_batch_writer(query, checkpoint, show))
    return writer.start()
