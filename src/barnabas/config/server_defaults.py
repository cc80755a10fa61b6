"""The settings with which `barnabas serve` starts without a file: those of the server.properties that Kafka ships.

Used by the command line only; a broker configured by a file gets the table's own defaults. Source: Kafka 3.9,
config/server.properties, except the thread count of the network (`num.network.threads` keeps its documented default)
and the data directory, which the command line chooses.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

LONE_BROKER_DEFAULTS: Final = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.replication.factor": "1",
}
"""Those that hold for a single broker only: in a cluster, offsets and transactions would die with one broker."""
SERVER_DEFAULTS: Final = {"broker.id": "0", "group.initial.rebalance.delay.ms": "0", **LONE_BROKER_DEFAULTS}
"""Kafka's file also has socket buffers, num.partitions, retention and segment size, all equal to the defaults."""


def server_defaults(given: Mapping[str, str]) -> dict[str, str]:
    """Return the settings for a start with these options: in a cluster, without those of a single broker."""
    store = given.get("metadata.store") or ("zookeeper" if given.get("zookeeper.connect") else "embedded")
    if store != "zookeeper":
        return dict(SERVER_DEFAULTS)
    return {name: value for name, value in SERVER_DEFAULTS.items() if name not in LONE_BROKER_DEFAULTS}
