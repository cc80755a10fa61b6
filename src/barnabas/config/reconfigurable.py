"""The interface by which settings reach a part of the broker while it runs.

Implemented in `broker` for SocketServer, the handler pool, LogManager and others; called by
`broker.dynamic_broker_config`: `validate` on the request handler's thread that changes settings, `reconfigure` on the
scheduler thread that reads the store's notice of the change, one change at a time.
Kafka: kafka.server.BrokerReconfigurable, org.apache.kafka.common.Reconfigurable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from barnabas.config.kafka_config import KafkaConfig


class Reconfigurable(Protocol):
    """A part that follows some settings. A change that touches none of them does not call the part."""

    @property
    def settings(self) -> frozenset[str]:
        """The names that the part follows, without the prefix of a listener."""

    def validate(self, current: KafkaConfig, proposed: KafkaConfig) -> None:
        """Check that `proposed` can replace `current`, without changing anything and without blocking.

        Raises ConfigError: the part cannot have the proposed settings.
        """

    def reconfigure(self, previous: KafkaConfig, current: KafkaConfig) -> None:
        """Apply the settings of `current` that differ from those of `previous`."""
