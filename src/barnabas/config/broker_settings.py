"""A broker's current settings and their sources: the file, and the changes made while the broker runs.

Made by `broker.dynamic_broker_config` and replaced as a whole, so any thread reads it. The first source that has a
setting counts: changes for this broker, changes for all brokers, the file, the defaults.
Kafka: DynamicBrokerConfig, its maps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from barnabas.config.dynamic_settings import DYNAMIC_ONLY_KEYS, apply_changes
from barnabas.config.kafka_config import KafkaConfig

_NONE: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """static: from the file. of_cluster, of_broker: changes for all brokers and for this one. current: all together."""

    static: KafkaConfig
    of_cluster: Mapping[str, str]
    of_broker: Mapping[str, str]
    current: KafkaConfig

    @classmethod
    def of(
        cls, static: KafkaConfig, of_cluster: Mapping[str, str] = _NONE, of_broker: Mapping[str, str] = _NONE
    ) -> BrokerSettings:
        """Lay the changes over the file's settings. Raises ConfigError: the settings contradict one another."""
        current = static
        if of_cluster or of_broker:
            merged = dict(static.originals)
            apply_changes(merged, of_cluster)
            apply_changes(merged, of_broker)
            # Throttles exist as changes only: `KafkaConfig` would reject them as unknown settings of a file.
            in_files = {name: value for name, value in merged.items() if name not in DYNAMIC_ONLY_KEYS}
            current = KafkaConfig.parse(in_files, static.source, tolerated=static.unknown)
        return cls(static, of_cluster, of_broker, current)

    def throttle(self, name: str) -> int:
        """Return the rate of a throttle, in bytes a second: this broker's, or all brokers', or its default."""
        key = DYNAMIC_ONLY_KEYS[name]
        text = self.of_broker.get(name, self.of_cluster.get(name))
        rate = key.default if text is None else key.parse(text)
        assert isinstance(rate, int), name
        return rate

    def with_cluster(self, settings: Mapping[str, str]) -> BrokerSettings:
        """Return the settings with these changes for all brokers. Raises ConfigError as `of` does."""
        return BrokerSettings.of(self.static, settings, self.of_broker)

    def with_broker(self, settings: Mapping[str, str]) -> BrokerSettings:
        """Return the settings with these changes for this broker. Raises ConfigError as `of` does."""
        return BrokerSettings.of(self.static, self.of_cluster, settings)
