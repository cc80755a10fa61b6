"""The options of `format("barnabas-log")`, checked once. Where Spark's Kafka source has an option, the name is its.

Made on the driver, pickled into each task; frozen, so no lock.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, TypeAlias

from barnabas.protocol.topic_partition import TopicPartition
from barnabas_spark.options.option_values import OptionError, OptionValues
from barnabas_spark.topic_offsets import EARLIEST, LATEST, Offsets, offsets_from_json, partitions_from_json

DEFAULT_SPLIT_BYTES = 128 << 20
"""The size of Spark's own file splits (spark.sql.files.maxPartitionBytes)."""

_KNOWN = (
    "assign",
    "endOfLog",
    "endingOffsets",
    "endingOffsetsByTimestamp",
    "endingTimestamp",
    "failOnDataLoss",
    "includeHeaders",
    "isolation.level",
    "kafka.check.crcs",
    "kafka.isolation.level",
    "path",
    "pushFilters",
    "sidecars",
    "splitBytes",
    "startingOffsets",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "startingTimestamp",
    "subscribe",
    "subscribePattern",
    "topic",
)
_CHOICES_OF_TOPICS = ("topic", "subscribe", "subscribePattern", "assign")

Edge: TypeAlias = Literal["earliest", "latest"]


@dataclass(frozen=True, slots=True)
class LogPosition:
    """Where a read begins or ends: the first of these that is given. A partition that is not named is at `edge`."""

    edge: Edge
    offsets: Offsets | None = None
    timestamp_ms: int | None = None
    """The first record of each partition that is not older."""
    timestamps_ms: Offsets | None = None
    """The same, by partition."""
    after_last_is_error: bool = True
    """Whether a starting timestamp behind a partition's last record is an error."""


class LogTopicChoice(NamedTuple):
    """The choice of topics; one of the three is given."""

    names: tuple[str, ...] = ()
    pattern: str | None = None
    assigned: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True)
class LogSourceOptions:
    """The options of a read of log files."""

    paths: tuple[str, ...]
    choice: LogTopicChoice
    starting: LogPosition
    ending: LogPosition
    read_committed: bool
    to_log_end: bool
    """Whether records above the checkpointed high watermark are read."""
    fail_on_data_loss: bool
    include_headers: bool | None
    """Whether headers are read. None: not given, so a schema that names the column decides."""
    split_bytes: int
    check_crcs: bool
    push_filters: bool
    use_sidecars: bool
    """Whether the Parquet copies of segments are read where there are any."""

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> LogSourceOptions:
        """Check the options. Raises OptionError."""
        options = OptionValues(given)
        options.refuse("kafka.bootstrap.servers", "has no place here: files are read, without a broker")
        options.check_names(_KNOWN)
        strategy = options.choice("startingOffsetsByTimestampStrategy", "error", ("error", "latest"))
        isolation = "isolation.level" if "isolation.level" in options else "kafka.isolation.level"
        return cls(
            paths=_paths(options),
            choice=_choice_of_topics(options),
            starting=replace(_position(options, "starting", "earliest"), after_last_is_error=strategy == "error"),
            ending=_position(options, "ending", "latest"),
            read_committed=options.choice(isolation, "read_uncommitted", ("read_uncommitted", "read_committed"))
            == "read_committed",
            to_log_end=options.choice("endOfLog", "highwatermark", ("highwatermark", "logend")) == "logend",
            fail_on_data_loss=options.boolean("failOnDataLoss", default=True),
            include_headers=options.boolean("includeHeaders", default=False) if "includeHeaders" in options else None,
            split_bytes=options.integer("splitBytes", DEFAULT_SPLIT_BYTES) or DEFAULT_SPLIT_BYTES,
            check_crcs=options.boolean("kafka.check.crcs", default=True),
            push_filters=options.boolean("pushFilters", default=False),
            use_sidecars=options.boolean("sidecars", default=True),
        )


def _paths(options: OptionValues) -> tuple[str, ...]:
    """Return the directories, separated by commas as in `log.dirs`. Raises OptionError."""
    text = options.required("path", "/var/lib/barnabas")
    paths = [path.strip().removeprefix("file://") for path in text.split(",") if path.strip()]
    for path in paths:
        if "://" in path:
            options.reject("path", "directories that every task can read as files, separated by commas")
    return tuple(path.rstrip("/") or "/" for path in paths)


def _choice_of_topics(options: OptionValues) -> LogTopicChoice:
    """Return topics, a pattern of names or partitions. Raises OptionError unless exactly one is given."""
    given = [name for name in _CHOICES_OF_TOPICS if name in options]
    if len(given) != 1:
        raise OptionError(
            "exactly one of the options 'topic' (or 'subscribe': topics separated by commas), 'subscribePattern' and"
            f" 'assign' (JSON such as {{\"topic\": [0, 1]}}) must be given; {' and '.join(given) or 'none'} is"
        )
    name = given[0]
    text = options.text(name) or ""
    if name == "assign":
        try:
            return LogTopicChoice(assigned=tuple(partitions_from_json(text)))
        except ValueError as error:
            options.reject(name, f'JSON such as {{"topic": [0, 1]}}: {error}')
    if name == "subscribePattern":
        try:
            re.compile(text)
        except re.error as error:
            options.reject(name, f"a regular expression: {error}")
        return LogTopicChoice(pattern=text)
    topics = sorted({topic.strip() for topic in text.split(",")} - {""})
    if not topics:
        options.reject(name, "one or more topics, separated by commas")
    return LogTopicChoice(tuple(topics))


def _position(options: OptionValues, which: Literal["starting", "ending"], edge: Edge) -> LogPosition:
    """Return a position by the first of its three options, in the order of Spark's Kafka source. Raises OptionError."""
    timestamp = f"{which}Timestamp"
    by_timestamp = f"{which}OffsetsByTimestamp"
    if timestamp in options:
        return LogPosition(edge, timestamp_ms=options.integer(timestamp, None, smallest=0))
    if by_timestamp in options:
        return LogPosition(edge, timestamps_ms=_offsets(options, by_timestamp, smallest=0))
    name = f"{which}Offsets"
    word = (options.text(name) or edge).strip().lower()
    if word == edge:
        return LogPosition(edge)
    if word in ("earliest", "latest"):
        options.reject(name, f"{edge} or offsets: the other end would leave nothing to read")
    no_place = LATEST if which == "starting" else EARLIEST
    offsets = _offsets(options, name, smallest=EARLIEST)
    if no_place in offsets.values():
        options.reject(name, f"{edge} or offsets without {no_place}: the other end would leave nothing to read")
    return LogPosition(edge, offsets=offsets)


def _offsets(options: OptionValues, name: str, smallest: int) -> Offsets:
    try:
        offsets = offsets_from_json(options.text(name) or "")
    except ValueError as error:
        options.reject(name, f'JSON such as {{"topic": {{"0": 23, "1": 45}}}}: {error}')
    if min(offsets.values(), default=0) < smallest:
        options.reject(name, f"JSON with numbers from {smallest} on")
    return offsets
