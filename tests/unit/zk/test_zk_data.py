"""Znodes are written as Apache Kafka 3.9 writes them, and read in every version it reads."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.config.listeners import EndPoint
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.protocol.uuid import uuid_from_string
from barnabas.zk.kafka_zk_client import PERSISTENT_PATHS
from barnabas.zk.znodes.broker_zk_data import (
    BrokerIdZNode,
    BrokerInfo,
    ClusterIdZNode,
    ControllerEpochZNode,
    ControllerZNode,
    FeatureZNode,
    FinalizedFeatures,
    LogDirEventNotificationZNode,
    ProducerIdBlockZNode,
    ProducerIdsBlock,
)
from barnabas.zk.znodes.config_znodes import (
    ConfigEntityChangeNotificationSequenceZNode,
    ConfigEntityType,
    ConfigEntityZNode,
)
from barnabas.zk.znodes.topic_zk_data import (
    DeleteTopicsTopicZNode,
    IsrChangeNotificationZNode,
    LeaderAndIsr,
    LeaderIsrAndControllerEpoch,
    LeaderRecoveryState,
    PreferredReplicaElectionZNode,
    ReplicaAssignment,
    TopicIdReplicaAssignment,
    TopicPartitionStateZNode,
    TopicZNode,
)
from barnabas.zk.znodes.znode_json import ZnodeFormatError

TOPIC_ID_TEXT = "kh3RdNFaSxeTWFkRAzxRVw"
TOPIC_ID = uuid_from_string(TOPIC_ID_TEXT)


def test_paths() -> None:
    tp = TopicPartition("orders", 3)
    assert TopicPartitionStateZNode.path(tp) == "/brokers/topics/orders/partitions/3/state"
    assert BrokerIdZNode.path(7) == "/brokers/ids/7"
    assert ConfigEntityZNode.path(ConfigEntityType.TOPIC, "orders") == "/config/topics/orders"
    assert DeleteTopicsTopicZNode.path("orders") == "/admin/delete_topics/orders"
    assert ConfigEntityChangeNotificationSequenceZNode.prefix == "config_change_"
    # ZkData.PersistentZkPaths
    assert set(PERSISTENT_PATHS) == {
        "/consumers", "/brokers/ids", "/brokers/topics", "/config/changes", "/admin/delete_topics", "/brokers/seqid",
        "/isr_change_notification", "/latest_producer_id_block", "/log_dir_event_notification", "/config/topics",
        "/config/clients", "/config/users", "/config/brokers", "/config/ips",
    }  # fmt: skip


def test_controller() -> None:
    data = ControllerZNode.encode(3, 1700000000000)
    assert data == b'{"version":2,"brokerid":3,"timestamp":"1700000000000","kraftControllerEpoch":-1}'
    assert ControllerZNode.decode(data) == 3
    assert ControllerZNode.decode(b'{"version":1,"brokerid":0,"timestamp":"1"}') == 0
    assert ControllerEpochZNode.encode(12) == b"12"
    assert ControllerEpochZNode.decode(b"12") == 12


def test_broker() -> None:
    broker = BrokerInfo(0, (EndPoint("h", 9093, "SECURE", "SSL"), EndPoint("fe80::1", 9092, "PLAINTEXT", "PLAINTEXT")))
    data = BrokerIdZNode.encode(broker, 1700000000000)
    assert data == (
        b'{"features":{},"listener_security_protocol_map":{"SECURE":"SSL","PLAINTEXT":"PLAINTEXT"},'
        b'"endpoints":["SECURE://h:9093","PLAINTEXT://[fe80::1]:9092"],"jmx_port":-1,"port":9092,"host":"fe80::1",'
        b'"version":5,"timestamp":"1700000000000"}'
    )
    assert BrokerIdZNode.decode(0, data) == broker


def test_znodes_read_from_apache_kafka_3_9_2_are_written_the_same() -> None:
    """Copied from a ZooKeeper 3.8.4 under Apache Kafka 3.9.2."""
    broker = (
        b'{"features":{},"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT","OTHER":"PLAINTEXT"},"endpoints":'
        b'["PLAINTEXT://127.0.0.1:31192","OTHER://127.0.0.1:31193"],"rack":"rack1","jmx_port":-1,"port":31192,'
        b'"host":"127.0.0.1","version":5,"timestamp":"1795239864091"}'
    )
    assert BrokerIdZNode.encode(BrokerIdZNode.decode(0, broker), 1795239864091) == broker
    topic = (
        b'{"partitions":{"0":[0],"1":[0]},"topic_id":"X49XJ-lnQZmkweSYYICtPA","adding_replicas":{},'
        b'"removing_replicas":{},"version":3}'
    )
    found = TopicZNode.decode("orders", topic)
    assert TopicZNode.encode(found.topic_id, found.assignment) == topic
    state = b'{"controller_epoch":2,"leader":0,"version":1,"leader_epoch":0,"isr":[0]}'
    assert TopicPartitionStateZNode.encode(TopicPartitionStateZNode.decode(state, 0)) == state
    settings = b'{"version":1,"config":{"cleanup.policy":"compact","retention.ms":"2000"}}'
    assert ConfigEntityZNode.encode(ConfigEntityZNode.decode(settings)) == settings
    controller = b'{"version":2,"brokerid":0,"timestamp":"1795239864406","kraftControllerEpoch":-1}'
    assert ControllerZNode.encode(ControllerZNode.decode(controller), 1795239864406) == controller
    features = b'{"features":{},"version":2,"status":1}'
    assert FeatureZNode.encode(FeatureZNode.decode(features)) == features
    block = b'{"version":1,"broker":0,"block_start":"0","block_end":"999"}'
    assert ProducerIdBlockZNode.encode(ProducerIdBlockZNode.decode(block)) == block


def test_broker_without_plaintext_listener_has_no_host() -> None:
    broker = BrokerInfo(1, (EndPoint("h", 9093, "SSL", "SSL"),), "dc1", {"f": (1, 3)}, 9999)
    data = BrokerIdZNode.encode(broker, 1)
    value = json.loads(data)
    assert (value["host"], value["port"], value["rack"], value["jmx_port"]) == (None, -1, "dc1", 9999)
    assert value["features"] == {"f": {"min_version": 1, "max_version": 3}}
    assert BrokerIdZNode.decode(1, data) == broker


@pytest.mark.parametrize(
    ("text", "endpoints", "rack"),
    [
        ('{"version":1,"host":"h","port":9092,"jmx_port":9999,"timestamp":"1"}', ["PLAINTEXT://h:9092"], None),
        (
            (
                '{"version":2,"host":"h","port":9092,"jmx_port":9999,"timestamp":"1",'
                '"endpoints":["PLAINTEXT://h:9092","SSL://h:9093"]}'
            ),
            ["PLAINTEXT://h:9092", "SSL://h:9093"],
            None,
        ),
        (
            (
                '{"version":3,"host":"h","port":9092,"jmx_port":9999,"timestamp":"1","endpoints":["SSL://h:9093"],'
                '"rack":"dc1"}'
            ),
            ["SSL://h:9093"],
            "dc1",
        ),
        (
            (
                '{"version":4,"host":"h","port":9092,"jmx_port":9999,"timestamp":"1","rack":"dc1",'
                '"listener_security_protocol_map":{"CLIENT":"SSL"},"endpoints":["CLIENT://h:9092"]}'
            ),
            ["CLIENT://h:9092"],
            "dc1",
        ),
    ],
)
def test_brokers_of_older_versions(text: str, endpoints: list[str], rack: str | None) -> None:
    broker = BrokerIdZNode.decode(4, text.encode())
    assert [endpoint.connection_string for endpoint in broker.endpoints] == endpoints
    assert broker.rack == rack
    assert all(endpoint.security_protocol in ("PLAINTEXT", "SSL") for endpoint in broker.endpoints)


def test_topic() -> None:
    assignment = {
        TopicPartition("orders", 10): ReplicaAssignment((0, 1, 2), (2,), (0,)),
        TopicPartition("orders", 0): ReplicaAssignment((1,)),
    }
    data = TopicZNode.encode(TOPIC_ID, assignment)
    assert data == (
        b'{"partitions":{"0":[1],"10":[0,1,2]},"topic_id":"kh3RdNFaSxeTWFkRAzxRVw","adding_replicas":{"10":[2]},'
        b'"removing_replicas":{"10":[0]},"version":3}'
    )
    assert TopicZNode.decode("orders", data) == TopicIdReplicaAssignment("orders", TOPIC_ID, assignment)
    assert b"topic_id" not in TopicZNode.encode(None, assignment)


def test_topics_of_older_versions() -> None:
    found = TopicZNode.decode("orders", b'{"version":1,"partitions":{"0":[1,2]}}')
    assert found == TopicIdReplicaAssignment("orders", None, {TopicPartition("orders", 0): ReplicaAssignment((1, 2))})


def test_partition_state() -> None:
    state = LeaderIsrAndControllerEpoch(LeaderAndIsr(1, 5, (1, 2), partition_epoch=9), 3)
    data = TopicPartitionStateZNode.encode(state)
    assert data == b'{"controller_epoch":3,"leader":1,"version":1,"leader_epoch":5,"isr":[1,2]}'
    assert TopicPartitionStateZNode.decode(data, 9) == state
    recovering = LeaderIsrAndControllerEpoch(LeaderAndIsr(1, 5, (1,), LeaderRecoveryState.RECOVERING), 3)
    data = TopicPartitionStateZNode.encode(recovering)
    assert json.loads(data)["leader_recovery_state"] == 1
    assert TopicPartitionStateZNode.decode(data, 0) == recovering


def test_settings() -> None:
    data = ConfigEntityZNode.encode({"retention.ms": "1000", "note": "Grüße"})
    assert data == '{"version":1,"config":{"retention.ms":"1000","note":"Grüße"}}'.encode()
    assert ConfigEntityZNode.decode(data) == {"retention.ms": "1000", "note": "Grüße"}
    assert ConfigEntityZNode.decode(b"") == {}
    assert ConfigEntityZNode.decode(b'{"version":1}') == {}
    for bad in (b"x", b'{"version":2,"config":{}}', b'{"version":1,"config":7}', b'{"version":"x","config":{}}'):
        with pytest.raises(ZnodeFormatError, match="settings /config/topics/t"):
            ConfigEntityZNode.decode(bad, "/config/topics/t")


def test_notices() -> None:
    notice = ConfigEntityChangeNotificationSequenceZNode
    assert notice.encode("topics/orders") == b'{"version":2,"entity_path":"topics/orders"}'
    assert notice.decode(notice.encode("users/<default>")) == "users/<default>"
    assert notice.decode(b'{"version":1,"entity_type":"topics","entity_name":"orders"}') == "topics/orders"
    with pytest.raises(ZnodeFormatError):
        notice.decode(b'{"version":3,"entity_path":"topics/orders"}')
    partitions = {TopicPartition("a", 0), TopicPartition("b", 2)}
    data = IsrChangeNotificationZNode.encode(partitions)
    assert data == b'{"version":1,"partitions":[{"topic":"a","partition":0},{"topic":"b","partition":2}]}'
    assert IsrChangeNotificationZNode.decode(data) == partitions
    assert PreferredReplicaElectionZNode.encode(partitions) == data
    assert PreferredReplicaElectionZNode.decode(data) == partitions
    data = LogDirEventNotificationZNode.encode(4)
    assert data == b'{"version":1,"broker":4,"event":1}'
    assert LogDirEventNotificationZNode.decode(data) == 4


def test_cluster_id_producer_ids_and_features() -> None:
    assert ClusterIdZNode.encode("abc") == b'{"version":"1","id":"abc"}'
    assert ClusterIdZNode.decode(b'{"version":"1","id":"abc"}') == "abc"
    block = ProducerIdsBlock(0, 1000, 1000)
    assert ProducerIdBlockZNode.encode(block) == (b'{"version":1,"broker":0,"block_start":"1000","block_end":"1999"}')
    assert ProducerIdBlockZNode.decode(ProducerIdBlockZNode.encode(block)) == block
    assert FeatureZNode.encode(FinalizedFeatures()) == b'{"features":{},"version":2,"status":1}'
    features = FinalizedFeatures({"f": 3})
    assert FeatureZNode.decode(FeatureZNode.encode(features)) == features
    first = b'{"version":1,"status":0,"features":{"f":{"min_version_level":1,"max_version_level":2}}}'
    assert FeatureZNode.decode(first) == FinalizedFeatures({"f": 2}, 0, 1)
    for bad in (b'{"version":3,"status":1,"features":{}}', b'{"version":2,"status":7,"features":{}}'):
        with pytest.raises(ZnodeFormatError):
            FeatureZNode.decode(bad)


@pytest.mark.parametrize("data", [b"", b"\xff", b"[]", b"{", b"7"])
def test_what_is_no_json_object_is_named(data: bytes) -> None:
    with pytest.raises(ZnodeFormatError, match="the assignment of topic orders"):
        TopicZNode.decode("orders", data)


_replicas = st.lists(st.integers(0, 9), min_size=1, max_size=4, unique=True).map(tuple)


@given(st.dictionaries(st.integers(0, 40), _replicas, max_size=12), st.binary(min_size=16, max_size=16))
def test_topics_survive_a_round_trip(assignment: dict[int, tuple[int, ...]], topic_id: bytes) -> None:
    by_partition = {TopicPartition("t", index): ReplicaAssignment(r) for index, r in assignment.items()}
    found = TopicZNode.decode("t", TopicZNode.encode(topic_id, by_partition))
    assert (found.topic_id, found.assignment) == (topic_id, by_partition)
