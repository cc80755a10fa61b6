"""The settings of each topic's logs, kept in step with the store and with the broker's own.

Asked by the log manager when it opens a log (any thread), told by ConfigChangeListener when a topic's settings change
(scheduler thread). `_at_start` is filled before the logs are loaded and dropped afterwards; `_defaults` is one pair,
replaced by one assignment: no lock. Kafka: TopicConfigHandler, and LogManager.topicConfigOverrides.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from barnabas.config.config_error import ConfigError
from barnabas.config.kafka_config import KafkaConfig
from barnabas.config.log_config import LogConfig
from barnabas.metadata.config_repository import ConfigRepository

logger = logging.getLogger(__name__)


class TopicLogConfigs:
    """Makes a LogConfig of the broker's settings (as in force now) and a topic's."""

    def __init__(self, repository: ConfigRepository, broker: Callable[[], KafkaConfig]) -> None:
        self._repository = repository
        self._broker = broker
        self._defaults = (broker(), LogConfig.of(broker()))
        self._at_start: Mapping[str, Mapping[str, str]] | None = None

    def begin_loading(self) -> None:
        """Read the settings of all topics in one go, for the logs that are about to be loaded."""
        self._at_start = self._repository.all_topic_overrides()

    def end_loading(self) -> None:
        """From now on ask the store topic by topic."""
        self._at_start = None

    def log_config(self, topic: str) -> LogConfig:
        """A topic's settings, as of now."""
        at_start = self._at_start
        overrides = self._repository.topic_overrides(topic) if at_start is None else at_start.get(topic, {})
        return self.log_config_of(topic, overrides)

    def log_config_of(self, topic: str, overrides: Mapping[str, str]) -> LogConfig:
        """The settings that these overrides give; unusable ones are logged, and the broker's own hold."""
        broker = self._broker()
        made_of, defaults = self._defaults
        if made_of is not broker:
            defaults = LogConfig.of(broker)
            self._defaults = (broker, defaults)
        if not overrides:
            return defaults  # one for all the topics that set nothing
        try:
            return LogConfig.of(broker, overrides)
        except ConfigError:
            logger.exception("Ignoring the settings of topic %s", topic)
            return defaults

    def updater(self, update: Callable[[str, LogConfig], None]) -> Callable[[str, dict[str, str]], None]:
        """A callback for ConfigChangeListener that passes a topic's new LogConfig to `update`."""
        return lambda topic, overrides: update(topic, self.log_config_of(topic, overrides))


def on_unclean_election_allowed(allow: Callable[[str], None]) -> Callable[[str, dict[str, str]], None]:
    """A callback for ConfigChangeListener that calls `allow(topic)` when a topic may be led by who was not in sync."""

    def changed(topic: str, overrides: dict[str, str]) -> None:
        if overrides.get("unclean.leader.election.enable", "").strip().lower() == "true":
            allow(topic)

    return changed
