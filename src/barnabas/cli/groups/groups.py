"""`barnabas groups`: shows groups, their members and their lag, and deletes groups. Runs on the main thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import click

from barnabas.cli.client_options import EXIT_FAILED, Connect, admin_options
from barnabas.cli.groups.group_offsets import delete_offsets, reset_offsets
from barnabas.cli.tables import print_table

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from barnabas.clients.admin import Admin, GroupDescription, GroupMember
    from barnabas.protocol.topic_partition import TopicPartition

GROUP_STATES = ("Assigning", "CompletingRebalance", "Dead", "Empty", "PreparingRebalance", "Reconciling", "Stable")
GROUP_TYPES = ("classic", "consumer", "share")


def _one_of(known: Sequence[str]) -> Callable[[click.Context, click.Parameter, tuple[str, ...]], list[str]]:
    """Return the callback of an option that takes names separated by commas, in upper or lower case, as in Kafka."""
    choice = click.Choice(known, case_sensitive=False)

    def names(context: click.Context, option: click.Parameter, values: tuple[str, ...]) -> list[str]:
        words = [word for value in values for word in value.split(",")]
        return [choice.convert(word.strip(), option, context) for word in words]

    return names


@click.group()
def groups() -> None:
    """Show groups with their members and their lag; delete groups, reset their offsets."""


groups.add_command(delete_offsets)
groups.add_command(reset_offsets)


@groups.command("list")
@admin_options
@click.option(
    "--state",
    "states",
    callback=_one_of(GROUP_STATES),
    metavar="STATE[,...]",
    multiple=True,
    help=f"Only groups in these states (repeatable): {', '.join(GROUP_STATES)}.",
)
@click.option(
    "--type",
    "types",
    callback=_one_of(GROUP_TYPES),
    metavar="TYPE[,...]",
    multiple=True,
    help=f"Only groups of these types (repeatable): {', '.join(GROUP_TYPES)}.",
)
def list_(connect: Connect, states: list[str], types: list[str]) -> None:
    """List groups, each with its type, the type of its protocol and its state.

    \b
        barnabas groups list
        barnabas groups list --state Empty,Dead
    """
    with connect() as admin:
        found = admin.list_groups(states=states, types=types)
    for group in found:
        click.echo(
            f"{group.group_id}\ttype {group.type or '-'}\tprotocol {group.protocol_type or '-'}\t{group.state or '-'}"
        )


@groups.command()
@click.argument("names", metavar="[NAME...]", nargs=-1)
@admin_options
@click.option("--all", "all_groups", is_flag=True, help="All consumer groups.")
@click.option("--members", "show_members", is_flag=True, help="Show members with their partitions instead of offsets.")
def describe(names: tuple[str, ...], connect: Connect, all_groups: bool, show_members: bool) -> None:
    """Show a group's state, and each partition's committed offset, end offset, lag and member.

    \b
        barnabas groups describe billing
        barnabas groups describe --all --members

    \f
    Raises click.UsageError for options that do not go together, or a wrong value.
    """
    if bool(names) == all_groups:
        raise click.UsageError("name the groups, or give --all")
    with connect() as admin:
        if all_groups:
            # A group of consumers that never had members, only commits, has no protocol type.
            names = tuple(each.group_id for each in admin.list_groups() if each.protocol_type in ("", "consumer"))
        existing = frozenset() if show_members else frozenset(admin.list_topics(include_internal=True))
        for description in admin.describe_groups(dict.fromkeys(names)).values():
            click.echo(_head(description))
            if show_members:
                _print_members(description)
            else:
                _print_offsets(admin, description, existing)


def _head(group: GroupDescription) -> str:
    parts = [group.group_id, group.state, f"type {group.type}", f"assignor {group.assignor or '-'}"]
    if group.group_epoch is not None:
        parts.append(f"epoch {group.group_epoch}")
    return "\t".join([*parts, f"coordinator {group.coordinator.id}", f"members {len(group.members)}"])


def _print_members(group: GroupDescription) -> None:
    columns = ["member", "instance", "client", "host", "partitions"]
    if is_consumer_protocol := group.group_epoch is not None:
        columns += ["epoch", "target", "subscribed"]
    rows = []
    for member in sorted(group.members, key=lambda each: each.member_id):
        row = [member.member_id, member.instance_id or "-", member.client_id, member.host, _places(member.assignment)]
        if is_consumer_protocol:
            row += [str(member.member_epoch), _places(member.target_assignment or ()), _subscription(member)]
        rows.append(row)
    print_table(columns, rows)


def _places(partitions: Iterable[TopicPartition]) -> str:
    return ",".join(map(str, partitions)) or "-"


def _subscription(member: GroupMember) -> str:
    return ",".join([*sorted(member.subscribed_topics or ()), member.subscribed_regex or ""]).strip(",") or "-"


def _print_offsets(admin: Admin, group: GroupDescription, topics: Container[str]) -> None:
    """Print the committed offsets, and the members' partitions without one. `topics`: the topics that exist."""
    from barnabas.clients.calls.offset_lookup import LATEST

    committed = admin.list_group_offsets(group.group_id)
    readers = {partition: member for member in group.members for partition in member.assignment}
    places = sorted(committed.keys() | readers.keys())
    # Topics that were deleted still have committed offsets. A partition without a leader would keep the look-up of its
    # end waiting until the timeout.
    described = admin.describe_topics({place.topic for place in places if place.topic in topics})
    led = {(each.name, info.partition) for each in described.values() for info in each.partitions if info.leader >= 0}
    ends = admin.list_offsets(dict.fromkeys((place for place in places if place in led), LATEST))
    rows = []
    for place in places:
        offset = committed[place].offset if place in committed else None
        end = ends[place].offset if place in ends else None
        lag = None if offset is None or end is None else end - offset
        reader = readers.get(place)
        who = ("-", "-", "-") if reader is None else (reader.member_id, reader.host, reader.client_id)
        rows.append((place.topic, str(place.partition), *map(_number, (offset, end, lag)), *who))
    print_table(("topic", "partition", "committed", "end", "lag", "member", "host", "client"), rows)


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)


@groups.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@admin_options
@click.pass_context
def delete(context: click.Context, names: tuple[str, ...], connect: Connect) -> None:
    """Delete groups that have no members, with their committed offsets.

    \b
        barnabas groups delete billing
    """
    with connect() as admin:
        results = admin.delete_groups(dict.fromkeys(names))
    for name, error in results.items():
        if error is None:
            click.echo(f"{name} deleted")
        else:
            click.echo(f"barnabas: {error.message} ({error.code.name})", err=True)
    if any(results.values()):
        context.exit(EXIT_FAILED)
