"""Starts the queries of a pipeline, one after the other.

Called by `run` on the driver's main thread; no state, no lock.

Spark starts a Python process for each source of a query, and gives it 10 seconds to connect back: a limit that no
setting changes. The process takes half a second of CPU to import pyspark and pyarrow, so on a busy machine several that
start at once take longer than that together. So a query is started when the processes of the one before have connected,
and is started again when Spark has given up: nothing is planned before, so nothing is lost by it.

Spark starts further processes while a query runs: for the tasks, which it repeats by itself, and for the driver's part
of each micro-batch, which it does not. A running query that failed for this is started again as well, and repeats its
micro-batch as it would in the next run.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from pyspark.sql.streaming.query import StreamingQuery

from barnabas_spark.pipeline.micro_batches import Show, micro_batch_writer
from barnabas_spark.pipeline.plan import PlannedQuery, topic_options
from barnabas_spark.pipeline.specification import AVAILABLE_NOW, CONTINUOUS

MOST_STARTS = 10
"""How often a query is started at most because of that limit: for about two minutes."""
_TOO_LATE = "Python worker failed to connect back"
_INITIALIZING = "Initializing"
"""The beginning of what Spark says of a query until its sources are there."""
_POLL_SECONDS = 0.05


def started_query(
    start: Callable[[], StreamingQuery], is_stopping: Callable[[], bool], sleep: Callable[[float], None] = time.sleep
) -> StreamingQuery:
    """Start a query, and return it when its sources are there, when it has failed, or to be stopped.

    A query whose processes took too long is started again, `MOST_STARTS` times at most. Raises Spark's errors.
    """
    starts = 1
    while True:
        handle = start()
        try:
            while handle.isActive and handle.status["message"].startswith(_INITIALIZING) and not is_stopping():
                sleep(_POLL_SECONDS)
        except BaseException:
            # The caller does not know this query yet.
            handle.stop()
            raise
        if not was_too_late(handle) or starts >= MOST_STARTS or is_stopping():
            return handle
        # Waits for the end of the query's thread, which has its name until then.
        handle.stop()
        starts += 1


def was_too_late(handle: StreamingQuery) -> bool:
    """Return whether a query has failed because a Python process took longer to start than Spark waits."""
    error = None if handle.isActive else handle.exception()
    return error is not None and _TOO_LATE in str(error)


class Restarts:
    """How often a running query may still be started again because of that limit, since its last micro-batch."""

    def __init__(self) -> None:
        self._left = MOST_STARTS
        self._last_batch = -1

    def may_start_again(self, handle: StreamingQuery, last_batch: int) -> bool:
        """Return whether the query has failed for this reason, and take one restart if so.

        last_batch: the number of the last micro-batch that it has finished. Waits for the end of the query's thread,
        which has its name until then.
        """
        if not was_too_late(handle):
            return False
        if last_batch != self._last_batch:
            self._left, self._last_batch = MOST_STARTS, last_batch
        if not self._left:
            return False
        self._left -= 1
        handle.stop()
        return True


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
