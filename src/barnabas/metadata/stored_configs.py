"""The settings of topics and brokers in the store, passwords among them: read, written, and followed as they change.

ConfigRepository is used at start, by DescribeConfigs and ConfigAdmin, on any thread; it blocks on the store and keeps
nothing, so no lock. ConfigChangeListener is made by `broker`, and calls the parts that keep a copy of settings, on the
thread that `change_notice_listener` names, one after another (at the start on the main thread); `_lock` guards its
table of callbacks. StoredPasswords is one immutable object a broker: ConfigAdmin calls it on request handlers' threads,
DynamicBrokerConfig on a scheduler's. Kafka: ZkConfigRepository, ZkConfigManager; DynamicBrokerConfig.toPersistentProps,
fromPersistentProps, maybeReEncodePasswords.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from barnabas.config.config_error import ConfigError
from barnabas.config.config_values import ConfigValues
from barnabas.config.dynamic_settings import is_password
from barnabas.metadata.change_notice_listener import ChangeNoticeListener
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.runtime.clock import Clock
from barnabas.runtime.scheduler import Scheduler
from barnabas.security.password_encoder import (
    OLD_SECRET,
    SECRET,
    PasswordEncoder,
    PasswordEncoderConfig,
    UndecodablePassword,
)
from barnabas.zk.kafka_zk_client import KafkaZkClient
from barnabas.zk.znodes.config_znodes import (
    ConfigEntityChangeNotificationSequenceZNode,
    ConfigEntityType,
    ConfigEntityZNode,
)

logger = logging.getLogger(__name__)

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


# Called with the name of an entity and all its settings.
ConfigCallback = Callable[[str, dict[str, str]], None]


class ConfigChangeListener:
    """The listener: it calls the callbacks for each entity that a notice names."""

    def __init__(self, zk_client: KafkaZkClient, scheduler: Scheduler, clock: Clock) -> None:
        self._zk = zk_client
        self._notices = ChangeNoticeListener(
            zk_client.configs.notices, self._read_notice, scheduler, clock, "config-changes"
        )
        self._lock = threading.Lock()
        self._callbacks: dict[str, tuple[ConfigCallback, ...]] = {}

    def register(self, entity_type: str, callback: ConfigCallback) -> None:
        """Call `callback(entity name, settings)` when an entity of a type (ConfigEntityType) changes.

        After `start` it is called for later changes only.
        """
        with self._lock:
            self._callbacks[entity_type] = (*self._callbacks.get(entity_type, ()), callback)

    def start(self, initial_types: Sequence[str] = ()) -> None:
        """Listen from now on. First call the callbacks for every entity of `initial_types` that has settings.

        Earlier notices are ignored, and deleted when they are old.
        """

        def load() -> None:
            for entity_type in initial_types:
                for entity in self._zk.configs.entities(entity_type):
                    self._call_back(entity_type, entity)

        self._notices.start(load)

    def stop(self) -> None:
        """Stop listening. When this returns, no reading is in progress, and the store may be closed."""
        self._notices.stop()

    def _read_notice(self, data: bytes) -> None:
        entity_type, _, entity = ConfigEntityChangeNotificationSequenceZNode.decode(data).partition("/")
        self._call_back(entity_type, entity)

    def _call_back(self, entity_type: str, entity: str) -> None:
        with self._lock:
            callbacks = self._callbacks.get(entity_type, ())
        if not callbacks:
            return
        # Read now and not taken from the notice: of several notices in a row each applies the latest settings.
        settings = self._zk.configs.entity(entity_type, entity)
        logger.info(
            "Processing override for entityPath: %s with config: %s",
            ConfigEntityZNode.path(entity_type, entity),
            sorted(settings),
        )
        for callback in callbacks:
            try:
                callback(entity, settings)
            except Exception:
                # Settings that one callback cannot use must reach the others.
                logger.exception("Failed to apply the settings of %s %s", entity_type, entity)


class StoredPasswords:
    """The passwords of one broker. Without `password.encoder.secret` none can be stored or read."""

    def __init__(self, config: ConfigValues) -> None:
        """Raises ConfigError: the settings of the encoder are wrong, or there is an old secret and no new one."""
        settings = PasswordEncoderConfig.from_kafka_config(config)
        secret, old = settings.secret, settings.old_secret
        if old is not None and secret is None:
            raise ConfigError(f"{OLD_SECRET} is given, and {SECRET}, which replaces it, is not", OLD_SECRET)
        self._encoder = None if secret is None else PasswordEncoder(secret, settings)
        self._old_encoder = None if old is None else PasswordEncoder(old, settings)

    def encoded(self, settings: Mapping[str, str]) -> dict[str, str]:
        """Return settings as they are stored. Raises ConfigError: there is a password, and no secret."""
        return {name: self._encode(value) if is_password(name) else value for name, value in settings.items()}

    def _encode(self, password: str) -> str:
        if self._encoder is None:
            raise ConfigError("Password encoder secret not configured", SECRET)
        return self._encoder.encode(password)

    def decoded(self, stored: Mapping[str, str]) -> dict[str, str]:
        """Return stored settings with their passwords; without those that cannot be decoded, which are logged."""
        settings = {}
        for name, value in stored.items():
            if not is_password(name):
                settings[name] = value
                continue
            if self._encoder is None:
                logger.error("The stored password %s is ignored: %s is not set", name, SECRET)
                continue
            try:
                settings[name] = self._encoder.decode(value)
            except UndecodablePassword as error:
                logger.error("The stored password %s is ignored: %s", name, error)  # noqa: TRY400 as it says
        return settings

    def encoded_again(self, read_stored: Callable[[], Mapping[str, str]]) -> dict[str, str] | None:
        """Return stored settings whose passwords the old secret decodes, encoded with the new one; None if none are.

        read_stored: called only with an old secret, since each start asks.
        """
        if self._old_encoder is None:
            return None
        stored = read_stored()
        settings = dict(stored)
        for name, value in stored.items():
            if is_password(name):
                try:
                    settings[name] = self._encode(self._old_encoder.decode(value))
                except UndecodablePassword:
                    logger.debug("The stored password %s is not encoded with the old secret", name)
        return settings if settings != stored else None
