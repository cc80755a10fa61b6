"""The options that the `perf` commands share, as one object; client settings as text; the printing of results.

Used by `perf_produce`, `perf_consume` and `perf_end_to_end`, on the main thread. No state.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import click

from barnabas.cli.client_options import (
    BOOTSTRAP_TIMEOUT_MS,
    EXIT_INTERRUPTED,
    Option,
    command_settings,
    fail,
    option_stack,
    parse_pairs,
    parsed_value,
)
from barnabas.cli.option_types import COUNT, NUMBER
from barnabas.cli.perf.perf_counts import Figures, PerfCounts
from barnabas.cli.tables import json_option
from barnabas.config.config_error import nearest_name

topic_option = click.option("--topic", required=True, metavar="TOPIC", help="The topic, with any number of partitions.")
measuring_options = option_stack(
    click.option(
        "--warmup",
        type=NUMBER,
        default=0,
        metavar="N",
        help="Records before the measured ones, which count for nothing.",
    ),
    click.option(
        "--property",
        "properties",
        multiple=True,
        metavar="NAME=VALUE",
        help="A setting of the client by Kafka's name, such as fetch.min.bytes=1000 (repeatable).",
    ),
    click.option(
        "--interval",
        "interval_seconds",
        type=click.FloatRange(min=0.05),
        metavar="SECONDS",
        help="How often progress is shown.  [default: 1 on a terminal, else 5]",
    ),
    json_option,
)
"""The options that the commands end with: those of PerfOptions but for brokers and topic."""
_sending_options = option_stack(
    click.option(
        "--throughput",
        type=float,
        default=-1.0,
        metavar="RECORDS/SEC",
        help="The wanted rate; -1 or any negative number for as fast as possible.",
    ),
    click.option("--acks", type=click.Choice(["0", "1", "all"]), default="all", show_default=True),
    click.option(
        "--compression",
        type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]),
        default="none",
        show_default=True,
        help="How batches are compressed.",
    ),
    click.option("--linger-ms", type=NUMBER, metavar="MS", help="How long a batch waits for more records."),
    click.option("--batch-size", type=NUMBER, metavar="BYTES", help="How large a batch grows."),
)


def records_option(default: int | None, help_text: str) -> Option:
    """Return the option `--records` with this default."""
    return click.option("--records", type=COUNT, default=default, show_default=True, metavar="N", help=help_text)


def sending_options(records: int, least_size: int) -> Option:
    """Return what adds the options of SendingOptions. records: how many are the default. least_size: in bytes."""
    size = click.IntRange(least_size, 1 << 30)
    return option_stack(
        topic_option,
        records_option(records, "How many records to send."),
        click.option("--size", type=size, default=100, show_default=True, metavar="BYTES", help="Of each value."),
        _sending_options,
        measuring_options,
    )


@dataclass(frozen=True, kw_only=True)
class PerfOptions:
    """The options of each `perf` command, named like the parameters that click passes."""

    bootstrap_servers: str
    topic: str
    warmup: int
    properties: tuple[str, ...]
    interval_seconds: float | None
    as_json: bool

    @property
    def progress_seconds(self) -> float:
        """The seconds between two lines of progress."""
        if self.interval_seconds is not None:
            return self.interval_seconds
        return 1.0 if sys.stderr.isatty() else 5.0

    def settings(self, config_class: type[Any], *defaults: str, **given: object) -> dict[str, Any]:
        """Return a client's settings: `defaults`, over them the command's file, `--property`, and `given`.

        Raises ValueError for a setting that the client does not have, and for a value of the wrong type.
        """
        return {
            **parse_settings(config_class, defaults, bootstrap_timeout_ms=BOOTSTRAP_TIMEOUT_MS),
            **command_settings(config_class),
            **parse_settings(config_class, self.properties, **given),
        }


@dataclass(frozen=True, kw_only=True)
class SendingOptions(PerfOptions):
    """The options of the commands that send records."""

    records: int
    size: int
    throughput: float
    acks: str
    compression: str
    linger_ms: int | None
    batch_size: int | None

    @property
    def rate(self) -> float | None:
        """The records per second, or None for no limit. Raises click.UsageError for 0."""
        return wanted_rate(self.throughput)

    def producer_settings(self, config_class: type[Any]) -> dict[str, Any]:
        """Return the producer's settings. Raises ValueError for a wrong `--property`."""
        return self.settings(
            config_class,
            acks="all" if self.acks == "all" else int(self.acks),
            compression_type=self.compression,
            linger_ms=self.linger_ms,
            batch_size=self.batch_size,
        )


@dataclass(frozen=True, kw_only=True)
class ReadingOptions(PerfOptions):
    """The options of the command that reads records. `records`: None for all that come."""

    records: int | None
    group: str | None
    idle_seconds: float


def wanted_rate(throughput: float) -> float | None:
    """Return the records per second, or None for no limit. Raises click.UsageError for 0 and NaN."""
    if throughput < 0:
        return None
    # Kafka's tools wait for ever at a rate of 0.
    if not throughput > 0:
        raise click.UsageError(f"--throughput takes records per second, or -1 for no limit, not {throughput:g}")
    return throughput


def parse_settings(config_class: type[Any], properties: tuple[str, ...], **given: object) -> dict[str, Any]:
    """Return a client's settings: those of `--property`, and over them those of other options that are not None.

    Raises ValueError for a setting that the client does not have, and for a value of the wrong type.
    """
    from barnabas.clients.settings.notation import settings_of

    known = {setting.kafka_name: setting for setting in settings_of(config_class)}
    settings: dict[str, Any] = {}
    for text_name, text in parse_pairs(properties, "--property").items():
        name = text_name.replace("_", ".")
        if name not in known:
            near = nearest_name(name, known)
            hint = f"did you mean {near}?" if near is not None else "docs/client-settings.md lists all"
            raise ValueError(f"--property: there is no setting {text_name}; {hint}")
        settings[known[name].name] = parsed_value(name, known[name].type, text, "--property")
    settings.update({name: value for name, value in given.items() if value is not None})
    return settings


def summary_of(counts: PerfCounts) -> str:
    """Return rates and latencies as one line, in the form of Kafka's kafka-producer-perf-test.sh."""
    figures, latency = counts.total(), counts.latency()
    return (
        f"{figures.records} records sent, {figures.records_per_second:.1f} records/sec"
        f" ({figures.megabytes_per_second:.2f} MB/sec), {latency.average_ms:.2f} ms avg latency,"
        f" {latency.max_ms:.2f} ms max latency, {latency.p50_ms:.2f} ms 50th, {latency.p95_ms:.2f} ms 95th,"
        f" {latency.p99_ms:.2f} ms 99th, {latency.p999_ms:.2f} ms 99.9th."
    )


def rates_of(figures: Figures) -> dict[str, object]:
    """Return the rates for JSON."""
    return {
        "records": figures.records,
        "seconds": round(figures.seconds, 6),
        "records_per_second": round(figures.records_per_second, 3),
        "megabytes": round(figures.megabytes, 6),
        "megabytes_per_second": round(figures.megabytes_per_second, 6),
    }


def result_of(counts: PerfCounts) -> dict[str, object]:
    """Return rates and latencies for JSON."""
    latency = {name.removesuffix("_ms"): round(value, 3) for name, value in counts.latency()._asdict().items()}
    return {**rates_of(counts.total()), "latency_ms": latency}


def print_sent(command: str, options: SendingOptions, counts: PerfCounts, *, interrupted: bool) -> None:
    """Print the result of a command that sends records. Raises SystemExit: a record failed, or after Ctrl-C."""
    if counts.errors and not interrupted:
        fail(f"{counts.errors[0]}; {counts.total().records:,} records had arrived before")
    result = {"command": command, "topic": options.topic, "size": options.size, **result_of(counts)}
    print_result(summary_of(counts), result, as_json=options.as_json, interrupted=interrupted)


def print_result(summary: str, result: Mapping[str, object], *, as_json: bool, interrupted: bool) -> None:
    """Print the result, and end the process with the status of Ctrl-C if the run was interrupted. Raises SystemExit."""
    click.echo(json.dumps({**result, "interrupted": interrupted}) if as_json else summary)
    if interrupted:
        sys.exit(EXIT_INTERRUPTED)
