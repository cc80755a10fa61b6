"""The states of a broker, which the gauge BrokerState and /healthz show.

Data only. Kafka: org.apache.kafka.metadata.BrokerState, whose numbers these are.
"""

from __future__ import annotations

from enum import IntEnum


class BrokerState(IntEnum):
    """The states from the start to the end."""

    NOT_RUNNING = 0
    STARTING = 1
    RECOVERY = 2
    """Logs are being loaded."""
    RUNNING = 3
    PENDING_CONTROLLED_SHUTDOWN = 6
    SHUTTING_DOWN = 7
