"""The znodes of settings and of notices that settings changed: where each is kept and what its JSON looks like.

Written as Apache Kafka 3.9 writes them, as `broker_zk_data` says. Used by `config_znodes` on any thread; stateless, so
no lock.

Kafka: kafka.zk.ZkData, one object a znode, same names.
"""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.zk.znode_json import ZnodeFormatError, decode_json, encode_json, reading_fields


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
