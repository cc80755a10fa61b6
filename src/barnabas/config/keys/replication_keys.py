"""Settings of replication, leadership and the talk between brokers.

A table, read by `broker_config_keys`; names, types, defaults and bounds are those of Kafka 3.9. Immutable.
"""

from __future__ import annotations

from barnabas.config.config_key import ConfigKey, ConfigType, OneOf, Scope
from barnabas.config.keys.bounds import AT_LEAST_0, AT_LEAST_1, METADATA_VERSIONS

REPLICATION_KEYS = (
    ConfigKey(
        "num.replica.alter.log.dirs.threads",
        ConfigType.INT,
        None,
        "Threads that move replicas between log directories; as many as directories if unset.",
    ),
    ConfigKey(
        "controlled.shutdown.max.retries",
        ConfigType.INT,
        3,
        "How often a stopping broker asks for its leaderships to be moved.",
    ),
    ConfigKey("controlled.shutdown.retry.backoff.ms", ConfigType.LONG, 5000, "Pause between those attempts."),
    ConfigKey(
        "controlled.shutdown.enable", ConfigType.BOOLEAN, True, "Whether leaderships are moved before a broker stops."
    ),
    ConfigKey(
        "controller.socket.timeout.ms", ConfigType.INT, 30_000, "How long the controller waits for a broker's answer."
    ),
    ConfigKey("default.replication.factor", ConfigType.INT, 1, "Replicas of topics created without saying how many."),
    ConfigKey(
        "replica.lag.time.max.ms",
        ConfigType.LONG,
        30_000,
        "A follower that has not caught up for this long leaves the in-sync replicas.",
    ),
    ConfigKey(
        "replica.socket.timeout.ms", ConfigType.INT, 30_000, "How long a follower waits for its leader's answer."
    ),
    ConfigKey("replica.socket.receive.buffer.bytes", ConfigType.INT, 65_536, "SO_RCVBUF of a follower's connection."),
    ConfigKey(
        "replica.fetch.max.bytes", ConfigType.INT, 1_048_576, "Bytes a follower asks for per partition.", AT_LEAST_0
    ),
    ConfigKey("replica.fetch.wait.max.ms", ConfigType.INT, 500, "How long the leader may hold a follower's fetch."),
    ConfigKey(
        "replica.fetch.backoff.ms", ConfigType.INT, 1000, "Pause after a partition could not be fetched.", AT_LEAST_0
    ),
    ConfigKey(
        "replica.fetch.min.bytes",
        ConfigType.INT,
        1,
        "Fewest bytes a leader answers a follower with, before the wait is over.",
    ),
    ConfigKey(
        "replica.fetch.response.max.bytes", ConfigType.INT, 10_485_760, "Bytes a follower asks for in all.", AT_LEAST_0
    ),
    ConfigKey(
        "num.replica.fetchers",
        ConfigType.INT,
        1,
        "Fetcher threads per leader.",
        scope=Scope.CLUSTER_WIDE,
        is_thread_count=True,
    ),
    ConfigKey(
        "replica.high.watermark.checkpoint.interval.ms", ConfigType.LONG, 5000, "How often high watermarks are saved."
    ),
    ConfigKey(
        "auto.leader.rebalance.enable",
        ConfigType.BOOLEAN,
        True,
        "Whether the controller moves leadership back to preferred replicas.",
    ),
    ConfigKey(
        "leader.imbalance.per.broker.percentage", ConfigType.INT, 10, "Imbalance per broker above which it does."
    ),
    ConfigKey("leader.imbalance.check.interval.seconds", ConfigType.LONG, 300, "How often it looks.", AT_LEAST_1),
    ConfigKey(
        "unclean.leader.election.interval.ms",
        ConfigType.LONG,
        300_000,
        "How often unclean elections are looked for.",
        AT_LEAST_1,
    ),
    ConfigKey(
        "unclean.leader.election.enable",
        ConfigType.BOOLEAN,
        False,
        "Whether a replica out of sync may lead when no other is alive (records may be lost).",
        scope=Scope.CLUSTER_WIDE,
    ),
    ConfigKey(
        "security.inter.broker.protocol",
        ConfigType.STRING,
        "PLAINTEXT",
        "Security protocol between brokers; excludes inter.broker.listener.name.",
        OneOf(("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")),
    ),
    ConfigKey(
        "inter.broker.protocol.version",
        ConfigType.STRING,
        "3.9-IV0",
        "Protocol version spoken between brokers.",
        METADATA_VERSIONS,
    ),
    ConfigKey("inter.broker.listener.name", ConfigType.STRING, None, "Listener used between brokers."),
    ConfigKey("replica.selector.class", ConfigType.STRING, None, "How the replica nearest to a consumer is chosen."),
    ConfigKey(
        "min.insync.replicas",
        ConfigType.INT,
        1,
        "In-sync replicas a write with acks=all needs.",
        AT_LEAST_1,
        scope=Scope.CLUSTER_WIDE,
    ),
)
