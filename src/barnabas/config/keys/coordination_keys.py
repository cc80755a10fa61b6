"""Settings of the cluster: broker ids, ZooKeeper, and what belongs to KRaft.

A table, read by `broker_config_keys`; names, types, defaults and bounds are those of Kafka 3.9. Immutable.
Kafka: ZkConfigs, KRaftConfigs, ServerConfigs.
"""

from __future__ import annotations

from barnabas.config.config_key import ConfigKey, ConfigType, OneOf, Range
from barnabas.config.keys.bounds import AT_LEAST_0, AT_LEAST_1, LONG_MAX

COORDINATION_KEYS = (
    ConfigKey(
        "zookeeper.connect",
        ConfigType.STRING,
        None,
        "The ZooKeeper servers of the cluster: host:port[,host:port...][/chroot]. Ignored with "
        "metadata.store=embedded. Needs the extra zookeeper (pip install barnabas[zookeeper]).",
    ),
    # 6 s until KIP-537: short network failures and collector pauses ended sessions, and each ended session moves
    # leaderships.
    ConfigKey(
        "zookeeper.session.timeout.ms",
        ConfigType.INT,
        18_000,
        "How long a broker may be silent before ZooKeeper ends its session.",
    ),
    ConfigKey(
        "zookeeper.connection.timeout.ms",
        ConfigType.INT,
        None,
        "How long the broker waits for its first connection to ZooKeeper; zookeeper.session.timeout.ms if unset.",
    ),
    ConfigKey(
        "zookeeper.set.acl",
        ConfigType.BOOLEAN,
        False,
        "Whether znodes are created with access control lists: for the broker's user alone, others may read what is no "
        "secret. Needs a login (zookeeper.sasl.jaas.config), or a certificate (zookeeper.ssl.keystore.location).",
    ),
    ConfigKey(
        "zookeeper.max.in.flight.requests",
        ConfigType.INT,
        10,
        "The number of requests sent to ZooKeeper before the first is answered.",
        AT_LEAST_1,
    ),
    # KIP-515: TLS to ZooKeeper is set up apart from that of the listeners (this setting and those below).
    ConfigKey(
        "zookeeper.ssl.client.enable", ConfigType.BOOLEAN, False, "Whether the connection to ZooKeeper uses TLS."
    ),
    ConfigKey(
        "zookeeper.clientCnxnSocket",
        ConfigType.STRING,
        None,
        "The Java class of connections to ZooKeeper: with TLS org.apache.zookeeper.ClientCnxnSocketNetty, or unset.",
    ),
    ConfigKey(
        "zookeeper.ssl.keystore.location",
        ConfigType.STRING,
        None,
        "The key store for TLS to ZooKeeper, where it wants certificates.",
    ),
    ConfigKey(
        "zookeeper.ssl.keystore.password",
        ConfigType.PASSWORD,
        None,
        "The password of the key store for TLS to ZooKeeper.",
    ),
    ConfigKey(
        "zookeeper.ssl.keystore.type",
        ConfigType.STRING,
        None,
        "The type of the key store for TLS to ZooKeeper: PEM or PKCS12; by its file's name if unset.",
    ),
    ConfigKey(
        "zookeeper.ssl.truststore.location",
        ConfigType.STRING,
        None,
        "The trust store for TLS to ZooKeeper; the system's authorities if unset.",
    ),
    ConfigKey(
        "zookeeper.ssl.truststore.password",
        ConfigType.PASSWORD,
        None,
        "The password of the trust store for TLS to ZooKeeper.",
    ),
    ConfigKey(
        "zookeeper.ssl.truststore.type",
        ConfigType.STRING,
        None,
        "The type of the trust store for TLS to ZooKeeper: PEM or PKCS12; by its file's name if unset.",
    ),
    ConfigKey(
        "zookeeper.ssl.protocol",
        ConfigType.STRING,
        "TLSv1.2",
        "The version of TLS to ZooKeeper, unless zookeeper.ssl.enabled.protocols names others.",
    ),
    ConfigKey(
        "zookeeper.ssl.enabled.protocols", ConfigType.LIST, None, "The versions of TLS to ZooKeeper: TLSv1.2, TLSv1.3."
    ),
    ConfigKey("zookeeper.ssl.cipher.suites", ConfigType.LIST, None, "The cipher suites allowed to ZooKeeper."),
    ConfigKey(
        "zookeeper.ssl.endpoint.identification.algorithm",
        ConfigType.STRING,
        "HTTPS",
        "Whether the host name of ZooKeeper is verified (HTTPS) or not (empty).",
    ),
    ConfigKey(
        "zookeeper.ssl.crl.enable",
        ConfigType.BOOLEAN,
        False,
        "Whether certificates of ZooKeeper are looked up in revocation lists. true stops the start: they are not.",
    ),
    ConfigKey(
        "zookeeper.ssl.ocsp.enable",
        ConfigType.BOOLEAN,
        False,
        "Whether certificates of ZooKeeper are checked by OCSP. true stops the start: they are not.",
    ),
    ConfigKey(
        "broker.id.generation.enable",
        ConfigType.BOOLEAN,
        True,
        "Whether a broker without broker.id generates one above reserved.broker.max.id.",
    ),
    # Ids that operators choose end here and generated ids begin above, so that the two never collide.
    ConfigKey(
        "reserved.broker.max.id", ConfigType.INT, 1000, "The largest id that may be set by broker.id.", AT_LEAST_0
    ),
    ConfigKey(
        "broker.id", ConfigType.INT, -1, "The number of this broker in the cluster; -1 asks for a generated one."
    ),
    ConfigKey(
        "broker.rack",
        ConfigType.STRING,
        None,
        "The rack of this broker, for the placement of replicas and for fetches from the nearest replica.",
    ),
    # False before Kafka 1.0.
    ConfigKey("delete.topic.enable", ConfigType.BOOLEAN, True, "Whether topics may be deleted."),
    ConfigKey(
        "unstable.api.versions.enable",
        ConfigType.BOOLEAN,
        False,
        "Whether versions of APIs that are still in development are offered.",
    ),
    ConfigKey(
        "unstable.feature.versions.enable",
        ConfigType.BOOLEAN,
        False,
        "Whether versions of features that are still in development are offered.",
    ),
    ConfigKey(
        "metadata.log.max.record.bytes.between.snapshots",
        ConfigType.LONG,
        20_971_520,
        "KRaft: the number of bytes in the metadata log between two snapshots.",
        AT_LEAST_1,
    ),
    ConfigKey(
        "metadata.log.max.snapshot.interval.ms",
        ConfigType.LONG,
        3_600_000,
        "KRaft: the longest time between two snapshots.",
        AT_LEAST_0,
    ),
    ConfigKey(
        "process.roles",
        ConfigType.LIST,
        (),
        "KRaft: the roles of this process. Refused unless metadata.store is set, since this version runs single "
        "brokers only.",
        OneOf(("broker", "controller")),
    ),
    # KRaft's name of broker.id (KIP-631). A file may have both, if they agree (`cross_checks`).
    ConfigKey("node.id", ConfigType.INT, -1, "Another name of broker.id, with the same value."),
    ConfigKey(
        "initial.broker.registration.timeout.ms",
        ConfigType.INT,
        60_000,
        "KRaft: how long the registration of a broker may take.",
    ),
    ConfigKey(
        "broker.heartbeat.interval.ms", ConfigType.INT, 2000, "KRaft: the time between two heartbeats of a broker."
    ),
    ConfigKey("broker.session.timeout.ms", ConfigType.INT, 9000, "KRaft: how long a broker may be silent."),
    ConfigKey(
        "controller.listener.names",
        ConfigType.STRING,
        None,
        "KRaft: the listeners of the controller, which a broker does not open. Refused unless metadata.store is set.",
    ),
    # KRaft's directory for its metadata log. A disk of its own keeps the metadata apart from failures of the log
    # directories.
    ConfigKey(
        "metadata.log.dir",
        ConfigType.STRING,
        None,
        "The directory of the embedded metadata store; the first log directory if unset.",
    ),
    ConfigKey(
        "metadata.log.segment.bytes",
        ConfigType.INT,
        1_073_741_824,
        "KRaft: the size of a segment of the metadata log.",
        Range(12),
    ),
    ConfigKey(
        "metadata.log.segment.min.bytes",
        ConfigType.INT,
        8_388_608,
        "KRaft: the smallest size of a segment of the metadata log.",
        Range(12),
    ),
    ConfigKey(
        "metadata.log.segment.ms",
        ConfigType.LONG,
        604_800_000,
        "KRaft: the age at which a segment of the metadata log is closed.",
    ),
    ConfigKey(
        "metadata.max.retention.bytes",
        ConfigType.LONG,
        104_857_600,
        "KRaft: the number of bytes of the metadata log that are kept.",
    ),
    ConfigKey("metadata.max.retention.ms", ConfigType.LONG, 604_800_000, "KRaft: how long the metadata log is kept."),
    ConfigKey(
        "metadata.max.idle.interval.ms",
        ConfigType.INT,
        500,
        "KRaft: how often an idle controller writes a record.",
        AT_LEAST_0,
    ),
    ConfigKey(
        "server.max.startup.time.ms",
        ConfigType.LONG,
        LONG_MAX,
        "How long the start of the server may take.",
        AT_LEAST_0,
    ),
    ConfigKey(
        "zookeeper.metadata.migration.enable",
        ConfigType.BOOLEAN,
        False,
        "Whether the metadata are migrated from ZooKeeper to KRaft.",
    ),
    ConfigKey(
        "eligible.leader.replicas.enable",
        ConfigType.BOOLEAN,
        False,
        "KRaft: whether eligible leader replicas are kept.",
    ),
    ConfigKey(
        "zookeeper.metadata.migration.min.batch.size",
        ConfigType.INT,
        200,
        "The number of records in one batch of the migration from ZooKeeper to KRaft.",
        AT_LEAST_1,
    ),
    ConfigKey("create.topic.policy.class.name", ConfigType.CLASS, None, "The Java class that may refuse new topics."),
    ConfigKey(
        "alter.config.policy.class.name", ConfigType.CLASS, None, "The Java class that may refuse changes of settings."
    ),
    ConfigKey(
        "alter.config.policy.kraft.compatibility.enable",
        ConfigType.BOOLEAN,
        False,
        "Whether the class of alter.config.policy.class.name gets values as KRaft shows them.",
    ),
    ConfigKey(
        "controller.quorum.voters",
        ConfigType.LIST,
        (),
        "KRaft: the voters of the metadata quorum. Refused unless metadata.store is set.",
    ),
    # KIP-853: a quorum whose members change is found by any of its addresses, instead of a fixed list of voters.
    ConfigKey(
        "controller.quorum.bootstrap.servers",
        ConfigType.LIST,
        (),
        "KRaft: the addresses where the metadata quorum is found. Refused unless metadata.store is set.",
    ),
    ConfigKey(
        "controller.quorum.election.timeout.ms", ConfigType.INT, 1000, "KRaft: how long a voter waits for votes."
    ),
    ConfigKey(
        "controller.quorum.fetch.timeout.ms", ConfigType.INT, 2000, "KRaft: how long a voter may go without its leader."
    ),
    ConfigKey(
        "controller.quorum.election.backoff.max.ms",
        ConfigType.INT,
        1000,
        "KRaft: the longest pause between two elections.",
    ),
    ConfigKey(
        "controller.quorum.append.linger.ms",
        ConfigType.INT,
        25,
        "KRaft: how long the leader gathers writes into one batch.",
    ),
    ConfigKey(
        "controller.quorum.request.timeout.ms", ConfigType.INT, 2000, "KRaft: how long a request waits for its answer."
    ),
    ConfigKey(
        "controller.quorum.retry.backoff.ms", ConfigType.INT, 20, "KRaft: the pause before a request is sent again."
    ),
)
