"""A broker's settings as they hold now, and what they are made of: its file, and what was changed while it runs.

Made by `broker.dynamic_broker_config` and replaced as a whole; read by any thread. What comes first counts: settings
of this broker, of all brokers, of the file, defaults. Kafka: the maps inside kafka.server.DynamicBrokerConfig.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from barnabas.config.dynamic_settings import DYNAMIC_ONLY_KEYS, lay_over
from barnabas.config.kafka_config import KafkaConfig

_NONE: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """static: the file's. of_cluster, of_broker: changed for all brokers, for this one. current: what comes of it."""

    static: KafkaConfig
    of_cluster: Mapping[str, str]
    of_broker: Mapping[str, str]
    current: KafkaConfig

    @classmethod
    def of(
        cls, static: KafkaConfig, of_cluster: Mapping[str, str] = _NONE, of_broker: Mapping[str, str] = _NONE
    ) -> BrokerSettings:
        """Lay the changes over the file's settings. ConfigError if they don't go together."""
        current = static
        if of_cluster or of_broker:
            merged = dict(static.originals)
            lay_over(merged, of_cluster)
            lay_over(merged, of_broker)
            in_files = {name: value for name, value in merged.items() if name not in DYNAMIC_ONLY_KEYS}
            current = KafkaConfig.parse(in_files, static.source, tolerated=static.unknown)
        return cls(static, of_cluster, of_broker, current)

    def with_cluster(self, settings: Mapping[str, str]) -> BrokerSettings:
        """The same broker when all brokers have these settings."""
        return BrokerSettings.of(self.static, settings, self.of_broker)

    def with_broker(self, settings: Mapping[str, str]) -> BrokerSettings:
        """The same broker when it has these settings of its own."""
        return BrokerSettings.of(self.static, self.of_cluster, settings)
