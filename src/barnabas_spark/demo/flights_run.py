"""Shows the run of the demo's pipeline as a task, and says when it has read every flight.

Made by `demo` and called by `pipeline.run`, both on the main thread; it reads the producer's counters, which the
producing thread writes. No lock.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pyspark.sql import DataFrame, SparkSession

from barnabas_spark.demo.display import Display, Task
from barnabas_spark.demo.flights import FLIGHT_COUNT
from barnabas_spark.demo.flights_producer import FlightsProducer
from barnabas_spark.pipeline.checkpoint_layout import CheckpointLayout
from barnabas_spark.pipeline.pipeline_session import pipeline_session
from barnabas_spark.pipeline.progress import QueryProgress
from barnabas_spark.pipeline.specification import Pipeline


class FlightsRun:
    """A display of one run, with what has come through until now."""

    def __init__(self, display: Display, producer: FlightsProducer) -> None:
        self._display = display
        self._producer = producer
        self._task: Task | None = None
        self._started = 0.0
        self.rows = 0
        self.micro_batches = 0
        self.seconds = 0.0
        """From the query's start to its last report."""

    def is_over(self) -> bool:
        """Whether every flight that was produced is read, or producing has failed."""
        is_read = self._producer.is_done and self.rows >= self._producer.flights
        return is_read or self._producer.error is not None

    @contextmanager
    def session(self, pipeline: Pipeline, layout: CheckpointLayout) -> Iterator[SparkSession]:
        """Yield the pipeline's session, and show that it starts and stops. Raises JavaNotFound, RunFailed."""
        starting = self._display.task("Starting Spark")
        with pipeline_session(pipeline, layout, is_short=True) as session:
            starting.finish(f"Spark {session.version}")
            yield session
            stopping = self._display.task("Stopping Spark")
        stopping.finish("")

    @contextmanager
    def live(self) -> Iterator[None]:
        """Show the task while the context is open."""
        self._task = self._display.task("Aggregating in Spark", FLIGHT_COUNT)
        self._started = time.perf_counter()
        yield

    def update(self, queries: Sequence[QueryProgress], *, is_last: bool = False) -> None:
        """Show what the pipeline's one query has done."""
        assert self._task is not None
        (query,) = queries
        self.rows, self.micro_batches = query.rows, query.batches
        self.seconds = time.perf_counter() - self._started
        note = f"{self.rows / self.seconds:,.0f}/s"
        if is_last:
            self._task.finish(f"{self.micro_batches} micro-batches, {note}")
        else:
            self._task.advance_to(self.rows, f"micro-batch {self.micro_batches}, {note}")

    def show_rows(self, sink: str, batch: int, rows: DataFrame, limit: int) -> None:
        """Show nothing: the pipeline prints no rows."""
