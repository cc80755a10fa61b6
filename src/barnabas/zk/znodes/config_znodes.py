"""Settings kept in the store, by entity, and the notices that they changed: the znodes, and Kafka's calls on them.

ConfigZnodes is a part of `KafkaZkClient` (its attribute `configs`), used by metadata and controller on any thread;
stateless, so no lock. The znodes are written as Apache Kafka 3.9 writes them, as `broker_zk_data` says.

Kafka: the config half of kafka.zk.KafkaZkClient; kafka.zk.ZkData, one object a znode, same names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from barnabas.zk.store.errors import NodeExistsError, NoNodeError, NotEmptyError, StoreError
from barnabas.zk.store.store import Create, Created, Delete, Outcome, SetData, value_of
from barnabas.zk.znodes.znode_access import ChangeNotices, ZnodeAccess, creations_with_parents
from barnabas.zk.znodes.znode_json import ZnodeFormatError, decode_json, encode_json, reading_fields


class ConfigEntityType:
    """The types of entities that can have settings in the store. Kafka: org.apache.kafka.server.config.ConfigType."""

    TOPIC = "topics"
    CLIENT = "clients"
    USER = "users"
    BROKER = "brokers"
    IP = "ips"
    ALL = (TOPIC, CLIENT, USER, BROKER, IP)


class ConfigEntityTypeZNode:
    """The parent of all entities of a type that have settings."""

    @staticmethod
    def path(entity_type: str) -> str:
        """Return the path of that parent."""
        return f"/config/{entity_type}"


class ConfigEntityZNode:
    """An entity's settings: those that differ from the defaults."""

    @staticmethod
    def path(entity_type: str, entity_name: str) -> str:
        """Return the path of the settings."""
        return f"{ConfigEntityTypeZNode.path(entity_type)}/{entity_name}"

    @staticmethod
    def encode(config: Mapping[str, str]) -> bytes:
        """Return version 1."""
        return encode_json({"version": 1, "config": dict(config)})

    @staticmethod
    def decode(data: bytes, path: str = "") -> dict[str, str]:
        """Return the settings; none for an empty znode. path: named by the error.

        Raises ZnodeFormatError: the data have another form. Kafka takes no settings then; but a topic whose retention
        is forgotten loses its records.
        """
        # A znode that was only made as a parent, such as that of a user whose clients have quotas, is empty.
        if not data:
            return {}
        what = f"settings {path}".rstrip()
        with reading_fields(data, what):
            value = decode_json(data, what)
            if int(value.get("version", 1)) != 1:
                raise ValueError(value["version"])
            return {name: str(text) for name, text in value.get("config", {}).items()}


class ConfigEntityChangeNotificationZNode:
    """The parent of notices that settings changed."""

    path = "/config/changes"


class ConfigEntityChangeNotificationSequenceZNode:
    """A notice that the settings of an entity are to be read again."""

    prefix = "config_change_"

    @staticmethod
    def encode(entity_path: str) -> bytes:
        """Return version 2. An entity path is, for example, `topics/orders`."""
        return encode_json({"version": 2, "entity_path": entity_path})

    @staticmethod
    def decode(data: bytes) -> str:
        """Return the entity path. Version 1 has type and entity in two fields.

        Raises ZnodeFormatError: another version, or no entity path.
        """
        value = decode_json(data, "a notice of changed settings")
        version = value.get("version")
        if version == 1:
            return f"{value['entity_type']}/{value['entity_name']}"
        if version != 2 or not isinstance(value.get("entity_path"), str):
            raise ZnodeFormatError(f"Unsupported notice of changed settings: {data[:200]!r}")
        return str(value["entity_path"])


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
        """Delete znodes below /config, in this order, and notify every broker that the entity has lost its settings.

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
