"""`barnabas perf`: measures rates and latencies, with figures that compare with those of Kafka's tools.

The group of the commands in `perf_produce`, `perf_consume` and `perf_end_to_end`. Runs on the main thread.
"""

from __future__ import annotations

import click

from barnabas.cli.perf.perf_consume import perf_consume
from barnabas.cli.perf.perf_end_to_end import perf_end_to_end
from barnabas.cli.perf.perf_produce import perf_produce


@click.group()
def perf() -> None:
    """Measure rates and latencies, as Kafka's performance tools do."""


perf.add_command(perf_consume)
perf.add_command(perf_end_to_end)
perf.add_command(perf_produce)
