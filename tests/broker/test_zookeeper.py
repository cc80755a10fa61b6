"""Apache ZooKeeper goes away and comes back: watches, sessions, and a broker that serves on meanwhile."""

from __future__ import annotations

import queue
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.clients.admin import Admin, NewTopic
from barnabas.testing import BrokerProcess
from barnabas.testing.broker_command import Setting
from barnabas.zk.store.errors import StoreUnavailableError
from barnabas.zk.store.store import SessionState, WatchEvent, WatchEventType
from barnabas.zk.zookeeper.zookeeper_config import ZookeeperConfig
from barnabas.zk.zookeeper.zookeeper_store import ZookeeperStore
from tests.support.apache_kafka import ZooKeeper, need_apache_kafka
from tests.support.cluster_state import in_sync_replicas
from tests.support.lossy_relay import LossyRelay
from tests.support.numbered_records import eventually, producing, values_of
from tests.support.raw_client import RawClient

pytestmark = pytest.mark.java
SECONDS = 60
GONE_SECONDS = 60
SHORTEST_SESSION_MS = 6_000
"""ZooKeeper grants no shorter one: two of its ticks of 3 s."""


@pytest.fixture
def zookeeper(tmp_path: Path) -> Iterator[ZooKeeper]:
    need_apache_kafka()
    running = ZooKeeper(tmp_path)
    running.start()
    yield running
    running.close()


@pytest.fixture
def relay(zookeeper: ZooKeeper) -> Iterator[LossyRelay]:
    between = LossyRelay(0, 0)
    between.relay_to(zookeeper.port)
    yield between
    between.close()


def session_with(port: int, session_timeout_ms: int) -> ZookeeperStore:
    session = ZookeeperStore(
        ZookeeperConfig(
            connect=f"127.0.0.1:{port}/cluster",
            session_timeout_ms=session_timeout_ms,
            connection_timeout_ms=SECONDS * 1000,
            max_in_flight=10,
        )
    )
    session.start()
    return session


def test_watches_survive_a_lost_connection_and_fire_for_what_was_missed(
    zookeeper: ZooKeeper, relay: LossyRelay
) -> None:
    watching, changing = session_with(relay.port, 40_000), session_with(zookeeper.port, 40_000)
    try:
        for name in ("changed", "deleted", "untouched"):
            changing.create(f"/{name}")
        fired: queue.Queue[WatchEvent] = queue.Queue()
        for name in ("changed", "deleted", "untouched", "created"):
            watching.exists(f"/{name}", fired.put)
        watching.children("/", fired.put)
        session_id = watching.session_id
        relay.relay_to(0)
        relay.cut()
        changing.set("/changed", b"x")
        changing.delete("/deleted")
        changing.create("/created")
        relay.relay_to(zookeeper.port)
        assert {fired.get(timeout=SECONDS) for _ in range(4)} == {
            WatchEvent(WatchEventType.DATA_CHANGED, "/changed"),
            WatchEvent(WatchEventType.DELETED, "/deleted"),
            WatchEvent(WatchEventType.CREATED, "/created"),
            WatchEvent(WatchEventType.CHILDREN_CHANGED, "/"),
        }
        changing.set("/untouched", b"y")
        assert fired.get(timeout=SECONDS) == WatchEvent(WatchEventType.DATA_CHANGED, "/untouched")
        assert watching.session_id == session_id
        assert fired.empty()
    finally:
        watching.close()
        changing.close()


def test_a_session_that_expires_is_followed_by_another(zookeeper: ZooKeeper, relay: LossyRelay) -> None:
    expiring, other = session_with(relay.port, SHORTEST_SESSION_MS), session_with(zookeeper.port, 40_000)
    try:
        gone: queue.Queue[WatchEvent] = queue.Queue()
        heard: queue.Queue[tuple[SessionState, bool]] = queue.Queue()

        def listen(state: SessionState) -> None:
            try:
                expiring.exists("/")
            except StoreUnavailableError:
                heard.put((state, False))
            else:
                heard.put((state, True))

        expiring.add_session_listener(listen)
        expiring.create("/mine", ephemeral=True)
        former = expiring.session_id
        other.exists("/mine", gone.put)
        relay.relay_to(0)
        relay.cut()
        assert gone.get(timeout=SECONDS).type is WatchEventType.DELETED
        relay.relay_to(zookeeper.port)
        assert heard.get(timeout=SECONDS) == (SessionState.EXPIRED, False)
        assert heard.get(timeout=SECONDS) == (SessionState.RECONNECTED, True)
        assert expiring.session_id != former
        assert expiring.create("/mine", ephemeral=True).stat.ephemeral_owner == expiring.session_id
    finally:
        expiring.close()
        other.close()


def test_clients_produce_and_fetch_while_zookeeper_is_gone(zookeeper: ZooKeeper, tmp_path: Path) -> None:
    settings: dict[str, Setting] = {
        "zookeeper_connect": f"{zookeeper.host}:{zookeeper.port}/kafka",
        "zookeeper_session_timeout_ms": 40_000,
        "offsets_topic_num_partitions": 1,
    }
    broker = BrokerProcess(str(tmp_path / "broker"), settings)
    try:
        broker.start()
        with RawClient(broker) as client:
            client.create_topic("orders")
            client.wait_for_leaders("orders", 1)
            client.produce_values("orders", b"before")
            zookeeper.kill()
            for _ in range(20):
                client.produce_values("orders", b"without")
            assert client.fetch("orders", 20).records
            zookeeper.start()
            client.create_topic("later")
            client.wait_for_leaders("later", 1)
            client.produce_values("later", b"after")
        assert "has expired" not in broker.log_text()
        broker.close()
    finally:
        broker.kill()


@pytest.mark.slow
@pytest.mark.timeout(1_200)
def test_three_brokers_serve_while_zookeeper_is_gone_for_a_minute(zookeeper: ZooKeeper, tmp_path: Path) -> None:
    """Longer than their sessions last: ZooKeeper counts the time-outs anew when it is back, and so no session ends."""
    settings: dict[str, Setting] = {
        "zookeeper_connect": f"{zookeeper.host}:{zookeeper.port}/cluster",
        "zookeeper_session_timeout_ms": 40_000,
        "default_replication_factor": 3,
        "min_insync_replicas": 2,
    }
    brokers = [BrokerProcess(str(tmp_path / f"{each}"), {**settings, "broker_id": each}) for each in range(3)]
    try:
        for broker in brokers:
            broker.start(300)
        everywhere = ",".join(broker.bootstrap_servers for broker in brokers)
        with Admin(everywhere) as admin:
            eventually(lambda: len(admin.describe_cluster().nodes) == 3)
            admin.create_topics([NewTopic("orders", 1, 3)])
            eventually(lambda: in_sync_replicas(admin, ["orders"]) == 3)
            before = broker_epochs(zookeeper)
            with producing(everywhere, "orders") as acknowledged:
                zookeeper.kill()
                back = time.monotonic() + GONE_SECONDS
                without = len(acknowledged)
                while time.monotonic() < back:
                    time.sleep(1)
                    assert values_of(everywhere, "orders", 1)[0] == acknowledged[0]
                eventually(lambda: len(acknowledged) > without + 20)
                zookeeper.start()
                # The controller works again, through the same sessions.
                admin.create_topics([NewTopic("later", 1, 3)])
                eventually(lambda: in_sync_replicas(admin, ["orders", "later"]) == 6)
        assert values_of(everywhere, "orders", len(acknowledged)) == acknowledged
        assert broker_epochs(zookeeper) == before
        for broker in brokers:
            assert "has expired" not in broker.log_text()
            broker.close()
    finally:
        for broker in brokers:
            broker.kill()


def broker_epochs(zookeeper: ZooKeeper) -> list[int]:
    session = session_with(zookeeper.port, 40_000)
    try:
        return [session.get(f"/brokers/ids/{broker_id}").stat.czxid for broker_id in range(3)]
    finally:
        session.close()
