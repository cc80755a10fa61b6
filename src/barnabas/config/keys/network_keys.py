"""Settings of listeners, sockets, threads and request limits.

A table, read by `broker_config_keys`; names, types, defaults and bounds are those of Kafka 3.9. Immutable.
Kafka: SocketServerConfigs.
"""

from __future__ import annotations

from barnabas.config.config_key import ConfigKey, ConfigType, Range, Scope
from barnabas.config.keys.bounds import AT_LEAST_0, AT_LEAST_1, INT_MAX

NETWORK_KEYS = (
    ConfigKey(
        "num.io.threads",
        ConfigType.INT,
        8,
        "The number of threads that handle requests.",
        AT_LEAST_1,
        scope=Scope.CLUSTER_WIDE,
        is_thread_count=True,
    ),
    ConfigKey(
        "request.timeout.ms",
        ConfigType.INT,
        30_000,
        "How long this broker waits for another broker's answer.",
    ),
    ConfigKey(
        "socket.connection.setup.timeout.ms",
        ConfigType.LONG,
        10_000,
        "How long the first attempt to set up a connection may take; the time grows with each failure.",
    ),
    ConfigKey(
        "socket.connection.setup.timeout.max.ms",
        ConfigType.LONG,
        30_000,
        "The longest time that setting up a connection may take after failures.",
    ),
    # KIP-801: an authorizer that keeps its rules in the cluster must reach the controller before it can decide
    # anything.
    ConfigKey(
        "early.start.listeners", ConfigType.STRING, None, "The listeners that open before the authorizer is ready."
    ),
    # KIP-227. A consumer or follower that gets no slot sends full fetches, which works but costs more.
    ConfigKey(
        "max.incremental.fetch.session.cache.slots",
        ConfigType.INT,
        1000,
        "The number of incremental fetch sessions that are kept at once.",
        AT_LEAST_0,
    ),
    # KIP-541. 55 MiB, a little above the 50 MiB that Kafka's consumers ask for. The first batch is sent whole even if
    # it is larger (KIP-74).
    ConfigKey(
        "fetch.max.bytes",
        ConfigType.INT,
        57_671_680,
        "The largest number of bytes in one Fetch answer, whatever the client asks for.",
        Range(1024),
    ),
    # Added for DescribeTopicPartitions, whose answers come in pages (KIP-966).
    ConfigKey(
        "max.request.partition.size.limit",
        ConfigType.INT,
        2000,
        "The largest number of partitions in a request that describes partitions.",
        AT_LEAST_1,
    ),
    ConfigKey(
        "listeners",
        ConfigType.STRING,
        "PLAINTEXT://:9092",
        "The addresses where the broker listens, comma-separated: NAME://host:port. Port 0 takes a free port, which "
        "is advertised.",
        scope=Scope.PER_BROKER,
    ),
    ConfigKey(
        "advertised.listeners",
        ConfigType.STRING,
        None,
        "The addresses that clients are told to connect to; those of `listeners` if unset.",
        scope=Scope.PER_BROKER,
    ),
    ConfigKey(
        "listener.security.protocol.map",
        ConfigType.STRING,
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "The security protocol of each listener name, comma-separated: NAME:PROTOCOL.",
        scope=Scope.PER_BROKER,
    ),
    # KIP-291: the controller's requests do not wait behind those of clients.
    ConfigKey(
        "control.plane.listener.name",
        ConfigType.STRING,
        None,
        "The listener that serves requests of the controller only. If unset, the controller uses the listener "
        "between brokers.",
    ),
    # Kafka's default of the two buffers applies only if it is written out; otherwise the kernel sizes them by need,
    # which is up to 1.9 times as fast (network.network_config has the measurements).
    ConfigKey(
        "socket.send.buffer.bytes",
        ConfigType.INT,
        102_400,
        "The size of the send buffer (SO_SNDBUF) of accepted sockets; -1 leaves the size to the system.",
    ),
    ConfigKey(
        "socket.receive.buffer.bytes",
        ConfigType.INT,
        102_400,
        "The size of the receive buffer (SO_RCVBUF) of accepted sockets; -1 leaves the size to the system.",
    ),
    # Checked against the length in front of a frame, before any memory is taken for it.
    ConfigKey(
        "socket.request.max.bytes",
        ConfigType.INT,
        104_857_600,
        "The size of the largest request that is accepted.",
        AT_LEAST_1,
    ),
    # Likewise: left at its default, 1024 is used, since 50 makes clients that connect together retry after a second.
    ConfigKey(
        "socket.listen.backlog.size",
        ConfigType.INT,
        50,
        "The number of connections that the kernel may hold before the broker accepts them.",
        AT_LEAST_1,
    ),
    ConfigKey(
        "max.connections.per.ip",
        ConfigType.INT,
        INT_MAX,
        "The number of connections allowed from one address.",
        AT_LEAST_0,
        scope=Scope.CLUSTER_WIDE,
    ),
    ConfigKey(
        "max.connections.per.ip.overrides",
        ConfigType.STRING,
        "",
        "Addresses with another limit than max.connections.per.ip, comma-separated: host:count.",
        scope=Scope.CLUSTER_WIDE,
    ),
    # KIP-402. The brokers' own listener never refuses a connection: an idle one of another listener is closed instead.
    ConfigKey(
        "max.connections",
        ConfigType.INT,
        INT_MAX,
        "The number of connections allowed in all, or with the prefix of a listener on that listener.",
        AT_LEAST_0,
        scope=Scope.CLUSTER_WIDE,
    ),
    # KIP-612. The rate of one address is no setting here but a client quota of the entity type ip.
    ConfigKey(
        "max.connection.creation.rate",
        ConfigType.INT,
        INT_MAX,
        "The number of new connections allowed per second, in all or with the prefix of a listener on that listener.",
        AT_LEAST_0,
        scope=Scope.CLUSTER_WIDE,
    ),
    # A minute more than the default of Kafka's clients, so that clients close first and see no lost connection.
    ConfigKey(
        "connections.max.idle.ms", ConfigType.LONG, 600_000, "How long a connection may be idle before it is closed."
    ),
    ConfigKey(
        "queued.max.requests",
        ConfigType.INT,
        500,
        "The number of requests that may wait for a handler before network threads stop reading.",
        AT_LEAST_1,
    ),
    # Kafka counts the frames of requests only. Here unsent answers count as well (transport.memory_pool).
    ConfigKey(
        "queued.max.request.bytes",
        ConfigType.LONG,
        -1,
        "The memory that requests may take until they are handled and answers until they are sent, beyond a few KiB "
        "for each connection; -1 is no limit. A connection that needs more memory waits; one that holds memory and "
        "makes no progress while others wait is closed.",
    ),
    # The only default that depends on the machine: `broker_config_keys` replaces it by 1 under the global lock
    # (decisions/0005).
    ConfigKey(
        "num.network.threads",
        ConfigType.INT,
        3,
        "The number of network threads of each listener. The default here is 1 under Python's global lock, where "
        "one thread is fastest, and 3 without the lock.",
        AT_LEAST_1,
        scope=Scope.CLUSTER_WIDE,
    ),
    # A completed request stays in the watch lists of its other keys until the next purge (here and below).
    ConfigKey(
        "fetch.purgatory.purge.interval.requests",
        ConfigType.INT,
        1000,
        "The number of completed fetches that may stay in the fetch purgatory.",
    ),
    ConfigKey(
        "producer.purgatory.purge.interval.requests",
        ConfigType.INT,
        1000,
        "The number of completed produces that may stay in the produce purgatory.",
    ),
    ConfigKey(
        "delete.records.purgatory.purge.interval.requests",
        ConfigType.INT,
        1,
        "The number of completed record deletions that may stay in their purgatory.",
    ),
)
