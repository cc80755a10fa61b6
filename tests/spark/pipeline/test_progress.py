"""What a run shows of its queries, from the reports that Spark's JVM keeps; here the JVM's objects are stand-ins."""

from __future__ import annotations

import json
from typing import Any

from barnabas_spark.pipeline.streaming_query import QueryProgress

KEPT = 100


class Report:
    """A report as the JVM has it."""

    rendered = 0

    def __init__(self, batch: int, rows: int, *, time: int, lag: int) -> None:
        self._batch, self._rows, self._time, self._lag = batch, rows, time, lag

    def batchId(self) -> int:
        return self._batch

    def timestamp(self) -> str:
        return f"2026-01-01T00:00:{self._time:06}Z"

    def json(self) -> str:
        Report.rendered += 1
        source = {"endOffset": {"t": {"0": 10}}, "latestOffset": {"t": {"0": 10 + self._lag}}}
        return json.dumps(
            {"batchId": self._batch, "numInputRows": self._rows, "processedRowsPerSecond": 5.0, "sources": [source]}
        )


class Query:
    """A query, and the JVM's object of it."""

    def __init__(self) -> None:
        self.reports: list[Report] = []

    @property
    def _jsq(self) -> Any:
        return self

    def recentProgress(self) -> list[Report]:
        return self.reports[-KEPT:]


def test_each_report_is_taken_in_once_and_none_is_looked_at_again() -> None:
    query, progress = Query(), QueryProgress("out", "topic t")
    Report.rendered = 0
    progress.update(query)
    assert (progress.batches, progress.lag) == (0, 0)
    for batch in range(300):
        query.reports.append(Report(batch, 2, time=batch, lag=300 - batch))
        progress.update(query)
        progress.update(query)
    assert (progress.batches, progress.rows, progress.last_batch, progress.lag) == (300, 600, 299, 1)
    assert Report.rendered == 300


def test_a_query_without_new_records_reports_its_lag() -> None:
    query, progress = Query(), QueryProgress("out", "topic t")
    query.reports += [Report(0, 2, time=0, lag=0), Report(1, 3, time=1, lag=0), Report(1, 0, time=2, lag=7)]
    progress.update(query)
    assert (progress.batches, progress.rows, progress.last_batch, progress.lag) == (2, 5, 1, 7)


def test_more_reports_than_spark_keeps() -> None:
    query, progress = Query(), QueryProgress("out", "topic t")
    query.reports += [Report(batch, 1, time=batch, lag=0) for batch in range(10)]
    progress.update(query)
    query.reports += [Report(batch, 1, time=batch, lag=0) for batch in range(10, 10 + 2 * KEPT)]
    progress.update(query)
    assert (progress.batches, progress.last_batch) == (10 + KEPT, 9 + 2 * KEPT)
