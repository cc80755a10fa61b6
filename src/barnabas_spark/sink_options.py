"""The options of `write` and `writeStream`, checked once. Names and meaning are those of Spark's Kafka sink.

Made by the writers on the driver, pickled into each task; frozen, so no lock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from barnabas.clients.settings.security_config import ClientSecurityConfig
from barnabas.records.compression import Codec
from barnabas_spark.connection_security import UNSECURED, connection_security
from barnabas_spark.kafka_options import HONOURED_BY_SINK, WITHOUT_EFFECT_ON_SINK, bootstrap_servers, refuse_fixed
from barnabas_spark.option_table import REQUEST_TIMEOUT_MS
from barnabas_spark.option_values import OptionError, OptionValues

EXACTLY_ONCE = "exactlyOnce"
TXN_APP_ID = "txnAppId"
TXN_VERSION = "txnVersion"

SINK_OPTION_NAMES = (
    *HONOURED_BY_SINK,
    *WITHOUT_EFFECT_ON_SINK,
    "checkpointLocation",
    EXACTLY_ONCE,
    "includeHeaders",
    "queryName",  # Spark hands it on with the options
    "topic",
    TXN_APP_ID,
    TXN_VERSION,
)

_DELIVERY_TIMEOUT = "kafka.delivery.timeout.ms"
_DEFAULT_DELIVERY_TIMEOUT_MS = 120_000
_DEFAULT_REQUEST_TIMEOUT_MS = 30_000
_DEFAULT_MAX_BLOCK_MS = 60_000

DEFAULT_BATCH_BYTES = 256 << 10
"""The default batch size. It is larger than a Kafka producer's 16 KB, because rows come by the ten thousand.

No record waits for its batch to fill.
"""

TRANSACTION_TIMEOUT = "kafka.transaction.timeout.ms"
DEFAULT_TRANSACTION_TIMEOUT_MS = 300_000
"""How long one task of a micro-batch may write. Until then, a transaction whose driver has died for good keeps readers
of committed records waiting."""


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
    max_block_ms: int
    """How long a write waits for a topic's metadata, for memory, and for each call of a transaction."""
    checkpoint_location: str | None
    """The directory with a streaming query's progress, where the sink keeps the number of its last commit."""
    exactly_once: bool = False
    """Whether a stream's micro-batches are written in transactions, which also note their numbers."""
    transaction_timeout_ms: int = DEFAULT_TRANSACTION_TIMEOUT_MS
    write_identity: WriteIdentity | None = None
    """The identity of a batch write, which is written in a transaction, and never a second time."""
    security: ClientSecurityConfig = UNSECURED

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> SinkOptions:
        """Check the options. Raises OptionError."""
        options = OptionValues(given)
        refuse_fixed(options)
        options.check_names(SINK_OPTION_NAMES)
        # acks=1 and acks=0 would let `save()` return for rows that a failing leader loses.
        if options.choice("kafka.acks", "all", ("all", "-1", "0", "1")) not in ("all", "-1"):
            options.reject("kafka.acks", "all (or -1): the sink reports rows as written only when they are safe")
        topic = options.text("topic")
        if topic is not None and not topic.strip():
            options.reject("topic", "the name of a topic")
        codec = options.choice("kafka.compression.type", "none", [codec.name.lower() for codec in Codec])
        request_timeout_ms = options.integer(REQUEST_TIMEOUT_MS.name, None) or _DEFAULT_REQUEST_TIMEOUT_MS
        max_block_ms = options.integer("kafka.max.block.ms", None, 0)
        batch_bytes = options.integer("kafka.batch.size", None, 0)
        return cls(
            bootstrap_servers=tuple(bootstrap_servers(options)),
            client_id=options.text("kafka.client.id") or "barnabas-spark",
            topic=None if topic is None else topic.strip(),
            include_headers=options.boolean("includeHeaders", default=True),
            codec=Codec.from_name(codec),
            batch_bytes=DEFAULT_BATCH_BYTES if batch_bytes is None else batch_bytes,
            enable_idempotence=options.boolean("kafka.enable.idempotence", default=True),
            request_timeout_ms=request_timeout_ms,
            delivery_timeout_ms=_delivery_timeout_ms(options, request_timeout_ms),
            max_block_ms=_DEFAULT_MAX_BLOCK_MS if max_block_ms is None else max_block_ms,
            checkpoint_location=options.text("checkpointLocation"),
            exactly_once=options.boolean(EXACTLY_ONCE, default=False),
            transaction_timeout_ms=options.integer(TRANSACTION_TIMEOUT, DEFAULT_TRANSACTION_TIMEOUT_MS)
            or DEFAULT_TRANSACTION_TIMEOUT_MS,
            write_identity=_write_identity(options),
            security=connection_security(options),
        )


def _delivery_timeout_ms(options: OptionValues, request_timeout_ms: int) -> int:
    """Return the delivery timeout: as a Kafka producer's, its default grows with the request timeout.

    Raises OptionError when the given value is shorter than one request may take.
    """
    given_ms = options.integer(_DELIVERY_TIMEOUT, None)
    if given_ms is None:
        return max(_DEFAULT_DELIVERY_TIMEOUT_MS, request_timeout_ms)
    if given_ms < request_timeout_ms:
        options.reject(_DELIVERY_TIMEOUT, f"at least {REQUEST_TIMEOUT_MS.name}, which is {request_timeout_ms}")
    return given_ms


def _write_identity(options: OptionValues) -> WriteIdentity | None:
    """Return the identity of a batch write, if one is given. Raises OptionError for half of one."""
    application_id, version = options.text(TXN_APP_ID), options.integer(TXN_VERSION, None, 0)
    if application_id is None and version is None:
        return None
    if not application_id or version is None:
        raise OptionError(f"options {TXN_APP_ID!r} and {TXN_VERSION!r} belong together: one of them is missing")
    return WriteIdentity(application_id, version)
