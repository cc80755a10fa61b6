"""`barnabas consume`: prints the records of a topic from a given place on, or as a member of a group.

Runs on the main thread; a member of a group has a second thread for its coordinator.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

from barnabas.cli.client_options import bootstrap_option, friendly_errors, timeout_option
from barnabas.cli.option_types import LIMIT, NUMBER, parse_timestamp_ms, resolve_escapes
from barnabas.cli.records.group_reading import GroupOptions, GroupReading
from barnabas.cli.stop_signals import stop_signals

if TYPE_CHECKING:
    from barnabas.clients.consumer import Consumer, ConsumerRecord
    from barnabas.protocol.topic_partition import TopicPartition


POLL_MS = 500
RECORDS_PER_POLL = 5000


@click.command()
@click.argument("topics", metavar="TOPIC...", nargs=-1)
@bootstrap_option
@timeout_option
@click.option("--partition", "partitions", type=NUMBER, multiple=True, help="Only this partition (repeatable).")
@click.option(
    "--from",
    "start",
    metavar="beginning|end|OFFSET|TIME",
    help="Where to begin: an offset, or a time such as 2026-01-31T12:00:00 (UTC unless it has a time zone)."
    " [default: beginning; in a group, its committed offsets, or else the beginning]",
)
@click.option(
    "--group", metavar="GROUP", help="Join this group: read the partitions it assigns, and commit their offsets."
)
@click.option("--pattern", metavar="REGEX", help="In a group: read all topics whose full names match.")
@click.option(
    "--instance-id",
    metavar="ID",
    help="In a group: be the static member of this name, which may restart without a rebalance.",
)
@click.option(
    "--assignor",
    "assignors",
    metavar="NAME",
    multiple=True,
    help="In a group: range, roundrobin, sticky or cooperative-sticky (repeatable, the preferred first).",
)
@click.option("--no-commit", is_flag=True, help="In a group: do not commit.")
@click.option(
    "--max-messages",
    "limit",
    type=LIMIT,
    callback=lambda _context, _option, number: None if number is None or number < 0 else number,
    metavar="N",
    help="Stop after N records; -1 removes the limit.",
)
@click.option("--follow", is_flag=True, help="Wait for new records instead of stopping at the end.")
@click.option("--print-key", is_flag=True, help="Print the key before the value.")
@click.option("--print-timestamp", is_flag=True, help="Print the timestamp and its kind.")
@click.option("--print-partition", is_flag=True, help="Print the number of the partition.")
@click.option("--print-offset", is_flag=True, help="Print the offset.")
@click.option("--print-headers", is_flag=True, help="Print the headers as name:value pairs.")
@click.option(
    "--separator",
    callback=resolve_escapes,
    default=r"\t",
    show_default=True,
    help=r"Printed between the parts of a record; \t, \n, \0 and \xHH are escape sequences.",
)
@click.option(
    "--json",
    "json_lines",
    is_flag=True,
    help="Print each record as a JSON object, with topic, partition, offset, timestamp, headers, key, value.",
)
@click.option("--quiet", is_flag=True, help="Print no summary.")
def consume(
    topics: tuple[str, ...],
    bootstrap_servers: str,
    timeout_seconds: float,
    partitions: tuple[int, ...],
    start: str | None,
    group: str | None,
    pattern: str | None,
    instance_id: str | None,
    assignors: tuple[str, ...],
    no_commit: bool,
    limit: int | None,
    follow: bool,
    print_key: bool,
    print_timestamp: bool,
    print_partition: bool,
    print_offset: bool,
    print_headers: bool,
    separator: str,
    json_lines: bool,
    quiet: bool,
) -> None:
    """Print the records of TOPIC: their values as they are, preceded by the parts that the options name.

    Without other options, prints the records from the beginning to the present end. In a group, reads one or more
    topics from the group's committed offsets on. Without --follow, a group's member stops at the offsets that were the
    ends when it got its partitions. The offsets of printed records are committed.

    \b
        barnabas consume flights
        barnabas consume flights --follow --from end
        barnabas consume flights --from 2026-01-31T12:00 --partition 2 --max-messages 10
        barnabas consume flights --json
        barnabas consume flights --group counters --follow
    """
    from barnabas.clients.consumer import Consumer

    line_of = (
        as_json
        if json_lines
        else RecordFormat(
            separator,
            timestamp=print_timestamp,
            partition=print_partition,
            offset=print_offset,
            headers=print_headers,
            key=print_key,
        )
    )
    timeout_ms = int(timeout_seconds * 1000)
    options = GroupOptions(group, pattern, instance_id, assignors, no_commit)
    options.check(topics, partitions, start)
    with (
        friendly_errors(bootstrap_servers),
        Consumer(bootstrap_servers, **options.settings(start, timeout_ms)) as consumer,
        # A signal ends the polls, so that the written records are committed and the member leaves its group.
        stop_signals(consumer.wakeup),
    ):
        if group is None:
            assigned = _assign(consumer, topics[0], partitions)
            _seek(consumer, assigned, start or "beginning")
            ends = None if follow else consumer.end_offsets(assigned)
            count = _write_records(_records(consumer, ends), line_of, limit)
        else:
            reading = GroupReading(consumer, options, None if follow else timeout_ms, limit)
            reading.subscribe(topics)
            count = _write_records(reading.polls(), line_of, limit, reading.written)
            reading.finish()
    if not quiet:
        click.echo(f"{count:,} record{'' if count == 1 else 's'}", err=True)


def _assign(consumer: Consumer, topic: str, wanted: tuple[int, ...]) -> list[TopicPartition]:
    """Assign the wanted partitions, or all. Raises ValueError for one that does not exist, ApiError, ClientTimeout."""
    from barnabas.protocol.errors import ApiError, ErrorCode
    from barnabas.protocol.topic_partition import TopicPartition

    existing = {info.partition for info in consumer.partitions_for(topic)}
    if not existing:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {topic}")
    if missing := sorted(set(wanted) - existing):
        raise ValueError(f"{topic} has no partition {missing[0]}; it has {len(existing)}, counted from 0")
    assigned = [TopicPartition(topic, partition) for partition in sorted(wanted or existing)]
    consumer.assign(assigned)
    return assigned


def _seek(consumer: Consumer, assigned: list[TopicPartition], start: str) -> None:
    """Move to the start that the user wants. Raises ValueError for a text that is no place, or an offset beyond all."""
    if start == "beginning":
        consumer.seek_to_beginning()
    elif start == "end":
        consumer.seek_to_end()
    elif start.isdecimal():
        ends = consumer.end_offsets(assigned)
        largest = max(ends.values())
        if int(start) > largest:
            raise ValueError(f"--from {start} is beyond the end of the log: the next offset is {largest}")
        for topic_partition, end in ends.items():
            # A fetch beyond the end would be answered OFFSET_OUT_OF_RANGE, and the consumer would reset the position to
            # the beginning.
            consumer.seek(topic_partition, min(int(start), end))
    else:
        timestamp_ms = parse_timestamp_ms(start)
        if timestamp_ms is None:
            raise ValueError(f"--from takes beginning, end, an offset or a time, not {start!r}")
        for topic_partition, found in consumer.offsets_for_times(dict.fromkeys(assigned, timestamp_ms)).items():
            # No record is that young, so reading begins with the next one.
            if found is None:
                consumer.seek_to_end([topic_partition])
            else:
                consumer.seek(topic_partition, found.offset)


def _records(consumer: Consumer, ends: dict[TopicPartition, int] | None) -> Iterator[list[ConsumerRecord]]:
    """Yield the polls of the consumer until every partition is at its end, or without end if `ends` is None."""
    ends_by_partition = {each.partition: end for each, end in (ends or {}).items()}
    # `position` looks up an offset that is not known yet, so a partition without records counts as read too.
    while ends is None or any(consumer.position(each) < end for each, end in ends.items()):
        records = consumer.poll(POLL_MS, RECORDS_PER_POLL)
        # Records that were produced after the start are left out.
        if ends is not None:
            records = [record for record in records if record.offset < ends_by_partition[record.partition]]
        if records:
            yield records


def _write_records(
    polls: Iterator[list[ConsumerRecord]],
    line_of: Callable[[Any], bytes],
    limit: int | None,
    on_written: Callable[[list[ConsumerRecord]], None] | None = None,
) -> int:
    """Write records to stdout, with one write for each poll, and return their number. Ctrl-C or a signal ends it."""
    from barnabas.clients.errors import WokenUp

    out = sys.stdout.buffer
    count = 0
    if limit == 0:
        return count
    try:
        for records in polls:
            wanted = records if limit is None else records[: limit - count]
            out.write(b"".join(line_of(record) + b"\n" for record in wanted))
            out.flush()
            # Called after the flush: a record is committed only when the reader of this output can have it.
            if on_written is not None:
                on_written(wanted)
            count += len(wanted)
            if count == limit:
                break
    except KeyboardInterrupt:
        click.echo(err=True)
    except WokenUp:
        # SIGTERM or SIGHUP. `wakeup` acts only inside a poll, so no write is cut in half.
        pass
    return count


# -- the forms of a record

TIMESTAMP_NAMES = {0: b"CreateTime", 1: b"LogAppendTime"}
NULL = b"null"


class RecordFormat:
    """A maker of one line for each record, in the form of Kafka's console consumer.

    Timestamp, partition, offset, headers and key come first, each if it is wanted, then the value.
    """

    def __init__(
        self, separator: str, *, timestamp: bool, partition: bool, offset: bool, headers: bool, key: bool
    ) -> None:
        self._separator = separator.encode()
        self._timestamp = timestamp
        self._partition = partition
        self._offset = offset
        self._headers = headers
        self._key = key

    def __call__(self, record: ConsumerRecord) -> bytes:
        """Return the line, without its end. Bytes of keys and values are left as they are."""
        parts = []
        if self._timestamp:
            name = TIMESTAMP_NAMES.get(record.timestamp_type, b"NoTimestampType")
            parts.append(b"%s:%d" % (name, record.timestamp_ms))
        if self._partition:
            parts.append(b"Partition:%d" % record.partition)
        if self._offset:
            parts.append(b"Offset:%d" % record.offset)
        if self._headers:
            pairs = (b"%s:%s" % (name.encode(), _or_null(value)) for name, value in record.headers)
            parts.append(b",".join(pairs) or b"NO_HEADERS")
        if self._key:
            parts.append(_or_null(record.key))
        parts.append(_or_null(record.value))
        return self._separator.join(parts)


def as_json(record: ConsumerRecord) -> bytes:
    """Return the whole record as one JSON object. Bytes that are not UTF-8 become {"base64": ...}."""
    fields: dict[str, Any] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        # Headers are a list of pairs, because a record may have several with the same name.
        "headers": [[name, _json_text(value)] for name, value in record.headers],
        "key": _json_text(record.key),
        "value": _json_text(record.value),
    }
    return json.dumps(fields, ensure_ascii=False).encode()


def _or_null(data: bytes | None) -> bytes:
    return NULL if data is None else bytes(data)


def _json_text(data: bytes | None) -> str | dict[str, str] | None:
    if data is None:
        return None
    try:
        return bytes(data).decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}
