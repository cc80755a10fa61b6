"""Settings of listeners, sockets, threads and request limits.

A table, read by `broker_config_keys`; names, types, defaults and bounds are those of Kafka 3.9. Immutable.
Kafka: SocketServerConfigs.
"""

from __future__ import annotations

from barnabas.config.config_key import (
    AT_LEAST_0,
    AT_LEAST_1,
    CLUSTER_WIDE,
    INT,
    INT_MAX,
    LONG,
    PER_BROKER,
    STRING,
    Range,
)

NETWORK_KEYS = (
    INT("num.io.threads", 8, AT_LEAST_1, CLUSTER_WIDE, is_thread_count=True)
    | "The number of threads that handle requests.",
    INT("request.timeout.ms", 30_000) | "How long this broker waits for another broker's answer.",
    LONG("socket.connection.setup.timeout.ms", 10_000)
    | "How long the first attempt to set up a connection may take; the time grows with each failure.",
    LONG("socket.connection.setup.timeout.max.ms", 30_000)
    | "The longest time that setting up a connection may take after failures.",
    # KIP-801: an authorizer that keeps its rules in the cluster must reach the controller before it can decide
    # anything.
    STRING("early.start.listeners", None) | "The listeners that open before the authorizer is ready.",
    # KIP-227. A consumer or follower that gets no slot sends full fetches, which works but costs more.
    INT("max.incremental.fetch.session.cache.slots", 1000, AT_LEAST_0)
    | "The number of incremental fetch sessions that are kept at once.",
    # KIP-541. 55 MiB, a little above the 50 MiB that Kafka's consumers ask for. The first batch is sent whole even if
    # it is larger (KIP-74).
    INT("fetch.max.bytes", 57_671_680, Range(1024))
    | "The largest number of bytes in one Fetch answer, whatever the client asks for.",
    # Added for DescribeTopicPartitions, whose answers come in pages (KIP-966).
    INT("max.request.partition.size.limit", 2000, AT_LEAST_1)
    | "The largest number of partitions in a request that describes partitions.",
    STRING("listeners", "PLAINTEXT://:9092", scope=PER_BROKER)
    | "The addresses where the broker listens, comma-separated: NAME://host:port. Port 0 takes a free port, which is "
    "advertised.",
    STRING("advertised.listeners", None, scope=PER_BROKER)
    | "The addresses that clients are told to connect to; those of `listeners` if unset.",
    STRING(
        "listener.security.protocol.map",
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        scope=PER_BROKER,
    )
    | "The security protocol of each listener name, comma-separated: NAME:PROTOCOL.",
    # KIP-291: the controller's requests do not wait behind those of clients.
    STRING("control.plane.listener.name", None)
    | "The listener that serves requests of the controller only. If unset, the controller uses the listener between "
    "brokers.",
    # Kafka's default of the two buffers applies only if it is written out; otherwise the kernel sizes them by need,
    # which is up to 1.9 times as fast (network.network_config has the measurements).
    INT("socket.send.buffer.bytes", 102_400)
    | "The size of the send buffer (SO_SNDBUF) of accepted sockets; -1 leaves the size to the system.",
    INT("socket.receive.buffer.bytes", 102_400)
    | "The size of the receive buffer (SO_RCVBUF) of accepted sockets; -1 leaves the size to the system.",
    # Checked against the length in front of a frame, before any memory is taken for it.
    INT("socket.request.max.bytes", 104_857_600, AT_LEAST_1) | "The size of the largest request that is accepted.",
    # Likewise: left at its default, 1024 is used, since 50 makes clients that connect together retry after a second.
    INT("socket.listen.backlog.size", 50, AT_LEAST_1)
    | "The number of connections that the kernel may hold before the broker accepts them.",
    INT("max.connections.per.ip", INT_MAX, AT_LEAST_0, CLUSTER_WIDE)
    | "The number of connections allowed from one address.",
    STRING("max.connections.per.ip.overrides", "", scope=CLUSTER_WIDE)
    | "Addresses with another limit than max.connections.per.ip, comma-separated: host:count.",
    # KIP-402. The brokers' own listener never refuses a connection: an idle one of another listener is closed instead.
    INT("max.connections", INT_MAX, AT_LEAST_0, CLUSTER_WIDE)
    | "The number of connections allowed in all, or with the prefix of a listener on that listener.",
    # KIP-612. The rate of one address is no setting here but a client quota of the entity type ip.
    INT("max.connection.creation.rate", INT_MAX, AT_LEAST_0, CLUSTER_WIDE)
    | "The number of new connections allowed per second, in all or with the prefix of a listener on that listener.",
    # A minute more than the default of Kafka's clients, so that clients close first and see no lost connection.
    LONG("connections.max.idle.ms", 600_000) | "How long a connection may be idle before it is closed.",
    INT("queued.max.requests", 500, AT_LEAST_1)
    | "The number of requests that may wait for a handler before network threads stop reading.",
    # Kafka counts the frames of requests only. Here unsent answers count as well (transport.memory_pool).
    LONG("queued.max.request.bytes", -1)
    | "The memory that requests may take until they are handled and answers until they are sent, beyond a few KiB for "
    "each connection; -1 is no limit. A connection that needs more memory waits; one that holds memory and makes no "
    "progress while others wait is closed.",
    # The only default that depends on the machine: `broker_config_keys` replaces it by 1 under the global lock
    # (decisions/0005).
    INT("num.network.threads", 3, AT_LEAST_1, CLUSTER_WIDE)
    | "The number of network threads of each listener. The default here is 1 under Python's global lock, where one "
    "thread is fastest, and 3 without the lock.",
    # A completed request stays in the watch lists of its other keys until the next purge (here and below).
    INT("fetch.purgatory.purge.interval.requests", 1000)
    | "The number of completed fetches that may stay in the fetch purgatory.",
    INT("producer.purgatory.purge.interval.requests", 1000)
    | "The number of completed produces that may stay in the produce purgatory.",
    INT("delete.records.purgatory.purge.interval.requests", 1)
    | "The number of completed record deletions that may stay in their purgatory.",
)
