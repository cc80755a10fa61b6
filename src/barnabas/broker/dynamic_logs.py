"""The part that hands changed log settings of the broker to the logs whose topics do not override them.

Called by DynamicBrokerConfig, on the thread that also hands topics' own changes to the logs, so that the two do not
cross. Kafka: DynamicLogConfig in kafka.server.DynamicBrokerConfig.
"""

from __future__ import annotations

from collections.abc import Callable

from barnabas.broker.topic_log_configs import TopicLogConfigs
from barnabas.config.config_error import ConfigError
from barnabas.config.kafka_config import KafkaConfig
from barnabas.config.log_config import LogConfig
from barnabas.config.topic_config_keys import TOPIC_CONFIG_KEYS
from barnabas.controller.controller_config import ElectionConfig
from barnabas.storage.log_manager import LogManager

# The value of log.local.retention.* that means: as long, or as much, as the whole retention.
_FOLLOW_RETENTION = -2


class DynamicLogs:
    """A part that updates the logs. allow_unclean_election: called when replicas out of sync may lead by default."""

    settings = frozenset(synonym.name for key in TOPIC_CONFIG_KEYS.values() for synonym in key.synonyms)

    def __init__(
        self, log_manager: LogManager, topic_configs: TopicLogConfigs, allow_unclean_election: Callable[[], None]
    ) -> None:
        self._log_manager = log_manager
        self._topic_configs = topic_configs
        self._allow_unclean_election = allow_unclean_election

    def validate(self, current: KafkaConfig, proposed: KafkaConfig) -> None:
        """Check the retention of tiered topics. Raises ConfigError: more stays local than is kept in all."""
        log_config = LogConfig.of(proposed)
        _check_local_retention(proposed, "log.local.retention.ms", "log.retention.ms", log_config.retention_ms)
        _check_local_retention(proposed, "log.local.retention.bytes", "log.retention.bytes", log_config.retention_bytes)

    def reconfigure(self, previous: KafkaConfig, current: KafkaConfig) -> None:
        """Make the LogConfig of every topic with a log anew."""
        for topic in {log.topic_partition.topic for log in self._log_manager.all_logs()}:
            self._log_manager.update_log_config(topic, self._topic_configs.log_config(topic))
        before, now = ElectionConfig.from_kafka_config(previous), ElectionConfig.from_kafka_config(current)
        # Only when it becomes true: partitions without a leader may then get one at once, without another event.
        if now.unclean_leader_election_enable and not before.unclean_leader_election_enable:
            self._allow_unclean_election()


def _check_local_retention(config: KafkaConfig, name: str, whole_name: str, whole: int) -> None:
    """Check that no more of a tiered topic stays local than is kept in all. Raises ConfigError: more would stay."""
    local = config.integer(name)
    if whole < 0 or local == _FOLLOW_RETENTION:
        return
    if local == -1:
        raise ConfigError.invalid(name, local, f"Value must not be -1 as {whole_name} value is set as {whole}.")
    if local > whole:
        raise ConfigError.invalid(name, local, f"Value must not be more than {whole_name} property value: {whole}")
