"""Settings kept in the store, by entity, and the notices that they changed.

A part of `KafkaZkClient` (its attribute `configs`), used by metadata and controller on any thread; stateless, so no
lock. Kafka: the config half of kafka.zk.KafkaZkClient.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from barnabas.zk.change_notices import ChangeNotices
from barnabas.zk.config_zk_data import (
    ConfigEntityChangeNotificationSequenceZNode,
    ConfigEntityChangeNotificationZNode,
    ConfigEntityType,
    ConfigEntityTypeZNode,
    ConfigEntityZNode,
)
from barnabas.zk.errors import NodeExistsError, NoNodeError, NotEmptyError, StoreError
from barnabas.zk.store import Create, Created, Delete, Outcome, SetData, value_of
from barnabas.zk.znode_access import ZnodeAccess, creations_with_parents

_Notification = ConfigEntityChangeNotificationSequenceZNode


class ConfigZnodes:
    """The settings, by Kafka's calls. `entity_type`: of ConfigEntityType. `entity_name`: as in the path, sanitized."""

    def __init__(self, access: ZnodeAccess) -> None:
        self._access = access
        self.notices = ChangeNotices(access, ConfigEntityChangeNotificationZNode.path, _Notification.prefix)

    def entity(self, entity_type: str, entity_name: str) -> dict[str, str]:
        """Return the settings of an entity, empty if it has none."""
        path = ConfigEntityZNode.path(entity_type, entity_name)
        node = self._access.get(path)
        return {} if node is None else ConfigEntityZNode.decode(node.data, path)

    def topics(self, topics: Iterable[str]) -> dict[str, dict[str, str]]:
        """Return the settings of topics; empty for those that have none."""
        names = list(topics)
        paths = [ConfigEntityZNode.path(ConfigEntityType.TOPIC, topic) for topic in names]
        return {
            topic: {} if node is None else ConfigEntityZNode.decode(node.data, path)
            for topic, path, node in zip(names, paths, self._access.get_many(paths), strict=True)
        }

    def entities(self, entity_type: str) -> list[str]:
        """Return the names of the entities of a type that have settings."""
        return self._access.children(ConfigEntityTypeZNode.path(entity_type))

    def set_or_create(self, entity_type: str, entity_name: str, config: Mapping[str, str]) -> None:
        """Replace the settings of an entity, without a notice."""
        for outcome in self._access.store.batch(self._writes(entity_type, entity_name, config)):
            self._raise_unless_expected(outcome)

    def change(self, entity_type: str, entity_name: str, config: Mapping[str, str]) -> None:
        """Replace the settings of an entity and notify every broker, in one batch.

        Kafka: AdminZkClient.changeEntityConfig.
        """
        # Last in the batch: a broker that reads the notice finds the settings written.
        notice = self._notice(entity_type, entity_name)
        *writes, noticed = self._access.store.batch([*self._writes(entity_type, entity_name, config), notice])
        for outcome in writes:
            self._raise_unless_expected(outcome)
        value_of(noticed, Created)

    def remove(self, entity_type: str, entity_name: str, znodes: Iterable[str]) -> list[bool]:
        """Delete znodes below /config, in this order, and notify every broker that the entity has no settings any more.

        Returns whether each znode is gone: one that has children stays. Raises StoreError: another failure.
        Kafka: AdminZkClient.tryCleanQuotaNodes.
        """
        deletions = [Delete(f"/config/{znode}") for znode in znodes]
        *outcomes, noticed = self._access.store.batch([*deletions, self._notice(entity_type, entity_name)])
        for outcome in outcomes:
            if isinstance(outcome, StoreError) and not isinstance(outcome, (NotEmptyError, NoNodeError)):
                raise outcome
        value_of(noticed, Created)
        return [not isinstance(outcome, NotEmptyError) for outcome in outcomes]

    def _notice(self, entity_type: str, entity_name: str) -> Create:
        return self.notices.creation(_Notification.encode(f"{entity_type}/{entity_name}"))

    @staticmethod
    def _writes(entity_type: str, entity_name: str, config: Mapping[str, str]) -> list[Create | SetData]:
        path, data = ConfigEntityZNode.path(entity_type, entity_name), ConfigEntityZNode.encode(config)
        # Exactly one of the two succeeds: the creation fails when the znode exists. (A client of a user lies deeper.)
        return [*creations_with_parents(path, data), SetData(path, data)]

    @staticmethod
    def _raise_unless_expected(outcome: Outcome) -> None:
        """Accept a result, NodeExistsError or NoNodeError. Raises StoreError: any other error."""
        if isinstance(outcome, StoreError) and not isinstance(outcome, (NodeExistsError, NoNodeError)):
            raise outcome
