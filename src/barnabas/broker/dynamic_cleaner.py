"""The log cleaner follows its settings: its threads end and new ones begin.

Called by DynamicBrokerConfig; not there when `log.cleaner.enable` is off. Kafka: the reconfigurable part of
kafka.log.LogCleaner.
"""

from __future__ import annotations

from barnabas.config.config_error import ConfigError
from barnabas.config.kafka_config import KafkaConfig
from barnabas.storage.cleaner.config import CleanerConfig
from barnabas.storage.cleaner.log_cleaner import LogCleaner


class DynamicCleaner:
    """Reconfigures `cleaner`."""

    settings = frozenset(
        {
            "log.cleaner.threads",
            "log.cleaner.dedupe.buffer.size",
            "log.cleaner.io.buffer.load.factor",
            "log.cleaner.io.buffer.size",
            "log.cleaner.io.max.bytes.per.second",
            "log.cleaner.backoff.ms",
        }
    )

    def __init__(self, cleaner: LogCleaner) -> None:
        self._cleaner = cleaner

    def validate(self, current: KafkaConfig, proposed: KafkaConfig) -> None:
        """See Reconfigurable."""
        try:
            self._cleaner.validate(CleanerConfig.from_kafka_config(proposed))
        except ValueError as error:
            raise ConfigError(str(error)) from error

    def reconfigure(self, previous: KafkaConfig, current: KafkaConfig) -> None:
        """See Reconfigurable."""
        self._cleaner.reconfigure(CleanerConfig.from_kafka_config(current))
