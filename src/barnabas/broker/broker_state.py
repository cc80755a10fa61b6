"""The states a broker goes through, as the gauge BrokerState tells them and /healthz shows them.

Data only. Kafka: org.apache.kafka.metadata.BrokerState, whose numbers these are.
"""

from __future__ import annotations

from enum import IntEnum


class BrokerState(IntEnum):
    """From the start to the end."""

    NOT_RUNNING = 0
    STARTING = 1
    RECOVERY = 2
    """Logs are being loaded."""
    RUNNING = 3
    PENDING_CONTROLLED_SHUTDOWN = 6
    SHUTTING_DOWN = 7
