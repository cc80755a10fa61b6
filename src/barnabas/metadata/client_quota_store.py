"""Client quotas in the store, of users, client ids, clients of users and IP addresses, and the listener for changes.

ClientQuotaStore is used by `client_quota_admin`, `scram_credential_admin` (users have credentials, too) and the
listener on any thread; it blocks on the store and keeps nothing. Who changes settings holds its `lock` from the reading
to the writing. Paths: /config/users/<u>, /config/clients/<c>, /config/users/<u>/clients/<c>, /config/ips/<ip>; names
are sanitized, or `<default>`.

ClientQuotaListener is made by `broker` for the first quota. The main thread calls `load` at start, if the store has
quotas; ConfigChangeListener calls the rest on a scheduler's thread. `_lock` serialises them: what `load` read before a
change must not be applied after the change.

Kafka: AdminZkClient.changeConfigs, ClientIdConfigHandler, UserConfigHandler, IpConfigHandler.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from barnabas.quota.quota_entity import DEFAULT_NAME, IP_CONNECTION_RATE, KafkaQuotaEntity, desanitize
from barnabas.quota.quota_managers import QuotaManagers
from barnabas.zk.kafka_zk_client import KafkaZkClient
from barnabas.zk.znodes.config_znodes import ConfigEntityType

logger = logging.getLogger(__name__)


class QuotaPath(NamedTuple):
    """The place of an entity's quotas: its type (ConfigEntityType) and its name in the path."""

    entity_type: str
    name: str

    @classmethod
    def of(cls, entity: KafkaQuotaEntity) -> QuotaPath:
        """Return the path of a user, a client id, or both."""
        if entity.user is None:
            return cls(ConfigEntityType.CLIENT, entity.client_id or "")
        if entity.client_id is None:
            return cls(ConfigEntityType.USER, entity.user)
        return cls(ConfigEntityType.USER, f"{entity.user}/{ConfigEntityType.CLIENT}/{entity.client_id}")

    @property
    def entity(self) -> KafkaQuotaEntity:
        """The entity of the path. Raises ValueError: the path is not one of quotas."""
        if self.entity_type == ConfigEntityType.CLIENT:
            return KafkaQuotaEntity(None, self.name)
        match self.name.split("/"):
            case [user]:
                return KafkaQuotaEntity(user, None)
            case [user, ConfigEntityType.CLIENT, client_id]:
                return KafkaQuotaEntity(user, client_id)
        raise ValueError(f"Invalid quota entity path: {self.name}")


class ClientQuotaStore:
    """The settings that hold quotas, read and written. The callers check them."""

    def __init__(self, zk_client: KafkaZkClient) -> None:
        self._configs = zk_client.configs
        self.lock = threading.Lock()

    def settings(self, path: QuotaPath) -> dict[str, str]:
        """Return the settings of an entity, quotas and others; empty if it has none."""
        return self._configs.entity(*path)

    def entities(self) -> Iterator[KafkaQuotaEntity]:
        """Yield every user, client id, and client of a user that has settings."""
        for user in self._configs.entities(ConfigEntityType.USER):
            yield KafkaQuotaEntity(user, None)
            for client_id in self._configs.entities(f"{ConfigEntityType.USER}/{user}/{ConfigEntityType.CLIENT}"):
                yield KafkaQuotaEntity(user, client_id)
        for client_id in self._configs.entities(ConfigEntityType.CLIENT):
            yield KafkaQuotaEntity(None, client_id)

    def addresses(self) -> list[str]:
        """Return every IP address that has settings."""
        return self._configs.entities(ConfigEntityType.IP)

    def change(self, path: QuotaPath, settings: Mapping[str, str]) -> None:
        """Replace the settings of an entity and notify every broker. An entity without settings keeps no znode."""
        if settings:
            self._configs.change(*path, settings)
            return
        entity_type, name = path
        user, slash, _ = name.partition("/")
        znodes = [f"{entity_type}/{name}"]
        # The parents too, if nothing is left in them; a parent with other clients stays, since it has children.
        if slash:
            znodes.append(f"{entity_type}/{user}/{ConfigEntityType.CLIENT}")
            if not self.settings(QuotaPath(entity_type, user)):
                znodes.append(f"{entity_type}/{user}")
        is_gone, *_ = self._configs.remove(entity_type, name, znodes)
        # The znode of a user with clients has children and stays; it loses its settings.
        if not is_gone:
            self._configs.change(entity_type, name, {})


UpdateAddress = Callable[[str | None, int | None], None]
"""Sets the connections per second (None: the default) that an address (None: all others) may open."""


class ClientQuotaListener:
    """The listener: it passes changed quotas to the managers that apply them.

    address_of: returns the IP address of a host name or address, or None for an unknown name.
    """

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

    def load(self) -> None:
        """Apply all quotas in the store. Those that cannot be applied are logged."""
        with self._lock:
            for entity in self._store.entities():
                self._quotas.update(entity, self._store.settings(QuotaPath.of(entity)))
            for name in self._store.addresses():
                self._apply_address(name, self._store.settings(QuotaPath(ConfigEntityType.IP, name)))

    def changed(self, entity_type: str, name: str, settings: Mapping[str, str]) -> None:
        """Apply the settings that a user, a client or an address has now."""
        with self._lock:
            if entity_type == ConfigEntityType.IP:
                self._apply_address(name, settings)
            else:
                self._quotas.update(QuotaPath(entity_type, name).entity, settings)

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
