"""KafkaZkClient does with a store what Kafka does with ZooKeeper: registration, election, fencing, topics, settings."""

from __future__ import annotations

import pytest

from barnabas.config.listeners import EndPoint
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.protocol.uuid import random_uuid
from barnabas.zk.kafka_zk_client import PERSISTENT_PATHS, KafkaZkClient
from barnabas.zk.store.errors import ControllerMovedError, NodeExistsError, NoNodeError
from barnabas.zk.store.store import ANY_VERSION, WatchEventType
from barnabas.zk.znodes.broker_zk_data import BrokerInfo, ProducerIdsBlock
from barnabas.zk.znodes.config_znodes import ConfigEntityType
from barnabas.zk.znodes.leader_and_isr import LeaderAndIsr, LeaderIsrAndControllerEpoch
from barnabas.zk.znodes.replica_assignment import ReplicaAssignment
from tests.support.inline_store import InlineStore, client_of
from tests.support.mock_clock import MockClock

TP = TopicPartition("orders", 0)


@pytest.fixture
def store() -> InlineStore:
    return InlineStore(MockClock())


@pytest.fixture
def zk(store: InlineStore) -> KafkaZkClient:
    return client_of(store.new_session())


def broker(broker_id: int, port: int = 9092) -> BrokerInfo:
    return BrokerInfo(broker_id, (EndPoint("h", port, "PLAINTEXT", "PLAINTEXT"),))


def test_persistent_paths_are_made_once(store: InlineStore, zk: KafkaZkClient) -> None:
    zk.make_sure_persistent_paths_exist()
    client_of(store.new_session())
    assert all(zk.access.exists(path) for path in PERSISTENT_PATHS)


def test_cluster_id_is_the_first_one(store: InlineStore, zk: KafkaZkClient) -> None:
    assert zk.cluster_id() is None
    assert zk.create_or_get_cluster_id("first") == "first"
    assert client_of(store.new_session()).create_or_get_cluster_id("second") == "first"
    assert zk.cluster_id() == "first"


def test_brokers_register_with_growing_epochs(store: InlineStore, zk: KafkaZkClient) -> None:
    session = store.new_session()
    other = client_of(session)
    first = zk.register_broker(broker(2))
    second = other.register_broker(broker(1))
    assert second > first
    assert zk.brokers_and_epochs() == {1: (broker(1), second), 2: (broker(2), first)}
    with pytest.raises(NodeExistsError):
        zk.register_broker(broker(1))
    zk.update_broker_info(broker(2, port=1))
    assert zk.brokers_and_epochs()[2] == (broker(2, port=1), first)
    session.close()
    assert zk.broker(1) is None
    assert zk.register_broker(broker(1)) > second


def test_a_broker_replaces_what_its_own_lost_session_left(store: InlineStore) -> None:
    """ZOOKEEPER-2985: the ephemeral znode of an expired session may still be there."""
    session = store.new_session()
    zk = client_of(session)
    first = zk.register_broker(broker(0))
    ghost = session.session_id
    # as if the server were late in removing the old session's znode
    store.table._connection.execute("UPDATE znode SET owner = 0 WHERE path = '/brokers/ids/0'")
    session.expire()
    store.deliver()
    store.table._connection.execute("UPDATE znode SET owner = ? WHERE path = '/brokers/ids/0'", (ghost,))
    assert zk.register_broker(broker(0)) > first


def test_generated_broker_ids_differ(store: InlineStore, zk: KafkaZkClient) -> None:
    other = client_of(store.new_session())
    assert [zk.generate_broker_id(), other.generate_broker_id(), zk.generate_broker_id()] == [1, 2, 3]


def test_one_controller_is_elected_and_the_next_has_the_next_epoch(store: InlineStore, zk: KafkaZkClient) -> None:
    session = store.new_session()
    other = client_of(session)
    assert other.register_controller_and_increment_controller_epoch(1) == (1, 1)
    with pytest.raises(ControllerMovedError):
        zk.register_controller_and_increment_controller_epoch(0)
    assert (zk.controller_id(), zk.controller_epoch()) == (1, (1, 1))
    session.close()
    assert zk.controller_id() is None
    assert zk.register_controller_and_increment_controller_epoch(0) == (2, 2)
    with pytest.raises(ControllerMovedError):
        zk.delete_controller(1)
    zk.delete_controller(2)
    assert zk.controller_id() is None


def test_two_candidates_at_once(store: InlineStore, zk: KafkaZkClient) -> None:
    """Both read the epoch; the slower one must notice, although /controller is free again when it looks."""
    session = store.new_session()
    fast = client_of(store.new_session())
    slow = client_of(session)
    fast.register_controller_and_increment_controller_epoch(1)
    fast.delete_controller(1)

    original = slow.controller_epoch

    def read_then_lose() -> tuple[int, int] | None:
        epoch = original()
        slow.controller_epoch = original  # type: ignore[method-assign]
        fast.register_controller_and_increment_controller_epoch(1)
        return epoch

    slow.controller_epoch = read_then_lose  # type: ignore[method-assign]
    with pytest.raises(ControllerMovedError):
        slow.register_controller_and_increment_controller_epoch(2)


def test_writes_of_a_former_controller_are_fenced(zk: KafkaZkClient) -> None:
    zk.register_controller_and_increment_controller_epoch(0)
    zk.topics.create("orders", random_uuid(), {0: [0]}, {})
    states = {TP: LeaderIsrAndControllerEpoch(LeaderAndIsr.initial(0, [0]), 1)}
    with pytest.raises(ControllerMovedError, match="Expected zkVersion = 0"):
        zk.topics.create_partition_states(states, 0)
    assert zk.topics.partition_states([TP]) == {}
    assert zk.topics.create_partition_states(states, 1) == {TP: None}
    for fenced in (
        lambda: zk.topics.update_leader_and_isr({TP: LeaderAndIsr.initial(0, [0])}, 1, 0),
        lambda: zk.topics.delete("orders", 0),
        lambda: zk.topics.set_assignment("orders", None, {}, 0),
    ):
        with pytest.raises(ControllerMovedError):
            fenced()
    assert zk.topics.partition_states([TP]) == states


def test_partition_states(zk: KafkaZkClient) -> None:
    zk.topics.create("orders", random_uuid(), {0: [0], 1: [0]}, {})
    other = TopicPartition("orders", 1)
    state = LeaderIsrAndControllerEpoch(LeaderAndIsr.initial(0, [0]), 1)
    assert zk.topics.create_partition_states({TP: state}, ANY_VERSION) == {TP: None}
    missing = TopicPartition("nothing", 0)
    results = zk.topics.create_partition_states({TP: state, other: state, missing: state}, ANY_VERSION)
    assert isinstance(results[TP], NodeExistsError)
    assert results[other] is None
    assert isinstance(results[missing], NoNodeError)
    assert zk.topics.partition_names("orders") == {"0", "1"}

    led = state.leader_and_isr.new_leader(1)
    outdated = led.with_partition_epoch(7)
    finished, to_retry = zk.topics.update_leader_and_isr({TP: led, other: outdated, missing: led}, 2, ANY_VERSION)
    assert finished[TP] == led.with_partition_epoch(1)
    assert isinstance(finished[missing], NoNodeError)
    assert to_retry == [other]
    assert zk.topics.partition_states([TP, missing]) == {
        TP: LeaderIsrAndControllerEpoch(led.with_partition_epoch(1), 2)
    }


def test_topics(zk: KafkaZkClient) -> None:
    topic_id = random_uuid()
    zk.topics.create("orders", topic_id, {0: [0, 1]}, {"retention.ms": "1"})
    with pytest.raises(NodeExistsError):
        zk.topics.create("orders", random_uuid(), {0: [0]}, {"retention.ms": "2"})
    (found,) = zk.topics.assignments(["orders", "nothing"])
    assert (found.topic_id, dict(found.assignment)) == (topic_id, {TP: ReplicaAssignment((0, 1))})
    assert zk.topics.all_topics() == {"orders"}
    zk.topics.request_deletion("orders")
    assert zk.topics.is_marked_for_deletion("orders")
    with pytest.raises(NodeExistsError):
        zk.topics.request_deletion("orders")
    zk.topics.create_partition_states({TP: LeaderIsrAndControllerEpoch(LeaderAndIsr.initial(0, [0]), 1)}, ANY_VERSION)
    zk.topics.delete("orders", ANY_VERSION)
    assert zk.topics.all_topics() == zk.topics.deletions() == set()
    assert zk.configs.entities(ConfigEntityType.TOPIC) == []
    zk.topics.delete("orders", ANY_VERSION)  # a deletion that was interrupted is done again


def test_settings_and_notices(store: InlineStore, zk: KafkaZkClient) -> None:
    heard: list[str] = []
    zk.access.register_child_change_handler("/config/changes", lambda: heard.append("changed"))
    assert zk.configs.notices.names() == []
    other = client_of(store.new_session())
    other.configs.change(ConfigEntityType.TOPIC, "orders", {"retention.ms": "1"})
    other.configs.change(ConfigEntityType.USER, "alice/clients/app", {"producer_byte_rate": "7"})
    store.deliver()
    assert heard == ["changed"]  # once: it wasn't read in between
    names = zk.configs.notices.names()
    assert names == ["config_change_0000000000", "config_change_0000000001"]
    written_ms = MockClock().milliseconds()
    assert [zk.configs.notices.read(name) for name in names] == [
        (b'{"version":2,"entity_path":"topics/orders"}', written_ms),
        (b'{"version":2,"entity_path":"users/alice/clients/app"}', written_ms),
    ]
    assert zk.configs.entity(ConfigEntityType.TOPIC, "orders") == {"retention.ms": "1"}
    assert zk.configs.entity(ConfigEntityType.USER, "alice/clients/app") == {"producer_byte_rate": "7"}
    assert zk.configs.topics(["orders", "nothing"]) == {"orders": {"retention.ms": "1"}, "nothing": {}}
    zk.configs.notices.delete(names)
    store.deliver()
    assert heard == ["changed", "changed"]
    zk.configs.set_or_create(ConfigEntityType.TOPIC, "orders", {})
    assert zk.configs.entity(ConfigEntityType.TOPIC, "orders") == {}


def test_handlers_hear_of_changes_after_each_reading(store: InlineStore, zk: KafkaZkClient) -> None:
    heard: list[WatchEventType] = []
    assert not zk.access.register_change_handler_and_check_existence("/controller", heard.append)
    other = client_of(store.new_session())
    other.register_controller_and_increment_controller_epoch(1)
    store.deliver()
    assert heard == [WatchEventType.CREATED]
    other.delete_controller(1)
    store.deliver()
    assert heard == [WatchEventType.CREATED]  # nobody looked since
    assert zk.controller_id() is None  # this sets no watch: the znode isn't there
    zk.access.register_change_handler_and_check_existence("/controller", heard.append)
    other.register_controller_and_increment_controller_epoch(1)
    store.deliver()
    assert zk.controller_id() == 1
    other.delete_controller(2)
    store.deliver()
    assert heard == [WatchEventType.CREATED, WatchEventType.CREATED, WatchEventType.DELETED]
    zk.access.exists("/controller")
    zk.access.unregister_change_handler("/controller")
    other.register_controller_and_increment_controller_epoch(1)
    store.deliver()
    assert len(heard) == 3


def test_producer_id_blocks_are_handed_out_once(store: InlineStore, zk: KafkaZkClient) -> None:
    other = client_of(store.new_session())
    current, version = zk.producer_id_block()
    assert current is None
    assert other.update_producer_id_block(ProducerIdsBlock(1, 0, 1000), version)
    assert not zk.update_producer_id_block(ProducerIdsBlock(0, 0, 1000), version)
    assert zk.producer_id_block()[0] == ProducerIdsBlock(1, 0, 1000)
