"""Where a query starts and ends, from the options: by time, by time of each partition, by word or by offset.

Called by `source_options` on the driver; pure functions, no lock. Kafka's connector: getKafkaOffsetRangeLimit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast

from barnabas.protocol.topic_partition import TopicPartition
from barnabas_spark.options.option_table import (
    ENDING_OFFSETS,
    ENDING_OFFSETS_BY_TIMESTAMP,
    ENDING_TIMESTAMP,
    STARTING_OFFSETS,
    STARTING_OFFSETS_BY_TIMESTAMP,
    STARTING_OFFSETS_BY_TIMESTAMP_STRATEGY,
    STARTING_TIMESTAMP,
    Option,
)
from barnabas_spark.options.option_values import DeclaredOptions, OptionError
from barnabas_spark.topic_offsets import EARLIEST, LATEST, Offsets, offsets_from_json, timestamps_from_json


@dataclass(frozen=True, slots=True)
class TimestampPosition:
    """The first record of each partition that is not older than a time."""

    option: str
    """The option that gave the time, for errors."""
    timestamps_ms: int | Mapping[TopicPartition, int]
    """One time for all partitions, or the time of each."""
    without_match: Literal["error", "latest"]
    """What stands for a partition without such a record."""


Position: TypeAlias = Literal["earliest", "latest"] | Offsets | TimestampPosition


def starting_position(options: DeclaredOptions, *, streaming: bool | None) -> Position:
    """Return where a query starts. `streaming`: None while it is not known. Raises OptionError."""
    strategy = cast("Literal['error', 'latest']", options.word(STARTING_OFFSETS_BY_TIMESTAMP_STRATEGY))
    by_time = _by_time(options, STARTING_TIMESTAMP, STARTING_OFFSETS_BY_TIMESTAMP, strategy)
    if by_time is not None:
        return by_time
    position = _position(options, STARTING_OFFSETS, "latest" if streaming else "earliest")
    if streaming is False and (position == "latest" or (isinstance(position, dict) and LATEST in position.values())):
        options.reject(
            STARTING_OFFSETS.name,
            "earliest, or offsets from 0 on or -2 for the earliest: a batch query ends at the latest",
        )
    return position


def ending_position(options: DeclaredOptions) -> Position:
    """Return where a batch query ends. Raises OptionError."""
    by_time = _by_time(options, ENDING_TIMESTAMP, ENDING_OFFSETS_BY_TIMESTAMP, "latest")
    if by_time is not None:
        return by_time
    position = _position(options, ENDING_OFFSETS, "latest")
    if position == "earliest" or (isinstance(position, dict) and EARLIEST in position.values()):
        options.reject(
            ENDING_OFFSETS.name, "latest or offsets from 0 or -1 (latest) on: nothing lies before the earliest"
        )
    return position


def check_order(start: Position, end: Position) -> None:
    """Compare a batch query's start with its end, both given by partition. Raises OptionError.

    Positions that only a broker can resolve are not compared.
    """
    if isinstance(start, dict) and isinstance(end, dict):
        _check_order(STARTING_OFFSETS.name, start, ENDING_OFFSETS.name, end)
    if not isinstance(start, TimestampPosition) or not isinstance(end, TimestampPosition):
        return
    if isinstance(start.timestamps_ms, Mapping) and isinstance(end.timestamps_ms, Mapping):
        _check_order(start.option, start.timestamps_ms, end.option, end.timestamps_ms)


def _check_order(
    start_option: str, starts: Mapping[TopicPartition, int], end_option: str, ends: Mapping[TopicPartition, int]
) -> None:
    for partition in sorted(starts.keys() ^ ends.keys()):
        missing = end_option if partition in starts else start_option
        raise OptionError(
            f"options {start_option!r} and {end_option!r} must name the same partitions; {missing!r} lacks {partition}"
        )
    for partition, start in sorted(starts.items()):
        if start > ends[partition] >= 0:
            raise OptionError(
                f"option {start_option!r} gives {start} for {partition}, which is beyond the {ends[partition]} of"
                f" option {end_option!r}"
            )


def _by_time(
    options: DeclaredOptions, for_all: Option, by_partition: Option, without_match: Literal["error", "latest"]
) -> TimestampPosition | None:
    timestamp_ms = options.optional_number(for_all)
    if timestamp_ms is not None:
        return TimestampPosition(for_all.name, timestamp_ms, without_match)
    text = options.text(by_partition.name)
    if text is None:
        return None
    try:
        return TimestampPosition(by_partition.name, timestamps_from_json(text), without_match)
    except ValueError as error:
        return options.reject(by_partition.name, f'JSON such as {{"topic": {{"0": 1700000000000}}}}: {error}')


def _position(options: DeclaredOptions, option: Option, default: Literal["earliest", "latest"]) -> Position:
    text = options.text(option.name)
    word = (text or default).strip().lower()
    if word == "earliest":
        return "earliest"
    if word == "latest":
        return "latest"
    try:
        return offsets_from_json(text or "")
    except ValueError as error:
        options.reject(option.name, f'earliest, latest or JSON such as {{"topic": {{"0": 23, "1": -2}}}}: {error}')
