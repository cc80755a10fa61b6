"""The table of broker settings: those of Kafka 3.9 and Barnabas's own.

Read by `KafkaConfig`, by the declarations of config classes and by DescribeConfigs. Built once at import, never
changed. Kafka: the ConfigDef of KafkaConfig.
"""

from __future__ import annotations

import sys

from barnabas.config.config_key import ConfigKey
from barnabas.config.keys.barnabas_keys import BARNABAS_KEYS
from barnabas.config.keys.cluster_keys import CLUSTER_KEYS
from barnabas.config.keys.coordinator_keys import GROUP_KEYS, TRANSACTION_KEYS
from barnabas.config.keys.log_keys import LOG_KEYS
from barnabas.config.keys.measurement_keys import MEASUREMENT_KEYS
from barnabas.config.keys.network_keys import NETWORK_KEYS
from barnabas.config.keys.remote_storage_keys import REMOTE_STORAGE_KEYS
from barnabas.config.keys.replication_keys import REPLICATION_KEYS
from barnabas.config.keys.security_keys import SECURITY_KEYS

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
