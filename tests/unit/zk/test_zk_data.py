"""Znodes are written as Apache Kafka 3.9 writes them, and read in every version it reads."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.config.listeners import EndPoint
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.protocol.uuid import uuid_from_string
from barnabas.zk import zk_data as z
from barnabas.zk.leader_and_isr import LeaderAndIsr, LeaderIsrAndControllerEpoch, LeaderRecoveryState
from barnabas.zk.replica_assignment import ReplicaAssignment

TOPIC_ID_TEXT = "kh3RdNFaSxeTWFkRAzxRVw"
TOPIC_ID = uuid_from_string(TOPIC_ID_TEXT)


def test_paths() -> None:
    tp = TopicPartition("orders", 3)
    assert z.TopicPartitionStateZNode.path(tp) == "/brokers/topics/orders/partitions/3/state"
    assert z.BrokerIdZNode.path(7) == "/brokers/ids/7"
    assert z.ConfigEntityZNode.path(z.ConfigType.TOPIC, "orders") == "/config/topics/orders"
    assert z.DeleteTopicsTopicZNode.path("orders") == "/admin/delete_topics/orders"
    assert z.ConfigEntityChangeNotificationSequenceZNode.create_path == "/config/changes/config_change_"
    # ZkData.PersistentZkPaths
    assert set(z.PERSISTENT_PATHS) == {
        "/consumers", "/brokers/ids", "/brokers/topics", "/config/changes", "/admin/delete_topics", "/brokers/seqid",
        "/isr_change_notification", "/latest_producer_id_block", "/log_dir_event_notification", "/config/topics",
        "/config/clients", "/config/users", "/config/brokers", "/config/ips",
    }  # fmt: skip


def test_controller() -> None:
    data = z.ControllerZNode.encode(3, 1700000000000)
    assert data == b'{"version":2,"brokerid":3,"timestamp":"1700000000000","kraftControllerEpoch":-1}'
    assert z.ControllerZNode.decode(data) == 3
    assert z.ControllerZNode.decode(b'{"version":1,"brokerid":0,"timestamp":"1"}') == 0
    assert z.ControllerEpochZNode.encode(12) == b"12"
    assert z.ControllerEpochZNode.decode(b"12") == 12


def test_broker() -> None:
    broker = z.BrokerInfo(
        0, (EndPoint("h", 9093, "SECURE", "SSL"), EndPoint("fe80::1", 9092, "PLAINTEXT", "PLAINTEXT"))
    )
    data = z.BrokerIdZNode.encode(broker, 1700000000000)
    assert data == (
        b'{"features":{},"listener_security_protocol_map":{"SECURE":"SSL","PLAINTEXT":"PLAINTEXT"},'
        b'"endpoints":["SECURE://h:9093","PLAINTEXT://[fe80::1]:9092"],"jmx_port":-1,"port":9092,"host":"fe80::1",'
        b'"version":5,"timestamp":"1700000000000"}'
    )
    assert z.BrokerIdZNode.decode(0, data) == broker


def test_znodes_read_from_apache_kafka_3_9_2_are_written_the_same() -> None:
    """Copied from a ZooKeeper 3.8.4 under Apache Kafka 3.9.2."""
    broker = (
        b'{"features":{},"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT","OTHER":"PLAINTEXT"},"endpoints":'
        b'["PLAINTEXT://127.0.0.1:31192","OTHER://127.0.0.1:31193"],"rack":"rack1","jmx_port":-1,"port":31192,'
        b'"host":"127.0.0.1","version":5,"timestamp":"1795239864091"}'
    )
    assert z.BrokerIdZNode.encode(z.BrokerIdZNode.decode(0, broker), 1795239864091) == broker
    topic = (
        b'{"partitions":{"0":[0],"1":[0]},"topic_id":"X49XJ-lnQZmkweSYYICtPA","adding_replicas":{},'
        b'"removing_replicas":{},"version":3}'
    )
    found = z.TopicZNode.decode("orders", topic)
    assert z.TopicZNode.encode(found.topic_id, found.assignment) == topic
    state = b'{"controller_epoch":2,"leader":0,"version":1,"leader_epoch":0,"isr":[0]}'
    assert z.TopicPartitionStateZNode.encode(z.TopicPartitionStateZNode.decode(state, 0)) == state
    settings = b'{"version":1,"config":{"cleanup.policy":"compact","retention.ms":"2000"}}'
    assert z.ConfigEntityZNode.encode(z.ConfigEntityZNode.decode(settings)) == settings
    controller = b'{"version":2,"brokerid":0,"timestamp":"1795239864406","kraftControllerEpoch":-1}'
    assert z.ControllerZNode.encode(z.ControllerZNode.decode(controller), 1795239864406) == controller
    features = b'{"features":{},"version":2,"status":1}'
    assert z.FeatureZNode.encode(z.FeatureZNode.decode(features)) == features
    block = b'{"version":1,"broker":0,"block_start":"0","block_end":"999"}'
    assert z.ProducerIdBlockZNode.encode(z.ProducerIdBlockZNode.decode(block)) == block


def test_broker_without_plaintext_listener_has_no_host() -> None:
    broker = z.BrokerInfo(1, (EndPoint("h", 9093, "SSL", "SSL"),), "dc1", {"f": (1, 3)}, 9999)
    data = z.BrokerIdZNode.encode(broker, 1)
    value = json.loads(data)
    assert (value["host"], value["port"], value["rack"], value["jmx_port"]) == (None, -1, "dc1", 9999)
    assert value["features"] == {"f": {"min_version": 1, "max_version": 3}}
    assert z.BrokerIdZNode.decode(1, data) == broker


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
    broker = z.BrokerIdZNode.decode(4, text.encode())
    assert [endpoint.connection_string for endpoint in broker.endpoints] == endpoints
    assert broker.rack == rack
    assert all(endpoint.security_protocol in ("PLAINTEXT", "SSL") for endpoint in broker.endpoints)


def test_topic() -> None:
    assignment = {
        TopicPartition("orders", 10): ReplicaAssignment((0, 1, 2), (2,), (0,)),
        TopicPartition("orders", 0): ReplicaAssignment((1,)),
    }
    data = z.TopicZNode.encode(TOPIC_ID, assignment)
    assert data == (
        b'{"partitions":{"0":[1],"10":[0,1,2]},"topic_id":"kh3RdNFaSxeTWFkRAzxRVw","adding_replicas":{"10":[2]},'
        b'"removing_replicas":{"10":[0]},"version":3}'
    )
    assert z.TopicZNode.decode("orders", data) == z.TopicIdReplicaAssignment("orders", TOPIC_ID, assignment)
    assert b"topic_id" not in z.TopicZNode.encode(None, assignment)


def test_topics_of_older_versions() -> None:
    found = z.TopicZNode.decode("orders", b'{"version":1,"partitions":{"0":[1,2]}}')
    assert found == z.TopicIdReplicaAssignment("orders", None, {TopicPartition("orders", 0): ReplicaAssignment((1, 2))})


def test_partition_state() -> None:
    state = LeaderIsrAndControllerEpoch(LeaderAndIsr(1, 5, (1, 2), partition_epoch=9), 3)
    data = z.TopicPartitionStateZNode.encode(state)
    assert data == b'{"controller_epoch":3,"leader":1,"version":1,"leader_epoch":5,"isr":[1,2]}'
    assert z.TopicPartitionStateZNode.decode(data, 9) == state
    recovering = LeaderIsrAndControllerEpoch(LeaderAndIsr(1, 5, (1,), LeaderRecoveryState.RECOVERING), 3)
    data = z.TopicPartitionStateZNode.encode(recovering)
    assert json.loads(data)["leader_recovery_state"] == 1
    assert z.TopicPartitionStateZNode.decode(data, 0) == recovering


def test_settings() -> None:
    data = z.ConfigEntityZNode.encode({"retention.ms": "1000", "note": "Grüße"})
    assert data == '{"version":1,"config":{"retention.ms":"1000","note":"Grüße"}}'.encode()
    assert z.ConfigEntityZNode.decode(data) == {"retention.ms": "1000", "note": "Grüße"}
    assert z.ConfigEntityZNode.decode(b"") == {}
    assert z.ConfigEntityZNode.decode(b'{"version":1}') == {}


def test_notices() -> None:
    notice = z.ConfigEntityChangeNotificationSequenceZNode
    assert notice.encode("topics/orders") == b'{"version":2,"entity_path":"topics/orders"}'
    assert notice.decode(notice.encode("users/<default>")) == "users/<default>"
    assert notice.decode(b'{"version":1,"entity_type":"topics","entity_name":"orders"}') == "topics/orders"
    with pytest.raises(z.ZnodeFormatError):
        notice.decode(b'{"version":3,"entity_path":"topics/orders"}')
    partitions = {TopicPartition("a", 0), TopicPartition("b", 2)}
    data = z.IsrChangeNotificationZNode.encode(partitions)
    assert data == b'{"version":1,"partitions":[{"topic":"a","partition":0},{"topic":"b","partition":2}]}'
    assert z.IsrChangeNotificationZNode.decode(data) == partitions
    assert z.PreferredReplicaElectionZNode.encode(partitions) == data
    assert z.PreferredReplicaElectionZNode.decode(data) == partitions
    data = z.LogDirEventNotificationZNode.encode(4)
    assert data == b'{"version":1,"broker":4,"event":1}'
    assert z.LogDirEventNotificationZNode.decode(data) == 4


def test_cluster_id_producer_ids_and_features() -> None:
    assert z.ClusterIdZNode.encode("abc") == b'{"version":"1","id":"abc"}'
    assert z.ClusterIdZNode.decode(b'{"version":"1","id":"abc"}') == "abc"
    block = z.ProducerIdsBlock(0, 1000, 1000)
    assert z.ProducerIdBlockZNode.encode(block) == (b'{"version":1,"broker":0,"block_start":"1000","block_end":"1999"}')
    assert z.ProducerIdBlockZNode.decode(z.ProducerIdBlockZNode.encode(block)) == block
    assert z.FeatureZNode.encode(z.FinalizedFeatures()) == b'{"features":{},"version":2,"status":1}'
    features = z.FinalizedFeatures({"f": 3})
    assert z.FeatureZNode.decode(z.FeatureZNode.encode(features)) == features
    first = b'{"version":1,"status":0,"features":{"f":{"min_version_level":1,"max_version_level":2}}}'
    assert z.FeatureZNode.decode(first) == z.FinalizedFeatures({"f": 2}, 0, 1)
    for bad in (b'{"version":3,"status":1,"features":{}}', b'{"version":2,"status":7,"features":{}}'):
        with pytest.raises(z.ZnodeFormatError):
            z.FeatureZNode.decode(bad)


@pytest.mark.parametrize("data", [b"", b"\xff", b"[]", b"{", b"7"])
def test_what_is_no_json_object_is_named(data: bytes) -> None:
    with pytest.raises(z.ZnodeFormatError, match="the assignment of topic orders"):
        z.TopicZNode.decode("orders", data)


_replicas = st.lists(st.integers(0, 9), min_size=1, max_size=4, unique=True).map(tuple)


@given(st.dictionaries(st.integers(0, 40), _replicas, max_size=12), st.binary(min_size=16, max_size=16))
def test_topics_survive_a_round_trip(assignment: dict[int, tuple[int, ...]], topic_id: bytes) -> None:
    by_partition = {TopicPartition("t", index): ReplicaAssignment(r) for index, r in assignment.items()}
    found = z.TopicZNode.decode("t", z.TopicZNode.encode(topic_id, by_partition))
    assert (found.topic_id, found.assignment) == (topic_id, by_partition)
