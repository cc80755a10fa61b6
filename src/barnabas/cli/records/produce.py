"""`barnabas produce`: sends the lines of stdin or of a file as records of a topic.

Runs on the main thread. The results of records arrive on the producer's network thread, which only appends failures to
a list.
"""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from barnabas.cli.client_options import (
    BOOTSTRAP_TIMEOUT_MS,
    bootstrap_option,
    check_place,
    command_settings,
    fail,
    friendly_errors,
    parse_pairs,
    timeout_option,
)
from barnabas.cli.option_types import NUMBER, resolve_escapes

if TYPE_CHECKING:
    from barnabas.clients.producer import RecordMetadata

LINGER_MS = 5
# Larger than the producer's default of 16 KB: lines come faster than batches leave, so small batches would only add
# requests.
BATCH_SIZE_BYTES = 131_072


@click.command()
@click.argument("topic")
@click.argument("file", type=click.File("rb"), default="-")
@bootstrap_option
@timeout_option
@click.option(
    "--key-separator",
    callback=resolve_escapes,
    metavar="TEXT",
    help=r"Split each line at its first TEXT: the key before it, the value behind it; \t is a tab. [default: no keys]",
)
# Without escape sequences: \N, the usual mark of databases, is meant literally.
@click.option(
    "--null-marker", metavar="TEXT", help="A key or value that equals this text is null. A null value is a tombstone."
)
@click.option("--header", "headers", multiple=True, metavar="NAME=VALUE", help="A header of every record (repeatable).")
@click.option("--partition", type=NUMBER, help="Send to this partition, whatever the key.")
@click.option(
    "--compression",
    type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]),
    default="none",
    show_default=True,
    help="The codec that batches are compressed with.",
)
@click.option(
    "--acks",
    type=click.Choice(["0", "1", "all"]),
    default="all",
    show_default=True,
    help="The replicas that must have a record: none, the leader, or all in sync.",
)
@click.option("--quiet", is_flag=True, help="Print no progress and no summary.")
def produce(
    topic: str,
    file: BinaryIO,
    bootstrap_servers: str,
    timeout_seconds: float,
    key_separator: str | None,
    null_marker: str | None,
    headers: tuple[str, ...],
    partition: int | None,
    compression: str,
    acks: str,
    quiet: bool,
) -> None:
    """Send the lines of FILE to TOPIC, each as one record. Without FILE, read stdin.

    \b
        barnabas produce flights < lines.txt
        barnabas produce flights lines.txt --key-separator : --header source=import --compression zstd
        barnabas produce flights --key-separator '\\t' --null-marker NULL
    """
    from barnabas.clients.producer import Producer, ProducerConfig

    record_headers = tuple((name, value.encode()) for name, value in parse_pairs(headers, "--header").items())
    separator = key_separator.encode() if key_separator else None
    null = null_marker.encode() if null_marker is not None else None
    failures = _Failures()
    timeout_ms = int(timeout_seconds * 1000)
    started_seconds = time.perf_counter()
    count = 0
    with friendly_errors(bootstrap_servers):
        settings: dict[str, Any] = {
            "linger_ms": LINGER_MS,
            "batch_size": BATCH_SIZE_BYTES,
            **command_settings(ProducerConfig),
            "acks": "all" if acks == "all" else int(acks),
            "compression_type": compression,
            "max_block_ms": timeout_ms,
            "request_timeout_ms": timeout_ms,
            "bootstrap_timeout_ms": BOOTSTRAP_TIMEOUT_MS,
        }
        # The timeout covers everything from `send` to the answer, so it must be at least linger and request timeout
        # together.
        settings["delivery_timeout_ms"] = timeout_ms + settings["linger_ms"]
        producer = Producer(bootstrap_servers, ProducerConfig(**settings))
        with producer:
            for number, line in enumerate(_lines(file, show_progress=not quiet), 1):
                if number == 1:
                    check_place(producer, topic, timeout_ms, partition)
                key, value = _split(line, separator, number)
                producer.send(
                    topic,
                    None if value == null else value,
                    None if key == null else key,
                    headers=record_headers,
                    partition=partition,
                    on_delivery=failures.note,
                )
                count += 1
                # The rest would fail for the same reason, line by line.
                if failures.errors:
                    break
            producer.flush()
    if failures.errors:
        fail(f"{len(failures.errors)} of {count} records were not written; the first because: {failures.errors[0]}")
    if not quiet:
        seconds = time.perf_counter() - started_seconds
        records = "record" if count == 1 else "records"
        click.echo(f"{count:,} {records} sent to {topic} in {seconds:.2f} s ({count / seconds:,.0f}/s)", err=True)


class _Failures:
    """The errors of records. The producer's thread only appends to a list."""

    def __init__(self) -> None:
        self.errors: list[BaseException] = []

    def note(self, metadata: RecordMetadata | None, error: BaseException | None) -> None:
        """Keep a record's error, if it has one. Called on the producer's thread."""
        if error is not None:
            self.errors.append(error)


def _split(line: bytes, separator: bytes | None, number: int) -> tuple[bytes | None, bytes]:
    """Return the key and the value of a line. Raises ValueError, with its number, for one without the separator."""
    if separator is None:
        return None, line
    key, found, value = line.partition(separator)
    if not found:
        shown = line[:100].decode(errors="replace")
        raise ValueError(
            f"no key separator {separator.decode()!r} in line {number}, {shown!r}; earlier lines were sent"
        )
    return key, value


def _lines(file: BinaryIO, *, show_progress: bool) -> Iterator[bytes]:
    """Yield the file's lines without their ends, with a progress bar on a terminal if the file's size is known."""
    size_bytes = _size_of(file)
    if not show_progress or size_bytes is None or not sys.stderr.isatty():
        for line in file:
            yield line.rstrip(b"\r\n")
        return
    with click.progressbar(length=size_bytes, label="Sending", file=sys.stderr) as progress:
        for line in file:
            yield line.rstrip(b"\r\n")
            progress.update(len(line))


def _size_of(file: BinaryIO) -> int | None:
    """Return the size of a regular file in bytes, or None for a pipe, a terminal or a file without a descriptor."""
    try:
        status = os.fstat(file.fileno())
    except OSError:
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None
