"""Changes of the settings of topics and brokers at run time: Kafka's checks, then the store, which notifies all.

Used by AlterConfigs and IncrementalAlterConfigs on request handler threads; blocks on the store. `_lock` serialises
changes, since a change reads the store before it writes. An answer does not wait until the brokers have read the change
(`ConfigChangeListener`), as in Kafka's ZooKeeper mode. Error texts are Kafka's.
Kafka: ZkAdminManager.alterConfigs, AdminZkClient.changeTopicConfig, ConfigAdminManager.prepareIncrementalConfigs.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from barnabas.config.broker_config_keys import BROKER_CONFIG_KEYS
from barnabas.config.config_error import ConfigError, InvalidConfiguration
from barnabas.config.config_key import ConfigKey, ConfigType
from barnabas.config.dynamic_settings import usable_settings
from barnabas.config.kafka_config import KafkaConfig
from barnabas.config.kept_settings import KEPT_TOPIC_KEYS, by_reason
from barnabas.config.log_config import validate_topic_config
from barnabas.config.topic_config_keys import TOPIC_CONFIG_KEYS
from barnabas.metadata.metadata_cache import MetadataCache
from barnabas.metadata.stored_configs import ALL_BROKERS, ConfigRepository
from barnabas.metadata.topic_name import validate_topic_name
from barnabas.protocol.codes import ConfigOperation
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.security.password_encoder import StoredPasswords
from barnabas.zk.store.errors import StoreUnavailableError

logger = logging.getLogger(__name__)


class AlterConfigOp(NamedTuple):
    """One setting of an incremental change. value: None only for DELETE."""

    name: str
    operation: ConfigOperation
    value: str | None


class RunningBroker(Protocol):
    """The settings of the running broker. Implemented by DynamicBrokerConfig."""

    @property
    def current(self) -> KafkaConfig:
        """The settings in force now, against which settings of topics are checked."""

    @property
    def passwords(self) -> StoredPasswords:
        """The encoder of the passwords among the broker's settings."""

    def validate(self, changed: Mapping[str, str], *, per_broker: bool) -> None:
        """Check new settings of this broker, or of all brokers.

        Raises ConfigError: the broker cannot have these settings.
        """


class ConfigAdmin:
    """The changes of settings of topics, of this broker and of all brokers."""

    def __init__(self, repository: ConfigRepository, metadata: MetadataCache, broker: RunningBroker) -> None:
        self._repository = repository
        self._metadata = metadata
        self._broker = broker
        self._lock = threading.Lock()

    # -- topics

    def replace_topic_config(self, topic: str, settings: Mapping[str, str], *, validate_only: bool = False) -> None:
        """Give a topic these settings, and no others.

        Raises ApiError: INVALID_REQUEST, UNKNOWN_TOPIC_OR_PARTITION, INVALID_CONFIG, KAFKA_STORAGE_ERROR.
        """
        self._change(topic, lambda: settings, validate_only=validate_only)

    def change_topic_config(self, topic: str, changes: Sequence[AlterConfigOp], *, validate_only: bool = False) -> None:
        """Change some settings of a topic, in the order of `changes`; the others stay.

        Raises ApiError: the errors of `replace_topic_config`.
        """

        def changed() -> Mapping[str, str]:
            settings = self._repository.topic_overrides(topic)
            for change in changes:
                _apply(change, settings, _TOPIC_KEYS)
            return settings

        self._change(topic, changed, validate_only=validate_only)

    def _change(self, topic: str, wanted: Callable[[], Mapping[str, str]], *, validate_only: bool) -> None:
        """Check and write the settings that `wanted` returns, under the lock. Raises ApiError."""
        if not topic:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
        # Checked before the name becomes a path in the store.
        if not self._metadata.contains(topic):
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{topic}' does not exist.")
        validate_topic_name(topic)
        with self._lock:
            try:
                settings = wanted()
                self._check(topic, settings)
                if not validate_only:
                    logger.info("Updating topic %s with new configuration : %s", topic, dict(settings))
                    self._warn_of_kept(topic, settings)
                    self._repository.change_topic_config(topic, settings)
            except StoreUnavailableError as error:
                raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error

    def _warn_of_kept(self, topic: str, settings: Mapping[str, str]) -> None:
        """Log the changes that have no effect: the client gets success, as from Kafka."""
        kept = {name: why for name, why in KEPT_TOPIC_KEYS.items() if name in settings}
        if kept:
            before = self._repository.topic_overrides(topic)
            kept = {name: why for name, why in kept.items() if before.get(name) != settings[name]}
        if kept:
            logger.warning("Settings of topic %s are kept, and nothing acts on them: %s", topic, by_reason(kept))

    def _check(self, topic: str, settings: Mapping[str, str]) -> None:
        """Check the settings of a topic. Raises ApiError: INVALID_CONFIG."""
        try:
            validate_topic_config(settings, self._broker.current)
        except InvalidConfiguration as error:
            raise ApiError(ErrorCode.INVALID_CONFIG, error.message) from error
        except ConfigError as error:
            resource = f"ConfigResource(type=TOPIC, name='{topic}')"
            message = f"Invalid config value for resource {resource}: {error.message}"
            raise ApiError(ErrorCode.INVALID_CONFIG, message) from error

    # -- brokers

    def replace_broker_config(
        self, broker: int | None, settings: Mapping[str, str], *, validate_only: bool = False
    ) -> None:
        """Give this broker (by its id; or all of them: None) these settings, and no others.

        Raises ApiError: INVALID_REQUEST, INVALID_CONFIG, KAFKA_STORAGE_ERROR.
        """
        self._change_broker(broker, lambda _entity: settings, validate_only=validate_only)

    def change_broker_config(
        self, broker: int | None, changes: Sequence[AlterConfigOp], *, validate_only: bool = False
    ) -> None:
        """Change some settings of a broker, in the order of `changes`; the others stay.

        Raises ApiError: the errors of `replace_broker_config`.
        """

        def changed(entity: str) -> Mapping[str, str]:
            stored = self._broker.passwords.decoded(self._repository.broker_overrides(entity))
            # Dropped here, since one stored setting that cannot be used would have every later change rejected.
            settings, complaints = usable_settings(stored, per_broker=entity != ALL_BROKERS)
            for complaint in complaints:
                logger.error("Dropping a setting of the metadata store: %s", complaint)
            for change in changes:
                _apply(change, settings, BROKER_CONFIG_KEYS)
            return settings

        self._change_broker(broker, changed, validate_only=validate_only)

    def _change_broker(
        self, broker: int | None, wanted: Callable[[str], Mapping[str, str]], *, validate_only: bool
    ) -> None:
        """Check and write the settings that `wanted` returns, under the lock. Raises ApiError."""
        entity = ALL_BROKERS if broker is None else str(broker)
        with self._lock:
            try:
                settings = wanted(entity)
                self._broker.validate(settings, per_broker=broker is not None)
                if not validate_only:
                    encoded = self._encoded(settings, "" if broker is None else str(broker))
                    logger.info("Updating broker %s with new configuration : %s", entity, sorted(settings))
                    self._repository.change_broker_config(entity, encoded)
            except ConfigError as error:
                raise ApiError(ErrorCode.INVALID_REQUEST, error.message) from error
            except StoreUnavailableError as error:
                raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error

    def _encoded(self, settings: Mapping[str, str], broker: str) -> dict[str, str]:
        """Return settings as they are stored, where every reader of the store may see them: passwords are encoded.

        Raises ApiError: INVALID_CONFIG, as Kafka without `password.encoder.secret` does.
        """
        try:
            return self._broker.passwords.encoded(settings)
        except ConfigError as error:
            resource = f"ConfigResource(type=BROKER, name='{broker}')"
            message = f"Invalid config value for resource {resource}: {error.message}"
            raise ApiError(ErrorCode.INVALID_CONFIG, message) from error


_TOPIC_KEYS: Mapping[str, ConfigKey] = {name: topic_key.key for name, topic_key in TOPIC_CONFIG_KEYS.items()}


def _apply(change: AlterConfigOp, settings: dict[str, str], keys: Mapping[str, ConfigKey]) -> None:
    """Apply one change to `settings`, whose types are in `keys`. Raises ApiError: INVALID_CONFIG, INVALID_REQUEST.

    Lists are split at commas and joined unchanged.
    """
    name, value = change.name, change.value or ""
    match change.operation:
        case ConfigOperation.SET:
            settings[name] = value
        case ConfigOperation.DELETE:
            settings.pop(name, None)
        case ConfigOperation.APPEND:
            items = _items(_list_before(name, settings, keys, "append"))
            # An item that the list has already is no error and is not repeated, as in Kafka.
            added = [item for item in _items(value) if item not in items]
            settings[name] = ",".join([*items, *added])
        case ConfigOperation.SUBTRACT:
            items = _items(_list_before(name, settings, keys, "subtract"))
            for item in _items(value):
                if item in items:
                    items.remove(item)
            settings[name] = ",".join(items)


def _list_before(name: str, settings: Mapping[str, str], keys: Mapping[str, ConfigKey], operation: str) -> str:
    """Return a list as it was set, or else its default.

    Raises ApiError: INVALID_CONFIG when the setting is unknown or is not a list.
    """
    key = keys.get(name)
    if key is None:
        raise ApiError(ErrorCode.INVALID_CONFIG, f"Unknown config name: {name}")
    if key.type is not ConfigType.LIST:
        raise ApiError(ErrorCode.INVALID_CONFIG, f"Config value {operation} is not allowed for config key: {name}")
    return settings.get(name, key.text(key.default) or "")


def _items(text: str) -> list[str]:
    """Return the items as Java's split does: empty items at the end are dropped."""
    items = text.split(",")
    while items and not items[-1]:
        items.pop()
    return items
