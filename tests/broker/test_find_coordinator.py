"""FindCoordinator v0-6: who coordinates a group, and the topic that is created for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.clients.consumer import Consumer
from barnabas.clients.errors import ClientTimeout
from barnabas.clients.producer import Producer
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.configs import DescribeConfigsRequest, DescribeConfigsResponse
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.testing.znode_server import ZnodeServer
from tests.broker.versions import each_version
from tests.support.barnabas_process import BarnabasProcess
from tests.support.raw_client import SECONDS, RawClient
from tests.support.raw_offsets import find_coordinator
from tests.support.server_fixtures import AGAINST_KAFKA, SERVER_PROPERTIES, Server
from tests.support.waiting import wait_until

TOPIC = "__consumer_offsets"
GROUP_KEY, UNKNOWN_KEY = 0, 9


@each_version(ApiKey.FIND_COORDINATOR)
def test_every_version(server: Server, client: RawClient, version: int) -> None:
    error, node, host, port = find_coordinator(client, "a-group", version)
    assert (error, node, host, port) == (ErrorCode.NONE, 0, server.host, server.port)


def test_several_groups_at_once(client: RawClient) -> None:
    find_coordinator(client, "a")
    answer = client.call(FindCoordinatorRequest(coordinator_keys=["a", "b", "a", ""]), 4, FindCoordinatorResponse)
    assert [(each.key, each.error_code, each.node_id) for each in answer.coordinators] == [
        ("a", 0, 0),
        ("b", 0, 0),
        ("a", 0, 0),
        ("", 0, 0),
    ]


def test_the_topic_has_kafkas_settings(client: RawClient) -> None:
    find_coordinator(client, "a")
    metadata = client.call(MetadataRequest([MetadataRequest.MetadataRequestTopic(name=TOPIC)]), 9, MetadataResponse)
    (topic,) = metadata.topics
    assert (topic.error_code, topic.is_internal) == (ErrorCode.NONE, True)
    assert len(topic.partitions) == int(SERVER_PROPERTIES["offsets.topic.num.partitions"])
    resource = DescribeConfigsRequest.DescribeConfigsResource(2, TOPIC, None)
    answer = client.call(DescribeConfigsRequest([resource]), 4, DescribeConfigsResponse)
    settings = {each.name: each.value for each in answer.results[0].configs if each.config_source == 1}
    assert settings == {"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": "104857600"}


def test_kinds_of_keys_that_there_are_not(client: RawClient) -> None:
    request = FindCoordinatorRequest(coordinator_keys=["a"], key_type=UNKNOWN_KEY)
    answer = client.call(request, 4, FindCoordinatorResponse)
    assert [each.error_code for each in answer.coordinators] == [ErrorCode.INVALID_REQUEST]


@pytest.mark.skipif(AGAINST_KAFKA, reason="its settings are its own")
def test_metadata_creates_the_topic_with_the_same_settings(own_server: Server) -> None:
    own_server.start()
    with RawClient(own_server) as client:
        wanted = MetadataRequest([MetadataRequest.MetadataRequestTopic(name=TOPIC)], allow_auto_topic_creation=True)
        wait_until(lambda: client.call(wanted, 9, MetadataResponse).topics[0].error_code == ErrorCode.NONE, SECONDS)
        partitions = client.call(wanted, 9, MetadataResponse).topics[0].partitions
        assert len(partitions) == int(SERVER_PROPERTIES["offsets.topic.num.partitions"])
        assert find_coordinator(client, "a")[0] == ErrorCode.NONE


@pytest.mark.skipif(AGAINST_KAFKA, reason="Kafka always has the first one ask again")
def test_who_asks_first_is_answered_when_the_topic_is_there(own_server: Server) -> None:
    """librdkafka would ask again after a second only."""
    own_server.start()
    with RawClient(own_server) as client:
        answer = client.call(FindCoordinatorRequest(key="a"), 2, FindCoordinatorResponse)
        assert (answer.error_code, answer.node_id) == (ErrorCode.NONE, 0)


@pytest.mark.parametrize(("version", "message"), [(1, "NONE"), (2, "NONE"), (3, "NONE"), (4, ""), (6, "")])
def test_what_is_said_of_a_coordinator_that_was_found(client: RawClient, version: int, message: str) -> None:
    find_coordinator(client, "a-group")
    request = FindCoordinatorRequest(key="a-group", coordinator_keys=["a-group"] if version >= 4 else [])
    request.key = "" if version >= 4 else "a-group"
    answer = client.call(request, version, FindCoordinatorResponse)
    told = answer.error_message if version < 4 else answer.coordinators[0].error_message
    assert told == message


@pytest.mark.skipif(AGAINST_KAFKA, reason="Kafka always has the first one ask again")
@pytest.mark.parametrize("version", range(1, 7))
def test_a_transactional_id_has_a_coordinator(client: RawClient, version: int) -> None:
    by_list = version >= 4
    request = FindCoordinatorRequest("" if by_list else "my-id", 1, ["my-id"] if by_list else [])
    answer = client.call(request, version, FindCoordinatorResponse)
    told = answer.coordinators[0] if by_list else answer
    assert (told.error_code, told.node_id) == (ErrorCode.NONE, 0)
    resource = DescribeConfigsRequest.DescribeConfigsResource(2, "__transaction_state", None)
    described = client.call(DescribeConfigsRequest([resource]), 4, DescribeConfigsResponse)
    settings = {each.name: each.value for each in described.results[0].configs if each.config_source == 1}
    assert settings == {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "min.insync.replicas": "1",
        "segment.bytes": "104857600",
        "unclean.leader.election.enable": "false",
    }


def test_a_lone_broker_with_a_file_has_coordinators(tmp_path: Path) -> None:
    """Kafka's own factors are 3, and a broker without ZooKeeper would wait for two others for ever."""
    broker = BarnabasProcess(tmp_path)
    broker.config_file = tmp_path / "server.properties"
    broker.config_file.write_text(
        "listeners=PLAINTEXT://127.0.0.1:0\noffsets.topic.num.partitions=1\ntransaction.state.log.num.partitions=1\n"
    )
    with broker.running():
        with RawClient(broker) as client:
            assert find_coordinator(client, "a-group")[0] == ErrorCode.NONE
        with Producer(broker.bootstrap_servers, transactional_id="t") as producer:
            producer.init_transactions()
            with producer.transaction():
                producer.send("orders", b"one")
        with Consumer(broker.bootstrap_servers, group_id="readers", auto_offset_reset="earliest") as consumer:
            consumer.subscribe(["orders"])
            while not (records := consumer.poll(1.0)):
                pass
            assert [record.value for record in records] == [b"one"]
            consumer.commit_sync()
    log = broker.log_text()
    assert log.count("__consumer_offsets has one replica and not 3") == 1
    assert log.count("__transaction_state has one replica and not 3") == 1


def test_clients_are_told_why_there_is_no_coordinator(tmp_path: Path) -> None:
    why = "Number of alive brokers '1' does not meet the required replication factor '3' for __consumer_offsets"
    store = ZnodeServer()
    # As `serve` without a file starts it: with Kafka's own factors in a cluster.
    broker = BarnabasProcess(
        tmp_path,
        {
            "zookeeper.connect": store.address,
            "offsets.topic.replication.factor": "3",
            "transaction.state.log.replication.factor": "3",
        },
    )
    try:
        with broker.running():
            with RawClient(broker) as client:
                for version in (1, 4):
                    keys = {"coordinator_keys": ["g"]} if version == 4 else {"key": "g"}
                    request = FindCoordinatorRequest(**keys)
                    answer = client.call(request, version, FindCoordinatorResponse)
                    found = answer.coordinators[0] if version == 4 else answer
                    assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
                    assert why in (found.error_message or "")
            with (
                Consumer(broker.bootstrap_servers, group_id="g", default_api_timeout_ms=1_000) as consumer,
                pytest.raises(ClientTimeout, match=why),
            ):
                consumer.committed({TopicPartition("orders", 0)})
            with (
                Producer(broker.bootstrap_servers, transactional_id="t", max_block_ms=1_000) as producer,
                pytest.raises(ClientTimeout, match="required replication factor '3' for __transaction_state"),
            ):
                producer.init_transactions()
        assert broker.log_text().count(why) == 1
    finally:
        store.close()
