"""The options of `read` and `readStream`, checked once: names, defaults and meaning are those of Spark's Kafka source.

Made by the readers on the driver, pickled into each partition's task; frozen, so no lock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from barnabas.protocol.topic_partition import TopicPartition
from barnabas_spark.kafka_options import HONOURED_BY_SOURCE, WITHOUT_EFFECT, bootstrap_servers, refuse_fixed
from barnabas_spark.option_values import OptionError, OptionValues
from barnabas_spark.topic_offsets import EARLIEST, LATEST, Offsets, offsets_from_json, partitions_from_json

Position: TypeAlias = Literal["earliest", "latest"] | Offsets

_READ = (
    "assign",
    "endingOffsets",
    "failOnDataLoss",
    "includeHeaders",
    "kafkaConsumer.pollTimeoutMs",
    "maxOffsetsPerTrigger",
    "maxRecordsPerPartition",
    "minPartitions",
    "startingOffsets",
    "startingOffsetsLocation",
    "subscribe",
)
_WITHOUT_EFFECT = (
    *WITHOUT_EFFECT,
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "groupIdPrefix",
)
_NOT_SUPPORTED_YET = {
    "endingOffsetsByTimestamp": "endingOffsets",
    "endingTimestamp": "endingOffsets",
    "maxTriggerDelay": "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger": "maxOffsetsPerTrigger",
    "startingOffsetsByTimestamp": "startingOffsets",
    "startingOffsetsByTimestampStrategy": "startingOffsets",
    "startingTimestamp": "startingOffsets",
    "subscribePattern": "subscribe",
}

DEFAULT_FETCH_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The options of a query."""

    bootstrap_servers: tuple[str, ...]
    client_id: str
    topics: tuple[str, ...]
    """The subscribed topics, with all their partitions. Empty if partitions are assigned."""
    assigned: tuple[TopicPartition, ...]
    starting: Position
    ending: Position
    """The end of a batch query. A stream has no end."""
    fail_on_data_loss: bool
    max_offsets_per_trigger: int | None
    min_partitions: int | None
    max_records_per_partition: int | None
    include_headers: bool | None
    """Whether headers are read. None: not given, so a schema that names the column decides."""
    starting_offsets_location: str | None
    """A directory in which a stream keeps its first offsets. Spark's Kafka source has no such option."""
    fetch_bytes: int
    fetch_wait_ms: int
    request_timeout_ms: int
    poll_timeout_ms: int
    """How long a task waits for records that the broker has announced."""
    check_crcs: bool

    @classmethod
    def parse(cls, given: Mapping[str, str], *, streaming: bool) -> SourceOptions:
        """Check the options of a batch or a streaming query. Raises OptionError."""
        options = OptionValues(given)
        for name, other in _NOT_SUPPORTED_YET.items():
            options.refuse(name, f"is not supported yet; use {other}")
        refuse_fixed(options)
        # A misspelt option is rejected rather than ignored: the query would read other records than its user wants.
        options.check_names((*HONOURED_BY_SOURCE, *_READ, *_WITHOUT_EFFECT))
        topics, assigned = _strategy(options)
        if streaming:
            options.refuse("endingOffsets", "is not valid in a streaming query: a stream has no end")
        if options.choice("kafka.isolation.level", "read_uncommitted", ("read_uncommitted", "read_committed")) != (
            "read_uncommitted"
        ):
            options.reject("kafka.isolation.level", "read_uncommitted: transactions are not supported yet")
        return cls(
            bootstrap_servers=tuple(bootstrap_servers(options)),
            client_id=options.text("kafka.client.id") or "barnabas-spark",
            topics=topics,
            assigned=assigned,
            starting=_starting(options, streaming),
            ending=_ending(options),
            fail_on_data_loss=options.boolean("failOnDataLoss", default=True),
            max_offsets_per_trigger=options.integer("maxOffsetsPerTrigger", None),
            min_partitions=options.integer("minPartitions", None),
            max_records_per_partition=options.integer("maxRecordsPerPartition", None),
            include_headers=options.boolean("includeHeaders", default=False) if "includeHeaders" in options else None,
            starting_offsets_location=options.text("startingOffsetsLocation"),
            fetch_bytes=options.integer("kafka.max.partition.fetch.bytes", DEFAULT_FETCH_BYTES) or DEFAULT_FETCH_BYTES,
            fetch_wait_ms=options.integer("kafka.fetch.max.wait.ms", 500, smallest=0) or 0,
            request_timeout_ms=options.integer("kafka.request.timeout.ms", 30_000) or 30_000,
            poll_timeout_ms=options.integer("kafkaConsumer.pollTimeoutMs", 120_000) or 120_000,
            check_crcs=options.boolean("kafka.check.crcs", default=True),
        )


def _strategy(options: OptionValues) -> tuple[tuple[str, ...], tuple[TopicPartition, ...]]:
    """Return subscribed topics and assigned partitions. Raises OptionError unless exactly one is given."""
    subscribe, assign = options.text("subscribe"), options.text("assign")
    if (subscribe is None) == (assign is None):
        given = "both are" if subscribe is not None else "none is"
        raise OptionError(
            "exactly one of the options 'subscribe' (topics separated by commas) and 'assign'"
            f' (JSON such as {{"topic": [0, 1]}}) must be given; {given}'
        )
    if assign is not None:
        try:
            return (), tuple(partitions_from_json(assign))
        except ValueError as error:
            options.reject("assign", f'JSON such as {{"topic": [0, 1]}}: {error}')
    topics = sorted({topic.strip() for topic in (subscribe or "").split(",")} - {""})
    if not topics:
        options.reject("subscribe", "one or more topics, separated by commas")
    return tuple(topics), ()


def _starting(options: OptionValues, streaming: bool) -> Position:
    position = _position(options, "startingOffsets", "latest" if streaming else "earliest")
    if not streaming and (position == "latest" or (isinstance(position, dict) and LATEST in position.values())):
        options.reject(
            "startingOffsets", "earliest, or offsets from 0 on or -2 for the earliest: a batch query ends at the latest"
        )
    return position


def _ending(options: OptionValues) -> Position:
    position = _position(options, "endingOffsets", "latest")
    if position == "earliest" or (isinstance(position, dict) and EARLIEST in position.values()):
        options.reject("endingOffsets", "latest or offsets from 0 or -1 (latest) on: nothing lies before the earliest")
    return position


def _position(options: OptionValues, name: str, default: Literal["earliest", "latest"]) -> Position:
    text = options.text(name)
    word = (text or default).strip().lower()
    if word == "earliest":
        return "earliest"
    if word == "latest":
        return "latest"
    try:
        return offsets_from_json(text or "")
    except ValueError as error:
        options.reject(name, f'earliest, latest or JSON such as {{"topic": {{"0": 23, "1": -2}}}}: {error}')
