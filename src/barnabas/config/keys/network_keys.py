"""Settings of listeners, sockets, threads and request limits.

A table, read by `broker_config_keys`; names, types, defaults and bounds are those of Kafka 3.9. Immutable.
"""

from __future__ import annotations

from barnabas.config.config_key import ConfigKey, ConfigType, Range, Scope
from barnabas.config.keys.bounds import AT_LEAST_0, AT_LEAST_1, INT_MAX

NETWORK_KEYS = (
    ConfigKey(
        "num.io.threads",
        ConfigType.INT,
        8,
        "Request handler threads.",
        AT_LEAST_1,
        scope=Scope.CLUSTER_WIDE,
        is_thread_count=True,
    ),
    ConfigKey(
        "request.timeout.ms",
        ConfigType.INT,
        30_000,
        "How long a request of the broker to another one waits for its answer.",
    ),
    ConfigKey(
        "socket.connection.setup.timeout.ms",
        ConfigType.LONG,
        10_000,
        "First limit for setting up a connection; grows with failures.",
    ),
    ConfigKey(
        "socket.connection.setup.timeout.max.ms", ConfigType.LONG, 30_000, "Upper limit for setting up a connection."
    ),
    ConfigKey("early.start.listeners", ConfigType.STRING, None, "Listeners that open before the authorizer is ready."),
    ConfigKey(
        "max.incremental.fetch.session.cache.slots",
        ConfigType.INT,
        1000,
        "Incremental fetch sessions kept at once.",
        AT_LEAST_0,
    ),
    ConfigKey(
        "fetch.max.bytes",
        ConfigType.INT,
        57_671_680,
        "Most bytes one Fetch answer carries, whatever the client asks for.",
        Range(1024),
    ),
    ConfigKey(
        "max.request.partition.size.limit",
        ConfigType.INT,
        2000,
        "Most partitions a request that lists them may name.",
        AT_LEAST_1,
    ),
    ConfigKey(
        "listeners",
        ConfigType.STRING,
        "PLAINTEXT://:9092",
        "Where the broker listens: NAME://host:port, comma-separated. Port 0 takes a free one, which is advertised.",
        scope=Scope.PER_BROKER,
    ),
    ConfigKey(
        "advertised.listeners",
        ConfigType.STRING,
        None,
        "What clients are told to connect to; `listeners` if unset.",
        scope=Scope.PER_BROKER,
    ),
    ConfigKey(
        "listener.security.protocol.map",
        ConfigType.STRING,
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "Listener name to security protocol: NAME:PROTOCOL, comma-separated.",
        scope=Scope.PER_BROKER,
    ),
    ConfigKey(
        "control.plane.listener.name",
        ConfigType.STRING,
        None,
        "Listener for controller requests alone; unset means that they share the others.",
    ),
    ConfigKey(
        "socket.send.buffer.bytes", ConfigType.INT, 102_400, "SO_SNDBUF of accepted sockets; -1 leaves the system's."
    ),
    ConfigKey(
        "socket.receive.buffer.bytes", ConfigType.INT, 102_400, "SO_RCVBUF of accepted sockets; -1 leaves the system's."
    ),
    ConfigKey("socket.request.max.bytes", ConfigType.INT, 104_857_600, "Largest request frame.", AT_LEAST_1),
    ConfigKey(
        "socket.listen.backlog.size",
        ConfigType.INT,
        50,
        "Connections the kernel may hold before they are accepted.",
        AT_LEAST_1,
    ),
    ConfigKey(
        "max.connections.per.ip",
        ConfigType.INT,
        INT_MAX,
        "Connections allowed from one address.",
        AT_LEAST_0,
        scope=Scope.CLUSTER_WIDE,
    ),
    ConfigKey(
        "max.connections.per.ip.overrides",
        ConfigType.STRING,
        "",
        "Exceptions to it: host:count, comma-separated.",
        scope=Scope.CLUSTER_WIDE,
    ),
    ConfigKey(
        "max.connections",
        ConfigType.INT,
        INT_MAX,
        "Connections allowed in all; per listener with its prefix.",
        AT_LEAST_0,
        scope=Scope.CLUSTER_WIDE,
    ),
    ConfigKey(
        "max.connection.creation.rate",
        ConfigType.INT,
        INT_MAX,
        "New connections per second; per listener with its prefix.",
        AT_LEAST_0,
        scope=Scope.CLUSTER_WIDE,
    ),
    ConfigKey("connections.max.idle.ms", ConfigType.LONG, 600_000, "Idle connections are closed after this time."),
    ConfigKey(
        "queued.max.requests",
        ConfigType.INT,
        500,
        "Requests that may wait for a handler before network threads stop reading.",
        AT_LEAST_1,
    ),
    ConfigKey(
        "queued.max.request.bytes",
        ConfigType.LONG,
        -1,
        "Memory that requests may take until they are handled, and answers until they have left, beyond some KiB of "
        "each connection; -1 is no limit. Who needs more waits; who keeps it from others without use is disconnected.",
    ),
    ConfigKey(
        "num.network.threads",
        ConfigType.INT,
        3,
        "Network threads per listener. Here 1 under Python's global lock, where one is fastest, and 3 without it.",
        AT_LEAST_1,
        scope=Scope.CLUSTER_WIDE,
    ),
    ConfigKey(
        "fetch.purgatory.purge.interval.requests",
        ConfigType.INT,
        1000,
        "Completed fetches that may linger in their purgatory.",
    ),
    ConfigKey(
        "producer.purgatory.purge.interval.requests",
        ConfigType.INT,
        1000,
        "Completed produces that may linger in their purgatory.",
    ),
    ConfigKey(
        "delete.records.purgatory.purge.interval.requests",
        ConfigType.INT,
        1,
        "Completed record deletions that may linger in their purgatory.",
    ),
)
