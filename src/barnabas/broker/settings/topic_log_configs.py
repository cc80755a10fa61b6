"""The settings of each topic's logs, kept in step with the store and with the broker's own.

The log manager asks when it opens a log (any thread); ConfigChangeListener reports changes of a topic's settings
(scheduler thread). `_at_start` is filled before the logs are loaded and dropped afterwards; `_defaults` is one pair,
replaced by one assignment: no lock. Kafka: TopicConfigHandler, and LogManager.topicConfigOverrides.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from barnabas.config.config_error import ConfigError
from barnabas.config.kafka_config import KafkaConfig
from barnabas.config.log_config import LogConfig
from barnabas.metadata.stored_configs import ConfigRepository

logger = logging.getLogger(__name__)


class TopicLogConfigs:
    """The LogConfig of each topic, made from the broker's settings in force and the topic's own."""

    def __init__(self, repository: ConfigRepository, broker: Callable[[], KafkaConfig]) -> None:
        self._repository = repository
        self._broker = broker
        self._defaults = (broker(), LogConfig.of(broker()))
        self._at_start: Mapping[str, Mapping[str, str]] | None = None

    def begin_loading(self) -> None:
        """Read the settings of all topics in one batch, for the logs that are about to be loaded."""
        self._at_start = self._repository.all_topic_overrides()

    def end_loading(self) -> None:
        """Ask the store topic by topic from now on."""
        self._at_start = None

    def log_config(self, topic: str) -> LogConfig:
        """Return a topic's settings, as of now."""
        at_start = self._at_start
        overrides = self._repository.topic_overrides(topic) if at_start is None else at_start.get(topic, {})
        return self.log_config_of(topic, overrides)

    def log_config_of(self, topic: str, overrides: Mapping[str, str]) -> LogConfig:
        """Return the settings with these overrides, or the broker's defaults if they are unusable, which is logged."""
        broker = self._broker()
        made_of, defaults = self._defaults
        # Two threads may compute the same new pair, of which either may stay.
        if made_of is not broker:
            defaults = LogConfig.of(broker)
            self._defaults = (broker, defaults)
        if not overrides:
            # One object for all topics without settings, of which there may be thousands.
            return defaults
        try:
            return LogConfig.of(broker, overrides)
        except ConfigError:
            logger.exception("Ignoring the settings of topic %s", topic)
            return defaults

    def updater(self, update: Callable[[str, LogConfig], None]) -> Callable[[str, dict[str, str]], None]:
        """Return a callback for ConfigChangeListener that passes a topic's new LogConfig to `update`."""
        return lambda topic, overrides: update(topic, self.log_config_of(topic, overrides))


def on_unclean_election_allowed(allow: Callable[[str], None]) -> Callable[[str, dict[str, str]], None]:
    """Return a callback for ConfigChangeListener that calls `allow` with a topic that allows unclean elections."""

    def changed(topic: str, overrides: dict[str, str]) -> None:
        if overrides.get("unclean.leader.election.enable", "").strip().lower() == "true":
            allow(topic)

    return changed
