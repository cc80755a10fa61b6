"""`barnabas reassignments`: moves partitions to other brokers, lists and cancels moves. Runs on the main thread."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from barnabas.cli.client_options import (
    EXIT_FAILED,
    bootstrap_option,
    friendly_errors,
    open_admin,
    partitions_of,
    timeout_option,
)
from barnabas.cli.number_types import NUMBER
from barnabas.cli.topic_partitions import parse_broker_ids

if TYPE_CHECKING:
    from barnabas.protocol.errors import ApiError
    from barnabas.protocol.topic_partition import TopicPartition

partition_option = click.option(
    "--partition", "indexes", type=NUMBER, multiple=True, help="Only this partition (repeatable)."
)


@click.group()
def reassignments() -> None:
    """Move partitions to other brokers; list and cancel reassignments in progress."""


@reassignments.command()
@click.argument("name", required=False)
@bootstrap_option
@timeout_option
@partition_option
@click.option("--to", metavar="ID[,ID...]", help="The new replicas of each partition, the preferred leader first.")
@click.option(
    "--plan",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A plan as kafka-reassign-partitions reads it: many partitions, each with its own brokers.",
)
@click.pass_context
def start(
    context: click.Context,
    name: str | None,
    bootstrap_servers: str,
    timeout_seconds: float,
    indexes: tuple[int, ...],
    to: str | None,
    plan: Path | None,
) -> None:
    """Begin to move partitions of a topic or of a plan. Replaces a reassignment in progress.

    \b
        barnabas reassignments start flights --partition 0 --to 2,3
        barnabas reassignments start --plan moves.json

    \f
    Raises click.UsageError for options that do not go together, or a wrong value.
    """
    if (plan is None) != (name is not None and to is not None):
        raise click.UsageError("give NAME and --to, or --plan FILE")
    with friendly_errors(bootstrap_servers), open_admin(bootstrap_servers, timeout_seconds) as admin:
        wanted: Mapping[TopicPartition, Sequence[int]]
        if plan is not None:
            wanted = _planned(plan.read_text(encoding="utf-8"))
        else:
            brokers = parse_broker_ids(to or "", "--to")
            wanted = dict.fromkeys(partitions_of(admin, (name or "",), indexes), brokers)
        results = admin.alter_partition_reassignments(wanted)
    _report(context, results, "reassignment started")


@reassignments.command("list")
@click.argument("names", metavar="[NAME...]", nargs=-1)
@bootstrap_option
@timeout_option
def list_(names: tuple[str, ...], bootstrap_servers: str, timeout_seconds: float) -> None:
    """Show the reassignments in progress, of these topics or of all."""
    with friendly_errors(bootstrap_servers), open_admin(bootstrap_servers, timeout_seconds) as admin:
        found = admin.list_partition_reassignments(partitions_of(admin, names, ()) if names else None)
    for place, each in sorted(found.items()):
        parts = [f"{place.topic}\tpartition {place.partition}\treplicas {_ids(each.replicas)}"]
        parts += [f"adding {_ids(each.adding)}", f"removing {_ids(each.removing)}"]
        click.echo("\t".join(parts))


@reassignments.command()
@click.argument("names", metavar="[NAME...]", nargs=-1)
@bootstrap_option
@timeout_option
@partition_option
@click.pass_context
def cancel(
    context: click.Context,
    names: tuple[str, ...],
    bootstrap_servers: str,
    timeout_seconds: float,
    indexes: tuple[int, ...],
) -> None:
    """Cancel the reassignments in progress, of these topics or of all. Partitions stay on their former brokers.

    \f
    Raises click.UsageError for options that do not go together, or a wrong value.
    """
    with friendly_errors(bootstrap_servers), open_admin(bootstrap_servers, timeout_seconds) as admin:
        if indexes and not names:
            raise click.UsageError("--partition needs a topic")
        ongoing = admin.list_partition_reassignments(partitions_of(admin, names, indexes) if names else None)
        results = admin.alter_partition_reassignments(dict.fromkeys(ongoing)) if ongoing else {}
    _report(context, results, "reassignment cancelled")
    if not results:
        click.echo("no reassignment was in progress")


def _report(context: click.Context, results: Mapping[TopicPartition, ApiError | None], done: str) -> None:
    for place, error in sorted(results.items()):
        if error is None:
            click.echo(f"{place.topic}\tpartition {place.partition}\t{done}")
        else:
            click.echo(f"barnabas: {place.topic}-{place.partition}: {error.message} ({error.code.name})", err=True)
    if any(results.values()):
        context.exit(EXIT_FAILED)


def _planned(text: str) -> dict[TopicPartition, list[int]]:
    """Return the partitions of a plan. Raises ValueError for any other text."""
    from barnabas.protocol.topic_partition import TopicPartition

    try:
        return {
            TopicPartition(str(entry["topic"]), _number(entry["partition"])): list(map(_number, entry["replicas"]))
            for entry in json.loads(text)["partitions"]
        }
    except (KeyError, TypeError, ValueError) as error:
        example = '{"version": 1, "partitions": [{"topic": "flights", "partition": 0, "replicas": [1, 2]}]}'
        raise ValueError(f"not a reassignment plan ({error}); a plan looks like {example}") from None


def _number(value: Any) -> int:
    """Return the number of a partition or broker. Raises ValueError when it has more than 31 bits."""
    number = int(value)
    if not 0 <= number < 2**31:
        raise ValueError(f"{number} is not in [0, {2**31 - 1}]")
    return number


def _ids(brokers: Sequence[int]) -> str:
    return ",".join(map(str, brokers)) or "-"
