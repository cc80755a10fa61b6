"""The streaming queries of a pipeline: starts them, writes their micro-batches, says what they did or why they failed.

Called by `run` on the driver's main thread. Spark calls the writers on a thread of its own, one at a time for each
query; they touch nothing that another thread changes. No lock.

Spark starts a Python process for each source of a query, and gives it 10 seconds to connect back: a limit that no
setting changes. The process takes half a second of CPU to import pyspark and pyarrow, so on a busy machine several that
start at once take longer than that together. So a query is started when the processes of the one before have connected,
and is started again when Spark has given up: nothing is planned before, so nothing is lost by it.

Spark starts further processes while a query runs: for the tasks, which it repeats by itself, and for the driver's part
of each micro-batch, which it does not. A running query that failed for this is started again as well, and repeats its
micro-batch as it would in the next run.

A query that crashes repeats its last micro-batch, under its number, and every writer is called with it again. So each
one knows by itself what it has written: a topic by the note in its transaction, an Iceberg table by a property of its
last commit, Parquet files that are appended by a list in the checkpoint. What replaces a table writes it again, and a
topic gets a micro-batch again if its sink is at-least-once.

Notes in topics and tables have the id that Spark gives a checkpoint when it is new, never the name of a query alone: a
query that begins anew, and another one that writes to the same place, have written nothing yet.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from barnabas_spark.pipeline.checkpoint_layout import CheckpointLayout
from barnabas_spark.pipeline.pipeline_file import AVAILABLE_NOW, CONTINUOUS
from barnabas_spark.pipeline.plan import PlannedQuery
from barnabas_spark.pipeline.sinks.sink import QueryPlace, Show
from barnabas_spark.topic_offsets import query_lag

MOST_STARTS = 10
"""How often a query is started at most because its processes took too long: for about two minutes."""
_TOO_LATE = "Python worker failed to connect back"
_INITIALIZING = "Initializing"
"""The beginning of what Spark says of a query until its sources are there."""
_POLL_SECONDS = 0.05
_BEFORE_CAUSE = re.compile(r"terminated with exception: ")
_AFTER_CAUSE = re.compile(r"\n=== Streaming Query ===|\nJVM stacktrace|\nDriver stacktrace")
_CODE = re.compile(r"^\[[A-Z0-9_.]+\] |\s*SQLSTATE: \w+")
_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
_DISK_SIGNS = ("No space left on device", "Disk quota exceeded", "Read-only file system")
"""What the JVM says of a disk without its name."""
_ENDED_PROCESS = ("(no cause message)", "Broken pipe", "Connection reset")
"""All that Spark says when a Python process of its driver has ended: the text of the JVM's error of the connection."""
_LONGEST = 600


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
    """How often a running query may still be started again because of Spark's limit, since its last micro-batch."""

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
    # Spark's own way into a topic, where there is one: not for several sinks, and Spark lets no sink in Python write a
    # stream in mode update.
    is_native = len(query.sinks) == 1 and query.mode == "append"
    writer = planned.sink.stream(planned.written(query.rows)) if is_native else None
    if writer is None:
        writer = query.rows.writeStream.foreachBatch(_micro_batch_writer(query, checkpoint, show))
    writer = writer.queryName(query.name).outputMode(query.mode).option("checkpointLocation", checkpoint)
    if trigger == AVAILABLE_NOW:
        writer = writer.trigger(availableNow=True)
    elif trigger != CONTINUOUS:
        writer = writer.trigger(processingTime=trigger)
    return writer.start()


class SinkFailed(Exception):
    """One of several sinks that could not be written. The message names it, with the cause."""


def _micro_batch_writer(query: PlannedQuery, checkpoint: str, show: Show) -> Callable[[DataFrame, int], None]:
    """Return what writes a query's micro-batches, of which the number is given, to all its sinks."""
    # Two sinks of a query may write to one topic or table: each has its own notes there.
    is_shared = len(query.sinks) > 1
    places = [
        (planned, QueryPlace(checkpoint, index, f"-{planned.sink.name}" if is_shared else "", show))
        for index, planned in enumerate(query.sinks)
    ]
    if not is_shared:
        ((only, only_place),) = places
        return lambda rows, number: only.write(only.written(rows), number, only_place)

    def write_all(rows: DataFrame, number: int) -> None:
        # Kept, because each sink reads the rows: they are computed once, and state is changed once.
        rows = rows.persist()
        try:
            for planned, place in places:
                try:
                    planned.write(planned.written(rows), number, place)
                except Exception as error:
                    raise SinkFailed(f"sinks.{planned.sink.name}: {cause_in(str(error))}") from error
        finally:
            rows.unpersist()

    return write_all


# -- what a query has done


class ReportStamp(NamedTuple):
    """What tells one report of a query from another. A query without new records reports its last micro-batch again."""

    batch: int
    timestamp: str


@dataclass(slots=True)
class QueryProgress:
    """One query in this run."""

    name: str
    what: str
    batches: int = 0
    rows: int = 0
    rows_per_second: float = 0.0
    lag: int = 0
    """The offsets that its topics have more than it has read."""
    last_batch: int = -1
    _last_report: ReportStamp | None = None

    def update(self, query: StreamingQuery) -> None:
        """Take in what the query has reported since the last call. Spark keeps its last hundred reports."""
        latest = None
        for progress in self._new_reports(query):
            latest = progress
            rows = int(progress["numInputRows"])
            if progress["batchId"] > self.last_batch and rows:
                self.last_batch = progress["batchId"]
                self.batches += 1
                self.rows += rows
                self.rows_per_second = float(progress.get("processedRowsPerSecond") or 0.0)
        if latest is not None:
            self.lag = sum(query_lag(latest).values())

    def _new_reports(self, query: StreamingQuery) -> Iterator[dict[str, Any]]:
        """Yield the reports since the last call, the oldest first."""
        # The JVM's array is looked at from its end. `query.recentProgress` would turn all of its hundred reports into
        # text and back, four times a second.
        reports = query._jsq.recentProgress()  # noqa: SLF001
        first = len(reports)
        while first > 0 and _stamp(reports[first - 1]) != self._last_report:
            first -= 1
        for number in range(first, len(reports)):
            self._last_report = _stamp(reports[number])
            yield json.loads(reports[number].json())

    def as_json(self) -> dict[str, Any]:
        """Return the values for the status file."""
        return {
            "name": self.name,
            "writes": self.what,
            "batches": self.batches,
            "rows": self.rows,
            "rowsPerSecond": round(self.rows_per_second, 1),
            "lag": self.lag,
        }


def _stamp(report: Any) -> ReportStamp:
    """Return the stamp of one of the JVM's reports."""
    return ReportStamp(report.batchId(), report.timestamp())


# -- why a query has failed


def failure_of(query: str, text: str, layout: CheckpointLayout, modules: Sequence[str] = ()) -> str:
    """Return why a query failed and which records it was reading, in one sentence. Raises OSError.

    text: the message of Spark's exception. modules: the paths of the pipeline's Python transforms, whose line is told.
    """
    next_batch, planned = layout.next_batch(query) or 0, layout.planned(query)
    where = f"micro-batch {next_batch}"
    if planned is not None and planned.number == next_batch:
        where += f", which reads up to {planned.ends}"
    # A sentence of Spark's goes on here.
    cause = cause_in(text).removesuffix(".")
    if any(sign in cause for sign in _DISK_SIGNS):
        cause += f" (the checkpoint {layout.query(query)}, or Spark's scratch files)"
    return f"failed in {where}: {_line_in(text, modules)}{cause}; the next run goes on with this micro-batch"


def _line_in(text: str, modules: Sequence[str]) -> str:
    """Return `PATH:LINE: ` for the innermost place in one of the modules that a traceback names, or nothing."""
    places = [f"{path}:{line}: " for path, line in _FRAME.findall(text) if path in modules]
    return places[-1] if places else ""


def cause_in(text: str) -> str:
    """Return the cause from the message of a streaming query's exception."""
    cause = _AFTER_CAUSE.split(_BEFORE_CAUSE.split(text, 1)[-1], 1)[0]
    lines = [line for line in cause.splitlines() if line.strip()]
    if any("Traceback (most recent call last)" in line for line in lines):
        # A worker's error: the last line that is not indented has the exception.
        last = max(index for index, line in enumerate(lines) if "Traceback (most recent call last)" in line)
        told = [line for line in lines[last + 1 :] if not line.startswith((" ", "\t", "SQLSTATE"))]
        cause = told[0] if told else lines[last]
    else:
        cause = " ".join(lines)
    cause = " ".join(_CODE.sub("", cause).split())
    if cause in _ENDED_PROCESS:
        return (
            f"Spark says only {cause!r}, as it does when a Python process of its driver, which plans or commits"
            " micro-batches, was killed (the machine may lack memory)"
        )
    return cause if len(cause) <= _LONGEST else f"{cause[:_LONGEST]} ..."
