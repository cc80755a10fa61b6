"""Settings that Kafka does not have.

A table, read by `broker_config_keys`. Immutable.
"""

from __future__ import annotations

from barnabas.config.config_key import ConfigKey, ConfigType, OneOf

BARNABAS_KEYS = (
    ConfigKey(
        "inline.requests.enable",
        ConfigType.BOOLEAN,
        True,
        "Whether brief requests run at once on the network thread, instead of going through the request queue.",
    ),
    ConfigKey(
        "record.validation",
        ConfigType.STRING,
        "framing",
        "How closely records of a produced batch are looked at: its header; also the framing of uncompressed records; "
        "or full, which decompresses and checks every field, as Kafka does.",
        OneOf(("header", "framing", "full")),
    ),
    ConfigKey(
        "metadata.store",
        ConfigType.STRING,
        "embedded",
        "Where the cluster's metadata lives: embedded (in the data directory) or zookeeper (not supported yet).",
        OneOf(("embedded", "zookeeper")),
    ),
)
