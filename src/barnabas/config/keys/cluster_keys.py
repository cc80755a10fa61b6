"""Settings of the cluster (broker ids, ZooKeeper, what belongs to KRaft), and of replication and leadership.

Two tables, read by `broker_config_keys`; names, types, defaults and bounds are those of Kafka 3.9. Immutable.
Kafka: ZkConfigs, KRaftConfigs, ServerConfigs, ReplicationConfigs.
"""

from __future__ import annotations

from typing import Final

from barnabas.config.config_key import (
    AT_LEAST_0,
    AT_LEAST_1,
    BOOLEAN,
    CLASS,
    CLUSTER_WIDE,
    INT,
    LIST,
    LONG,
    LONG_MAX,
    METADATA_VERSIONS,
    PASSWORD,
    STRING,
    OneOf,
    Range,
)
from barnabas.config.keys.measurement_keys import NO_CLASSES

NO_QUORUM: Final = "there is no KRaft quorum"
_NO_PREVIEWS: Final = "nothing in development is offered"

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


CLUSTER_KEYS = (
    STRING("zookeeper.connect", None)
    | "The ZooKeeper servers of the cluster: host:port[,host:port...][/chroot]. Ignored with metadata.store=embedded. "
    "`barnabas serve --processes` sets it to unix:PATH, the socket of the brokers' common store. "
    "Needs the extra zookeeper (pip install barnabas[zookeeper]).",
    # 6 s until KIP-537: short network failures and collector pauses ended sessions, and each ended session moves
    # leaderships.
    INT("zookeeper.session.timeout.ms", 18_000) | "How long a broker may be silent before ZooKeeper ends its session.",
    INT("zookeeper.connection.timeout.ms", None)
    | "How long the broker waits for its first connection to ZooKeeper; zookeeper.session.timeout.ms if unset.",
    BOOLEAN("zookeeper.set.acl", False)
    | "Whether znodes are created with access control lists: for the broker's user alone, others may read what is no "
    "secret. Needs a login (zookeeper.sasl.jaas.config), or a certificate (zookeeper.ssl.keystore.location).",
    INT("zookeeper.max.in.flight.requests", 10, AT_LEAST_1)
    | "The number of requests sent to ZooKeeper before the first is answered.",
    # KIP-515: TLS to ZooKeeper is set up apart from that of the listeners (this setting and those below).
    BOOLEAN("zookeeper.ssl.client.enable", False) | "Whether the connection to ZooKeeper uses TLS.",
    STRING("zookeeper.clientCnxnSocket", None)
    | "The Java class of connections to ZooKeeper: with TLS org.apache.zookeeper.ClientCnxnSocketNetty, or unset.",
    STRING("zookeeper.ssl.keystore.location", None)
    | "The key store for TLS to ZooKeeper, where it wants certificates.",
    PASSWORD("zookeeper.ssl.keystore.password", None) | "The password of the key store for TLS to ZooKeeper.",
    STRING("zookeeper.ssl.keystore.type", None)
    | "The type of the key store for TLS to ZooKeeper: PEM or PKCS12; by its file's name if unset.",
    STRING("zookeeper.ssl.truststore.location", None)
    | "The trust store for TLS to ZooKeeper; the system's authorities if unset.",
    PASSWORD("zookeeper.ssl.truststore.password", None) | "The password of the trust store for TLS to ZooKeeper.",
    STRING("zookeeper.ssl.truststore.type", None)
    | "The type of the trust store for TLS to ZooKeeper: PEM or PKCS12; by its file's name if unset.",
    STRING("zookeeper.ssl.protocol", "TLSv1.2")
    | "The version of TLS to ZooKeeper, unless zookeeper.ssl.enabled.protocols names others.",
    LIST("zookeeper.ssl.enabled.protocols", None) | "The versions of TLS to ZooKeeper: TLSv1.2, TLSv1.3.",
    LIST("zookeeper.ssl.cipher.suites", None) | "The cipher suites allowed to ZooKeeper.",
    STRING("zookeeper.ssl.endpoint.identification.algorithm", "HTTPS")
    | "Whether the host name of ZooKeeper is verified (HTTPS) or not (empty).",
    BOOLEAN("zookeeper.ssl.crl.enable", False)
    | "Whether certificates of ZooKeeper are looked up in revocation lists. true stops the start: they are not.",
    BOOLEAN("zookeeper.ssl.ocsp.enable", False)
    | "Whether certificates of ZooKeeper are checked by OCSP. true stops the start: they are not.",
    BOOLEAN("broker.id.generation.enable", True)
    | "Whether a broker without broker.id generates one above reserved.broker.max.id.",
    # Ids that operators choose end here and generated ids begin above, so that the two never collide.
    INT("reserved.broker.max.id", 1000, AT_LEAST_0) | "The largest id that may be set by broker.id.",
    INT("broker.id", -1) | "The number of this broker in the cluster; -1 asks for a generated one.",
    STRING("broker.rack", None)
    | "The rack of this broker, for the placement of replicas and for fetches from the nearest replica.",
    # False before Kafka 1.0.
    BOOLEAN("delete.topic.enable", True) | "Whether topics may be deleted.",
    BOOLEAN("unstable.api.versions.enable", False, kept=_NO_PREVIEWS, is_internal=True)
    | "Whether versions of APIs that are still in development are offered.",
    BOOLEAN("unstable.feature.versions.enable", False, kept=_NO_PREVIEWS, is_internal=True)
    | "Whether versions of features that are still in development are offered.",
    LONG("metadata.log.max.record.bytes.between.snapshots", 20_971_520, AT_LEAST_1, kept=NO_QUORUM)
    | "KRaft: the number of bytes in the metadata log between two snapshots.",
    LONG("metadata.log.max.snapshot.interval.ms", 3_600_000, AT_LEAST_0, kept=NO_QUORUM)
    | "KRaft: the longest time between two snapshots.",
    LIST("process.roles", (), OneOf(("broker", "controller")), kept=NO_QUORUM)
    | "KRaft: the roles of this process. Refused unless metadata.store is set, since this version runs single brokers "
    "only.",
    # KRaft's name of broker.id (KIP-631). A file may have both, if they agree (`cross_checks`).
    INT("node.id", -1) | "Another name of broker.id, with the same value.",
    INT("initial.broker.registration.timeout.ms", 60_000, kept=NO_QUORUM)
    | "KRaft: how long the registration of a broker may take.",
    INT("broker.heartbeat.interval.ms", 2000, kept=NO_QUORUM) | "KRaft: the time between two heartbeats of a broker.",
    INT("broker.session.timeout.ms", 9000, kept=NO_QUORUM) | "KRaft: how long a broker may be silent.",
    STRING("controller.listener.names", None)
    | "KRaft: the listeners of the controller, which a broker does not open. Refused unless metadata.store is set.",
    # KRaft's directory for its metadata log. A disk of its own keeps the metadata apart from failures of the log
    # directories.
    STRING("metadata.log.dir", None)
    | "The directory of the embedded metadata store; the first log directory if unset.",
    INT("metadata.log.segment.bytes", 1_073_741_824, Range(12), kept=NO_QUORUM)
    | "KRaft: the size of a segment of the metadata log.",
    INT("metadata.log.segment.min.bytes", 8_388_608, Range(12), kept=NO_QUORUM, is_internal=True)
    | "KRaft: the smallest size of a segment of the metadata log.",
    LONG("metadata.log.segment.ms", 604_800_000, kept=NO_QUORUM)
    | "KRaft: the age at which a segment of the metadata log is closed.",
    LONG("metadata.max.retention.bytes", 104_857_600, kept=NO_QUORUM)
    | "KRaft: the number of bytes of the metadata log that are kept.",
    LONG("metadata.max.retention.ms", 604_800_000, kept=NO_QUORUM) | "KRaft: how long the metadata log is kept.",
    INT("metadata.max.idle.interval.ms", 500, AT_LEAST_0, kept=NO_QUORUM)
    | "KRaft: how often an idle controller writes a record.",
    LONG("server.max.startup.time.ms", LONG_MAX, AT_LEAST_0, kept=NO_QUORUM, is_internal=True)
    | "How long the start of the server may take.",
    BOOLEAN("zookeeper.metadata.migration.enable", False, kept=NO_QUORUM)
    | "Whether the metadata are migrated from ZooKeeper to KRaft.",
    BOOLEAN("eligible.leader.replicas.enable", False, kept=NO_QUORUM)
    | "KRaft: whether eligible leader replicas are kept.",
    INT("zookeeper.metadata.migration.min.batch.size", 200, AT_LEAST_1, kept=NO_QUORUM, is_internal=True)
    | "The number of records in one batch of the migration from ZooKeeper to KRaft.",
    CLASS("create.topic.policy.class.name", None) | "The Java class that may refuse new topics.",
    CLASS("alter.config.policy.class.name", None) | "The Java class that may refuse changes of settings.",
    BOOLEAN("alter.config.policy.kraft.compatibility.enable", False, kept=NO_CLASSES)
    | "Whether the class of alter.config.policy.class.name gets values as KRaft shows them.",
    LIST("controller.quorum.voters", (), kept=NO_QUORUM)
    | "KRaft: the voters of the metadata quorum. Refused unless metadata.store is set.",
    # KIP-853: a quorum whose members change is found by any of its addresses, instead of a fixed list of voters.
    LIST("controller.quorum.bootstrap.servers", (), kept=NO_QUORUM)
    | "KRaft: the addresses where the metadata quorum is found. Refused unless metadata.store is set.",
    INT("controller.quorum.election.timeout.ms", 1000, kept=NO_QUORUM) | "KRaft: how long a voter waits for votes.",
    INT("controller.quorum.fetch.timeout.ms", 2000, kept=NO_QUORUM)
    | "KRaft: how long a voter may go without its leader.",
    INT("controller.quorum.election.backoff.max.ms", 1000, kept=NO_QUORUM)
    | "KRaft: the longest pause between two elections.",
    INT("controller.quorum.append.linger.ms", 25, kept=NO_QUORUM)
    | "KRaft: how long the leader gathers writes into one batch.",
    INT("controller.quorum.request.timeout.ms", 2000, kept=NO_QUORUM)
    | "KRaft: how long a request waits for its answer.",
    INT("controller.quorum.retry.backoff.ms", 20, kept=NO_QUORUM) | "KRaft: the pause before a request is sent again.",
)
