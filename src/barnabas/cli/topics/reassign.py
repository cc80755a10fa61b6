"""`barnabas reassign`: moves partitions to other brokers: proposes, starts, verifies, lists and cancels moves.

Runs on the main thread. Kafka: kafka-reassign-partitions.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from barnabas.cli.client_options import EXIT_FAILED, Connect, admin_options, partitions_of
from barnabas.cli.option_types import NUMBER, RATE
from barnabas.cli.tables import json_option, print_json
from barnabas.cli.topics.reassignment_plan import (
    Plan,
    directories_missing,
    move_between_directories,
    parse_plan,
    plan_text,
    propose_plan,
    remove_throttle,
    set_throttle,
)
from barnabas.cli.topics.topic_partitions import parse_broker_ids
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.clients.admin import Admin
    from barnabas.protocol.errors import ApiError

partition_option = click.option(
    "--partition", "indexes", type=NUMBER, multiple=True, help="Only this partition (repeatable)."
)
plan_option = click.option(
    "--plan",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A plan as kafka-reassign-partitions reads it: many partitions, each with its own brokers.",
)
preserve_option = click.option(
    "--preserve-throttles", is_flag=True, help="Leave the limits of `execute --throttle` as they are."
)


@click.group()
def reassign() -> None:
    """Move partitions to other brokers: propose, start, verify, list and cancel moves."""


@reassign.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@admin_options
@click.option("--to", metavar="ID[,ID...]", required=True, help="The brokers that shall have the partitions.")
@click.option("--disable-rack-aware", is_flag=True, help="Ignore the racks of the brokers.")
@click.option(
    "--current",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="Write the present replicas to this file: the plan that undoes the move.",
)
def generate(names: tuple[str, ...], connect: Connect, to: str, disable_rack_aware: bool, current: Path | None) -> None:
    """Print a plan that spreads all partitions of topics over brokers. Nothing is moved.

    \b
        barnabas reassign generate flights --to 2,3,4 --current before.json > plan.json
        barnabas reassign execute --plan plan.json

    \f
    Raises click.UsageError for options that do not go together, or a wrong value.
    """
    brokers = parse_broker_ids(to, "--to")
    with connect() as admin:
        present = _replicas(admin, names)
        nodes = admin.describe_cluster().nodes
        proposed = propose_plan(
            present,
            nodes,
            brokers,
            random.Random(),
            rack_aware=not disable_rack_aware,
        )
    if current is not None:
        current.write_text(plan_text(present) + "\n", encoding="utf-8")
    click.echo(plan_text(proposed))


@reassign.command()
@click.argument("name", required=False)
@admin_options
@partition_option
@click.option("--to", metavar="ID[,ID...]", help="The new replicas of each partition, the preferred leader first.")
@plan_option
@click.option(
    "--throttle",
    type=RATE,
    default=-1,
    metavar="BYTES/SEC",
    help="What each broker may copy for the moves; -1 removes the limit.",
)
@click.pass_context
def execute(
    context: click.Context,
    name: str | None,
    connect: Connect,
    indexes: tuple[int, ...],
    to: str | None,
    plan: Path | None,
    throttle: int,
) -> None:
    """Begin to move partitions of a topic or of a plan. Replaces a reassignment in progress.

    When the moves are done, `verify` removes the limits of --throttle; so does `cancel`. A plan may name the log
    directories of replicas ("log_dirs"): those that lie in another one of their broker move there.

    \b
        barnabas reassign execute flights --partition 0 --to 2,3
        barnabas reassign execute --plan moves.json --throttle 10000000

    \f
    Raises click.UsageError for options that do not go together, or a wrong value.
    """
    with connect() as admin:
        wanted, log_dirs = _wanted(admin, name, indexes, to, plan)
        if throttle >= 0:
            # Before the moves: not a byte of them is copied faster.
            present = _replicas(admin, {place.topic for place in wanted})
            set_throttle(admin, wanted, present, admin.list_partition_reassignments(list(wanted)), throttle)
        results = admin.alter_partition_reassignments(wanted)
        refused = move_between_directories(admin, log_dirs)
    for line in refused:
        click.echo(f"barnabas: {line}", err=True)
    _report(context, results, "reassignment started")
    if refused:
        context.exit(EXIT_FAILED)


@reassign.command()
@click.argument("name", required=False)
@admin_options
@partition_option
@click.option("--to", metavar="ID[,ID...]", help="The replicas that each partition should have.")
@plan_option
@preserve_option
@click.pass_context
def verify(
    context: click.Context,
    name: str | None,
    connect: Connect,
    indexes: tuple[int, ...],
    to: str | None,
    plan: Path | None,
    preserve_throttles: bool,
) -> None:
    """Show whether the moves of a plan are done: what `execute` was given. The exit status is 1 until all are.

    When no move goes on any more, the limits of `execute --throttle` are removed, as by Kafka's tool: those of the
    topics, and then the rates of all brokers.

    \b
        barnabas reassign verify --plan moves.json

    \f
    Raises click.UsageError for options that do not go together, or a wrong value.
    """
    with connect() as admin:
        wanted, log_dirs = _wanted(admin, name, indexes, to, plan)
        # First what goes on, then the replicas: a move that ends in between is still in progress, and never lost.
        ongoing = admin.list_partition_reassignments(list(wanted))
        topics = {place.topic for place in wanted}
        present = _replicas(admin, topics)
        is_unlimited = not ongoing and not preserve_throttles and remove_throttle(admin, topics)
        moving = directories_missing(admin, log_dirs)
    is_done = not moving
    for place, replicas in sorted(wanted.items()):
        found = present.get(place)
        if place in ongoing:
            state = "reassignment in progress"
        elif found is None:
            state = "no such partition"
        elif list(found) == list(replicas):
            state = "reassignment complete"
        else:
            state = f"no reassignment in progress, but the replicas are {_ids(found)}, not {_ids(replicas)}"
        is_done = is_done and state == "reassignment complete"
        click.echo(f"{place.topic}\tpartition {place.partition}\t{state}")
    for line in moving:
        click.echo(line)
    if is_unlimited:
        click.echo("throttle removed")
    if not is_done:
        context.exit(EXIT_FAILED)


@reassign.command("list")
@click.argument("names", metavar="[NAME...]", nargs=-1)
@admin_options
@json_option
def list_(names: tuple[str, ...], connect: Connect, as_json: bool) -> None:
    """Show the reassignments in progress, of these topics or of all."""
    with connect() as admin:
        found = admin.list_partition_reassignments(partitions_of(admin, names, ()) if names else None)
    if as_json:
        moves = [{**place._asdict(), **each._asdict()} for place, each in sorted(found.items())]
        print_json({"reassignments": moves})
        return
    for place, each in sorted(found.items()):
        parts = [f"{place.topic}\tpartition {place.partition}\treplicas {_ids(each.replicas)}"]
        parts += [f"adding {_ids(each.adding)}", f"removing {_ids(each.removing)}"]
        click.echo("\t".join(parts))


@reassign.command()
@click.argument("names", metavar="[NAME...]", nargs=-1)
@admin_options
@partition_option
@plan_option
@preserve_option
@click.pass_context
def cancel(
    context: click.Context,
    names: tuple[str, ...],
    connect: Connect,
    indexes: tuple[int, ...],
    plan: Path | None,
    preserve_throttles: bool,
) -> None:
    """Cancel the reassignments in progress, of these topics, of a plan, or of all.

    The partitions stay on their former brokers. The limits of `execute --throttle` are removed.

    \f
    Raises click.UsageError for options that do not go together, or a wrong value.
    """
    if plan is not None and names:
        raise click.UsageError("give NAMEs or --plan FILE, not both")
    if indexes and not names:
        raise click.UsageError("--partition needs a topic")
    with connect() as admin:
        places = partitions_of(admin, names, indexes) if names else None
        if plan is not None:
            places = list(_planned(plan).replicas)
        ongoing = admin.list_partition_reassignments(places)
        results = admin.alter_partition_reassignments(dict.fromkeys(ongoing)) if ongoing else {}
        if ongoing and not preserve_throttles:
            remove_throttle(admin, {place.topic for place in ongoing})
    _report(context, results, "reassignment cancelled")
    if not results:
        click.echo("no reassignment was in progress")


def _wanted(admin: Admin, name: str | None, indexes: tuple[int, ...], to: str | None, plan: Path | None) -> Plan:
    """Return the replicas that the options ask for. Raises click.UsageError, ValueError, ApiError, ClientTimeout."""
    if plan is not None and name is None and to is None and not indexes:
        return _planned(plan)
    if plan is not None or name is None or to is None:
        raise click.UsageError("give NAME and --to, or --plan FILE")
    return Plan(dict.fromkeys(partitions_of(admin, (name,), indexes), parse_broker_ids(to, "--to")), {})


def _planned(plan: Path) -> Plan:
    return parse_plan(plan.read_text(encoding="utf-8"))


def _replicas(admin: Admin, topics: Sequence[str] | set[str]) -> dict[TopicPartition, tuple[int, ...]]:
    """Return the present replicas of all partitions of topics. Raises ApiError, ClientTimeout."""
    return {
        TopicPartition(topic.name, partition.partition): partition.replicas
        for topic in admin.describe_topics(dict.fromkeys(topics)).values()
        for partition in topic.partitions
    }


def _report(context: click.Context, results: Mapping[TopicPartition, ApiError | None], done: str) -> None:
    for place, error in sorted(results.items()):
        if error is None:
            click.echo(f"{place.topic}\tpartition {place.partition}\t{done}")
        else:
            click.echo(f"barnabas: {place.topic}-{place.partition}: {error.message} ({error.code.name})", err=True)
    if any(results.values()):
        context.exit(EXIT_FAILED)


def _ids(brokers: Sequence[int]) -> str:
    return ",".join(map(str, brokers)) or "-"
