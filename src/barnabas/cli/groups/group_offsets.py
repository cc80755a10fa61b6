"""`barnabas groups reset-offsets` and `delete-offsets`: change a group's offsets. Runs on the main thread."""

from __future__ import annotations

import csv
import io
import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from barnabas.cli.client_options import EXIT_FAILED, Connect, admin_options, partitions_of
from barnabas.cli.option_types import OFFSET, SHIFT, parse_timestamp_ms, utc_time
from barnabas.cli.tables import print_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from barnabas.clients.admin import Admin
    from barnabas.clients.admin.group_offset_reset import Reset
    from barnabas.protocol.errors import ApiError
    from barnabas.protocol.topic_partition import TopicPartition

_INACTIVE = ("Empty", "Dead")
_FORMS: Final = {3: "topic,partition,offset", 4: "group,topic,partition,offset"}
"""The forms of a line of --from-file, by the number of its fields."""
_NUMBER: Final = re.compile(r"\s*[0-9]{1,19}\s*", re.ASCII)

topic_option = click.option(
    "--topic",
    "topics",
    metavar="NAME[:PARTITION,...]",
    multiple=True,
    help="These partitions of a topic, or all of them (repeatable).",
)


@click.command("reset-offsets")
@click.argument("name")
@admin_options
@topic_option
@click.option("--all-topics", is_flag=True, help="All partitions that the group has committed offsets for.")
@click.option("--to-earliest", is_flag=True, help="To the earliest offset.")
@click.option("--to-latest", is_flag=True, help="To the end of the log.")
@click.option("--to-current", is_flag=True, help="To the committed offset, or to the end where there is none.")
@click.option("--to-offset", type=SHIFT, metavar="OFFSET", help="To this offset.")
@click.option("--shift-by", type=SHIFT, metavar="N", help="Forward by N offsets, or back when N is negative.")
@click.option(
    "--to-datetime",
    metavar="TIME",
    help="To the first record from this time on, such as 2026-01-31T12:00:00 (UTC unless it has a time zone).",
)
@click.option(
    "--by-duration", metavar="DURATION", help="To the first record of this last span of time, such as P7D or PT1H30M."
)
@click.option(
    "--from-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="To the offsets in a file, which has a line topic,partition,offset for each partition,"
    " or group,topic,partition,offset as Kafka's tool exports several groups.",
)
@click.option("--execute", is_flag=True, help="Commit the new offsets instead of only showing them.")
@click.option("--export", is_flag=True, help="Print the new offsets as lines for --from-file, and nothing else.")
def reset_offsets(
    name: str, connect: Connect, topics: tuple[str, ...], all_topics: bool, execute: bool, export: bool, **places: Any
) -> None:
    """Set the committed offsets of a group without members. Without --execute, only show the new offsets.

    An offset outside of a partition's log is replaced by the nearest one inside it.

    \b
        barnabas groups reset-offsets billing --topic flights --to-earliest
        barnabas groups reset-offsets billing --topic flights:0,3 --shift-by -100 --execute
        barnabas groups reset-offsets billing --all-topics --to-current --export > offsets.csv
        barnabas groups reset-offsets billing --from-file offsets.csv --execute

    \f
    Raises click.UsageError for options that do not go together, or a wrong value.
    """
    from barnabas.clients.admin.group_offset_reset import plan_reset

    with connect() as admin:
        where = _where(places, name)
        from_file = places["from_file"] is not None
        if from_file + bool(topics) + all_topics != 1:
            raise click.UsageError("name the partitions with one of --topic, --all-topics or --from-file")
        # Checked before anything is planned: the coordinator would reject each commit, but only after all look-ups.
        _need_no_members(admin, name)
        committed = {place: each.offset for place, each in admin.list_group_offsets(name).items()}
        partitions = list(committed) if all_topics else [] if from_file else _named_partitions(admin, topics)
        # A file or --all-topics may name partitions of topics that were deleted since.
        if isinstance(where, dict) or all_topics:
            _need_partitions(admin, where if isinstance(where, dict) else partitions)
        planned = plan_reset(admin, name, partitions, where)
        results = admin.alter_group_offsets(name, planned) if execute and planned else {}
    if export:
        _print_csv(planned)
    else:
        _print_plan(planned, committed, results)
    _print_instant(where)
    if not execute and not export:
        click.echo("nothing was changed; --execute would do it", err=True)
    _report_errors(results)


@click.command("delete-offsets")
@click.argument("name")
@admin_options
@topic_option
def delete_offsets(name: str, connect: Connect, topics: tuple[str, ...]) -> None:
    """Delete a group's committed offsets for topics that none of its members subscribes to.

    \b
        barnabas groups delete-offsets billing --topic flights --topic planes:0,1

    \f
    Raises click.UsageError for options that do not go together, or a wrong value.
    """
    if not topics:
        raise click.UsageError("name the partitions with --topic")
    with connect() as admin:
        results = admin.delete_group_offsets(name, _named_partitions(admin, topics))
    for place, error in sorted(results.items()):
        if error is None:
            click.echo(f"{place.topic}\tpartition {place.partition}\tdeleted")
    _report_errors(results)


def _where(places: dict[str, Any], group: str) -> Reset:
    """Return the one target that was given.

    Raises click.UsageError for none or several, ValueError for a text that cannot be read.
    """
    from barnabas.clients.admin.group_offset_reset import ResetTo, ShiftBy, ToOffset, ToTimestamp

    given = {option: value for option, value in places.items() if value is not None and value is not False}
    if len(given) != 1:
        options = ", ".join("--" + option.replace("_", "-") for option in places)
        raise click.UsageError(f"give exactly one of {options}")
    ((option, value),) = given.items()
    match option:
        case "to_offset":
            return ToOffset(value)
        case "shift_by":
            return ShiftBy(value)
        case "to_datetime":
            return ToTimestamp(_timestamp_ms(value))
        case "by_duration":
            return ToTimestamp(_ago_ms(value))
        case "from_file":
            return _read_csv(value.read_text(encoding="utf-8"), group)
        case _:
            return ResetTo[option.removeprefix("to_").upper()]


def _timestamp_ms(text: str) -> int:
    """Read the time of --to-datetime. Raises ValueError."""
    timestamp_ms = parse_timestamp_ms(text)
    if timestamp_ms is None:
        raise ValueError(f"--to-datetime takes a time such as 2026-01-31T12:00:00, not {text!r}")
    return timestamp_ms


def _print_instant(where: Reset) -> None:
    """Show the instant that the offsets were looked up by: a text without a zone may have been meant otherwise."""
    from barnabas.clients.admin.group_offset_reset import ToTimestamp

    if isinstance(where, ToTimestamp):
        click.echo(f"to the first records from {utc_time(where.timestamp_ms)} on", err=True)


def _ago_ms(text: str) -> int:
    """Read the time span of --by-duration. Raises ValueError."""
    from barnabas.clients.consumer.offset_reset import parse_duration_ms

    duration_ms = parse_duration_ms(text)
    if duration_ms is None:
        raise ValueError(f"--by-duration takes a duration such as P7D or PT1H30M, not {text!r}")
    # A negative span looks ahead: to the end of the log, as in Kafka.
    return min(max(int(time.time() * 1000) - duration_ms, 0), OFFSET.max or 0)


def _need_no_members(admin: Admin, name: str) -> None:
    """Check that the group has no members. The group need not exist. Raises ApiError: NON_EMPTY_GROUP."""
    from barnabas.protocol.errors import ApiError, ErrorCode

    try:
        state = admin.describe_groups([name])[name].state
    except ApiError as error:
        # A group that does not exist yet is created by its first commit.
        if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        return
    if state not in _INACTIVE:
        raise ApiError(
            ErrorCode.NON_EMPTY_GROUP,
            f"Assignments can only be reset if the group '{name}' is inactive, but the current state is {state}.",
        )


def _named_partitions(admin: Admin, topics: tuple[str, ...]) -> list[TopicPartition]:
    """Return the partitions of `topic` or `topic:0,3`. Raises ValueError, ApiError for one that does not exist."""
    found = []
    for text in topics:
        name, separator, numbers = text.partition(":")
        words = numbers.split(",") if separator else []
        if not all(word.isdecimal() for word in words):
            raise ValueError(f"--topic takes NAME or NAME:0,3, not {text!r}")
        found += partitions_of(admin, (name,), tuple(map(int, words)))
    return list(dict.fromkeys(found))


def _need_partitions(admin: Admin, partitions: Iterable[TopicPartition]) -> None:
    """Check that the partitions exist, because the look-up of a missing one would only time out.

    Raises ApiError for an unknown topic, ValueError for an unknown partition.
    """
    from barnabas.protocol.topic_partition import by_topic

    for topic, indexes in by_topic(partitions).items():
        partitions_of(admin, (topic,), tuple(indexes))


def _read_csv(text: str, group: str) -> dict[TopicPartition, int]:
    """Read the file of --from-file: lines topic,partition,offset, or group,topic,partition,offset of several groups.

    The first line says which. The last line about a partition counts. Raises ValueError for a line that cannot be read,
    and for a file without a line about the group.
    """
    from barnabas.protocol.topic_partition import TopicPartition

    planned = {}
    width = 0
    reader = csv.reader(io.StringIO(text))
    # Kafka's tool ends what it exports with an empty line.
    for row in filter(None, reader):
        width = width or (len(row) if len(row) in _FORMS else min(_FORMS))
        if len(row) != width or not all(map(_NUMBER.fullmatch, row[-2:])):
            raise ValueError(f"line {reader.line_num} is not {_FORMS[width]}: {','.join(row)}")
        *groups, topic, partition, offset = row
        if not groups or groups == [group]:
            planned[TopicPartition(topic, int(partition))] = int(offset)
    if not planned:
        raise ValueError(f"the file has no offsets for group {group}")
    return planned


def _print_csv(planned: Mapping[TopicPartition, int]) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    for place, offset in sorted(planned.items()):
        writer.writerow((*place, offset))


def _print_plan(
    planned: Mapping[TopicPartition, int],
    committed: Mapping[TopicPartition, int],
    results: Mapping[TopicPartition, ApiError | None],
) -> None:
    """Print the new offsets that were committed, or would be."""
    done = [place for place in sorted(planned) if results.get(place) is None]
    rows = [(place.topic, str(place.partition), str(committed.get(place, "-")), str(planned[place])) for place in done]
    print_table(("topic", "partition", "before", "after"), rows)


def _report_errors(results: Mapping[TopicPartition, ApiError | None]) -> None:
    for place, error in sorted(results.items(), key=lambda result: result[0]):
        if error is not None:
            click.echo(f"barnabas: {place}: {error.message} ({error.code.name})", err=True)
    if any(results.values()):
        sys.exit(EXIT_FAILED)
