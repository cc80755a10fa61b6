"""`barnabas pipeline`: makes, checks and runs pipeline files. Runs on the main thread.

The work is `barnabas_spark.pipeline`, imported when it is used: it needs the extra `pipelines`.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from barnabas.cli.client_options import EXIT_FAILED, EXIT_USAGE, fail, timeout_option
from barnabas.cli.stop_signals import stop_signals
from barnabas.cli.tables import print_table

if TYPE_CHECKING:
    from barnabas_spark.pipeline.pipeline_file import Pipeline

_POLL_SECONDS = 0.1

TEMPLATE = """\
#
# barnabas pipeline check FILE     is it right?
# barnabas pipeline run FILE       run it; again: go on where it ended
#
name: {name}
parameters:
  brokers: 127.0.0.1:9092          # another: --parameter brokers=HOST:PORT
brokers: ${{brokers}}
trigger: available-now             # or continuous, or '10 seconds'

sources:
  orders:
    topic: orders
    format: json
    schema: id BIGINT, customer STRING, amount DOUBLE
    dead_letters: orders-bad       # records that are no such JSON
    options:
      startingOffsets: earliest

transforms:
  large_orders:
    sql: |
      SELECT id, customer, amount, _timestamp AS ordered_at
      FROM orders
      WHERE amount >= 100

sinks:
  to_topic:
    from: large_orders
    topic: large-orders
    key: customer
"""
"""What `init` writes."""

_file = click.argument("path", metavar="FILE", type=click.Path(dir_okay=False))
_parameters = click.option(
    "-p",
    "--parameter",
    "parameters",
    metavar="NAME=VALUE",
    multiple=True,
    help="The value of a parameter that the file declares (repeatable).",
)


@click.group()
def pipeline() -> None:
    """Run pipelines: YAML files of sources, SQL or Python transforms, and sinks.

    Needs the extra `pipelines`. docs/pipelines.md describes the file.
    """


@pipeline.command()
@_file
def init(path: str) -> None:
    """Write a pipeline file to begin with. An existing file is left as it is."""
    name = re.sub("[^A-Za-z0-9._-]+", "-", os.path.splitext(os.path.basename(path))[0]).strip("-._") or "pipeline"
    try:
        with _pipeline_errors(), open(path, "x", encoding="utf-8") as file:
            file.write(TEMPLATE.format(name=name))
    except FileExistsError:
        fail(f"{path} exists already")
    click.echo(f"{path} is written; next: barnabas pipeline check {path}")


@pipeline.command()
@_file
@_parameters
@click.option("--no-spark", is_flag=True, help="Only check the file itself, in a second rather than ten.")
def check(path: str, parameters: tuple[str, ...], no_spark: bool) -> None:
    """Check a pipeline file, and let Spark's analyser check its queries. No broker is needed.

    Each thing that is wrong is a line, FILE:LINE: MESSAGE; the exit status is 1 then.

    \b
        barnabas pipeline check orders.yaml
        barnabas pipeline check orders.yaml -p brokers=broker-1:9092
    """
    with _pipeline_errors():
        found = _read(path, parameters)
        if not no_spark:
            from barnabas_spark.pipeline.run import check_with_spark

            for line in check_with_spark(found):
                click.echo(f"{path}: {line}")
        click.echo(
            f"{path}: pipeline {found.name}, {_counted(len(found.sources), 'source')},"
            f" {_counted(len(found.transforms), 'transform')}, {_counted(len(found.sinks), 'sink')}: no mistake found"
        )


@pipeline.command()
@_file
@_parameters
@click.option("--dry-run", is_flag=True, help="Check everything, brokers and topics too; say what a run would do.")
def run(path: str, parameters: tuple[str, ...], dry_run: bool) -> None:
    """Run a pipeline: until all is read (trigger: available-now), or until it is stopped.

    It goes on where its last run ended. The exit status is 1 when a query fails, with the cause on stderr; SIGTERM and
    `barnabas pipeline stop` end it with 0, Ctrl-C with 130.

    \b
        barnabas pipeline run orders.yaml --dry-run
        barnabas pipeline run orders.yaml -p brokers=broker-1:9092
    """
    with _pipeline_errors():
        found = _read(path, parameters)
        from barnabas_spark.pipeline.run import plan_in_words, run_pipeline
        from barnabas_spark.pipeline.run_display import RunDisplay

        if dry_run:
            for line in plan_in_words(found):
                click.echo(line)
            return
        # A list, because the handler of a signal must take no lock, and events have one.
        stops: list[bool] = []
        with stop_signals(lambda: stops.append(True)):
            run_pipeline(found, RunDisplay(), lambda: bool(stops))


@pipeline.command()
@_file
@_parameters
def status(path: str, parameters: tuple[str, ...]) -> None:
    """Show what a pipeline does, or how its last run ended. The exit status is 1 if that failed.

    A line for the pipeline, and one for each query: name, output, micro-batches and rows of this run, rows a second,
    lag.
    """
    with _pipeline_errors():
        from barnabas_spark.pipeline.checkpoint_layout import CheckpointLayout, read_status, running_process

        found = _read(path, parameters)
        layout = CheckpointLayout(found.checkpoints)
        process, last = running_process(layout), read_status(layout)
    if last is None:
        click.echo(f"{found.name}: has never run")
        return
    state = last["state"]
    if process is not None:
        click.echo(f"{found.name}: {state}, process {process}")
    elif state in ("starting", "running"):
        # The process has ended without a word: it was killed, or the machine was.
        state = "crashed"
        click.echo(f"{found.name}: crashed; run it again: it goes on where it was")
    else:
        click.echo(f"{found.name}: {state}{': ' + last['error'] if 'error' in last else ''}")
    rows = [
        (
            each["name"],
            each["writes"],
            str(each["batches"]),
            str(each["rows"]),
            str(each["rowsPerSecond"]),
            str(each["lag"]),
        )
        for each in last["queries"]
    ]
    if rows:
        print_table(("query", "writes", "micro-batches", "rows", "rows/s", "lag"), rows)
    if process is None and state in ("failed", "crashed"):
        sys.exit(EXIT_FAILED)


@pipeline.command()
@_file
@_parameters
@timeout_option
def stop(path: str, parameters: tuple[str, ...], timeout_seconds: float) -> None:
    """Stop a pipeline that runs on this machine, and wait until it has ended."""
    with _pipeline_errors():
        from barnabas_spark.pipeline.checkpoint_layout import CheckpointLayout, running_process

        found = _read(path, parameters)
        layout = CheckpointLayout(found.checkpoints)
        process = running_process(layout)
        if process is None:
            fail(f"{found.name} does not run")
        deadline = time.monotonic() + timeout_seconds
        signalled = 0
        while process is not None:
            if process and process != signalled:
                os.kill(process, signal.SIGTERM)
                signalled = process
            if time.monotonic() > deadline:
                fail(f"{found.name}: process {process} has not ended within {timeout_seconds:g} s")
            time.sleep(_POLL_SECONDS)
            process = running_process(layout)
    click.echo(f"{found.name}: stopped")


@contextmanager
def _pipeline_errors() -> Iterator[None]:
    """Turn a pipeline's errors into lines on stderr and an exit status. Other errors are bugs and stay visible."""
    try:
        from barnabas_spark.java_home import JavaNotFound
        from barnabas_spark.pipeline.pipeline_error import PipelineError, RunFailed
    except ImportError as error:
        fail(f"pipelines need packages that are not installed ({error}): pip install 'barnabas[pipelines]'")
    try:
        yield
    except PipelineError as error:
        # A line for each problem, in the form that editors and CI systems find: FILE:LINE: MESSAGE.
        click.echo(str(error), err=True)
        sys.exit(EXIT_FAILED)
    except (JavaNotFound, RunFailed) as error:
        fail(str(error))
    except ImportError as error:
        fail(f"pipelines need packages that are not installed ({error}): pip install 'barnabas[pipelines]'")


def _read(path: str, parameters: tuple[str, ...]) -> Pipeline:
    """Return what the file says. Raises PipelineError, OSError."""
    from barnabas_spark.pipeline.pipeline_file import read_pipeline

    given = {}
    for parameter in parameters:
        name, separator, value = parameter.partition("=")
        if not separator or not name:
            fail(f"--parameter {parameter!r} must be NAME=VALUE", EXIT_USAGE)
        given[name] = value
    return read_pipeline(path, given, os.environ)


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
