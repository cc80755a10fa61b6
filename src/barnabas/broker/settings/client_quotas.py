"""The client quotas of a broker put together: the managers, the throttling of handlers, the changes from the store.

Called by `front_stage` on the main thread, before the first request is handled. Kafka: QuotaFactory.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from barnabas.api.registry import Registry
from barnabas.api.throttle import QuotaThrottle
from barnabas.config.kafka_config import KafkaConfig
from barnabas.metadata.stored_configs import ConfigChangeListener
from barnabas.metrics.metrics_registry import MetricsRegistry
from barnabas.purgatory.timer import SystemTimer
from barnabas.quota.quota_managers import QuotaManagers, register_quota_metrics
from barnabas.runtime.clock import Clock
from barnabas.runtime.lazy import Lazy
from barnabas.runtime.scheduler import Scheduler
from barnabas.transport.host_addresses import host_addresses
from barnabas.zk.kafka_zk_client import KafkaZkClient
from barnabas.zk.znodes.config_znodes import ConfigEntityType

if TYPE_CHECKING:
    from barnabas.metadata.client_quota_store import ClientQuotaListener, UpdateAddress

_QUOTA_ENTITIES: Final = (ConfigEntityType.USER, ConfigEntityType.CLIENT, ConfigEntityType.IP)
EXPIRATION_INTERVAL_MS = 30_000
"""How often idle sensors are removed (Kafka: Metrics.ExpireSensorTask)."""


class ClientQuotas:
    """The link between the quota managers, the registry of handlers and the store."""

    def __init__(
        self,
        config: KafkaConfig,
        registry: Registry,
        timer: SystemTimer,
        scheduler: Scheduler,
        metrics: MetricsRegistry,
        clock: Clock,
    ) -> None:
        self._quotas = QuotaManagers.from_kafka_config(config, clock)
        QuotaThrottle(self._quotas, timer, clock).guard(registry)
        register_quota_metrics(metrics, self._quotas)
        scheduler.schedule("quota-sensors", self._quotas.expire_sensors, period_ms=EXPIRATION_INTERVAL_MS)

    def start(self, zk_client: KafkaZkClient, changes: ConfigChangeListener, update_address: UpdateAddress) -> None:
        """Apply the quotas in the store, and their changes. update_address: sets the connection rate of an address."""

        def new_listener() -> ClientQuotaListener:
            from barnabas.metadata.client_quota_store import ClientQuotaListener, ClientQuotaStore

            return ClientQuotaListener(ClientQuotaStore(zk_client), self._quotas, update_address, address_of)

        listener = Lazy(new_listener)

        def changed(entity_type: str, name: str, settings: Mapping[str, str]) -> None:
            listener().changed(entity_type, name, settings)

        # Before the store is read: no change is missed. A change that comes during `load` waits.
        for entity_type in _QUOTA_ENTITIES:
            changes.register(entity_type, partial(changed, entity_type))
        if any(map(zk_client.configs.entities, _QUOTA_ENTITIES)):
            listener().load()


def address_of(name: str) -> str | None:
    """Return the IP address of a host name or of a written address, or None if it cannot be resolved. May block.

    IPv4 is preferred, as in Java: InetAddress.getByName.
    """
    try:
        addresses = host_addresses(name, 0)
    except (OSError, ValueError):
        # ValueError: the text cannot be a name.
        return None
    return min(addresses, key=lambda address: ipaddress.ip_address(address.partition("%")[0]).version, default=None)


def is_address(name: str) -> bool:
    """Return whether `name` is an IP address, or can be resolved to one."""
    return address_of(name) is not None
