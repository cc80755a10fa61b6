"""The `kafka.*` options: the settings of Kafka's clients that the source and the sink accept.

Used by `source_options` and `sink_options`; no state, no lock. Some settings have their effect. Some have none here,
because they tune a part that only the Java client has, and are accepted so that options can be carried over. The others
are rejected with the reason. No setting that would change the records read or written is silently ignored.
"""

from __future__ import annotations

from barnabas_spark.option_values import OptionValues

BOOTSTRAP_SERVERS = "kafka.bootstrap.servers"

HONOURED_BY_SOURCE = (
    BOOTSTRAP_SERVERS,
    "kafka.check.crcs",
    "kafka.client.id",
    "kafka.fetch.max.wait.ms",
    "kafka.isolation.level",
    "kafka.max.partition.fetch.bytes",
    "kafka.request.timeout.ms",
    "kafka.security.protocol",
)
HONOURED_BY_SINK = (
    BOOTSTRAP_SERVERS,
    "kafka.acks",
    "kafka.batch.size",
    "kafka.client.id",
    "kafka.compression.type",
    "kafka.delivery.timeout.ms",
    "kafka.enable.idempotence",
    "kafka.request.timeout.ms",
    "kafka.security.protocol",
)
WITHOUT_EFFECT = (
    "kafka.buffer.memory",
    "kafka.client.rack",
    "kafka.connections.max.idle.ms",
    "kafka.fetch.max.bytes",
    "kafka.fetch.min.bytes",
    "kafka.group.id",
    "kafka.linger.ms",
    "kafka.max.in.flight.requests.per.connection",
    "kafka.max.poll.interval.ms",
    "kafka.max.poll.records",
    "kafka.max.request.size",
    "kafka.metadata.max.age.ms",
    "kafka.receive.buffer.bytes",
    "kafka.retries",
    "kafka.send.buffer.bytes",
    "kafka.session.timeout.ms",
)

_FIXED = {
    "kafka.auto.offset.reset": "use startingOffsets: the source itself keeps track of what it has read",
    "kafka.enable.auto.commit": "the source commits no offsets: Spark's checkpoint holds them",
    "kafka.interceptor.classes": "interceptors are Java classes",
    "kafka.key.deserializer": "keys are read as bytes: cast the column",
    "kafka.key.serializer": "keys are written as string or binary: cast the column",
    "kafka.value.deserializer": "values are read as bytes: cast the column",
    "kafka.value.serializer": "values are written as string or binary: cast the column",
}


def refuse_fixed(options: OptionValues) -> None:
    """Reject the settings that the source or the sink itself decides. Raises OptionError."""
    for name, instead in _FIXED.items():
        options.refuse(name, f"cannot be set: {instead}")


def bootstrap_servers(options: OptionValues) -> list[str]:
    """Return the addresses of the cluster, which must be reachable without TLS or SASL. Raises OptionError."""
    if options.choice("kafka.security.protocol", "plaintext", ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")) != (
        "plaintext"
    ):
        options.reject("kafka.security.protocol", "PLAINTEXT: the source and the sink speak no TLS or SASL yet")
    servers = [server.strip() for server in options.required(BOOTSTRAP_SERVERS, "localhost:9092").split(",")]
    for server in servers:
        host, _, port = server.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 65536:
            options.reject(BOOTSTRAP_SERVERS, "host:port, several of them separated by commas")
    return servers
