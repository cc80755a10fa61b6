"""`barnabas cluster health`: what keeps a cluster's partitions from being safe. Runs on the main thread."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

import click

from barnabas.cli.client_options import bootstrap_option, friendly_errors, open_admin, timeout_option
from barnabas.cli.tables import print_table

if TYPE_CHECKING:
    from barnabas.clients.admin import PartitionInfo

UNHEALTHY_EXIT_STATUS = 1
OFFLINE, BELOW_MINIMUM, UNDER_REPLICATED = "no leader", "below min.insync.replicas", "under-replicated"


class UnsafePartition(NamedTuple):
    """A partition that lacks replicas, and the worst that is wrong with it."""

    partition: PartitionInfo
    problem: str


def unsafe_partitions(
    partitions: Iterable[PartitionInfo], min_insync_replicas: Mapping[str, int]
) -> list[UnsafePartition]:
    """Return the partitions that lack a leader or in-sync replicas, in their order. min_insync_replicas: by topic."""
    found = []
    for partition in partitions:
        if partition.leader < 0:
            found.append(UnsafePartition(partition, OFFLINE))
        elif len(partition.isr) < min_insync_replicas[partition.topic]:
            found.append(UnsafePartition(partition, BELOW_MINIMUM))
        elif len(partition.isr) < len(partition.replicas):
            found.append(UnsafePartition(partition, UNDER_REPLICATED))
    return found


@click.command()
@bootstrap_option
@timeout_option
@click.pass_context
def health(context: click.Context, bootstrap_servers: str, timeout_seconds: float) -> None:
    """Show the partitions that lack a leader or in-sync replicas.

    Exit status 1 if there are any, or no controller: a script or a rolling restart waits until it is 0.
    """
    with friendly_errors(bootstrap_servers), open_admin(bootstrap_servers, timeout_seconds) as admin:
        described = admin.describe_cluster()
        topics = admin.describe_topics()
        minimum = {
            name: int(admin.describe_topic_configs(name)["min.insync.replicas"].value or 1)
            for name, topic in topics.items()
            # Only where it can matter: one request a topic.
            if any(len(partition.isr) < len(partition.replicas) for partition in topic.partitions)
        }
    partitions = [partition for name in sorted(topics) for partition in topics[name].partitions]
    unsafe = unsafe_partitions(partitions, {name: minimum.get(name, 1) for name in topics})
    counts = Counter(each.problem for each in unsafe)
    controller = described.controller_id if described.controller_id >= 0 else "none"
    problems = "\t".join(f"{problem} {counts[problem]}" for problem in (OFFLINE, BELOW_MINIMUM, UNDER_REPLICATED))
    click.echo(f"controller {controller}\tbrokers {len(described.nodes)}\tpartitions {len(partitions)}\t{problems}")
    print_table(
        ("topic", "partition", "problem", "leader", "replicas", "in sync"),
        [
            (
                each.partition.topic,
                str(each.partition.partition),
                each.problem,
                str(each.partition.leader) if each.partition.leader >= 0 else "none",
                ",".join(map(str, each.partition.replicas)),
                ",".join(map(str, each.partition.isr)),
            )
            for each in unsafe
        ],
    )
    if unsafe or described.controller_id < 0:
        context.exit(UNHEALTHY_EXIT_STATUS)
