"""One cluster of two brokers of Apache Kafka 3.9 and one of ours: each dies in turn, and nothing is lost.

ZooKeeper holds the cluster together. Every broker leads, follows and may be the controller; an idempotent librdkafka
producer with acks=all writes meanwhile. In the end all three replicas of each partition are equal byte for byte.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.clients.admin import Admin, NewTopic
from tests.chaos.ledger import Ledger
from tests.chaos.replicas import check_replicas
from tests.chaos.writers import Client, ConfluentClient, Delivered, Writer
from tests.support.apache_kafka import ApacheKafka, ZooKeeper, need_apache_kafka
from tests.support.barnabas_process import BarnabasProcess
from tests.support.server_process import ServerProcess, free_port

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(1200)]

TOPIC = "mixed"
PARTITIONS = 6
SETTINGS = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "zookeeper.session.timeout.ms": "6000",
}
OURS = 2
SECONDS = 120


class JoinedKafka(ApacheKafka):
    """A broker of Apache Kafka in a cluster that has a ZooKeeper already."""

    def __init__(self, directory: Path, broker_id: int, zookeeper: ZooKeeper) -> None:
        super().__init__(directory, {**SETTINGS, "broker.id": str(broker_id)})
        self.zookeeper = zookeeper

    def stop(self, timeout_seconds: float = 60) -> int:
        """Stop the broker alone."""
        return ServerProcess.stop(self, timeout_seconds)

    def close(self) -> None:
        """Stop the broker alone, if it runs."""
        ServerProcess.close(self)


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[list[ApacheKafka | BarnabasProcess]]:
    """The brokers 0, 1 (Kafka) and 2 (ours), started."""
    need_apache_kafka()
    zookeeper = ZooKeeper(tmp_path / "zookeeper")
    zookeeper.start()
    settings = {**SETTINGS, "broker.id": str(OURS), "zookeeper.connect": f"{zookeeper.host}:{zookeeper.port}"}
    ours = BarnabasProcess(tmp_path / "broker-2", settings, port=free_port())
    joined = [JoinedKafka(tmp_path / f"broker-{broker_id}", broker_id, zookeeper) for broker_id in (0, 1)]
    started: list[ApacheKafka | BarnabasProcess] = [*joined, ours]
    try:
        for broker in started:
            broker.start()
        yield started
    finally:
        for broker in started:
            broker.close()
        zookeeper.close()


def test_each_broker_dies_in_turn_and_nothing_is_lost(brokers: list[ApacheKafka | BarnabasProcess]) -> None:
    addresses = ",".join(broker.bootstrap_servers for broker in brokers)
    with Admin(addresses) as admin:
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])

    def make(delivered: Delivered) -> Client:
        return ConfluentClient(addresses, TOPIC, delivered, idempotent=True, give_up_seconds=SECONDS)

    writer = Writer(Ledger(TOPIC, PARTITIONS), make, seed=1)
    writer.start()
    try:
        # Each once, then whoever is the controller: it may be any of the three by then.
        for chosen in (0, OURS, 1, None, None, None):
            broker_id = _controller(addresses) if chosen is None else chosen
            writer.resume()
            brokers[broker_id].kill()
            _await_in_sync(addresses, 2 * PARTITIONS)
            brokers[broker_id].start()
            _await_in_sync(addresses, 3 * PARTITIONS)
            writer.rest(120)
        for partition, book in enumerate(writer.ledger.partitions):
            name = f"{TOPIC}-{partition}"
            assert not book.failed
            check_replicas(name, book, [broker.data_dir / name for broker in brokers])
        writer.close()
    finally:
        writer.close(timeout_seconds=0)
    assert writer.ledger.acknowledged > 1_000


def _await_in_sync(addresses: str, replicas: int) -> None:
    """Wait until all partitions together have so many replicas in sync."""
    deadline = time.monotonic() + SECONDS
    while True:
        with Admin(addresses) as admin:
            partitions = admin.describe_topics([TOPIC])[TOPIC].partitions
        if sum(len(each.isr) for each in partitions) == replicas:
            return
        assert time.monotonic() < deadline, f"not {replicas} replicas in sync: {partitions}"
        time.sleep(0.2)


def _controller(addresses: str) -> int:
    with Admin(addresses) as admin:
        return admin.describe_cluster().controller_id
