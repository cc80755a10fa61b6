"""Changing the settings of topics while they are in use: Kafka's checks, then the store, which tells every broker.

Used by AlterConfigs and IncrementalAlterConfigs on request handler threads; it blocks on the store. `_lock` makes one
change at a time of it: a change reads what is there before it writes. An answer doesn't wait until the brokers have
heard of the change (`config_change_listener`), as in Kafka's ZooKeeper mode.

Kafka: kafka.server.ZkAdminManager.alterConfigs and incrementalAlterConfigs, kafka.zk.AdminZkClient.changeTopicConfig,
ConfigAdminManager.prepareIncrementalConfigs; the error texts are theirs.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from barnabas.config.config_error import ConfigError, InvalidConfiguration
from barnabas.config.config_key import ConfigType
from barnabas.config.kafka_config import KafkaConfig
from barnabas.config.log_config import validate_topic_config
from barnabas.config.topic_config_keys import TOPIC_CONFIG_KEYS
from barnabas.metadata.config_repository import ConfigRepository
from barnabas.metadata.metadata_cache import MetadataCache
from barnabas.metadata.topic_name import validate_topic_name
from barnabas.protocol.config_codes import ConfigOperation
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.zk.errors import StoreUnavailableError

logger = logging.getLogger(__name__)


class ConfigChange(NamedTuple):
    """One setting of an incremental change. value: None only for DELETE."""

    name: str
    operation: ConfigOperation
    value: str | None


class ConfigAdmin:
    """Changes settings of topics. broker: its own settings as in force now, which the topics' are checked against."""

    def __init__(
        self, repository: ConfigRepository, metadata: MetadataCache, broker: Callable[[], KafkaConfig]
    ) -> None:
        self._repository = repository
        self._metadata = metadata
        self._broker = broker
        self._lock = threading.Lock()

    def replace_topic_config(self, topic: str, settings: Mapping[str, str], *, validate_only: bool = False) -> None:
        """Give a topic these settings, and no others.

        Raises ApiError: INVALID_REQUEST, UNKNOWN_TOPIC_OR_PARTITION, INVALID_CONFIG, KAFKA_STORAGE_ERROR.
        """
        self._change(topic, lambda: settings, validate_only=validate_only)

    def change_topic_config(self, topic: str, changes: Sequence[ConfigChange], *, validate_only: bool = False) -> None:
        """Change some settings of a topic, in the order of `changes`; the others stay. Raises as replacing does."""

        def changed() -> Mapping[str, str]:
            settings = self._repository.topic_overrides(topic)
            for change in changes:
                _apply(change, settings)
            return settings

        self._change(topic, changed, validate_only=validate_only)

    def _change(self, topic: str, wanted: Callable[[], Mapping[str, str]], *, validate_only: bool) -> None:
        if not topic:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
        if not self._metadata.contains(topic):  # before its name becomes a path in the store
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{topic}' does not exist.")
        validate_topic_name(topic)
        with self._lock:
            try:
                settings = wanted()
                self._check(topic, settings)
                if not validate_only:
                    logger.info("Updating topic %s with new configuration : %s", topic, dict(settings))
                    self._repository.change_topic_config(topic, settings)
            except StoreUnavailableError as error:
                raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error

    def _check(self, topic: str, settings: Mapping[str, str]) -> None:
        try:
            validate_topic_config(settings, self._broker())
        except InvalidConfiguration as error:
            raise ApiError(ErrorCode.INVALID_CONFIG, error.message) from error
        except ConfigError as error:
            resource = f"ConfigResource(type=TOPIC, name='{topic}')"
            message = f"Invalid config value for resource {resource}: {error.message}"
            raise ApiError(ErrorCode.INVALID_CONFIG, message) from error


def _apply(change: ConfigChange, settings: dict[str, str]) -> None:
    """Change `settings`. Lists are taken apart at their commas and put together again as they are."""
    name, value = change.name, change.value or ""
    match change.operation:
        case ConfigOperation.SET:
            settings[name] = value
        case ConfigOperation.DELETE:
            settings.pop(name, None)
        case ConfigOperation.APPEND:
            items = _items(_list_before(name, settings, "append"))
            added = [item for item in _items(value) if item not in items]
            settings[name] = ",".join([*items, *added])
        case ConfigOperation.SUBTRACT:
            items = _items(_list_before(name, settings, "subtract"))
            for item in _items(value):
                if item in items:
                    items.remove(item)
            settings[name] = ",".join(items)


def _list_before(name: str, settings: Mapping[str, str], operation: str) -> str:
    """A list as the topic has it, or else its default; INVALID_CONFIG if the setting is unknown or no list."""
    known = TOPIC_CONFIG_KEYS.get(name)
    if known is None:
        raise ApiError(ErrorCode.INVALID_CONFIG, f"Unknown config name: {name}")
    if known.key.type is not ConfigType.LIST:
        raise ApiError(ErrorCode.INVALID_CONFIG, f"Config value {operation} is not allowed for config key: {name}")
    return settings.get(name, known.key.text(known.key.default) or "")


def _items(text: str) -> list[str]:
    """As Java's split does it: empty items at the end don't count."""
    items = text.split(",")
    while items and not items[-1]:
        items.pop()
    return items
