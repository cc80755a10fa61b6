"""The settings with which `barnabas serve` starts without a file: those of the server.properties that Kafka ships.

Used by the command line only; a broker configured by a file gets the table's own defaults. Source: Kafka 3.9,
config/server.properties, except the thread count of the network (`num.network.threads` keeps its documented default)
and the data directory, which the command line chooses.
"""

from __future__ import annotations

SERVER_DEFAULTS = {
    "broker.id": "0",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.replication.factor": "1",
}
"""Kafka's file also has socket buffers, num.partitions, retention and segment size, all equal to the defaults."""
