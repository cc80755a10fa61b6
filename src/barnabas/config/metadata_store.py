"""The choice between the two stores of a cluster's metadata.

A pure function of the settings, asked by the checks and by the config classes of both stores.
"""

from __future__ import annotations

from barnabas.config.config_values import ConfigValues


def uses_zookeeper(config: ConfigValues) -> bool:
    """Return whether the metadata are in ZooKeeper: `metadata.store` says so, or only `zookeeper.connect` is given.

    A file of Apache Kafka has no `metadata.store`, and means the ZooKeeper that it names.
    """
    if config.is_set("metadata.store"):
        return config.string("metadata.store") == "zookeeper"
    return bool(config.optional_string("zookeeper.connect"))
