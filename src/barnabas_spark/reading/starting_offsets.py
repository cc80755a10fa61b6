"""Resolves the starting and ending positions of the options to offsets, and keeps a stream's start.

Called by the readers on the driver. `BrokerOffsets` is the part of a broker that they need. No state; the file of a
kept start is written once, atomically.

A stream's start is noted in Spark's log with the end of the first micro-batch (`stream_reader`). Until that micro-batch
is planned, Spark's Python sources have no place in the checkpoint where they could note which offsets "latest" stands
for. A stream that fails before may keep its start in a directory of its own (option `startingOffsetsLocation`), which
should go when the checkpoint does: pipelines have it in there. The options that the start was found by are kept with
it, and a start of other options is found anew.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from typing import Protocol

from barnabas.protocol.topic_partition import TopicPartition
from barnabas_spark.options.option_values import OptionError
from barnabas_spark.options.position_options import Position, TimestampPosition
from barnabas_spark.options.source_options import SourceOptions, report_data_loss
from barnabas_spark.topic_offsets import (
    EARLIEST,
    LATEST,
    Offsets,
    offsets_from_json,
    offsets_from_parsed,
    offsets_to_json,
)

_FILE_NAME = "starting-offsets.json"
_FOUND_BY = "foundBy"
"""The key of the options in that file. In files of earlier versions all keys are topics, with objects."""


class TopicMissing(Exception):
    """A topic that a query reads does not exist, or was deleted while the query ran."""


class BrokerOffsets(Protocol):
    """The questions about offsets that the source asks a broker."""

    def topics(self) -> list[str]:
        """Return the names of all topics but the internal ones."""

    def partitions(self, topics: Sequence[str]) -> list[TopicPartition]:
        """Return all partitions of the topics. Raises TopicMissing if a topic does not exist."""

    def earliest(self, partitions: Sequence[TopicPartition]) -> Offsets:
        """Return the first offset that each partition still has."""

    def latest(self, partitions: Sequence[TopicPartition]) -> Offsets:
        """Return the offset after the last record of each partition that a consumer may see."""

    def latest_from(self, known: Offsets, partitions: Sequence[TopicPartition]) -> Offsets:
        """Return the same, asked for again while it is before what is `known` to have been read."""

    def at_timestamps(self, timestamps_ms: Mapping[TopicPartition, int]) -> Offsets:
        """Return the first offset of each partition that is not older than its time, or -1 if there is none."""


def partitions_to_read(options: SourceOptions, broker: BrokerOffsets) -> list[TopicPartition]:
    """Return the partitions that are subscribed or assigned. Raises OptionError if an assigned one does not exist."""
    choice = options.choice
    if choice.topics:
        return broker.partitions(choice.topics)
    if choice.pattern is not None:
        # Topics may be created at any time, so each micro-batch asks for their names again.
        pattern = re.compile(choice.pattern)
        # Spark's Kafka source too takes a topic if the expression matches a part of its name.
        names = [name for name in broker.topics() if pattern.search(name)]
        return broker.partitions(names) if names else []
    existing = set(broker.partitions(sorted({partition.topic for partition in choice.assigned})))
    for partition in choice.assigned:
        if partition not in existing:
            count = sum(1 for other in existing if other.topic == partition.topic)
            raise OptionError(
                f"option 'assign' names {partition}, but topic {partition.topic!r} has {count} partitions"
            )
    return list(choice.assigned)


def resolve(option: str, position: Position, partitions: Sequence[TopicPartition], broker: BrokerOffsets) -> Offsets:
    """Return the offsets of all `partitions` at a position. Raises OptionError if it names other partitions."""
    if position == "earliest":
        return broker.earliest(partitions)
    if position == "latest":
        return broker.latest(partitions)
    if isinstance(position, TimestampPosition):
        return _resolve_timestamps(position, partitions, broker)
    _check_partitions(option, position, partitions)
    early = [partition for partition, offset in position.items() if offset == EARLIEST]
    late = [partition for partition, offset in position.items() if offset == LATEST]
    found = dict(position)
    found.update(broker.earliest(early) if early else {})
    found.update(broker.latest(late) if late else {})
    return found


def _resolve_timestamps(
    position: TimestampPosition, partitions: Sequence[TopicPartition], broker: BrokerOffsets
) -> Offsets:
    """Return the offsets of a time. Raises OptionError if a partition has no record that is as young, by choice."""
    if isinstance(position.timestamps_ms, int):
        timestamps_ms: Mapping[TopicPartition, int] = dict.fromkeys(partitions, position.timestamps_ms)
    else:
        timestamps_ms = position.timestamps_ms
        _check_partitions(position.option, timestamps_ms, partitions)
    found = broker.at_timestamps(timestamps_ms)
    without_match = sorted(partition for partition, offset in found.items() if offset < 0)
    if without_match and position.without_match == "error":
        partition = without_match[0]
        end = broker.latest([partition])[partition]
        raise OptionError(
            f"option {position.option!r}: {partition}, which ends at offset {end}, has no record at or after"
            f" {timestamps_ms[partition]} ms; to start such a partition at its end, set option"
            " 'startingOffsetsByTimestampStrategy' to latest"
        )
    return found | (broker.latest(without_match) if without_match else {})


def _check_partitions(
    option: str, position: Mapping[TopicPartition, int], partitions: Sequence[TopicPartition]
) -> None:
    """Check that a position names exactly the partitions that are read. Raises OptionError."""
    missing, unknown = sorted(set(partitions) - set(position)), sorted(set(position) - set(partitions))
    if missing or unknown:
        wrong = f"{missing[0]} is missing" if missing else f"{unknown[0]} is not read by this query"
        raise OptionError(
            f"option {option!r} must give a value for exactly the partitions that are read (of offsets, -2 is the"
            f" earliest and -1 the latest): {wrong}"
        )


def first_offsets(options: SourceOptions, broker: BrokerOffsets) -> Offsets:
    """Return the start of a stream that has no checkpoint yet. A kept start of these options is returned again.

    Raises DataLoss for an offset beyond the end of its partition, OptionError, TopicMissing, OSError.
    """
    location = options.starting_offsets_location
    kept = None if location is None else _read(location, _found_by(options))
    if kept is not None:
        return kept
    offsets = resolve("startingOffsets", options.starting, partitions_to_read(options, broker), broker)
    if isinstance(options.starting, dict):
        _report_beyond_end(options, offsets, broker)
    if location is not None:
        _write(location, offsets, _found_by(options))
    return offsets


def _found_by(options: SourceOptions) -> str:
    """Return the options that a start depends on, as text."""
    return f"{options.choice} {options.starting}"


def _report_beyond_end(options: SourceOptions, offsets: Offsets, broker: BrokerOffsets) -> None:
    """Report starts beyond the end, before they are kept: a kept start outlives the option. Raises DataLoss."""
    ends = broker.latest_from(offsets, list(offsets))
    for partition, offset in sorted(offsets.items()):
        if offset > ends[partition]:
            report_data_loss(
                options,
                f"option 'startingOffsets' gives {offset} for {partition}, which ends at offset {ends[partition]}",
            )


def _read(location: str, found_by: str) -> Offsets | None:
    """Return the kept start, or None if there is none of these options. Raises OptionError for a damaged file."""
    path = os.path.join(location, _FILE_NAME)
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        kept = json.loads(text)
        if not isinstance(kept, dict) or not isinstance(kept.get(_FOUND_BY), str):
            # An earlier version has kept the offsets alone.
            return offsets_from_json(text)
        return offsets_from_parsed(kept["offsets"]) if kept[_FOUND_BY] == found_by else None
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, AttributeError) as error:
        raise OptionError(f"{path} (option 'startingOffsetsLocation') holds no offsets: {error}") from None


def _write(location: str, offsets: Offsets, found_by: str) -> None:
    os.makedirs(location, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=location)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        json.dump({"offsets": offsets_to_json(offsets), _FOUND_BY: found_by}, file)
        file.flush()
        # Synced before the rename, or a crash of the machine could leave an empty file that counts as the start.
        os.fsync(file.fileno())
    os.replace(temporary, os.path.join(location, _FILE_NAME))
