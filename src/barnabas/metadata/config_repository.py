"""The settings in the store: those of topics and brokers that differ from the files and the defaults.

Used by the broker at start, by DescribeConfigs and ConfigAdmin, on any thread; blocks on the store and keeps nothing,
so no lock.
Kafka: kafka.server.metadata.ZkConfigRepository.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.zk.kafka_zk_client import KafkaZkClient
from barnabas.zk.znodes.config_znodes import ConfigEntityType

ALL_BROKERS: Final = "<default>"
"""The name under which the store has the settings of all brokers."""


class ConfigRepository:
    """The settings by entity, read and written. The callers check them."""

    def __init__(self, zk_client: KafkaZkClient) -> None:
        self._zk = zk_client

    def topic_overrides(self, topic: str) -> dict[str, str]:
        """Return the settings of a topic."""
        return self._zk.configs.entity(ConfigEntityType.TOPIC, topic)

    def all_topic_overrides(self) -> dict[str, dict[str, str]]:
        """Return the settings of all topics that have some, read in one batch (at start)."""
        return self._zk.configs.topics(self._zk.configs.entities(ConfigEntityType.TOPIC))

    def broker_overrides(self, broker: str) -> dict[str, str]:
        """Return the settings of a broker, by its id in digits, or those of ALL_BROKERS."""
        return self._zk.configs.entity(ConfigEntityType.BROKER, broker)

    def change_broker_config(self, broker: str, overrides: Mapping[str, str]) -> None:
        """Replace the settings of a broker, or those of ALL_BROKERS, and notify every broker."""
        self._zk.configs.change(ConfigEntityType.BROKER, broker, overrides)

    def change_topic_config(self, topic: str, overrides: Mapping[str, str]) -> None:
        """Replace the settings of a topic and notify every broker. Raises ApiError: UNKNOWN_TOPIC_OR_PARTITION."""
        if not self._zk.topics.exists(topic):
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Topic '{topic}' does not exist.")
        self._zk.configs.change(ConfigEntityType.TOPIC, topic, overrides)
