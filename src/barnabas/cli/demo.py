"""`barnabas demo`: a whole pipeline with one command, for newcomers. Runs `barnabas_spark.demo` on the main thread."""

from __future__ import annotations

import signal
import sys

import click

from barnabas.cli.stop_signals import on_first


@click.command()
@click.option(
    "--output-dir",
    default="demo-output",
    show_default=True,
    type=click.Path(file_okay=False),
    help="Where the picture, the Parquet files, the broker's data and the logs go; cleared before each run.",
)
def demo(output_dir: str) -> None:
    """Start a broker, produce 336,776 flights, aggregate them in Spark, draw a picture.

    Needs nothing but this package with its extra `demo`: Java comes with it, ports are free ones, and everything that
    is started is stopped at the end or by Ctrl-C.
    """
    # A plain `kill` ends the demo as cleanly as Ctrl-C does.
    on_first([signal.SIGTERM], _interrupt)
    try:
        _run(output_dir)
    except KeyboardInterrupt:
        click.echo("stopped; nothing is left running", err=True)
        sys.exit(130)


def _run(output_dir: str) -> None:
    """Run the demo. Raises click.ClickException when it fails, or lacks packages."""
    try:
        from barnabas_spark.demo.demo import DemoFailed, run_demo
        from barnabas_spark.demo.display import Display
        from barnabas_spark.demo.flights import DataMissing
        from barnabas_spark.demo.workspace import NotOurs
        from barnabas_spark.java_home import JavaNotFound
    # The imports need pyspark and others, which only the extra `demo` installs.
    except ImportError as error:
        raise click.ClickException(
            f"the demo needs packages that are not installed ({error}): pip install 'barnabas[demo]'"
        ) from None
    from barnabas.testing import BrokerFailed

    try:
        run_demo(output_dir, Display())
    except (BrokerFailed, DataMissing, DemoFailed, JavaNotFound, NotOurs) as error:
        raise click.ClickException(str(error)) from error


def _interrupt(_number: int) -> None:
    """Handle SIGTERM. Raises KeyboardInterrupt, as Ctrl-C does."""
    raise KeyboardInterrupt
