"""The listener for client quotas that change in the store, which passes them to the managers that apply them.

Made by `broker`. The main thread calls `load` at start; ConfigChangeListener calls the rest on a scheduler's thread.
`_lock` serialises them: what `load` read before a change must not be applied after the change.

Kafka: ClientIdConfigHandler, UserConfigHandler, IpConfigHandler.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping

from barnabas.metadata.client_quota_store import ClientQuotaStore, QuotaPath
from barnabas.metadata.config_change_listener import ConfigChangeListener
from barnabas.quota.quota_entity import IP_CONNECTION_RATE
from barnabas.quota.quota_managers import QuotaManagers
from barnabas.quota.sanitizer import DEFAULT_NAME, desanitize
from barnabas.zk.config_zk_data import ConfigEntityType

logger = logging.getLogger(__name__)

UpdateAddress = Callable[[str | None, int | None], None]
"""Sets the connections per second (None: the default) that an address (None: all others) may open."""


class ClientQuotaListener:
    """The listener. address_of: returns the IP address of a host name or address, or None for an unknown name."""

    def __init__(
        self,
        store: ClientQuotaStore,
        quotas: QuotaManagers,
        update_address: UpdateAddress,
        address_of: Callable[[str], str | None],
    ) -> None:
        self._store = store
        self._quotas = quotas
        self._update_address = update_address
        self._address_of = address_of
        self._lock = threading.Lock()

    def start(self, changes: ConfigChangeListener) -> None:
        """Listen from now on, then apply the quotas in the store."""
        # Registered before `load`: a change meanwhile waits for the lock, and is applied after what `load` has read.
        changes.register(
            ConfigEntityType.USER, lambda name, settings: self._changed(ConfigEntityType.USER, name, settings)
        )
        changes.register(
            ConfigEntityType.CLIENT, lambda name, settings: self._changed(ConfigEntityType.CLIENT, name, settings)
        )
        changes.register(ConfigEntityType.IP, self._address_changed)
        self.load()

    def load(self) -> None:
        """Apply all quotas in the store. Those that cannot be applied are logged."""
        with self._lock:
            for entity in self._store.entities():
                self._quotas.update(entity, self._store.settings(QuotaPath.of(entity)))
            for name in self._store.addresses():
                self._apply_address(name, self._store.settings(QuotaPath(ConfigEntityType.IP, name)))

    def _changed(self, entity_type: str, name: str, settings: Mapping[str, str]) -> None:
        with self._lock:
            self._quotas.update(QuotaPath(entity_type, name).entity, settings)

    def _address_changed(self, name: str, settings: Mapping[str, str]) -> None:
        with self._lock:
            self._apply_address(name, settings)

    def _apply_address(self, name: str, settings: Mapping[str, str]) -> None:
        text = settings.get(IP_CONNECTION_RATE)
        try:
            rate = None if text is None else int(text)
        except ValueError:
            logger.warning("Ignoring the rate of connections %r of %s: the value is not a number", text, name)
            return
        if name == DEFAULT_NAME:
            self._update_address(None, rate)
            return
        address = self._address_of(desanitize(name))
        if address is None:
            logger.warning("Unable to resolve address %s", desanitize(name))
        else:
            self._update_address(address, rate)
