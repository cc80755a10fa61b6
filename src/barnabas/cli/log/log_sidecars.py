"""`barnabas log sidecars`: Parquet files beside sealed segments, which the Spark log source reads faster.

Runs on the main thread; needs no broker. Each subcommand prints a line for each file.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import click

from barnabas.cli.client_options import EXIT_FAILED, fail

if TYPE_CHECKING:
    from barnabas_spark.log_source.sidecar_job import SidecarJob, SidecarReport

_directories = click.argument("log_dirs", metavar="DIR...", nargs=-1, required=True, type=click.Path(file_okay=False))
_topics = click.option("--topic", "topics", multiple=True, metavar="TOPIC", help="Only this topic (repeatable).")


@click.group()
def sidecars() -> None:
    """Build, check or drop Parquet copies of sealed segments for the Spark log source.

    Name the data directories of one broker, which may run meanwhile. Needs the extra `arrow`.
    """


@sidecars.command()
@_directories
@_topics
def build(log_dirs: tuple[str, ...], topics: tuple[str, ...]) -> None:
    """Write missing and outdated sidecars, and drop those whose segments are gone."""
    _run(log_dirs, topics, lambda job: job.build())


@sidecars.command()
@_directories
@_topics
def check(log_dirs: tuple[str, ...], topics: tuple[str, ...]) -> None:
    """Compare sidecars with their segments; fail if one is outdated."""
    _run(log_dirs, topics, lambda job: job.check())


@sidecars.command()
@_directories
@_topics
def drop(log_dirs: tuple[str, ...], topics: tuple[str, ...]) -> None:
    """Remove all sidecars."""
    _run(log_dirs, topics, lambda job: job.drop())


def _run(
    log_dirs: tuple[str, ...], topics: tuple[str, ...], work: Callable[[SidecarJob], Iterator[SidecarReport]]
) -> None:
    """Print what the job reports, and exit with 1 if a sidecar is wrong."""
    try:
        from barnabas_spark.log_source.sidecar_job import SidecarJob
    except ImportError as error:
        fail(f"sidecars need packages that are not installed ({error}): pip install 'barnabas[arrow]'")
    from barnabas.runtime.files import OperatingSystemFiles
    from barnabas.storage.readonly.partition_log import LogUnreadable

    is_wrong = False
    try:
        # Read-only: the log files may belong to a broker that runs.
        for report in work(SidecarJob(log_dirs, topics, OperatingSystemFiles(read_only=True))):
            click.echo(f"{report.path}: {report.what}", err=report.is_wrong)
            is_wrong |= report.is_wrong
    except LogUnreadable as error:
        fail(str(error))
    except OSError as error:
        fail(f"{error.filename or ', '.join(log_dirs)}: {error.strerror or error}")
    if is_wrong:
        sys.exit(EXIT_FAILED)
