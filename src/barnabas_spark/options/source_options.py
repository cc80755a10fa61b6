"""The options of `read` and `readStream`, checked once: names, defaults and meaning are those of Spark's Kafka source.

Made by the readers on the driver, pickled into each partition's task; frozen, so no lock. What `failOnDataLoss` decides
stands at the end.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass

from barnabas.clients.settings.security_config import ClientSecurityConfig
from barnabas.protocol.topic_partition import TopicPartition
from barnabas_spark.options import option_table as table
from barnabas_spark.options.connection_security import UNSECURED, connection_security
from barnabas_spark.options.kafka_options import SOURCE_OPTION_NAMES, bootstrap_servers, refuse_fixed
from barnabas_spark.options.option_values import DeclaredOptions, OptionError
from barnabas_spark.options.position_options import Position, check_order, ending_position, starting_position
from barnabas_spark.topic_offsets import is_topic_name, partitions_from_json

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    """How the source reaches the brokers. Times are milliseconds. Equal options share their connections."""

    bootstrap_servers: tuple[str, ...]
    client_id: str
    request_timeout_ms: int
    api_timeout_ms: int
    """How long a question to the brokers may take, retries included."""
    bootstrap_timeout_ms: int = int(table.BOOTSTRAP_TIMEOUT_MS.default or 0)
    """How long no broker may be reachable before the first question fails."""
    isolation_level: str = "read_uncommitted"
    """read_committed: the end of a partition is its last stable offset, and aborted records are left out."""

    security: ClientSecurityConfig = UNSECURED

    @property
    def reads_committed(self) -> bool:
        """Whether only records of committed transactions, and of none, are read."""
        return self.isolation_level == "read_committed"


@dataclass(frozen=True, slots=True)
class TopicChoice:
    """The topics or partitions that a query reads: exactly one of the three is given."""

    topics: tuple[str, ...] = ()
    """The subscribed topics, with all their partitions."""
    pattern: str | None = None
    """The expression that the names of topics have to match."""
    assigned: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """How many offsets a micro-batch and a task read. None: no limit."""

    max_offsets_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_trigger_delay_ms: int
    min_partitions: int | None
    max_records_per_partition: int | None
    min_records_per_partition: int | None = None


@dataclass(frozen=True, slots=True)
class FetchOptions:
    """How tasks fetch records. Times are milliseconds."""

    max_bytes: int
    max_wait_ms: int
    poll_timeout_ms: int
    """How long a task waits for records that the broker has announced."""
    check_crcs: bool


@dataclass(frozen=True, slots=True)
class OffsetRetries:
    """How often, and at what interval in milliseconds, the driver asks for offsets before it fails."""

    attempts: int
    interval_ms: int


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The options of a query."""

    connection: ConnectionOptions
    choice: TopicChoice
    starting: Position
    ending: Position
    """The end of a batch query. A stream has no end."""
    limits: ReadLimits
    fetch: FetchOptions
    retries: OffsetRetries
    fail_on_data_loss: bool
    include_headers: bool | None
    """Whether headers are read. None: not given, so a schema that names the column decides."""
    push_filters: bool
    """Whether a batch query's filters choose what is read."""
    starting_offsets_location: str | None
    """A directory in which a stream keeps its first offsets. Spark's Kafka source has no such option."""
    commit_group_id: str | None = None
    """The consumer group to which a stream commits its offsets."""

    @classmethod
    def parse(cls, given: Mapping[str, str], *, streaming: bool | None) -> SourceOptions:
        """Check the options of a query. `streaming`: None while that is not known. Raises OptionError."""
        options = DeclaredOptions(given)
        refuse_fixed(options)
        # A misspelt option is rejected rather than ignored: the query would read other records than its user wants.
        options.check_names(SOURCE_OPTION_NAMES)
        if streaming:
            for option in (table.ENDING_OFFSETS, table.ENDING_OFFSETS_BY_TIMESTAMP, table.ENDING_TIMESTAMP):
                options.refuse(option.name, "is not valid in a streaming query: a stream has no end")
            options.refuse(
                table.PUSH_FILTERS.name,
                "is not valid in a streaming query: Spark pushes filters down to the sources of batch queries only",
            )
        choice = _topic_choice(options)
        starting = starting_position(options, streaming=streaming)
        ending = ending_position(options)
        check_order(starting, ending)
        return cls(
            connection=_connection(options),
            choice=choice,
            starting=starting,
            ending=ending,
            limits=_limits(options),
            fetch=FetchOptions(
                max_bytes=options.number(table.MAX_PARTITION_FETCH_BYTES),
                max_wait_ms=options.number(table.FETCH_MAX_WAIT_MS),
                poll_timeout_ms=options.number(table.POLL_TIMEOUT_MS),
                check_crcs=options.is_true(table.CHECK_CRCS),
            ),
            retries=OffsetRetries(
                options.number(table.FETCH_OFFSET_NUM_RETRIES), options.number(table.FETCH_OFFSET_RETRY_INTERVAL_MS)
            ),
            fail_on_data_loss=options.is_true(table.FAIL_ON_DATA_LOSS),
            include_headers=include_headers(options),
            push_filters=options.is_true(table.PUSH_FILTERS),
            starting_offsets_location=options.text(table.STARTING_OFFSETS_LOCATION.name),
            commit_group_id=options.text(table.COMMIT_GROUP_ID.name) or None,
        )


def include_headers(options: DeclaredOptions) -> bool | None:
    """Return whether headers are read, or None if the user did not say. Raises OptionError."""
    return options.is_true(table.INCLUDE_HEADERS) if table.INCLUDE_HEADERS.name in options else None


def _connection(options: DeclaredOptions) -> ConnectionOptions:
    return ConnectionOptions(
        bootstrap_servers=tuple(bootstrap_servers(options)),
        client_id=options.text(table.CLIENT_ID.name) or table.CLIENT_ID.default or "",
        request_timeout_ms=options.number(table.REQUEST_TIMEOUT_MS),
        api_timeout_ms=options.number(table.DEFAULT_API_TIMEOUT_MS),
        bootstrap_timeout_ms=options.number(table.BOOTSTRAP_TIMEOUT_MS),
        isolation_level=options.word(table.ISOLATION_LEVEL),
        security=connection_security(options),
    )


def _limits(options: DeclaredOptions) -> ReadLimits:
    limits = ReadLimits(
        max_offsets_per_trigger=options.optional_number(table.MAX_OFFSETS_PER_TRIGGER),
        min_offsets_per_trigger=options.optional_number(table.MIN_OFFSETS_PER_TRIGGER),
        max_trigger_delay_ms=options.duration_ms(table.MAX_TRIGGER_DELAY),
        min_partitions=options.optional_number(table.MIN_PARTITIONS),
        max_records_per_partition=options.optional_number(table.MAX_RECORDS_PER_PARTITION),
        min_records_per_partition=options.optional_number(table.MIN_RECORDS_PER_PARTITION),
    )
    smallest, largest = limits.min_offsets_per_trigger, limits.max_offsets_per_trigger
    if smallest is not None and largest is not None and smallest > largest:
        options.reject(
            table.MIN_OFFSETS_PER_TRIGGER.name,
            f"at most option {table.MAX_OFFSETS_PER_TRIGGER.name!r}, which is {largest}",
        )
    smallest, largest = limits.min_records_per_partition, limits.max_records_per_partition
    if smallest is not None and largest is not None and smallest > largest:
        options.reject(
            table.MIN_RECORDS_PER_PARTITION.name,
            f"at most option {table.MAX_RECORDS_PER_PARTITION.name!r}, which is {largest}",
        )
    return limits


def _topic_choice(options: DeclaredOptions) -> TopicChoice:
    """Return what the query reads. Raises OptionError unless exactly one of the three options is given."""
    given = options.given(table.STRATEGIES)
    if len(given) != 1:
        raise OptionError(
            "exactly one of the options 'subscribe' (topics separated by commas), 'subscribePattern' (a regular"
            f" expression) and 'assign' (JSON such as {{\"topic\": [0, 1]}}) must be given;"
            f" {'none is' if not given else 'given are ' + ' and '.join(given)}"
        )
    value = (options.text(given[0]) or "").strip()
    if given[0] == table.ASSIGN.name:
        try:
            return TopicChoice(assigned=tuple(partitions_from_json(value)))
        except ValueError as error:
            options.reject("assign", f'JSON such as {{"topic": [0, 1]}}: {error}')
    if given[0] == table.SUBSCRIBE_PATTERN.name:
        try:
            re.compile(value)
        except re.error as error:
            options.reject(table.SUBSCRIBE_PATTERN.name, f"a regular expression: {error}")
        if not value:
            options.reject(table.SUBSCRIBE_PATTERN.name, "a regular expression")
        return TopicChoice(pattern=value)
    topics = sorted({topic.strip() for topic in value.split(",")} - {""})
    strange = [topic for topic in topics if not is_topic_name(topic)]
    if strange:
        right = "topics separated by commas, such as a,b, without brackets and quotes"
        options.reject(table.SUBSCRIBE.name, f"{right}: {strange[0]!r} is no name of a topic")
    if not topics:
        options.reject(table.SUBSCRIBE.name, "one or more topics, separated by commas")
    return TopicChoice(topics=tuple(topics))


# -- the loss of records that a query should read


class DataLoss(Exception):
    """Records are missing, and `failOnDataLoss` is on."""


_LOST = (
    "Records may have been missed: they were aged out, or the topic was deleted or created again before they were read"
)


def report_data_loss(options: SourceOptions, what: str, reason: str = _LOST) -> None:
    """Report that records are missing. Raises DataLoss; without `failOnDataLoss`, log a warning instead."""
    if not options.fail_on_data_loss:
        logger.warning("records may have been missed: %s", what)
        return
    raise DataLoss(
        f"{what}. {reason}. If the query should go on with what is there, set option 'failOnDataLoss' to false"
    )
