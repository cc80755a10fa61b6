"""Settings of the cluster: broker ids, ZooKeeper, and what belongs to KRaft.

A table, read by `broker_config_keys`; names, types, defaults and bounds are those of Kafka 3.9. Immutable.
"""

from __future__ import annotations

from barnabas.config.config_key import ConfigKey, ConfigType, OneOf, Range
from barnabas.config.keys.bounds import AT_LEAST_0, AT_LEAST_1, LONG_MAX

COORDINATION_KEYS = (
    ConfigKey(
        "zookeeper.connect",
        ConfigType.STRING,
        None,
        "ZooKeeper servers, host:port[,host:port...][/chroot]. Refused until clusters exist: see metadata.store.",
    ),
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
        "How long to wait for the first connection; zookeeper.session.timeout.ms if unset.",
    ),
    ConfigKey("zookeeper.set.acl", ConfigType.BOOLEAN, False, "Whether znodes are created with access control lists."),
    ConfigKey(
        "zookeeper.max.in.flight.requests",
        ConfigType.INT,
        10,
        "Requests sent to ZooKeeper before the first is answered.",
        AT_LEAST_1,
    ),
    ConfigKey(
        "zookeeper.ssl.client.enable", ConfigType.BOOLEAN, False, "Whether the connection to ZooKeeper uses TLS."
    ),
    ConfigKey("zookeeper.clientCnxnSocket", ConfigType.STRING, None, "Java's connection class; meaningless here."),
    ConfigKey("zookeeper.ssl.keystore.location", ConfigType.STRING, None, "Key store for TLS to ZooKeeper."),
    ConfigKey("zookeeper.ssl.keystore.password", ConfigType.PASSWORD, None, "Its password."),
    ConfigKey("zookeeper.ssl.keystore.type", ConfigType.STRING, None, "Its type."),
    ConfigKey("zookeeper.ssl.truststore.location", ConfigType.STRING, None, "Trust store for TLS to ZooKeeper."),
    ConfigKey("zookeeper.ssl.truststore.password", ConfigType.PASSWORD, None, "Its password."),
    ConfigKey("zookeeper.ssl.truststore.type", ConfigType.STRING, None, "Its type."),
    ConfigKey("zookeeper.ssl.protocol", ConfigType.STRING, "TLSv1.2", "TLS version offered to ZooKeeper."),
    ConfigKey("zookeeper.ssl.enabled.protocols", ConfigType.LIST, None, "TLS versions allowed towards ZooKeeper."),
    ConfigKey("zookeeper.ssl.cipher.suites", ConfigType.LIST, None, "Cipher suites allowed towards ZooKeeper."),
    ConfigKey(
        "zookeeper.ssl.endpoint.identification.algorithm",
        ConfigType.STRING,
        "HTTPS",
        "Whether ZooKeeper's host name is verified (HTTPS) or not (empty).",
    ),
    ConfigKey("zookeeper.ssl.crl.enable", ConfigType.BOOLEAN, False, "Whether revocation lists are consulted."),
    ConfigKey("zookeeper.ssl.ocsp.enable", ConfigType.BOOLEAN, False, "Whether OCSP is consulted."),
    ConfigKey(
        "broker.id.generation.enable",
        ConfigType.BOOLEAN,
        True,
        "Whether a broker without broker.id takes a generated one, above reserved.broker.max.id.",
    ),
    ConfigKey("reserved.broker.max.id", ConfigType.INT, 1000, "Largest id that may be given by hand.", AT_LEAST_0),
    ConfigKey("broker.id", ConfigType.INT, -1, "This broker's number in the cluster; -1 asks for a generated one."),
    ConfigKey(
        "broker.rack",
        ConfigType.STRING,
        None,
        "Rack of this broker, for replica placement and nearest-replica fetches.",
    ),
    ConfigKey("delete.topic.enable", ConfigType.BOOLEAN, True, "Whether topics may be deleted."),
    ConfigKey(
        "unstable.api.versions.enable",
        ConfigType.BOOLEAN,
        False,
        "Whether API versions still in development are offered.",
    ),
    ConfigKey(
        "unstable.feature.versions.enable",
        ConfigType.BOOLEAN,
        False,
        "Whether feature versions still in development are offered.",
    ),
    ConfigKey(
        "metadata.log.max.record.bytes.between.snapshots",
        ConfigType.LONG,
        20_971_520,
        "KRaft: bytes of metadata log between snapshots.",
        AT_LEAST_1,
    ),
    ConfigKey(
        "metadata.log.max.snapshot.interval.ms",
        ConfigType.LONG,
        3_600_000,
        "KRaft: longest time between snapshots.",
        AT_LEAST_0,
    ),
    ConfigKey(
        "process.roles",
        ConfigType.LIST,
        (),
        "KRaft: roles of this process. Refused: metadata here live in ZooKeeper's layout, see metadata.store.",
        OneOf(("broker", "controller")),
    ),
    ConfigKey("node.id", ConfigType.INT, -1, "Another name of broker.id."),
    ConfigKey(
        "initial.broker.registration.timeout.ms", ConfigType.INT, 60_000, "KRaft: how long registration may take."
    ),
    ConfigKey("broker.heartbeat.interval.ms", ConfigType.INT, 2000, "KRaft: time between heartbeats."),
    ConfigKey("broker.session.timeout.ms", ConfigType.INT, 9000, "KRaft: how long a broker may be silent."),
    ConfigKey(
        "controller.listener.names",
        ConfigType.STRING,
        None,
        "KRaft: listeners of the controller. Refused, see process.roles.",
    ),
    ConfigKey(
        "metadata.log.dir",
        ConfigType.STRING,
        None,
        "Where the embedded metadata store lives; the first log directory if unset.",
    ),
    ConfigKey(
        "metadata.log.segment.bytes",
        ConfigType.INT,
        1_073_741_824,
        "KRaft: segment size of the metadata log.",
        Range(12),
    ),
    ConfigKey(
        "metadata.log.segment.min.bytes",
        ConfigType.INT,
        8_388_608,
        "KRaft: smallest segment size of the metadata log.",
        Range(12),
    ),
    ConfigKey("metadata.log.segment.ms", ConfigType.LONG, 604_800_000, "KRaft: segment age of the metadata log."),
    ConfigKey("metadata.max.retention.bytes", ConfigType.LONG, 104_857_600, "KRaft: metadata log kept, in bytes."),
    ConfigKey("metadata.max.retention.ms", ConfigType.LONG, 604_800_000, "KRaft: metadata log kept, in time."),
    ConfigKey(
        "metadata.max.idle.interval.ms",
        ConfigType.INT,
        500,
        "KRaft: how often an idle controller writes a record.",
        AT_LEAST_0,
    ),
    ConfigKey("server.max.startup.time.ms", ConfigType.LONG, LONG_MAX, "How long the start may take.", AT_LEAST_0),
    ConfigKey(
        "zookeeper.metadata.migration.enable",
        ConfigType.BOOLEAN,
        False,
        "Whether a migration from ZooKeeper to KRaft runs.",
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
        "Records per batch of that migration.",
        AT_LEAST_1,
    ),
    ConfigKey("create.topic.policy.class.name", ConfigType.CLASS, None, "Class that may refuse new topics."),
    ConfigKey("alter.config.policy.class.name", ConfigType.CLASS, None, "Class that may refuse changes of settings."),
    ConfigKey(
        "alter.config.policy.kraft.compatibility.enable",
        ConfigType.BOOLEAN,
        False,
        "Whether that class sees values as KRaft shows them.",
    ),
    ConfigKey("controller.quorum.voters", ConfigType.LIST, (), "KRaft: the quorum. Refused, see process.roles."),
    ConfigKey(
        "controller.quorum.bootstrap.servers",
        ConfigType.LIST,
        (),
        "KRaft: where the quorum is found. Refused, see process.roles.",
    ),
    ConfigKey(
        "controller.quorum.election.timeout.ms", ConfigType.INT, 1000, "KRaft: how long a voter waits for votes."
    ),
    ConfigKey(
        "controller.quorum.fetch.timeout.ms", ConfigType.INT, 2000, "KRaft: how long a voter does without its leader."
    ),
    ConfigKey(
        "controller.quorum.election.backoff.max.ms", ConfigType.INT, 1000, "KRaft: longest pause between elections."
    ),
    ConfigKey("controller.quorum.append.linger.ms", ConfigType.INT, 25, "KRaft: how long the leader collects writes."),
    ConfigKey(
        "controller.quorum.request.timeout.ms", ConfigType.INT, 2000, "KRaft: how long a request waits for its answer."
    ),
    ConfigKey("controller.quorum.retry.backoff.ms", ConfigType.INT, 20, "KRaft: pause before a request is sent again."),
)
