"""The listener for settings that change in the store, which calls the parts that keep a copy of them.

Made by `broker`. The watch on /config/changes fires on the store's watch thread, which only schedules the reading;
notices are read and callbacks called on a `scheduler-<n>` thread. `_lock` serialises readings, so that they are in
order.

Kafka: ZkNodeChangeNotificationListener, ZkConfigManager.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from barnabas.runtime.clock import Clock
from barnabas.runtime.scheduler import Scheduler
from barnabas.zk.config_zk_data import (
    ConfigEntityChangeNotificationSequenceZNode,
    ConfigEntityChangeNotificationZNode,
    ConfigEntityZNode,
)
from barnabas.zk.kafka_zk_client import KafkaZkClient
from barnabas.zk.store import ANY_VERSION
from barnabas.zk.znode_json import ZnodeFormatError

logger = logging.getLogger(__name__)

# Called with the name of an entity and all its settings.
ConfigCallback = Callable[[str, dict[str, str]], None]
# Kafka: the default of ZkNodeChangeNotificationListener.changeExpirationMs.
NOTICE_LIFETIME_MS = 15 * 60 * 1000


class ConfigChangeListener:
    """The listener: it calls the callbacks for each entity that a notice names."""

    def __init__(self, zk_client: KafkaZkClient, scheduler: Scheduler, clock: Clock) -> None:
        self._zk = zk_client
        self._scheduler = scheduler
        self._clock = clock
        self._lock = threading.Lock()
        self._callbacks: dict[str, tuple[ConfigCallback, ...]] = {}
        self._last_executed = -1
        self._stopped = threading.Event()

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
        access = self._zk.access
        # Before the notices are read, which arms the watch.
        access.register_child_change_handler(ConfigEntityChangeNotificationZNode.path, self._schedule)
        with self._lock:
            names = self._zk.configs.notifications()
            self._last_executed = max((_number(name) for name in names), default=-1)
            for entity_type in initial_types:
                for entity in self._zk.configs.entities(entity_type):
                    self._call_back(entity_type, entity)
            self._purge(names)

    def stop(self) -> None:
        """Stop listening. When this returns, no reading is in progress, and the store may be closed."""
        self._zk.access.unregister_child_change_handler(ConfigEntityChangeNotificationZNode.path)
        self._stopped.set()
        # A reading in progress holds the lock.
        with self._lock:
            pass

    def _schedule(self) -> None:
        self._scheduler.schedule("config-changes", self._read_notices)

    def _read_notices(self) -> None:
        with self._lock:
            if self._stopped.is_set():
                return
            names = self._zk.configs.notifications()
            for name in names:
                if self._stopped.is_set():
                    return
                if _number(name) > self._last_executed:
                    # Noted first: a notice that cannot be read must not be read again with each later one.
                    self._last_executed = _number(name)
                    self._read_notice(name)
            self._purge(names)

    def _read_notice(self, name: str) -> None:
        try:
            notice = self._zk.configs.notified_entity(name)
        except ZnodeFormatError:
            logger.exception("Ignoring the notice %s", name)
            return
        if notice is not None:
            entity_type, _, entity = notice[0].partition("/")
            self._call_back(entity_type, entity)

    def _call_back(self, entity_type: str, entity: str) -> None:
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

    def _purge(self, names: Sequence[str]) -> None:
        """Delete the notices that every broker has had the time to read: from the oldest up to the first young one."""
        now = self._clock.milliseconds()
        old: list[str] = []
        for name in names:
            try:
                notice = self._zk.configs.notified_entity(name)
            except ZnodeFormatError:
                # A notice that cannot be read counts as old, so that it is deleted.
                notice = ("", 0)
            if notice is not None and now - notice[1] <= NOTICE_LIFETIME_MS:
                break
            old.append(name)
        self._zk.configs.delete_notifications(old, ANY_VERSION)


def _number(name: str) -> int:
    digits = name.removeprefix(ConfigEntityChangeNotificationSequenceZNode.prefix)
    return int(digits) if digits.isdigit() else -1
