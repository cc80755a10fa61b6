"""`barnabas topics`: creates, lists, describes and deletes topics, and deletes their records.

Runs on the main thread. The commands that change partitions are in `topic_partitions`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from barnabas.cli.client_options import EXIT_FAILED, Connect, admin_options, parse_pairs, partitions_of
from barnabas.cli.option_types import COUNT, NUMBER, REPLICATION_FACTOR
from barnabas.cli.tables import print_table
from barnabas.cli.topics.partition_problems import problem_options, show_partitions_with
from barnabas.cli.topics.topic_partitions import alter, elect_leaders

if TYPE_CHECKING:
    from barnabas.clients.admin import ConfigEntry, TopicDescription
    from barnabas.protocol.errors import ApiError

TOPIC_CONFIG_SOURCE = 1
# In a request, -1 means the high watermark: all records that consumers may see are deleted.
HIGH_WATERMARK = -1


@click.group()
def topics() -> None:
    """Create, list, describe, alter and delete topics, elect leaders, delete records."""


topics.add_command(alter)
topics.add_command(elect_leaders)


@topics.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@admin_options
@click.option("--partitions", type=COUNT, help="[default: the broker's num.partitions]")
@click.option(
    "--replication-factor", type=REPLICATION_FACTOR, help="[default: the broker's default.replication.factor]"
)
@click.option("--config", "configs", multiple=True, metavar="NAME=VALUE", help="A setting of the topic (repeatable).")
@click.option("--if-not-exists", is_flag=True, help="Skip topics that exist already.")
@click.option("--validate-only", is_flag=True, help="Check the request without creating topics.")
def create(
    names: tuple[str, ...],
    connect: Connect,
    partitions: int | None,
    replication_factor: int | None,
    configs: tuple[str, ...],
    if_not_exists: bool,
    validate_only: bool,
) -> None:
    """Create topics. A topic that cannot be created does not stop the creation of the others.

    \b
        barnabas topics create flights --partitions 4 --config retention.ms=86400000
    """
    from barnabas.clients.admin import NewTopic
    from barnabas.protocol.errors import ApiError, ErrorCode

    settings = {name.strip(): value.strip() for name, value in parse_pairs(configs, "--config").items()}
    has_failed = False
    with connect() as admin:
        # One request for each topic, because `create_topics` raises the first error and drops the other results.
        for name in dict.fromkeys(names):
            topic = NewTopic(name, partitions or -1, replication_factor or -1, dict(settings))
            try:
                created = admin.create_topics([topic], validate_only=validate_only)[name]
            except ApiError as error:
                if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS or not if_not_exists:
                    _report(name, "created", error)
                    has_failed = True
                continue
            what = "could be created" if validate_only else "created"
            click.echo(
                f"{name} {what}: partitions {_number(created.num_partitions)}, "
                f"replicas {_number(created.replication_factor)}"
            )
    if has_failed:
        sys.exit(EXIT_FAILED)


@topics.command("list")
@admin_options
@click.option("--internal", is_flag=True, help="Show internal topics too.")
def list_topics(connect: Connect, internal: bool) -> None:
    """List the names of all topics."""
    with connect() as admin:
        for name in admin.list_topics(include_internal=internal):
            click.echo(name)


@topics.command()
@click.argument("names", metavar="[NAME...]", nargs=-1)
@admin_options
@problem_options
def describe(names: tuple[str, ...], connect: Connect, problem: str | None) -> None:
    """Show partitions, replicas and settings of topics. Without a NAME, of all but internal topics.

    With one of the options about replicas: only the partitions that are so, without a NAME of internal topics too.

    \b
        barnabas topics describe flights
        barnabas topics describe --under-replicated

    """
    if problem is not None:
        show_partitions_with(problem, names, connect)
        return
    with connect() as admin:
        described = admin.describe_topics(dict.fromkeys(names) or None)
        # Internal topics have dozens of partitions, which would bury those of the user.
        for name in sorted(name for name, each in described.items() if names or not each.is_internal):
            configs = admin.describe_topic_configs(name)
            overrides = [entry for entry in configs.values() if entry.source == TOPIC_CONFIG_SOURCE]
            _show(described[name], overrides)


@topics.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@admin_options
@click.option("--if-exists", is_flag=True, help="Skip topics that don't exist.")
def delete(names: tuple[str, ...], connect: Connect, if_exists: bool) -> None:
    """Delete topics with all their records. A topic that cannot be deleted does not stop the deletion of the others."""
    from barnabas.protocol.errors import ApiError, ErrorCode

    has_failed = False
    with connect() as admin:
        # One request for each topic, because `delete_topics` raises the first error and drops the other results.
        for name in dict.fromkeys(names):
            try:
                admin.delete_topics([name])
            except ApiError as error:
                if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or not if_exists:
                    _report(name, "deleted", error)
                    has_failed = True
                continue
            click.echo(f"{name} deleted")
    if has_failed:
        sys.exit(EXIT_FAILED)


@topics.command("delete-records")
@click.argument("name")
@admin_options
@click.option("--before", required=True, metavar="OFFSET|end", help="The first offset to keep; `end` keeps none.")
@click.option("--partition", "partitions", type=NUMBER, multiple=True, help="Only this partition (repeatable).")
def delete_records(name: str, connect: Connect, before: str, partitions: tuple[int, ...]) -> None:
    """Delete the oldest records of a topic.

    \b
        barnabas topics delete-records flights --before 1000 --partition 2

    \f
    Raises click.UsageError for options that do not go together, or a wrong value.
    """
    if before != "end" and not before.isdecimal():
        raise click.UsageError(f"--before takes an offset or `end`, not {before!r}")
    with connect() as admin:
        offset = HIGH_WATERMARK if before == "end" else int(before)
        starts = admin.delete_records(dict.fromkeys(partitions_of(admin, (name,), partitions), offset))
        for key, start in sorted(starts.items()):
            click.echo(f"{name}\tpartition {key.partition}\tbegins at {start}")


@topics.command()
@click.argument("name")
@admin_options
def producers(name: str, connect: Connect) -> None:
    """Show the idempotent producers that are known to the partitions of a topic."""
    from barnabas.protocol.topic_partition import TopicPartition

    with connect() as admin:
        partitions = [TopicPartition(name, info.partition) for info in admin.describe_topics([name])[name].partitions]
        rows = [
            (
                str(key.partition),
                str(state.producer_id),
                str(state.producer_epoch),
                str(state.last_sequence),
                str(state.last_timestamp_ms),
                _number(state.current_transaction_start_offset, "none"),
            )
            for key, states in sorted(admin.describe_producers(partitions).items())
            for state in states
        ]
    print_table(("partition", "producer", "epoch", "last sequence", "last time", "transaction from"), rows)


def _report(name: str, wanted: str, error: ApiError) -> None:
    click.echo(f"barnabas: {name} was not {wanted}: {error.message} ({error.code.name})", err=True)


def _number(value: int, otherwise: str = "by default") -> str:
    return str(value) if value >= 0 else otherwise


def _show(topic: TopicDescription, overrides: Sequence[ConfigEntry]) -> None:
    from barnabas.protocol.uuid import uuid_to_string

    settings = ",".join(f"{entry.name}={entry.value}" for entry in overrides)
    replicas = max((len(info.replicas) for info in topic.partitions), default=0)
    click.echo(
        f"{topic.name}\tid {uuid_to_string(topic.topic_id)}\tpartitions {len(topic.partitions)}\t"
        f"replicas {replicas}\tsettings {settings or '-'}"
    )
    rows = [
        (
            str(info.partition),
            str(info.leader) if info.leader >= 0 else "none",
            ",".join(map(str, info.replicas)),
            ",".join(map(str, info.isr)),
        )
        for info in topic.partitions
    ]
    print_table(("partition", "leader", "replicas", "in sync"), rows)
