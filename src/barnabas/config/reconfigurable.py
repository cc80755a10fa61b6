"""What a part of the broker declares so that settings reach it while it runs.

Implemented by (or around) SocketServer, the handler pool, LogManager and others; called by
`broker.dynamic_broker_config`: `validate` on the request handler's thread that changes settings, `reconfigure` where
the store's notice of the change is read (a scheduler thread), one change at a time.
Kafka: kafka.server.BrokerReconfigurable, org.apache.kafka.common.Reconfigurable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from barnabas.config.kafka_config import KafkaConfig


class Reconfigurable(Protocol):
    """A part that follows some settings. Not called for a change that touches none of `settings`."""

    @property
    def settings(self) -> frozenset[str]:
        """The names it follows, without the prefix of a listener."""

    def validate(self, current: KafkaConfig, proposed: KafkaConfig) -> None:
        """ConfigError if `proposed` cannot take the place of `current`. Changes nothing, and must not block."""

    def reconfigure(self, previous: KafkaConfig, current: KafkaConfig) -> None:
        """`current` holds from now on: take over what is different from `previous`."""
