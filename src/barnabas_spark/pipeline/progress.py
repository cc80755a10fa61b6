"""What the queries of a run have done: micro-batches, rows, rate and lag.

Made and asked by `run` on the main thread; no lock.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from barnabas_spark.query_lag import query_lag


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

    def update(self, query: StreamingQuery) -> None:
        """Take in what the query has reported since the last call. Spark keeps its last hundred reports."""
        for report in query.recentProgress:
            progress: dict[str, Any] = json.loads(report.json)
            rows = int(progress["numInputRows"])
            if progress["batchId"] > self.last_batch and rows:
                self.last_batch = progress["batchId"]
                self.batches += 1
                self.rows += rows
                self.rows_per_second = float(progress.get("processedRowsPerSecond") or 0.0)
            self.lag = sum(query_lag(progress).values())

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
