"""The znodes of the cluster and its brokers: where each is kept and what its JSON looks like, version by version.

Written as Apache Kafka 3.9 writes them. Used by `kafka_zk_client` on any thread; stateless, so no lock. Keys stand in
the order in which Apache Kafka 3.9.2 was seen to write them, so that a dump of our store reads like one of ZooKeeper;
decoders take any order.

Kafka: kafka.zk.ZkData, one object a znode, same names.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from barnabas.config.listeners import EndPoint
from barnabas.zk.znodes.znode_json import ZnodeFormatError, decode_json, encode_json, reading_fields

_NONE: Final[Mapping[str, Any]] = MappingProxyType({})


class ControllerZNode:
    """The id of the controller. The znode is ephemeral."""

    path = "/controller"

    @staticmethod
    def encode(broker_id: int, timestamp_ms: int) -> bytes:
        """Return version 2. The KRaft epoch stays -1 in ZooKeeper mode."""
        return encode_json(
            {"version": 2, "brokerid": broker_id, "timestamp": str(timestamp_ms), "kraftControllerEpoch": -1}
        )

    @staticmethod
    def decode(data: bytes) -> int:
        """Return the controller's broker id."""
        return int(decode_json(data, "the controller's registration")["brokerid"])


class ControllerEpochZNode:
    """The number of elections so far. The version of the znode fences the writes of earlier controllers."""

    path = "/controller_epoch"
    initial_epoch = 0
    initial_version = 0

    @staticmethod
    def encode(epoch: int) -> bytes:
        """Return a decimal number."""
        return str(epoch).encode()

    @staticmethod
    def decode(data: bytes) -> int:
        """Return the epoch."""
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
    """The parent of the registrations of live brokers."""

    path = "/brokers/ids"


class BrokerIdZNode:
    """The registration of a live broker. The znode is ephemeral; its czxid is the broker epoch."""

    @staticmethod
    def path(broker_id: int) -> str:
        """Return the path of a broker's registration."""
        return f"{BrokerIdsZNode.path}/{broker_id}"

    @staticmethod
    def encode(broker: BrokerInfo, timestamp_ms: int) -> bytes:
        """Return version 5. Host and port are those of the first PLAINTEXT endpoint, for very old clients."""
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
        """Read versions 1 to 5. Raises ZnodeFormatError: the version is older, or an endpoint is malformed."""
        what = f"ZooKeeper registration for broker {broker_id}"
        with reading_fields(data, what):
            return BrokerIdZNode._decode(broker_id, decode_json(data, what), what)

    @staticmethod
    def _decode(broker_id: int, value: Mapping[str, Any], what: str) -> BrokerInfo:
        # Version 1 has host and port, 2 adds the endpoints, 3 the rack (KIP-36), 4 the security protocol of each
        # listener (KIP-103), 5 the features (KIP-584).
        version = int(value["version"])
        if version < 1:
            raise ZnodeFormatError(f"Unsupported version {version} of {what}")
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
    """Parse an endpoint. Raises ZnodeFormatError: the text is malformed."""
    name, separator, address = text.partition("://")
    # From the right, since an IPv6 address has colons of its own.
    host, colon, port = address.rpartition(":")
    if not separator or not colon or not port.isdigit():
        raise ZnodeFormatError(f"Failed to parse {what}: {text!r} is not an endpoint")
    return EndPoint(host.removeprefix("[").removesuffix("]"), int(port), name, protocols.get(name, name))


class LogDirEventNotificationZNode:
    """The parent of notices that a broker lost a log directory."""

    path = "/log_dir_event_notification"
    prefix = "log_dir_event_"
    log_dir_failure = 1

    @staticmethod
    def encode(broker_id: int) -> bytes:
        """Return version 1."""
        value = {"version": 1, "broker": broker_id, "event": LogDirEventNotificationZNode.log_dir_failure}
        return encode_json(value)

    @staticmethod
    def decode(data: bytes) -> int:
        """Return the broker's id. Raises ZnodeFormatError: the data have another form."""
        what = "a notice of a failed log directory"
        with reading_fields(data, what):
            return int(decode_json(data, what)["broker"])


class ClusterIdZNode:
    """The cluster's id."""

    path = "/cluster/id"

    @staticmethod
    def encode(cluster_id: str) -> bytes:
        """Return version 1 (a string here, as in Kafka)."""
        return encode_json({"version": "1", "id": cluster_id})

    @staticmethod
    def decode(data: bytes) -> str:
        """Return the id."""
        return str(decode_json(data, "the cluster id json")["id"])


class BrokerSequenceIdZNode:
    """The generator of broker ids: the version of the znode is the last one."""

    path = "/brokers/seqid"


class ProducerIdsBlock(NamedTuple):
    """The producer ids of a broker: `size` ids from `first_producer_id` on."""

    assigned_broker_id: int
    first_producer_id: int
    size: int

    @property
    def last_producer_id(self) -> int:
        """The last producer id of the block."""
        return self.first_producer_id + self.size - 1


class ProducerIdBlockZNode:
    """The block of producer ids handed out last."""

    path = "/latest_producer_id_block"

    @staticmethod
    def encode(block: ProducerIdsBlock) -> bytes:
        """Return version 1. The ids are strings."""
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
        """Return the block."""
        value = decode_json(data, "the producerId block json")
        start, end = int(value["block_start"]), int(value["block_end"])
        return ProducerIdsBlock(int(value["broker"]), start, end - start + 1)


class FinalizedFeatures(NamedTuple):
    """The features that every broker of the cluster supports, with their levels. Status 1 is enabled, 0 disabled."""

    features: Mapping[str, int] = _NONE
    status: int = 1
    version: int = 2


class FeatureZNode:
    """The finalized features (KIP-584)."""

    path = "/feature"

    @staticmethod
    def encode(finalized: FinalizedFeatures) -> bytes:
        """Return version 2 (3.3 and later). Version 1 also had minimum levels."""
        features = {
            name: {"max_version_level": level} | ({"min_version_level": level} if finalized.version == 1 else {})
            for name, level in finalized.features.items()
        }
        return encode_json({"features": features, "version": finalized.version, "status": finalized.status})

    @staticmethod
    def decode(data: bytes) -> FinalizedFeatures:
        """Read versions 1 and 2. Raises ZnodeFormatError: another version, or an unknown status."""
        value = decode_json(data, "feature information")
        version, status = value.get("version"), value.get("status")
        if version not in (1, 2):
            raise ZnodeFormatError(f"Unsupported version: {version} of feature information: {data[:200]!r}")
        if status not in (0, 1):
            raise ZnodeFormatError(f"Malformed status: {status} found in feature information: {data[:200]!r}")
        features = {name: int(levels["max_version_level"]) for name, levels in value["features"].items()}
        return FinalizedFeatures(features, status, version)
