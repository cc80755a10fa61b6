"""`barnabas log dirs`: shows the log directories of brokers, the replicas in them, and the free space.

Runs on the main thread. Unlike the other commands of `barnabas log`, it needs running brokers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from barnabas.cli.client_options import bootstrap_option, friendly_errors, open_admin, timeout_option
from barnabas.cli.number_types import NUMBER

if TYPE_CHECKING:
    from barnabas.clients.admin import LogDir


@click.command()
@bootstrap_option
@timeout_option
@click.option("--broker", "brokers", type=NUMBER, metavar="ID", multiple=True, help="Only this broker (repeatable).")
@click.option("--topic", "topics", metavar="NAME", multiple=True, help="Only replicas of this topic (repeatable).")
@click.option("--partitions", is_flag=True, help="Print a line for every replica.")
def dirs(
    bootstrap_servers: str,
    timeout_seconds: float,
    brokers: tuple[int, ...],
    topics: tuple[str, ...],
    partitions: bool,
) -> None:
    """Show the log directories of running brokers: state, replicas, their bytes, free space."""
    with friendly_errors(bootstrap_servers), open_admin(bootstrap_servers, timeout_seconds) as admin:
        for broker_id in brokers or [node.id for node in admin.describe_cluster().nodes]:
            for directory in admin.describe_log_dirs(broker_id):
                _show(broker_id, directory, topics, with_replicas=partitions)


def _show(broker_id: int, directory: LogDir, topics: tuple[str, ...], *, with_replicas: bool) -> None:
    replicas = sorted((key, info) for key, info in directory.replicas.items() if not topics or key.topic in topics)
    state = directory.error.name if directory.error else "ok"
    used = sum(info.size for _, info in replicas)
    room = f"free {directory.usable_bytes} of {directory.total_bytes}" if directory.total_bytes >= 0 else "free unknown"
    click.echo(f"broker {broker_id}\t{directory.path}\t{state}\treplicas {len(replicas)}\tbytes {used}\t{room}")
    if with_replicas:
        for key, info in replicas:
            future = "\tmoving here" if info.is_future else ""
            click.echo(f"\t{key.topic}-{key.partition}\tbytes {info.size}\tlag {info.offset_lag}{future}")
