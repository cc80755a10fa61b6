"""Settings of replication, leadership and the talk between brokers.

A table, read by `broker_config_keys`; names, types, defaults and bounds are those of Kafka 3.9. Immutable.
Kafka: ReplicationConfigs.
"""

from __future__ import annotations

from barnabas.config.config_key import (
    AT_LEAST_0,
    AT_LEAST_1,
    BOOLEAN,
    CLUSTER_WIDE,
    INT,
    LONG,
    METADATA_VERSIONS,
    STRING,
    OneOf,
)
from barnabas.config.keys.cluster_keys import NO_QUORUM

REPLICATION_KEYS = (
    INT("num.replica.alter.log.dirs.threads", None)
    | "The number of threads that move replicas between log directories; one for each directory if unset.",
    INT("controlled.shutdown.max.retries", 3)
    | "How many times a stopping broker asks the controller to move its leaderships.",
    LONG("controlled.shutdown.retry.backoff.ms", 5000)
    | "The pause before a stopping broker asks the controller again.",
    # Without it the partitions of a stopping broker have no leader until the controller notices that the broker is
    # gone.
    BOOLEAN("controlled.shutdown.enable", True)
    | "Whether leaderships are moved to other brokers before a broker stops.",
    INT("controller.socket.timeout.ms", 30_000) | "How long the controller waits for a broker's answer.",
    INT("default.replication.factor", 1) | "The number of replicas of a topic whose creation does not name one.",
    # Time only, not records: a burst of produces must not throw followers out of the in-sync replicas (KIP-16).
    LONG("replica.lag.time.max.ms", 30_000)
    | "How long a follower may lag behind before it leaves the in-sync replicas.",
    INT("replica.socket.timeout.ms", 30_000) | "How long a follower waits for its leader's answer.",
    INT("replica.socket.receive.buffer.bytes", 65_536)
    | "The size of the receive buffer (SO_RCVBUF) of a follower's connection.",
    # Not a hard limit: the first batch is sent whole, since replication would stop at a batch that is larger (KIP-74).
    INT("replica.fetch.max.bytes", 1_048_576, AT_LEAST_0)
    | "The number of bytes that a follower asks for per partition.",
    # Must not exceed replica.lag.time.max.ms: followers of idle partitions would leave the in-sync replicas
    # (`cross_checks`).
    INT("replica.fetch.wait.max.ms", 500) | "The longest time that a leader may hold a follower's fetch.",
    INT("replica.fetch.backoff.ms", 1000, AT_LEAST_0) | "The pause after a failed fetch of a partition.",
    INT("replica.fetch.min.bytes", 1) | "The number of bytes for which a leader waits before it answers a follower.",
    INT("replica.fetch.response.max.bytes", 10_485_760, AT_LEAST_0)
    | "The number of bytes that a follower asks for in one fetch.",
    INT("num.replica.fetchers", 1, scope=CLUSTER_WIDE, is_thread_count=True)
    | "The number of threads that fetch from one leader.",
    LONG("replica.high.watermark.checkpoint.interval.ms", 5000)
    | "How often high watermarks are written to their checkpoint.",
    BOOLEAN("auto.leader.rebalance.enable", True)
    | "Whether the controller moves leaderships back to the preferred replicas.",
    INT("leader.imbalance.per.broker.percentage", 10)
    | "The percentage of a broker's partitions led by other replicas above which leaderships are moved back.",
    LONG("leader.imbalance.check.interval.seconds", 300, AT_LEAST_1)
    | "How often the controller looks for partitions that their preferred replica does not lead.",
    LONG("unclean.leader.election.interval.ms", 300_000, AT_LEAST_1, kept=NO_QUORUM, is_internal=True)
    | "How often the controller looks for partitions that need an unclean election.",
    # False since Kafka 0.11 (KIP-106): consistency comes before availability.
    BOOLEAN("unclean.leader.election.enable", False, scope=CLUSTER_WIDE)
    | "Whether a replica that is not in sync may lead when no other is alive, which may lose records.",
    STRING("security.inter.broker.protocol", "PLAINTEXT", OneOf(("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")))
    | "The security protocol between brokers; not allowed together with inter.broker.listener.name.",
    STRING("inter.broker.protocol.version", "3.9-IV0", METADATA_VERSIONS)
    | "The version of the protocol between brokers. Before 2.7-IV2, leaders write changes of in-sync replicas to the "
    "store; from then on they ask the controller, by topic ids from 2.8 on. Other requests are those of 3.9.",
    STRING("inter.broker.listener.name", None) | "The listener that brokers use among themselves.",
    STRING("replica.selector.class", None, OneOf(("org.apache.kafka.common.replica.RackAwareReplicaSelector",)))
    | "The rule that chooses the replica from which a consumer reads; without it, consumers read from the leader. The "
    "one rule there is prefers replicas in the consumer's rack.",
    # Concerns writes with acks=all only; others are accepted however few replicas are in sync.
    INT("min.insync.replicas", 1, AT_LEAST_1, CLUSTER_WIDE)
    | "The number of in-sync replicas that a write with acks=all needs.",
)
