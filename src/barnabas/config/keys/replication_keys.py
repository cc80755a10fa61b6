"""Settings of replication, leadership and the talk between brokers.

A table, read by `broker_config_keys`; names, types, defaults and bounds are those of Kafka 3.9. Immutable.
Kafka: ReplicationConfigs.
"""

from __future__ import annotations

from barnabas.config.config_key import ConfigKey, ConfigType, OneOf, Scope
from barnabas.config.keys.bounds import AT_LEAST_0, AT_LEAST_1, METADATA_VERSIONS

REPLICATION_KEYS = (
    ConfigKey(
        "num.replica.alter.log.dirs.threads",
        ConfigType.INT,
        None,
        "The number of threads that move replicas between log directories; one for each directory if unset.",
    ),
    ConfigKey(
        "controlled.shutdown.max.retries",
        ConfigType.INT,
        3,
        "How many times a stopping broker asks the controller to move its leaderships.",
    ),
    ConfigKey(
        "controlled.shutdown.retry.backoff.ms",
        ConfigType.LONG,
        5000,
        "The pause before a stopping broker asks the controller again.",
    ),
    # Without it the partitions of a stopping broker have no leader until the controller notices that the broker is
    # gone.
    ConfigKey(
        "controlled.shutdown.enable",
        ConfigType.BOOLEAN,
        True,
        "Whether leaderships are moved to other brokers before a broker stops.",
    ),
    ConfigKey(
        "controller.socket.timeout.ms", ConfigType.INT, 30_000, "How long the controller waits for a broker's answer."
    ),
    ConfigKey(
        "default.replication.factor",
        ConfigType.INT,
        1,
        "The number of replicas of a topic whose creation does not name one.",
    ),
    # Time only, not records: a burst of produces must not throw followers out of the in-sync replicas (KIP-16).
    ConfigKey(
        "replica.lag.time.max.ms",
        ConfigType.LONG,
        30_000,
        "How long a follower may lag behind before it leaves the in-sync replicas.",
    ),
    ConfigKey(
        "replica.socket.timeout.ms", ConfigType.INT, 30_000, "How long a follower waits for its leader's answer."
    ),
    ConfigKey(
        "replica.socket.receive.buffer.bytes",
        ConfigType.INT,
        65_536,
        "The size of the receive buffer (SO_RCVBUF) of a follower's connection.",
    ),
    # Not a hard limit: the first batch is sent whole, since replication would stop at a batch that is larger (KIP-74).
    ConfigKey(
        "replica.fetch.max.bytes",
        ConfigType.INT,
        1_048_576,
        "The number of bytes that a follower asks for per partition.",
        AT_LEAST_0,
    ),
    # Must not exceed replica.lag.time.max.ms: followers of idle partitions would leave the in-sync replicas
    # (`cross_checks`).
    ConfigKey(
        "replica.fetch.wait.max.ms", ConfigType.INT, 500, "The longest time that a leader may hold a follower's fetch."
    ),
    ConfigKey(
        "replica.fetch.backoff.ms", ConfigType.INT, 1000, "The pause after a failed fetch of a partition.", AT_LEAST_0
    ),
    ConfigKey(
        "replica.fetch.min.bytes",
        ConfigType.INT,
        1,
        "The number of bytes for which a leader waits before it answers a follower.",
    ),
    ConfigKey(
        "replica.fetch.response.max.bytes",
        ConfigType.INT,
        10_485_760,
        "The number of bytes that a follower asks for in one fetch.",
        AT_LEAST_0,
    ),
    ConfigKey(
        "num.replica.fetchers",
        ConfigType.INT,
        1,
        "The number of threads that fetch from one leader.",
        scope=Scope.CLUSTER_WIDE,
        is_thread_count=True,
    ),
    ConfigKey(
        "replica.high.watermark.checkpoint.interval.ms",
        ConfigType.LONG,
        5000,
        "How often high watermarks are written to their checkpoint.",
    ),
    ConfigKey(
        "auto.leader.rebalance.enable",
        ConfigType.BOOLEAN,
        True,
        "Whether the controller moves leaderships back to the preferred replicas.",
    ),
    ConfigKey(
        "leader.imbalance.per.broker.percentage",
        ConfigType.INT,
        10,
        "The percentage of a broker's partitions led by other replicas above which leaderships are moved back.",
    ),
    ConfigKey(
        "leader.imbalance.check.interval.seconds",
        ConfigType.LONG,
        300,
        "How often the controller looks for partitions that their preferred replica does not lead.",
        AT_LEAST_1,
    ),
    ConfigKey(
        "unclean.leader.election.interval.ms",
        ConfigType.LONG,
        300_000,
        "How often the controller looks for partitions that need an unclean election.",
        AT_LEAST_1,
    ),
    # False since Kafka 0.11 (KIP-106): consistency comes before availability.
    ConfigKey(
        "unclean.leader.election.enable",
        ConfigType.BOOLEAN,
        False,
        "Whether a replica that is not in sync may lead when no other is alive, which may lose records.",
        scope=Scope.CLUSTER_WIDE,
    ),
    ConfigKey(
        "security.inter.broker.protocol",
        ConfigType.STRING,
        "PLAINTEXT",
        "The security protocol between brokers; not allowed together with inter.broker.listener.name.",
        OneOf(("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")),
    ),
    ConfigKey(
        "inter.broker.protocol.version",
        ConfigType.STRING,
        "3.9-IV0",
        "The version of the protocol between brokers. Before 2.7-IV2, leaders write changes of in-sync replicas to the "
        "store; from then on they ask the controller, by topic ids from 2.8 on. Other requests are those of 3.9.",
        METADATA_VERSIONS,
    ),
    ConfigKey("inter.broker.listener.name", ConfigType.STRING, None, "The listener that brokers use among themselves."),
    ConfigKey(
        "replica.selector.class",
        ConfigType.STRING,
        None,
        "The rule that chooses the replica from which a consumer reads; without it, consumers read from the leader. "
        "The one rule there is prefers replicas in the consumer's rack.",
        OneOf(("org.apache.kafka.common.replica.RackAwareReplicaSelector",)),
    ),
    # Concerns writes with acks=all only; others are accepted however few replicas are in sync.
    ConfigKey(
        "min.insync.replicas",
        ConfigType.INT,
        1,
        "The number of in-sync replicas that a write with acks=all needs.",
        AT_LEAST_1,
        scope=Scope.CLUSTER_WIDE,
    ),
)
