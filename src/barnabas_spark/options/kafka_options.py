"""The `kafka.*` options: the settings of Kafka's clients that the source and the sink accept.

Used by `source_options`, `sink_options` and `source`; no state, no lock. Some settings have their effect. Some
have none here, because they tune a part that only the Java client has: they are accepted so that options can be carried
over, and one warning names them. The others are rejected with the reason. No setting that would change the records read
or written is silently ignored.
"""

from __future__ import annotations

from barnabas_spark.options.connection_security import NOT_OFFERED, SECURITY_OPTION_NAMES, refuse_mechanism
from barnabas_spark.options.option_table import (
    BOOTSTRAP_SERVERS,
    CHECK_CRCS,
    KAFKA_OPTIONS_OF_SINK,
    KAFKA_OPTIONS_OF_SOURCE,
    MAX_PARTITION_FETCH_BYTES,
    SINK_OPTIONS,
    SOURCE_OPTIONS,
)
from barnabas_spark.options.option_values import OptionValues

HONOURED_BY_SOURCE = (*(option.name for option in KAFKA_OPTIONS_OF_SOURCE), *SECURITY_OPTION_NAMES)
HONOURED_BY_SINK = (*(option.name for option in KAFKA_OPTIONS_OF_SINK), *SECURITY_OPTION_NAMES)

_JAVA_CLIENT_ONLY = """
    acks allow.auto.create.topics auto.commit.interval.ms batch.size buffer.memory client.dns.lookup client.rack
    compression.gzip.level compression.lz4.level compression.type compression.zstd.level connections.max.idle.ms
    consumer.cache.capacity consumer.cache.evictorthreadruninterval consumer.cache.timeout default.api.timeout.ms
    delivery.timeout.ms enable.idempotence enable.metrics.push exclude.internal.topics fetch.max.bytes
    fetch.max.wait.ms fetch.min.bytes group.id group.instance.id group.protocol group.remote.assignor
    heartbeat.interval.ms isolation.level linger.ms max.block.ms max.in.flight.requests.per.connection
    max.poll.interval.ms max.poll.records max.request.size metadata.max.age.ms metadata.max.idle.ms
    metadata.recovery.rebootstrap.trigger.ms metadata.recovery.strategy metric.reporters metrics.num.samples
    metrics.recording.level metrics.sample.window.ms partition.assignment.strategy
    partitioner.adaptive.partitioning.enable partitioner.availability.timeout.ms producer.cache.timeout
    receive.buffer.bytes reconnect.backoff.max.ms reconnect.backoff.ms retries retry.backoff.max.ms retry.backoff.ms
    send.buffer.bytes session.timeout.ms socket.connection.setup.timeout.max.ms socket.connection.setup.timeout.ms
    transaction.timeout.ms
"""
_KNOWN = tuple(f"kafka.{name}" for name in _JAVA_CLIENT_ONLY.split())

WITHOUT_EFFECT_ON_SOURCE = tuple(name for name in _KNOWN if name not in HONOURED_BY_SOURCE)
WITHOUT_EFFECT_ON_SINK = tuple(
    name for name in (*_KNOWN, CHECK_CRCS.name, MAX_PARTITION_FETCH_BYTES.name) if name not in HONOURED_BY_SINK
)

SOURCE_OPTION_NAMES = (*(option.name for option in SOURCE_OPTIONS), *HONOURED_BY_SOURCE, *WITHOUT_EFFECT_ON_SOURCE)
SINK_OPTION_NAMES = (*(option.name for option in SINK_OPTIONS), *HONOURED_BY_SINK, *WITHOUT_EFFECT_ON_SINK)
"""All that the source and the sink accept, with the options of Spark's own."""

_FIXED = {
    "kafka.auto.offset.reset": "use startingOffsets: the source itself keeps track of what it has read",
    "kafka.enable.auto.commit": "the source commits no offsets: Spark's checkpoint holds them",
    "kafka.interceptor.classes": "interceptors are Java classes",
    "kafka.key.deserializer": "keys are read as bytes: cast the column",
    "kafka.key.serializer": "keys are written as string or binary: cast the column",
    "kafka.partitioner.class": "partitioners are Java classes: name the partitions in a column 'partition'",
    "kafka.partitioner.ignore.keys": "rows with a key go to the partition of their key",
    "kafka.transactional.id": "the source and the sink take part in no transactions of the user's",
    "kafka.value.deserializer": "values are read as bytes: cast the column",
    "kafka.value.serializer": "values are written as string or binary: cast the column",
}


def refuse_fixed(options: OptionValues) -> None:
    """Reject the settings that the source or the sink itself decides or that no client has. Raises OptionError."""
    refuse_mechanism(options)
    for name, instead in {**_FIXED, **NOT_OFFERED}.items():
        options.refuse(name, f"cannot be set: {instead}")


def bootstrap_servers(options: OptionValues) -> list[str]:
    """Return the addresses of brokers of the cluster. Raises OptionError."""
    servers = [server.strip() for server in options.required(BOOTSTRAP_SERVERS.name, "localhost:9092").split(",")]
    for server in servers:
        host, _, port = server.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 65536:
            options.reject(BOOTSTRAP_SERVERS.name, "host:port, several of them separated by commas")
    return servers
