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


class FollowsFiles(Protocol):
    """A part whose settings name files, which may have changed although no setting has: key stores.

    As in Kafka a request that alters the settings of a broker, be it to the values they have, reads such files again.
    """

    def check_files(self, current: KafkaConfig) -> None:
        """Check files that have changed. Raises ConfigError: the part cannot use one of them."""

    def reload_files(self, current: KafkaConfig) -> None:
        """Take over files that have changed; one that cannot be used is logged."""
