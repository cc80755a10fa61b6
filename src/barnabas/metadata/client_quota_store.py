"""Client quotas in the store: settings of users, client ids, clients of users, and IP addresses.

Used by `client_quotas`, `scram_credential_admin` (users have credentials, too) and `client_quota_listener` on any
thread; blocks on the store and keeps nothing. Who changes settings holds `lock` from the reading to the writing.
Kafka: AdminZkClient.changeConfigs, fetchAllChildEntityConfigs. Paths: /config/users/<u>, /config/clients/<c>,
/config/users/<u>/clients/<c>, /config/ips/<ip>; names are sanitized, or `<default>`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from barnabas.quota.quota_entity import QuotaEntity
from barnabas.zk.config_zk_data import ConfigEntityType
from barnabas.zk.kafka_zk_client import KafkaZkClient


class QuotaPath(NamedTuple):
    """The place of an entity's quotas: its type (ConfigEntityType) and its name in the path."""

    entity_type: str
    name: str

    @classmethod
    def of(cls, entity: QuotaEntity) -> QuotaPath:
        """Return the path of a user, a client id, or both."""
        if entity.user is None:
            return cls(ConfigEntityType.CLIENT, entity.client_id or "")
        if entity.client_id is None:
            return cls(ConfigEntityType.USER, entity.user)
        return cls(ConfigEntityType.USER, f"{entity.user}/{ConfigEntityType.CLIENT}/{entity.client_id}")

    @property
    def entity(self) -> QuotaEntity:
        """The entity of the path. Raises ValueError: the path is not one of quotas."""
        if self.entity_type == ConfigEntityType.CLIENT:
            return QuotaEntity(None, self.name)
        match self.name.split("/"):
            case [user]:
                return QuotaEntity(user, None)
            case [user, ConfigEntityType.CLIENT, client_id]:
                return QuotaEntity(user, client_id)
        raise ValueError(f"Invalid quota entity path: {self.name}")


class ClientQuotaStore:
    """The settings that hold quotas, read and written. The callers check them."""

    def __init__(self, zk_client: KafkaZkClient) -> None:
        self._configs = zk_client.configs
        self.lock = threading.Lock()

    def settings(self, path: QuotaPath) -> dict[str, str]:
        """Return the settings of an entity, quotas and others; empty if it has none."""
        return self._configs.entity(*path)

    def entities(self) -> Iterator[QuotaEntity]:
        """Yield every user, client id, and client of a user that has settings."""
        for user in self._configs.entities(ConfigEntityType.USER):
            yield QuotaEntity(user, None)
            for client_id in self._configs.entities(f"{ConfigEntityType.USER}/{user}/{ConfigEntityType.CLIENT}"):
                yield QuotaEntity(user, client_id)
        for client_id in self._configs.entities(ConfigEntityType.CLIENT):
            yield QuotaEntity(None, client_id)

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
