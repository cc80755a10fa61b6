"""The settings of topics and brokers in the store: read, written, and followed as they change.

ConfigRepository is used at start, by DescribeConfigs and ConfigAdmin, on any thread; it blocks on the store and keeps
nothing, so no lock. ConfigChangeListener is made by `broker`, and calls the parts that keep a copy of settings, on the
thread that `change_notice_listener` names, one after another (at the start on the main thread); `_lock` guards its
table of callbacks. Kafka: ZkConfigRepository, ZkConfigManager.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from barnabas.metadata.change_notice_listener import ChangeNoticeListener
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.runtime.clock import Clock
from barnabas.runtime.scheduler import Scheduler
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
