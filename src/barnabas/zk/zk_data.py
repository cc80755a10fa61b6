"""Kafka's znodes: where each is kept and what its JSON looks like, version by version, as Apache Kafka 3.9 writes it.

Used by `zk.kafka_zk_client` on any thread; stateless, so no lock. Keys stand in the order in which Apache Kafka 3.9.2
was seen to write them (partitions in order of their numbers), so that a dump of our store reads like one of ZooKeeper;
decoders take any order.

Kafka: kafka.zk.ZkData, one object a znode, same names.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from barnabas.config.listeners import EndPoint
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.protocol.uuid import uuid_from_string, uuid_to_string
from barnabas.zk.leader_and_isr import LeaderAndIsr, LeaderIsrAndControllerEpoch, LeaderRecoveryState
from barnabas.zk.replica_assignment import ReplicaAssignment

_NONE: Final[Mapping[str, Any]] = MappingProxyType({})


class ZnodeFormatError(Exception):
    """A znode holds something Kafka wouldn't have written."""


def encode_json(value: object) -> bytes:
    """JSON without blanks, in UTF-8, as Jackson writes it."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def decode_json(data: bytes, what: str) -> dict[str, Any]:
    """The JSON object in `data`. Raises ZnodeFormatError naming `what` it should have been."""
    try:
        value = json.loads(data)
    except (UnicodeDecodeError, ValueError) as error:
        raise ZnodeFormatError(f"Failed to parse {what}: {data[:200]!r}") from error
    if not isinstance(value, dict):
        raise ZnodeFormatError(f"Failed to parse {what}: {data[:200]!r}")
    return value


class ControllerZNode:
    """Ephemeral: which broker is the controller."""

    path = "/controller"

    @staticmethod
    def encode(broker_id: int, timestamp_ms: int) -> bytes:
        """Version 2; the KRaft epoch stays -1 in ZooKeeper mode."""
        return encode_json(
            {"version": 2, "brokerid": broker_id, "timestamp": str(timestamp_ms), "kraftControllerEpoch": -1}
        )

    @staticmethod
    def decode(data: bytes) -> int:
        """The controller's broker id."""
        return int(decode_json(data, "the controller's registration")["brokerid"])


class ControllerEpochZNode:
    """How many controllers there have been; its version fences the writes of former ones."""

    path = "/controller_epoch"
    initial_epoch = 0
    initial_version = 0

    @staticmethod
    def encode(epoch: int) -> bytes:
        """A decimal number."""
        return str(epoch).encode()

    @staticmethod
    def decode(data: bytes) -> int:
        """The epoch."""
        return int(data)


class BrokerInfo(NamedTuple):
    """A broker's registration. `features`: name -> (min version, max version). Kafka: kafka.zk.BrokerInfo."""

    id: int
    endpoints: tuple[EndPoint, ...]
    rack: str | None = None
    features: Mapping[str, tuple[int, int]] = _NONE
    jmx_port: int = -1
    version: int = 5


class BrokerIdsZNode:
    """The live brokers."""

    path = "/brokers/ids"


class BrokerIdZNode:
    """Ephemeral: a live broker's registration. Its czxid is the broker epoch."""

    @staticmethod
    def path(broker_id: int) -> str:
        """Where broker `broker_id` is registered."""
        return f"{BrokerIdsZNode.path}/{broker_id}"

    @staticmethod
    def encode(broker: BrokerInfo, timestamp_ms: int) -> bytes:
        """Version 5. Host and port are those of the first PLAINTEXT endpoint, for clients of long ago."""
        plaintext = next((end for end in broker.endpoints if end.security_protocol == "PLAINTEXT"), None)
        features = {name: {"min_version": low, "max_version": high} for name, (low, high) in broker.features.items()}
        value: dict[str, object] = {
            "features": features,
            "listener_security_protocol_map": {
                end.listener_name: str(end.security_protocol) for end in broker.endpoints
            },
            "endpoints": [end.connection_string for end in broker.endpoints],
        }
        if broker.rack is not None:
            value["rack"] = broker.rack
        value |= {
            "jmx_port": broker.jmx_port,
            "port": -1 if plaintext is None else plaintext.port,
            "host": None if plaintext is None else plaintext.host,
            "version": 5,
            "timestamp": str(timestamp_ms),
        }
        return encode_json(value)

    @staticmethod
    def decode(broker_id: int, data: bytes) -> BrokerInfo:
        """Versions 1 to 5."""
        what = f"ZooKeeper registration for broker {broker_id}"
        value = decode_json(data, what)
        version = int(value["version"])
        if version < 1:
            raise ZnodeFormatError(f"Unsupported version of broker registration: {data[:200]!r}")
        if version == 1:
            endpoints: tuple[EndPoint, ...] = (EndPoint(value["host"], int(value["port"]), "PLAINTEXT", "PLAINTEXT"),)
        else:
            protocols = value.get("listener_security_protocol_map") or {}
            endpoints = tuple(_endpoint(text, protocols, what) for text in value["endpoints"])
        features = {
            name: (int(levels["min_version"]), int(levels["max_version"]))
            for name, levels in (value.get("features") or {}).items()
        }
        return BrokerInfo(broker_id, endpoints, value.get("rack"), features, int(value["jmx_port"]), version)


def _endpoint(text: str, protocols: Mapping[str, str], what: str) -> EndPoint:
    name, separator, address = text.partition("://")
    host, colon, port = address.rpartition(":")
    if not separator or not colon or not port.isdigit():
        raise ZnodeFormatError(f"Failed to parse {what}: {text!r} is no endpoint")
    return EndPoint(host.removeprefix("[").removesuffix("]"), int(port), name, protocols.get(name, name))


class TopicsZNode:
    """All topics."""

    path = "/brokers/topics"


class TopicIdReplicaAssignment(NamedTuple):
    """A topic's znode. `topic_id` is None for topics made before Kafka 2.8; `version`: of the znode, -1 if unknown."""

    topic: str
    topic_id: bytes | None
    assignment: Mapping[TopicPartition, ReplicaAssignment]
    version: int = -1


class TopicZNode:
    """A topic: its id and the assignment of its partitions."""

    @staticmethod
    def path(topic: str) -> str:
        """Where `topic` is kept."""
        return f"{TopicsZNode.path}/{topic}"

    @staticmethod
    def encode(topic_id: bytes | None, assignment: Mapping[TopicPartition, ReplicaAssignment]) -> bytes:
        """Version 3."""
        ordered = sorted(assignment.items(), key=lambda item: item[0].partition)
        value: dict[str, object] = {"partitions": {str(tp.partition): a.replicas for tp, a in ordered}}
        if topic_id is not None:
            value["topic_id"] = uuid_to_string(topic_id)
        value["adding_replicas"] = {str(tp.partition): a.adding_replicas for tp, a in ordered if a.adding_replicas}
        value["removing_replicas"] = {
            str(tp.partition): a.removing_replicas for tp, a in ordered if a.removing_replicas
        }
        value["version"] = 3
        return encode_json(value)

    @staticmethod
    def decode(topic: str, data: bytes) -> TopicIdReplicaAssignment:
        """Versions 1 to 3."""
        value = decode_json(data, f"the assignment of topic {topic}")
        adding, removing = value.get("adding_replicas") or {}, value.get("removing_replicas") or {}
        topic_id = value.get("topic_id")
        assignment = {
            TopicPartition(topic, int(partition)): ReplicaAssignment(
                tuple(replicas), tuple(adding.get(partition, ())), tuple(removing.get(partition, ()))
            )
            for partition, replicas in (value.get("partitions") or {}).items()
        }
        return TopicIdReplicaAssignment(topic, None if topic_id is None else uuid_from_string(topic_id), assignment)


class TopicPartitionsZNode:
    """A topic's partitions that have, or had, a leader."""

    @staticmethod
    def path(topic: str) -> str:
        """Their parent."""
        return f"{TopicZNode.path(topic)}/partitions"


class TopicPartitionZNode:
    """A partition: the parent of its state."""

    @staticmethod
    def path(partition: TopicPartition) -> str:
        """Where `partition` is kept."""
        return f"{TopicPartitionsZNode.path(partition.topic)}/{partition.partition}"


class TopicPartitionStateZNode:
    """A partition's leader and in-sync replicas. Its version is the partition epoch."""

    @staticmethod
    def path(partition: TopicPartition) -> str:
        """Where the state of `partition` is kept."""
        return f"{TopicPartitionZNode.path(partition)}/state"

    @staticmethod
    def encode(state: LeaderIsrAndControllerEpoch) -> bytes:
        """Version 1."""
        leadership = state.leader_and_isr
        value: dict[str, object] = {
            "controller_epoch": state.controller_epoch,
            "leader": leadership.leader,
            "version": 1,
            "leader_epoch": leadership.leader_epoch,
            "isr": leadership.isr,
        }
        if leadership.leader_recovery_state is not LeaderRecoveryState.RECOVERED:
            value["leader_recovery_state"] = int(leadership.leader_recovery_state)
        return encode_json(value)

    @staticmethod
    def decode(data: bytes, version: int) -> LeaderIsrAndControllerEpoch:
        """`version` is the znode's: the partition epoch."""
        value = decode_json(data, "the state of a partition")
        leadership = LeaderAndIsr(
            int(value["leader"]),
            int(value["leader_epoch"]),
            tuple(value["isr"]),
            LeaderRecoveryState(value.get("leader_recovery_state", 0)),
            version,
        )
        return LeaderIsrAndControllerEpoch(leadership, int(value["controller_epoch"]))


class ConfigType:
    """What can have settings in the store. Kafka: org.apache.kafka.server.config.ConfigType."""

    TOPIC = "topics"
    CLIENT = "clients"
    USER = "users"
    BROKER = "brokers"
    IP = "ips"
    ALL = (TOPIC, CLIENT, USER, BROKER, IP)


class ConfigEntityTypeZNode:
    """All entities of a type that have settings."""

    @staticmethod
    def path(entity_type: str) -> str:
        """Their parent."""
        return f"/config/{entity_type}"


class ConfigEntityZNode:
    """An entity's settings: those that differ from the defaults."""

    @staticmethod
    def path(entity_type: str, entity_name: str) -> str:
        """Where they are kept."""
        return f"{ConfigEntityTypeZNode.path(entity_type)}/{entity_name}"

    @staticmethod
    def encode(config: Mapping[str, str]) -> bytes:
        """Version 1."""
        return encode_json({"version": 1, "config": dict(config)})

    @staticmethod
    def decode(data: bytes) -> dict[str, str]:
        """The settings; none for an empty znode."""
        if not data:
            return {}
        config = decode_json(data, "settings").get("config")
        return {name: str(value) for name, value in config.items()} if isinstance(config, dict) else {}


class ConfigEntityChangeNotificationZNode:
    """The parent of notices that settings changed."""

    path = "/config/changes"


class ConfigEntityChangeNotificationSequenceZNode:
    """One notice: read the settings of this entity again."""

    prefix = "config_change_"
    create_path = f"{ConfigEntityChangeNotificationZNode.path}/{prefix}"

    @staticmethod
    def encode(entity_path: str) -> bytes:
        """Version 2; `entity_path` is such as `topics/orders`."""
        return encode_json({"version": 2, "entity_path": entity_path})

    @staticmethod
    def decode(data: bytes) -> str:
        """The entity path. Version 1 named the type and the entity apart."""
        value = decode_json(data, "a notice of changed settings")
        version = value.get("version")
        if version == 1:
            return f"{value['entity_type']}/{value['entity_name']}"
        if version != 2 or not isinstance(value.get("entity_path"), str):
            raise ZnodeFormatError(f"Unsupported notice of changed settings: {data[:200]!r}")
        return str(value["entity_path"])


class IsrChangeNotificationZNode:
    """The parent of notices that leaders changed in-sync replicas by themselves (before Kafka 2.7)."""

    path = "/isr_change_notification"
    prefix = "isr_change_"

    @staticmethod
    def encode(partitions: Iterable[TopicPartition]) -> bytes:
        """Version 1."""
        return encode_json({"version": 1, "partitions": _partitions_json(partitions)})

    @staticmethod
    def decode(data: bytes) -> set[TopicPartition]:
        """The partitions whose state is to be read again."""
        return _partitions_of(decode_json(data, "a notice of changed in-sync replicas"))


class LogDirEventNotificationZNode:
    """The parent of notices that a broker lost a log directory."""

    path = "/log_dir_event_notification"
    prefix = "log_dir_event_"
    log_dir_failure = 1

    @staticmethod
    def encode(broker_id: int) -> bytes:
        """Version 1."""
        value = {"version": 1, "broker": broker_id, "event": LogDirEventNotificationZNode.log_dir_failure}
        return encode_json(value)

    @staticmethod
    def decode(data: bytes) -> int:
        """The broker."""
        return int(decode_json(data, "a notice of a failed log directory")["broker"])


class DeleteTopicsZNode:
    """The parent of topics to be deleted."""

    path = "/admin/delete_topics"


class DeleteTopicsTopicZNode:
    """A topic to be deleted; no data."""

    @staticmethod
    def path(topic: str) -> str:
        """The wish to delete `topic`."""
        return f"{DeleteTopicsZNode.path}/{topic}"


class PreferredReplicaElectionZNode:
    """Partitions to be led by their preferred replicas: the way before the ElectLeaders API."""

    path = "/admin/preferred_replica_election"

    @staticmethod
    def encode(partitions: Collection[TopicPartition]) -> bytes:
        """Version 1."""
        return encode_json({"version": 1, "partitions": _partitions_json(partitions)})

    @staticmethod
    def decode(data: bytes) -> set[TopicPartition]:
        """The partitions."""
        return _partitions_of(decode_json(data, "a preferred replica election"))


class ClusterIdZNode:
    """The cluster's id."""

    path = "/cluster/id"

    @staticmethod
    def encode(cluster_id: str) -> bytes:
        """Version 1 (a string here, in Kafka too)."""
        return encode_json({"version": "1", "id": cluster_id})

    @staticmethod
    def decode(data: bytes) -> str:
        """The id."""
        return str(decode_json(data, "the cluster id json")["id"])


class BrokerSequenceIdZNode:
    """Its version generates broker ids."""

    path = "/brokers/seqid"


class ProducerIdsBlock(NamedTuple):
    """Producer ids handed to a broker: `first_producer_id` and the following, `size` of them."""

    assigned_broker_id: int
    first_producer_id: int
    size: int

    @property
    def last_producer_id(self) -> int:
        """The last one of the block."""
        return self.first_producer_id + self.size - 1


class ProducerIdBlockZNode:
    """The block of producer ids handed out last."""

    path = "/latest_producer_id_block"

    @staticmethod
    def encode(block: ProducerIdsBlock) -> bytes:
        """Version 1; the ids are strings."""
        return encode_json(
            {
                "version": 1,
                "broker": block.assigned_broker_id,
                "block_start": str(block.first_producer_id),
                "block_end": str(block.last_producer_id),
            }
        )

    @staticmethod
    def decode(data: bytes) -> ProducerIdsBlock:
        """The block."""
        value = decode_json(data, "the producerId block json")
        start, end = int(value["block_start"]), int(value["block_end"])
        return ProducerIdsBlock(int(value["broker"]), start, end - start + 1)


class FinalizedFeatures(NamedTuple):
    """Features every broker of the cluster supports, at these levels. Status 1 is enabled, 0 disabled."""

    features: Mapping[str, int] = _NONE
    status: int = 1
    version: int = 2


class FeatureZNode:
    """The finalized features (KIP-584)."""

    path = "/feature"

    @staticmethod
    def encode(finalized: FinalizedFeatures) -> bytes:
        """Version 2 (3.3 and later); version 1 also had minimum levels."""
        features = {
            name: {"max_version_level": level} | ({"min_version_level": level} if finalized.version == 1 else {})
            for name, level in finalized.features.items()
        }
        return encode_json({"features": features, "version": finalized.version, "status": finalized.status})

    @staticmethod
    def decode(data: bytes) -> FinalizedFeatures:
        """Versions 1 and 2."""
        value = decode_json(data, "feature information")
        version, status = value.get("version"), value.get("status")
        if version not in (1, 2):
            raise ZnodeFormatError(f"Unsupported version: {version} of feature information: {data[:200]!r}")
        if status not in (0, 1):
            raise ZnodeFormatError(f"Malformed status: {status} found in feature information: {data[:200]!r}")
        features = {name: int(levels["max_version_level"]) for name, levels in value["features"].items()}
        return FinalizedFeatures(features, status, version)


def _partitions_json(partitions: Iterable[TopicPartition]) -> list[dict[str, object]]:
    return [{"topic": tp.topic, "partition": tp.partition} for tp in sorted(partitions)]


def _partitions_of(value: Mapping[str, Any]) -> set[TopicPartition]:
    return {TopicPartition(item["topic"], int(item["partition"])) for item in value["partitions"]}


# The znodes that exist before a broker starts; parents are made on the way. Kafka: ZkData.PersistentZkPaths.
PERSISTENT_PATHS: tuple[str, ...] = (
    "/consumers",
    BrokerIdsZNode.path,
    TopicsZNode.path,
    ConfigEntityChangeNotificationZNode.path,
    DeleteTopicsZNode.path,
    BrokerSequenceIdZNode.path,
    IsrChangeNotificationZNode.path,
    ProducerIdBlockZNode.path,
    LogDirEventNotificationZNode.path,
    *(ConfigEntityTypeZNode.path(entity_type) for entity_type in ConfigType.ALL),
)
