"""Rules between settings: Kafka's checks after parsing, the connection to ZooKeeper, and the limits of this version.

`KafkaConfig.parse` calls `check_settings`, for a file and for a change at run time alike. The config classes that
depend on the choice of a store ask `uses_zookeeper`. Pure functions. The messages are Kafka's where Kafka has the rule.

Kafka: KafkaConfig.validateValues, KafkaServer.initZkClient, KafkaConfig.zkTlsClientAuthEnabled.
"""

from __future__ import annotations

from typing import Final

from barnabas.config.config_error import ConfigError, RequirementFailed
from barnabas.config.config_values import ConfigValues
from barnabas.config.listeners import advertised_listeners_of, inter_broker_listener_name_of, listeners_of
from barnabas.config.protection import check_protection

_KRAFT_ONLY = (
    "process.roles",
    "controller.quorum.voters",
    "controller.quorum.bootstrap.servers",
    "controller.listener.names",
)
_STAND_ALONE = (
    "Set metadata.store=embedded (in the file, or by --override metadata.store=embedded): the broker then stands "
    "alone, keeps the metadata in its data directory"
)
_BYTES_PER_CLEANER_THREAD = 1 << 20

_ZOOKEEPER_TLS: Final = "zookeeper.ssl.client.enable"
_ZOOKEEPER_SOCKET: Final = "zookeeper.clientCnxnSocket"
_NETTY_SOCKET: Final = "org.apache.zookeeper.ClientCnxnSocketNetty"
_ZOOKEEPER_KEY_STORE: Final = "zookeeper.ssl.keystore.location"
_ZOOKEEPER_TRUST_STORE: Final = "zookeeper.ssl.truststore.location"
_ZOOKEEPER_NAME_CHECK: Final = "zookeeper.ssl.endpoint.identification.algorithm"
_REVOCATION_CHECKS: Final = ("zookeeper.ssl.crl.enable", "zookeeper.ssl.ocsp.enable")


def uses_zookeeper(config: ConfigValues) -> bool:
    """Return whether the metadata are in ZooKeeper: `metadata.store` says so, or only `zookeeper.connect` is given.

    A file of Apache Kafka has no `metadata.store`, and means the ZooKeeper that it names.
    """
    if config.is_set("metadata.store"):
        return config.string("metadata.store") == "zookeeper"
    return bool(config.optional_string("zookeeper.connect"))


# The order matters where a file breaks several rules: which cluster the file is for and which protection it asks for
# come first, because no other message makes sense to an operator whose file is for another kind of cluster.


def check_settings(config: ConfigValues) -> None:
    """Check every rule. Raises ConfigError: `config` breaks one; the message is about the first."""
    _check_metadata_store(config)
    check_protection(config)
    _check_zookeeper(config)
    _check_identity(config)
    _check_listeners(config)
    _check_logs(config)
    _check_replication(config)
    _check_limits(config)
    _check_consumer_groups(config)


def _require(condition: bool, name: str, message: str) -> None:
    """Check one rule, as Scala's `require` does. Raises RequirementFailed: the condition does not hold."""
    if not condition:
        raise RequirementFailed(message, name)


def _check_metadata_store(config: ConfigValues) -> None:
    """Check that ZooKeeper has an address, and that a file for KRaft asks for a broker that is alone.

    A broker that ignored those settings silently would split the cluster that its operator means.

    Raises ConfigError: ZooKeeper has no address, the file is for KRaft and does not say that the broker
    shall stand alone, or it is for a controller without a broker.
    """
    if config.string("metadata.store") == "zookeeper" and not config.optional_string("zookeeper.connect"):
        raise ConfigError(
            "metadata.store=zookeeper: zookeeper.connect is missing; set it to host:port[,host:port...][/chroot], or "
            "metadata.store=embedded, which keeps the metadata in the data directory",
            "zookeeper.connect",
        )
    # KRaft's own defaults are empty, so a name that has a text was given.
    given = [name for name in _KRAFT_ONLY if config.text(name)]
    if given and not config.is_set("metadata.store"):
        name = given[0]
        raise ConfigError(
            f"{name}={config.text(name)}: this file is for a cluster on KRaft, which this version cannot join. "
            f"{_STAND_ALONE}, and {', '.join(given)} and the listeners of the controller are ignored",
            name,
        )
    roles = config.list("process.roles")
    if roles and "broker" not in roles:
        raise ConfigError(
            f"process.roles={','.join(roles)}: this version has no controllers without a broker: the broker "
            "keeps the metadata. Add the role broker, or start with the broker's file",
            "process.roles",
        )


def _check_zookeeper(config: ConfigValues) -> None:
    """Check what must be set for TLS, a login and access control lists; with the embedded store no rule applies.

    ZooKeeper: ClientX509Util. Raises ConfigError: the settings promise what would not be done.
    """
    if uses_zookeeper(config):
        _check_zookeeper_tls(config)
        _check_zookeeper_acls(config)


def _check_zookeeper_tls(config: ConfigValues) -> None:
    given = [name for name in (_ZOOKEEPER_SOCKET, _ZOOKEEPER_KEY_STORE, _ZOOKEEPER_TRUST_STORE) if config.text(name)]
    if not config.boolean(_ZOOKEEPER_TLS):
        # Kafka ignores them then, silently. A file that says false has decided on plaintext.
        if given and not config.is_set(_ZOOKEEPER_TLS):
            raise ConfigError(
                f"{', '.join(given)}: the connection to ZooKeeper is in plaintext unless {_ZOOKEEPER_TLS}=true is set. "
                f"Set it, or {_ZOOKEEPER_TLS}=false if the network between the brokers and ZooKeeper is trusted",
                given[0],
            )
        return
    socket_class = config.optional_string(_ZOOKEEPER_SOCKET)
    if socket_class and socket_class != _NETTY_SOCKET:
        raise ConfigError.invalid(
            _ZOOKEEPER_SOCKET, socket_class, f"{_ZOOKEEPER_TLS}=true needs {_NETTY_SOCKET}; other classes have no TLS"
        )
    algorithm = config.optional_string(_ZOOKEEPER_NAME_CHECK)
    if algorithm and algorithm.upper() != "HTTPS":
        raise ConfigError.invalid(
            _ZOOKEEPER_NAME_CHECK, algorithm, "HTTPS verifies the name of ZooKeeper, an empty value does not"
        )
    for name in _REVOCATION_CHECKS:
        if config.boolean(name):
            raise ConfigError(
                f"{name}=true: this version does not look up whether ZooKeeper's certificate is revoked. Leave the "
                "setting out, and trust an authority whose certificates are short-lived",
                name,
            )


def _check_zookeeper_acls(config: ConfigValues) -> None:
    """Check that znodes with access control lists will have an owner. Raises ConfigError: they would have none."""
    if not config.boolean("zookeeper.set.acl") or config.optional_string("zookeeper.sasl.jaas.config"):
        return
    if not (config.boolean(_ZOOKEEPER_TLS) and config.optional_string(_ZOOKEEPER_KEY_STORE)):
        raise ConfigError(
            f"zookeeper.set.acl=true needs a user of ZooKeeper, to whom the znodes belong: set "
            f"zookeeper.sasl.jaas.config, or {_ZOOKEEPER_TLS}=true with {_ZOOKEEPER_KEY_STORE}",
            "zookeeper.set.acl",
        )


def _check_identity(config: ConfigValues) -> None:
    broker_id = config.integer("broker.id")
    if config.is_set("node.id"):
        _require(
            config.integer("node.id") == broker_id,
            "node.id",
            f"node.id={config.integer('node.id')} and broker.id={broker_id} name the same number and must be equal",
        )
    if config.boolean("broker.id.generation.enable"):
        # Generated ids begin above reserved.broker.max.id, so an id that is set must not reach up to them.
        _require(
            -1 <= broker_id <= config.integer("reserved.broker.max.id"),
            "broker.id",
            "broker.id must be greater than or equal to -1 and not greater than reserved.broker.max.id",
        )
    else:
        _require(broker_id >= 0, "broker.id", "broker.id must be greater than or equal to 0")


def _check_listeners(config: ConfigValues) -> None:
    # Both raise where their settings contradict one another; the values are read again where they are needed.
    advertised_listeners_of(config)
    inter_broker_listener_name_of(config)
    control_plane = config.optional_string("control.plane.listener.name")
    if control_plane is not None:
        names = [end_point.listener_name for end_point in listeners_of(config)]
        _require(
            control_plane.upper() in names,
            "control.plane.listener.name",
            f"control.plane.listener.name is set to {control_plane}, but listeners has {','.join(names)}",
        )
        # On one listener the controller's requests would wait behind those of other brokers (KIP-291).
        _require(
            control_plane.upper() != inter_broker_listener_name_of(config),
            "control.plane.listener.name",
            "control.plane.listener.name, when defined, should have a different value from the inter broker listener "
            f"name. Currently they both have the value {control_plane}",
        )


def _check_logs(config: ConfigValues) -> None:
    _require(bool(config.log_dirs), "log.dirs", "At least one log directory must be defined via log.dirs or log.dir.")
    for name, least in (("log.roll.ms", 1), ("log.roll.jitter.ms", 0)):
        value = config.optional_integer(name)
        _require(value is None or value >= least, name, f"{name} must be greater than or equal to {least}")
    for name in ("log.retention.ms", "log.retention.minutes", "log.retention.hours"):
        # Zero would delete every record at once; any negative number means no limit, although Kafka's text says -1.
        value = config.optional_integer(name)
        _require(value != 0, name, f"{name} must be unlimited (-1) or, greater than or equal to 1")
    if config.boolean("log.cleaner.enable"):
        # Each thread has a key map of its own; Kafka asks for 1 MB at least, since a pass cleans what fits into a map.
        threads = max(config.integer("log.cleaner.threads"), 1)
        _require(
            config.integer("log.cleaner.dedupe.buffer.size") // threads > _BYTES_PER_CLEANER_THREAD,
            "log.cleaner.dedupe.buffer.size",
            "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.",
        )


def _check_replication(config: ConfigValues) -> None:
    wait_ms = config.integer("replica.fetch.wait.max.ms")
    _require(
        wait_ms <= config.integer("replica.socket.timeout.ms"),
        "replica.socket.timeout.ms",
        "replica.socket.timeout.ms should always be at least replica.fetch.wait.max.ms to prevent unnecessary socket "
        "timeouts",
    )
    _require(
        wait_ms <= config.integer("replica.lag.time.max.ms"),
        "replica.fetch.wait.max.ms",
        "replica.fetch.wait.max.ms should always be less than or equal to replica.lag.time.max.ms to prevent frequent "
        "changes in ISR",
    )
    # A commit that needs more acknowledgements than there are replicas would always time out.
    _require(
        -1 <= config.integer("offsets.commit.required.acks") <= config.integer("offsets.topic.replication.factor"),
        "offsets.commit.required.acks",
        "offsets.commit.required.acks must be greater or equal -1 and less or equal to "
        "offsets.topic.replication.factor",
    )


def _check_limits(config: ConfigValues) -> None:
    # A request that is larger than the whole memory for requests could never be read.
    queued_bytes = config.integer("queued.max.request.bytes")
    _require(
        queued_bytes <= 0 or queued_bytes >= config.integer("socket.request.max.bytes"),
        "queued.max.request.bytes",
        "queued.max.request.bytes must be larger or equal to socket.request.max.bytes",
    )
    # Zero without exceptions would keep out every client, and the controller that the start waits for.
    if config.integer("max.connections.per.ip") == 0:
        _require(
            bool(config.string("max.connections.per.ip.overrides")),
            "max.connections.per.ip",
            "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides property is set.",
        )


def _check_consumer_groups(config: ConfigValues) -> None:
    """Check that the times of KIP-848's groups lie within their bounds. Kafka: GroupCoordinatorConfig."""
    for what in ("heartbeat.interval.ms", "session.timeout.ms"):
        least, most, default = (f"group.consumer.{kind}{what}" for kind in ("min.", "max.", ""))
        for name, other in ((most, least), (default, least)):
            _require(
                config.integer(name) >= config.integer(other), name, f"{name} must be greater than or equal to {other}"
            )
        _require(
            config.integer(default) <= config.integer(most), default, f"{default} must be less than or equal to {most}"
        )
    # With a longer interval every member would be removed between two of its heartbeats.
    interval, timeout = "group.consumer.heartbeat.interval.ms", "group.consumer.session.timeout.ms"
    _require(config.integer(interval) < config.integer(timeout), interval, f"{interval} must be less than {timeout}")
    _require(
        bool(config.list("group.consumer.assignors")),
        "group.consumer.assignors",
        "group.consumer.assignors must not be empty",
    )
