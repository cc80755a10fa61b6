"""The listener for settings that change in the store, which calls the parts that keep a copy of them.

Made by `broker`. Callbacks are called on the thread that `change_notice_listener` names, one after another; those of
the start on the main thread. `_lock` guards the table of callbacks.

Kafka: ZkConfigManager.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from barnabas.metadata.change_notice_listener import ChangeNoticeListener
from barnabas.runtime.clock import Clock
from barnabas.runtime.scheduler import Scheduler
from barnabas.zk.kafka_zk_client import KafkaZkClient
from barnabas.zk.znodes.config_znodes import ConfigEntityChangeNotificationSequenceZNode, ConfigEntityZNode

logger = logging.getLogger(__name__)

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
