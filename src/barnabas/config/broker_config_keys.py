"""The table of broker settings: those of Kafka 3.9 and Barnabas's own.

Read by `KafkaConfig`, by the declarations of config classes and by DescribeConfigs. Built once at import, never
changed. Kafka: the ConfigDef of KafkaConfig.
"""

from __future__ import annotations

import sys

from barnabas.config.config_key import BOOLEAN, PASSWORD, PER_BROKER, STRING, ConfigKey, HostAndPort, OneOf
from barnabas.config.keys.cluster_keys import CLUSTER_KEYS, REPLICATION_KEYS
from barnabas.config.keys.coordinator_keys import GROUP_KEYS, TRANSACTION_KEYS
from barnabas.config.keys.log_keys import LOG_KEYS, REMOTE_STORAGE_KEYS
from barnabas.config.keys.measurement_keys import MEASUREMENT_KEYS
from barnabas.config.keys.network_keys import NETWORK_KEYS
from barnabas.config.keys.security_keys import SECURITY_KEYS

KAFKA_RELEASES = (
    *("2.8", "3.0", "3.1", "3.2", "3.3", "3.4", "3.5", "3.6", "3.7", "3.8", "3.9"),
    *("4.0", "4.1", "4.2", "4.3"),
)
"""Those of `protocol.kafka_releases`, which knows more of them."""

BARNABAS_KEYS = (
    STRING("broker.emulate.version", None, OneOf(KAFKA_RELEASES))
    | "The release of Apache Kafka whose APIs and versions the broker lists and accepts, as far as it has them. If "
    "unset, it accepts everything from the lowest versions of 3.9 to the highest of 4.",
    BOOLEAN("inline.requests.enable", True)
    | "Whether brief requests run at once on the network thread instead of passing through the request queue.",
    STRING("metrics.listen", None, HostAndPort())
    | "The address, as host:port, where /metrics (Prometheus) and /healthz are served over HTTP; port 0 takes a free "
    "port. If unset, they are not served. Needs the extra `metrics`. Every client that reaches the address may read "
    "them.",
    STRING("record.validation", "full", OneOf(("header", "framing", "full")))
    | "How closely a produced batch is checked. full: every field of every record, decompressed, as Kafka does. "
    "framing: the header, and the number of records in an uncompressed batch; lets through compressed bytes that do "
    "not decompress, and fields that claim a wrong length. header: the header alone; lets through, moreover, a count "
    "that the records do not have. What is let through can stop every consumer of the partition.",
    PASSWORD("sasl.plain.users", None, scope=PER_BROKER)
    | "The users of PLAIN, as `alice:her password,bob:his password`; put it behind a listener's prefix for one "
    "listener. A password that has a comma needs a login context instead (sasl.jaas.config).",
    # Java has a switch of the whole process instead, com.sun.net.ssl.checkRevocation, which no Kafka setting sets.
    STRING("ssl.crl.location", None, scope=PER_BROKER)
    | "The PEM file with the revocation lists (CRLs) of the authorities. A certificate is refused if it is in a list, "
    "or if the list of an authority of its chain is missing or out of date.",
    STRING("metadata.store", "embedded", OneOf(("embedded", "zookeeper")))
    | "Where the metadata of the cluster are kept: embedded (in the data directory, for a broker that stands alone) or "
    "zookeeper. If it is not given, zookeeper.connect decides.",
    # Kafka takes the login from the section `Client` of the file that Java's java.security.auth.login.config names.
    PASSWORD("zookeeper.sasl.jaas.config", None)
    | 'The login to ZooKeeper: `org.apache.zookeeper.server.auth.DigestLoginModule required username="kafka" '
    'password="...";`, as in the section Client of a JAAS file. If unset, the broker does not log in.',
)


AREAS: tuple[tuple[str, tuple[ConfigKey, ...]], ...] = (
    ("Barnabas's own", BARNABAS_KEYS),
    ("Listeners, sockets, threads, requests", NETWORK_KEYS),
    ("Logs", LOG_KEYS),
    ("Replication and leadership", REPLICATION_KEYS),
    ("Cluster and metadata", CLUSTER_KEYS),
    ("Groups and offsets", GROUP_KEYS),
    ("Transactions and idempotence", TRANSACTION_KEYS),
    ("Security", SECURITY_KEYS),
    ("Metrics and quotas", MEASUREMENT_KEYS),
    ("Tiered storage", REMOTE_STORAGE_KEYS),
)
"""The settings by area, for the documentation."""


def _default_network_threads() -> int:
    """Return 1 under Python's global lock, where one thread serves ten connections faster than three; else 3."""
    has_global_lock: bool = getattr(sys, "_is_gil_enabled", lambda: True)()
    return 1 if has_global_lock else 3


def _table() -> dict[str, ConfigKey]:
    table = {key.name: key for _, keys in AREAS for key in keys}
    # The one default that depends on the machine; docs/decisions/0005-one-network-thread.md has the measurements.
    network_threads = table["num.network.threads"]
    table["num.network.threads"] = network_threads._replace(default=_default_network_threads())
    return table


BROKER_CONFIG_KEYS: dict[str, ConfigKey] = _table()
"""Name -> setting."""

RENAMED = {
    "advertised.host.name": "advertised.listeners",
    "advertised.port": "advertised.listeners",
    "authorizer.class": "authorizer.class.name",
    "data.dir": "log.dirs",
    "host.name": "listeners",
    "port": "listeners",
    "quota.consumer.default": "client quotas",
    "quota.producer.default": "client quotas",
}
"""Names of older releases, and guesses that do not resemble the right name: name -> what to use instead."""

LISTENER_PREFIX = "listener.name."
"""The prefix of a setting for one listener: listener.name.<listener>.<setting>."""


def find_key(name: str) -> ConfigKey | None:
    """Return the setting of this name, also behind a listener's prefix and, after that, a SASL mechanism's."""
    key = BROKER_CONFIG_KEYS.get(name)
    if key is None and name.startswith(LISTENER_PREFIX):
        # A SASL mechanism may stand between the two: listener.name.<listener>.<mechanism>.sasl.jaas.config.
        _, _, setting = name.removeprefix(LISTENER_PREFIX).partition(".")
        key = BROKER_CONFIG_KEYS.get(setting) or BROKER_CONFIG_KEYS.get(setting.partition(".")[2])
    return key
