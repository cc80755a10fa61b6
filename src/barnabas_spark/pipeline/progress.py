"""What the queries of a run have done: micro-batches, rows, rate and lag.

Made and asked by `run` on the main thread; no lock.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from pyspark.sql.streaming.query import StreamingQuery

from barnabas_spark.options.topic_offsets import query_lag


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
