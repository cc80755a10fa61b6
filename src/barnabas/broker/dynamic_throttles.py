"""The rates of replication throttles, which exist as changes of settings only, carried to their quotas.

Made by `replication_stage` on the main thread; `changed` is called by ConfigChangeListener on a scheduler thread.
`_lock` makes reading the settings and applying them one step. Kafka: BrokerConfigHandler.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from barnabas.config.broker_settings import BrokerSettings
from barnabas.quota.replication_quota import ReplicationQuotas


class DynamicThrottles:
    """The link from settings to quotas. settings: returns those in force, already with a change that is told of."""

    def __init__(self, settings: Callable[[], BrokerSettings], quotas: ReplicationQuotas) -> None:
        self._settings = settings
        self._quotas = quotas
        self._lock = threading.Lock()

    def apply(self) -> None:
        """Limit the quotas as the settings say now."""
        with self._lock:
            settings = self._settings()
            self._quotas.leader.limit(settings.throttle("leader.replication.throttled.rate"))
            self._quotas.follower.limit(settings.throttle("follower.replication.throttled.rate"))
            self._quotas.alter_log_dirs.limit(settings.throttle("replica.alter.log.dirs.io.max.bytes.per.second"))

    def changed(self, entity: str, settings: dict[str, str]) -> None:
        """Do the same, for a change of some broker's settings."""
        self.apply()
