"""The options of `write` and `writeStream`, checked once. Names and meaning are those of Spark's Kafka sink.

Made by the writers on the driver, pickled into each task; frozen, so no lock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from barnabas.clients.settings.security_config import ClientSecurityConfig
from barnabas.records.compression import Codec
from barnabas_spark.options import option_table as table
from barnabas_spark.options.connection_security import UNSECURED, connection_security
from barnabas_spark.options.kafka_options import SINK_OPTION_NAMES, bootstrap_servers, refuse_fixed
from barnabas_spark.options.option_table import BOOTSTRAP_TIMEOUT_MS, CLIENT_ID
from barnabas_spark.options.option_values import DeclaredOptions, OptionError
from barnabas_spark.topic_offsets import is_topic_name


@dataclass(frozen=True, slots=True)
class WriteIdentity:
    """What tells one write from another: the application, or query, and a number that grows with its writes."""

    application_id: str
    version: int


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """The options of a write."""

    bootstrap_servers: tuple[str, ...]
    client_id: str
    topic: str | None
    """The topic of all rows, which overrides the column of that name. None: the column decides."""
    include_headers: bool
    """Whether a `headers` column is written. It is by default, as in Spark's sink."""
    codec: Codec
    batch_bytes: int
    """The bytes of a batch at most, uncompressed, unless one record is larger. 0: a batch for each record."""
    enable_idempotence: bool
    """Whether the broker drops batches that are sent twice after a lost answer."""
    request_timeout_ms: int
    delivery_timeout_ms: int
    bootstrap_timeout_ms: int
    """How long no broker may be reachable before a write fails that is the first one of its process."""
    max_block_ms: int
    """How long a write waits for a topic's metadata, for memory, and for each call of a transaction."""
    max_request_bytes: int
    """How large a record may be at most, and a request unless one record is larger."""
    buffer_bytes: int
    """The memory for records that wait for the brokers, which bounds a record too."""
    checkpoint_location: str | None
    """The directory with a streaming query's progress, where the sink keeps the number of its last commit."""
    exactly_once: bool
    """Whether a stream's micro-batches are written in transactions, which also note their numbers."""
    transaction_timeout_ms: int
    write_identity: WriteIdentity | None = None
    """The identity of a batch write, which is written in a transaction, and never a second time."""
    security: ClientSecurityConfig = UNSECURED

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> SinkOptions:
        """Check the options. Raises OptionError."""
        options = DeclaredOptions(given)
        refuse_fixed(options)
        options.check_names(SINK_OPTION_NAMES)
        # acks=1 and acks=0 would let `save()` return for rows that a failing leader loses.
        if options.text(table.ACKS.name) in ("0", "1"):
            options.reject(table.ACKS.name, "all (or -1): the sink reports rows as written only when they are safe")
        options.word(table.ACKS)
        topic = options.text(table.TOPIC.name)
        if topic is not None and not is_topic_name(topic.strip()):
            options.reject(table.TOPIC.name, "the name of one topic: letters, digits, '.', '_' and '-'")
        request_timeout_ms = options.number(table.SINK_REQUEST_TIMEOUT_MS)
        max_request_bytes, buffer_bytes = options.number(table.MAX_REQUEST_SIZE), options.number(table.BUFFER_MEMORY)
        return cls(
            bootstrap_servers=tuple(bootstrap_servers(options)),
            client_id=options.text(CLIENT_ID.name) or CLIENT_ID.default or "",
            topic=None if topic is None else topic.strip(),
            include_headers=options.is_true(table.SINK_INCLUDE_HEADERS),
            codec=Codec.from_name(options.word(table.COMPRESSION_TYPE)),
            # No batch of several records may be larger than a record may be.
            batch_bytes=min(options.number(table.BATCH_SIZE), max_request_bytes, buffer_bytes),
            enable_idempotence=options.is_true(table.ENABLE_IDEMPOTENCE),
            request_timeout_ms=request_timeout_ms,
            delivery_timeout_ms=_delivery_timeout_ms(options, request_timeout_ms),
            bootstrap_timeout_ms=options.number(BOOTSTRAP_TIMEOUT_MS),
            max_block_ms=options.number(table.MAX_BLOCK_MS),
            max_request_bytes=max_request_bytes,
            buffer_bytes=buffer_bytes,
            checkpoint_location=options.text(table.CHECKPOINT_LOCATION.name),
            exactly_once=options.is_true(table.EXACTLY_ONCE),
            transaction_timeout_ms=options.number(table.TRANSACTION_TIMEOUT_MS),
            write_identity=_write_identity(options),
            security=connection_security(options),
        )


def _delivery_timeout_ms(options: DeclaredOptions, request_timeout_ms: int) -> int:
    """Return the delivery timeout: as a Kafka producer's, its default grows with the request timeout.

    Raises OptionError when the given value is shorter than one request may take.
    """
    delivery_timeout_ms = options.number(table.DELIVERY_TIMEOUT_MS)
    if table.DELIVERY_TIMEOUT_MS.name not in options:
        return max(delivery_timeout_ms, request_timeout_ms)
    if delivery_timeout_ms < request_timeout_ms:
        options.reject(
            table.DELIVERY_TIMEOUT_MS.name,
            f"at least {table.SINK_REQUEST_TIMEOUT_MS.name}, which is {request_timeout_ms}",
        )
    return delivery_timeout_ms


def _write_identity(options: DeclaredOptions) -> WriteIdentity | None:
    """Return the identity of a batch write, if one is given. Raises OptionError for half of one."""
    application_id, version = options.text(table.TXN_APP_ID.name), options.optional_number(table.TXN_VERSION)
    if application_id is None and version is None:
        return None
    if not application_id or version is None:
        raise OptionError(
            f"options {table.TXN_APP_ID.name!r} and {table.TXN_VERSION.name!r} belong together: one of them is missing"
        )
    return WriteIdentity(application_id, version)
