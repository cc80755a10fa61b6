"""Three brokers on one store: one of them is the controller, the others obey it, and each of them may die."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from barnabas.clients.admin import Admin, FeatureUpdate, NewTopic
from barnabas.clients.consumer.consumer import Consumer
from barnabas.clients.producer.producer import Producer
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.topics import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.testing import BrokerFailed, BrokerProcess, Cluster, cluster
from barnabas.testing.broker_command import Setting
from barnabas.zk.store.errors import NoNodeError
from barnabas.zk.store.store import Store
from barnabas.zk.znodes.broker_zk_data import BrokerIdZNode
from tests.support.cluster_state import in_sync_replicas, partition_state
from tests.support.raw_client import RawClient
from tests.support.waiting import is_gone, wait_until

pytestmark = pytest.mark.timeout(400)

SECONDS = 60


@pytest.fixture(scope="module")
def three() -> Iterator[Cluster]:
    """Three brokers, all of which run again after each test."""
    with cluster(3, racks=["a", "b", "c"], controlled_shutdown_enable=False) as running:
        yield running


eventually = partial(wait_until, seconds=SECONDS)


def led_state(store: Store, topic: str, partition: int) -> dict[str, Any] | None:
    found = partition_state(store, topic, partition)
    # While the leader is replaced it is -1.
    return None if found["leader"] < 0 else found


def state_without(store: Store, partition: int, dead: int, topic: str = "moved") -> dict[str, Any] | None:
    found = led_state(store, topic, partition)
    return None if found is None or dead in found["isr"] else found


def create(three: Cluster, name: str) -> None:
    with Admin(three.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(name, 3, 3)])


def test_one_controller_is_elected_and_every_replica_is_hosted(three: Cluster, store: Store) -> None:
    assert three.controller_id in (0, 1, 2)
    assert len({broker.cluster_id for broker in three.brokers}) == 1
    create(three, "hosted")
    states = [partition_state(store, "hosted", partition) for partition in range(3)]
    assert sorted(state["leader"] for state in states) == [0, 1, 2]
    assert all(sorted(state["isr"]) == [0, 1, 2] for state in states)
    for broker in three.brokers:
        for partition in range(3):
            eventually(Path(broker.data_dir, f"hosted-{partition}").is_dir)


def test_the_death_of_the_controller_moves_leaders_and_raises_both_epochs(three: Cluster, store: Store) -> None:
    create(three, "moved")
    dead = three.controller_id
    assert dead is not None
    before = [partition_state(store, "moved", partition) for partition in range(3)]
    epoch = int(store.get("/controller_epoch").data)
    broker_epoch = store.get(BrokerIdZNode.path(dead)).stat.czxid
    three.kill(dead)
    eventually(lambda: three.controller_id not in (None, dead))
    assert int(store.get("/controller_epoch").data) == epoch + 1
    for partition in range(3):
        state = eventually(partial(state_without, store, partition, dead))
        assert state["leader"] in {0, 1, 2} - {dead}
        if before[partition]["leader"] == dead:
            assert state["leader_epoch"] > before[partition]["leader_epoch"]
    three.restart(dead)
    assert store.get(BrokerIdZNode.path(dead)).stat.czxid > broker_epoch
    assert three.controller_id != dead


def test_a_second_broker_of_the_same_id_is_refused(three: Cluster, tmp_path: Path) -> None:
    twin = BrokerProcess(str(tmp_path / "twin"), {"broker_id": 1, "zookeeper_connect": three.store.address})
    with pytest.raises(BrokerFailed, match="a broker with this id is registered already"):
        twin.start()


def test_a_data_directory_of_another_cluster_is_refused(three: Cluster, tmp_path: Path) -> None:
    other = BrokerProcess(str(tmp_path / "other"), {"broker_id": 7})
    other.start()
    other.close()
    stranger = BrokerProcess(str(tmp_path / "other"), {"broker_id": 7, "zookeeper_connect": three.store.address})
    with pytest.raises(BrokerFailed, match=other.cluster_id):
        stranger.start()


def test_a_data_directory_of_another_broker_is_refused(three: Cluster, tmp_path: Path) -> None:
    settings: dict[str, Setting] = {"zookeeper_connect": three.store.address}
    other = BrokerProcess(str(tmp_path / "other"), {**settings, "broker_id": 5})
    other.start()
    other.close()
    with pytest.raises(BrokerFailed, match=r"Configured broker\.id 6 doesn't match stored broker\.id 5"):
        BrokerProcess(str(tmp_path / "other"), {**settings, "broker_id": 6}).start()


def test_equal_end_points_are_refused(three: Cluster, tmp_path: Path) -> None:
    taken = three.brokers[0].bootstrap_servers
    settings: dict[str, Setting] = {
        "broker_id": 8,
        "zookeeper_connect": three.store.address,
        "advertised_listeners": f"PLAINTEXT://{taken}",
    }
    with pytest.raises(BrokerFailed, match="already registered by broker 0"):
        BrokerProcess(str(tmp_path / "data"), settings).start()


def test_a_generated_id_is_kept_and_the_broker_joins(three: Cluster, store: Store, tmp_path: Path) -> None:
    fourth = BrokerProcess(
        str(tmp_path / "data"), {"broker_id": -1, "zookeeper_connect": three.store.address, "broker_rack": "d"}
    )
    try:
        for _ in range(2):
            fourth.start()
            assert fourth.broker_id == 1001
            assert json.loads(store.get(BrokerIdZNode.path(1001)).data)["rack"] == "d"
            fourth.kill()
            eventually(lambda: store.exists(BrokerIdZNode.path(1001)) is None)
    finally:
        fourth.kill()


def test_no_store_is_said_in_words(tmp_path: Path) -> None:
    lonely = BrokerProcess(
        str(tmp_path / "data"), {"zookeeper_connect": "127.0.0.1:1", "zookeeper_connection_timeout_ms": 200}
    )
    with pytest.raises(BrokerFailed, match="no ZooKeeper answered within 200 ms"):
        lonely.start()


def test_only_the_controller_creates_and_deletes_topics(three: Cluster, store: Store) -> None:
    other = next(broker for broker in three.brokers if broker.broker_id != three.controller_id)
    create(three, "elsewhere")
    with RawClient(other) as client:
        wanted = CreateTopicsRequest.CreatableTopic("never", num_partitions=1, replication_factor=1)
        made = client.call(CreateTopicsRequest(topics=[wanted], timeout_ms=0), 7, CreateTopicsResponse)
        assert [(topic.name, topic.error_code) for topic in made.topics] == [("never", ErrorCode.NOT_CONTROLLER)]
        named = DeleteTopicsRequest.DeleteTopicState(name="elsewhere")
        deleted = client.call(DeleteTopicsRequest(topics=[named]), 6, DeleteTopicsResponse)
        assert [answer.error_code for answer in deleted.responses] == [ErrorCode.NOT_CONTROLLER]
    assert "never" not in store.children("/brokers/topics").names
    with Admin(three.bootstrap_servers) as admin:
        admin.delete_topics(["elsewhere"])
    for broker in three.brokers:
        for partition in range(3):
            eventually(partial(is_gone, Path(broker.data_dir, f"elsewhere-{partition}")))


def test_brokers_whose_sessions_expire_come_back_with_new_epochs(three: Cluster, store: Store) -> None:
    create(three, "kept")
    paths = [BrokerIdZNode.path(broker_id) for broker_id in range(3)]
    before = [store.get(path).stat.czxid for path in paths]
    epoch = int(store.get("/controller_epoch").data)
    three.store.drop_connections()
    for path, former in zip(paths, before, strict=True):
        eventually(partial(is_newer, store, path, former))
    eventually(lambda: three.controller_id is not None)
    assert int(store.get("/controller_epoch").data) > epoch
    eventually(partial(is_created, three, "made-after-the-expiry"))
    for partition in range(3):
        assert eventually(partial(led_state, store, "kept", partition))["isr"]


def is_created(three: Cluster, name: str) -> bool:
    """Try to create a topic, and return whether the controller knew enough brokers already."""
    try:
        create(three, name)
    except ApiError as error:
        if error.code is ErrorCode.INVALID_REPLICATION_FACTOR:
            return False
        raise
    return True


def is_newer(store: Store, path: str, former: int) -> bool:
    try:
        return store.get(path).stat.czxid > former
    except NoNodeError:
        return False


def test_a_killed_leader_is_replaced_before_its_session_ends(tmp_path: Path) -> None:
    ten_minutes: dict[str, Setting] = {"zookeeper_session_timeout_ms": 600_000}
    three = Cluster(str(tmp_path), 3, ten_minutes, sessions_linger=True)
    try:
        three.start()
        create(three, "urgent")
        store = three.store.session()
        dead = next(broker.broker_id for broker in three.brokers if broker.broker_id != three.controller_id)
        states = [partition_state(store, "urgent", partition) for partition in range(3)]
        assert dead in {state["leader"] for state in states}
        three.brokers[dead].kill()
        for partition in range(3):
            state = eventually(partial(state_without, store, partition, dead, topic="urgent"))
            assert state["leader"] != dead
        assert store.exists(BrokerIdZNode.path(dead)) is not None  # its session has not ended
        store.close()
    finally:
        three.kill_all()


def test_a_controller_stops_while_the_store_is_gone(tmp_path: Path) -> None:
    two = Cluster(str(tmp_path), 2, {})
    try:
        two.start()
        with Admin(two.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("led", 2, 2)])
        controller = two.controller_id
        assert controller is not None
        two.store.close()
        assert two.brokers[controller].terminate(80) == 0, "less than the three requests of a controlled shutdown"
    finally:
        two.kill_all()


@pytest.mark.parametrize("transaction_version", [0, 2])
def test_transactions_outlive_the_leaders_and_their_coordinator(three: Cluster, transaction_version: int) -> None:
    """Three partitions with three leaders: two of them have to ask the coordinator of another broker."""
    topic = f"transactions-{transaction_version}"
    create(three, topic)
    with Admin(three.bootstrap_servers) as admin:
        if transaction_version:
            admin.update_features({"transaction.version": FeatureUpdate(transaction_version)})
        eventually(lambda: in_sync_replicas(admin, [topic]) == 9)
        with Producer(three.bootstrap_servers, transactional_id=topic) as producer:
            producer.init_transactions()
            write_transaction(producer, topic, b"before")
            three.kill(transaction_version)  # broker 0 or broker 2
            write_transaction(producer, topic, b"after")
            three.restart(transaction_version)
            eventually(lambda: in_sync_replicas(admin, [topic]) == 9)
    expected = sorted(3 * [b"before", b"after"])
    with Consumer(three.bootstrap_servers, isolation_level="read_committed", auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, partition) for partition in range(3)])
        found: list[bytes | None] = []
        while len(found) < len(expected):
            found += [record.value for record in consumer.poll(SECONDS)]
        found += [record.value for record in consumer.poll(1)]  # none: nothing is there twice
        assert sorted(value for value in found if value is not None) == expected


def write_transaction(producer: Producer, topic: str, value: bytes) -> None:
    with producer.transaction():
        for partition in range(3):
            producer.send(topic, value, partition=partition)
