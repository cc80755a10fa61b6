"""One cluster of two brokers of Apache Kafka 3.9 and one of ours: each dies in turn, and nothing is lost.

ZooKeeper holds the cluster together. Every broker leads, follows and may be the controller; an idempotent librdkafka
producer with acks=all writes meanwhile. In the end all three replicas of each partition are equal byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.clients.admin import Admin, NewTopic
from tests.chaos.ledger import Ledger
from tests.chaos.replicas import check_replicas
from tests.chaos.writers import Client, ConfluentClient, Delivered, Writer
from tests.support.apache_kafka import ZooKeeper, need_apache_kafka
from tests.support.barnabas_process import BarnabasProcess
from tests.support.server_process import free_port
from tests.support.zookeeper_cluster import SETTINGS, JoinedKafka, ZooKeeperCluster

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(1200)]

TOPIC = "mixed"
PARTITIONS = 6
OURS = 2
SECONDS = 120


@pytest.fixture
def mixed(tmp_path: Path) -> Iterator[ZooKeeperCluster]:
    """The brokers 0, 1 (Kafka) and 2 (ours), started."""
    need_apache_kafka()
    zookeeper = ZooKeeper(tmp_path / "zookeeper")
    zookeeper.port = free_port()
    shared = {**SETTINGS, "zookeeper.connect": f"{zookeeper.host}:{zookeeper.port}"}
    kafkas = [
        JoinedKafka(tmp_path / f"broker-{broker_id}", {**shared, "broker.id": str(broker_id)}, zookeeper)
        for broker_id in (0, 1)
    ]
    ours = BarnabasProcess(tmp_path / "broker-2", {**shared, "broker.id": str(OURS)}, port=free_port())
    cluster = ZooKeeperCluster(tmp_path, [*kafkas, ours], zookeeper)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.close()


def test_each_broker_dies_in_turn_and_nothing_is_lost(mixed: ZooKeeperCluster) -> None:
    addresses = mixed.bootstrap_servers
    with Admin(addresses) as admin:
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])

    def make(delivered: Delivered) -> Client:
        return ConfluentClient(addresses, TOPIC, delivered, idempotent=True, give_up_seconds=SECONDS)

    writer = Writer(Ledger(TOPIC, PARTITIONS), make, seed=1)
    writer.start()
    try:
        # Each once, then whoever is the controller: it may be any of the three by then.
        for chosen in (0, OURS, 1, None, None, None):
            broker_id = mixed.controller_id() if chosen is None else chosen
            writer.resume()
            mixed.brokers[broker_id].kill()
            mixed.wait_until_in_sync([TOPIC], 2 * PARTITIONS, SECONDS)
            # Apache Kafka's broker does not start while its former session lasts.
            mixed.wait_until_known(2, SECONDS)
            mixed.brokers[broker_id].start()
            mixed.wait_until_in_sync([TOPIC], 3 * PARTITIONS, SECONDS)
            writer.rest(120)
        for partition, book in enumerate(writer.ledger.partitions):
            name = f"{TOPIC}-{partition}"
            assert not book.failed
            check_replicas(name, book, [broker.data_dir / name for broker in mixed.brokers])
        writer.close()
    finally:
        writer.close(timeout_seconds=0)
    assert writer.ledger.acknowledged > 1_000
