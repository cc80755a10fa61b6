"""`barnabas topics describe --under-replicated` and its kin: the partitions that have one problem.

Runs on the main thread; no state. Kafka: kafka-topics --describe --under-replicated-partitions and its kin.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from barnabas.cli.client_options import friendly_errors, open_admin
from barnabas.cli.partition_problems import (
    AT_MINIMUM,
    UNAVAILABLE,
    UNDER_MINIMUM,
    UNDER_REPLICATED,
    judge_partitions,
)
from barnabas.cli.tables import print_table

_Command = TypeVar("_Command", bound=Callable[..., Any])

_OPTIONS = {
    "--under-replicated": (UNDER_REPLICATED, "Only partitions with fewer in-sync replicas than replicas."),
    "--unavailable": (UNAVAILABLE, "Only partitions without a leader that is alive."),
    "--under-min-isr": (UNDER_MINIMUM, "Only partitions below min.insync.replicas, which refuse writes of acks=all."),
    "--at-min-isr": (AT_MINIMUM, "Only partitions at min.insync.replicas, which cannot lose an in-sync replica."),
}


def problem_options(command: _Command) -> _Command:
    """Add the options that select partitions by a problem; the last one given counts."""
    for option, (problem, text) in reversed(_OPTIONS.items()):
        command = click.option(option, "problem", flag_value=problem, default=None, help=text)(command)
    return command


def show_partitions_with(problem: str, names: tuple[str, ...], bootstrap_servers: str, timeout_seconds: float) -> None:
    """Print the partitions of these topics, or of all, that have a problem. Raises SystemExit for an error."""
    with friendly_errors(bootstrap_servers), open_admin(bootstrap_servers, timeout_seconds) as admin:
        judged = judge_partitions(admin, admin.describe_topics(dict.fromkeys(names) or None))
    print_table(
        ("topic", "partition", "leader", "replicas", "in sync"),
        [
            (
                each.partition.topic,
                str(each.partition.partition),
                str(each.partition.leader) if each.partition.leader >= 0 else "none",
                ",".join(map(str, each.partition.replicas)),
                ",".join(map(str, each.partition.isr)),
            )
            for each in judged
            if problem in each.problems
        ],
    )
