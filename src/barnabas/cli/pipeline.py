"""`barnabas pipeline`: makes and checks pipeline files. Runs on the main thread.

The work is `barnabas_spark.pipeline`, imported when it is used: it needs the extra `pipelines`.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from barnabas.cli.client_options import EXIT_FAILED, EXIT_USAGE, fail

if TYPE_CHECKING:
    from barnabas_spark.pipeline.specification import Pipeline

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
    """Make and check pipeline files: sources, SQL or Python transforms, and sinks, in YAML.

    Needs the extra `pipelines`. docs/pipeline.schema.json describes the file, also to editors.
    """


@pipeline.command()
@_file
def init(path: str) -> None:
    """Write a pipeline file to begin with. An existing file is left as it is."""
    with _pipeline_errors():
        from barnabas_spark.pipeline.template import TEMPLATE
    name = re.sub("[^A-Za-z0-9._-]+", "-", os.path.splitext(os.path.basename(path))[0]).strip("-._") or "pipeline"
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write(TEMPLATE.format(name=name))
    except FileExistsError:
        fail(f"{path} exists already")
    click.echo(f"{path} is written; next: barnabas pipeline check {path}")


@pipeline.command()
@_file
@_parameters
def check(path: str, parameters: tuple[str, ...]) -> None:
    """Check a pipeline file: its names, types, references and formats.

    Each thing that is wrong is a line, FILE:LINE: MESSAGE; the exit status is 1 then.

    \b
        barnabas pipeline check orders.yaml
        barnabas pipeline check orders.yaml -p brokers=broker-1:9092
    """
    with _pipeline_errors():
        found = _read(path, parameters)
        click.echo(
            f"{path}: pipeline {found.name}, {_counted(len(found.sources), 'source')},"
            f" {_counted(len(found.transforms), 'transform')}, {_counted(len(found.sinks), 'sink')}: no mistake found"
        )


@contextmanager
def _pipeline_errors() -> Iterator[None]:
    """Turn a pipeline's errors into lines on stderr and an exit status. Other errors are bugs and stay visible."""
    try:
        from barnabas_spark.pipeline.pipeline_error import PipelineError
    except ImportError as error:
        fail(f"pipelines need packages that are not installed ({error}): pip install 'barnabas[pipelines]'")
    try:
        yield
    except PipelineError as error:
        # A line for each problem, in the form that editors and CI systems find: FILE:LINE: MESSAGE.
        click.echo(str(error), err=True)
        sys.exit(EXIT_FAILED)
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
