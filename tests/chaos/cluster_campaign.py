"""The cluster campaign: three brokers, clients of three libraries, and something going wrong every few seconds.

    python -m tests.chaos.cluster_campaign --seconds 1800 --seed 7

`cluster_faults` has what goes wrong. Topics have three replicas, `min.insync.replicas=2`. Three producers are
idempotent with acks=all, three are transactional and commit offsets of a group with their records, and three consumers
in groups read what is committed. After each round the writers rest, every broker runs, and everything is held against
what the clients were told: each record once, at the offset that was acknowledged, in the order of sending, and in the
same bytes on all three brokers; transactions whole or absent, as their producers were told; each consumer has read what
is committed and nothing else; committed offsets have not gone back.
`make chaos-cluster` and this directory's tests call it.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from barnabas.clients.admin import Admin, NewTopic
from barnabas.clients.producer import Producer, RecordMetadata
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.testing import Cluster
from tests.chaos.cluster_faults import BROKERS, PATIENCE_SECONDS, SESSION_TIMEOUT_MS, ClusterFaults
from tests.chaos.cluster_inventory import ClusterInventory
from tests.chaos.group_consumers import (
    BarnabasGroupConsumer,
    ConfluentGroupConsumer,
    GroupConsumer,
    KafkaPythonGroupConsumer,
)
from tests.chaos.group_reader import GroupReader
from tests.chaos.ledger import Ledger
from tests.chaos.replicas import SETTLED_SECONDS
from tests.chaos.transaction_ledger import Outcome, TransactionLedger
from tests.chaos.transactional_clients import (
    BarnabasTransactions,
    ConfluentTransactions,
    KafkaPythonTransactions,
    TransactionalClient,
)
from tests.chaos.transactional_writer import TransactionalWriter
from tests.chaos.writers import Client, ConfluentClient, Delivered, KafkaPythonClient, Writer
from tests.support.small_disk import SmallDisk, mount_problem

PARTITIONS = 2
DISK_MEBIBYTES = 4_096
"""More than half an hour of records. Memory is taken for what is written."""
SETTINGS: Mapping[str, str | int] = {
    "zookeeper_session_timeout_ms": SESSION_TIMEOUT_MS,
    "log_segment_bytes": 100_000,
    "log_index_size_max_bytes": 100_000,
    # The store is in this process, beside all clients: on a busy machine it answers late.
    "zookeeper_connection_timeout_ms": 120_000,
    "replica_lag_time_max_ms": 3_000,
    "replica_fetch_backoff_ms": 200,
    "controlled_shutdown_max_retries": 1,
    "offsets_topic_num_partitions": 3,
    "transaction_state_log_num_partitions": 3,
}
TOPICS = ("by-confluent", "by-kafka-python", "by-barnabas")
TRANSACTIONS: Mapping[str, Callable[..., TransactionalClient]] = {
    "transactions-by-confluent": ConfluentTransactions,
    "transactions-by-kafka-python": KafkaPythonTransactions,
    "transactions-by-barnabas": BarnabasTransactions,
}
READERS: Mapping[str, Callable[[str, str, str], GroupConsumer]] = {
    "transactions-by-confluent": BarnabasGroupConsumer,
    "transactions-by-kafka-python": ConfluentGroupConsumer,
    "transactions-by-barnabas": KafkaPythonGroupConsumer,
}
"""Each topic is read by another library than that which writes it."""
INTERNAL_TOPICS = ("__consumer_offsets", "__transaction_state")


class BarnabasClient:
    """Our own producer: idempotent, as it is by default."""

    def __init__(self, bootstrap_servers: str, topic: str, delivered: Delivered) -> None:
        self._topic = topic
        self._delivered = delivered
        self._producer = Producer(bootstrap_servers, linger_ms=2, delivery_timeout_ms=PATIENCE_SECONDS * 1000)

    def send(self, partition: int, key: bytes | None, value: bytes) -> None:
        def on_delivery(metadata: RecordMetadata | None, error: BaseException | None) -> None:
            self._delivered(partition, value, None if metadata is None else metadata.offset)

        self._producer.send(self._topic, value, key=key, partition=partition, on_delivery=on_delivery)

    def serve(self) -> None:
        time.sleep(0.005)

    def close(self, timeout_seconds: float) -> None:
        self._producer.close(timeout_seconds)


class ClusterCampaign:
    """Rounds of faults. ledgers, transactions, readers: the histories of the clients."""

    def __init__(
        self,
        directory: Path,
        seed: int,
        *,
        splits: bool = False,
        full_disks: bool = False,
        python: Sequence[str] = (sys.executable,),
        only: Collection[str] = (),
        settled_seconds: float = SETTLED_SECONDS,
    ) -> None:
        """splits: whether the network between the brokers, and to the store, is split as well.

        full_disks: whether brokers have small disks, which fill up. python: what starts the brokers' interpreter.
        only: the faults that may happen, if not all. settled_seconds: how long replicas may take to become equal.
        """
        self._chance = random.Random(seed)
        self._disks = [_broker_disk(directory, broker_id) for broker_id in BROKERS] if full_disks else []
        self._cluster = Cluster(str(directory), len(BROKERS), dict(SETTINGS), faults=splits, python=python)
        places = [*TOPICS, *TRANSACTIONS, *INTERNAL_TOPICS]
        partitions = [TopicPartition(topic, partition) for topic in places for partition in range(PARTITIONS)]
        self._settled_seconds = settled_seconds
        self.faults = ClusterFaults(
            self._cluster, self._chance, partitions, splits=splits, disks=self._disks, only=only
        )
        self.ledgers = [Ledger(topic, PARTITIONS) for topic in TOPICS]
        self._writers = [
            Writer(ledger, self._client_factory(ledger.topic), seed + number)
            for number, ledger in enumerate(self.ledgers)
        ]
        self.transactions = [TransactionLedger(topic, PARTITIONS) for topic in TRANSACTIONS]
        self._transactional_writers = [
            TransactionalWriter(ledger, self._transactions_factory(ledger), seed + number)
            for number, ledger in enumerate(self.transactions)
        ]
        self.readers = [
            GroupReader(topic, PARTITIONS, f"readers-of-{topic}", self._consumer_factory(topic)) for topic in READERS
        ]

    def _client_factory(self, topic: str) -> Callable[[Delivered], Client]:
        def make(delivered: Delivered) -> Client:
            addresses = self._cluster.bootstrap_servers
            if topic == "by-confluent":
                return ConfluentClient(addresses, topic, delivered, idempotent=True, give_up_seconds=PATIENCE_SECONDS)
            if topic == "by-kafka-python":
                return KafkaPythonClient(addresses, topic, delivered, PATIENCE_SECONDS)
            return BarnabasClient(addresses, topic, delivered)

        return make

    def _transactions_factory(self, ledger: TransactionLedger) -> Callable[[], TransactionalClient]:
        topic = ledger.topic
        return lambda: TRANSACTIONS[topic](self._cluster.bootstrap_servers, topic, ledger.acknowledged.__setitem__)

    def _consumer_factory(self, topic: str) -> Callable[[], GroupConsumer]:
        return lambda: READERS[topic](self._cluster.bootstrap_servers, topic, f"readers-of-{topic}")

    @property
    def events(self) -> Counter[str]:
        """How often each kind of fault has happened."""
        return self.faults.events

    @property
    def acknowledged(self) -> int:
        """Records outside of transactions whose delivery was reported, so far."""
        return sum(ledger.acknowledged for ledger in self.ledgers)

    def committed(self) -> int:
        """Return the number of transactions whose commit was acknowledged, so far."""
        return sum(ledger.count(Outcome.COMMITTED) for ledger in self.transactions)

    @property
    def _all_writers(self) -> list[Writer | TransactionalWriter]:
        return [*self._writers, *self._transactional_writers]

    def run(self, *, seconds: float, rounds: int = 1, report: bool = False) -> None:
        """Play rounds until both numbers are reached."""
        clients: list[Writer | TransactionalWriter | GroupReader] = [*self._all_writers, *self.readers]
        try:
            self._cluster.start(PATIENCE_SECONDS)
            with Admin(self._cluster.bootstrap_servers) as admin:
                places = [*TOPICS, *TRANSACTIONS]
                admin.create_topics([NewTopic(topic, PARTITIONS, len(BROKERS)) for topic in places])
                for reader in self.readers:  # the first such question makes the topic of committed offsets
                    assert not admin.list_group_offsets(reader.group)
            for client in clients:
                client.start()
            self._play(seconds, rounds, report=report)
            for client in clients:
                client.close()
            self._cluster.close()
        finally:
            for client in clients:
                client.close(timeout_seconds=0)
            self._cluster.kill_all()
            for disk in self._disks:
                disk.unmount()

    def _play(self, seconds: float, rounds: int, *, report: bool) -> None:
        data_dirs = [Path(broker.data_dir) for broker in self._cluster.brokers]
        inventory = ClusterInventory(data_dirs, self._cluster.bootstrap_servers)
        deadline = time.monotonic() + seconds
        played = 0
        while time.monotonic() < deadline or played < rounds:
            self._round(inventory)
            inventory.take(self.ledgers, self.transactions, self.readers)
            played += 1
            if report:
                print(f"{played} rounds: {self.summary()}", flush=True)

    def _round(self, inventory: ClusterInventory) -> None:
        for writer in self._all_writers:
            writer.resume()
        time.sleep(self._chance.uniform(0.2, 1))
        for _ in range(self._chance.randint(1, 3)):
            self.faults.happen()
            time.sleep(self._chance.uniform(0.2, 2))
        inventory.check_acknowledged(self.ledgers, self.transactions, self._settled_seconds)
        for writer in self._all_writers:
            writer.rest(2 * PATIENCE_SECONDS)

    def summary(self) -> str:
        """Return what was done so far, in one line."""
        outcomes = {each.value: sum(ledger.count(each) for ledger in self.transactions) for each in Outcome}
        producers = sum(ledger.producers for ledger in self.transactions)
        read = sum(len(partition) for reader in self.readers for partition in reader.seen)
        commits = sum(reader.commits for reader in self.readers)
        failed = sum(reader.failed_commits for reader in self.readers)
        return (
            f"{self.acknowledged} records; transactions {outcomes} of {producers} producers; {read} records read,"
            f" {commits} commits and {failed} failed ones; {dict(self.events)}"
        )


def _broker_disk(directory: Path, broker_id: int) -> SmallDisk:
    """Mount a disk for a broker, whose data directory is a link into it."""
    disk = SmallDisk(directory / f"disk-{broker_id}", DISK_MEBIBYTES)
    (disk.path / "data").mkdir()
    (directory / f"broker-{broker_id}").symlink_to(disk.path / "data")
    return disk


def main() -> None:
    """Run the campaign from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=1_800)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    problem = mount_problem()
    if problem is not None:
        print(f"no disk gets full in this run: {problem}", flush=True)
    with tempfile.TemporaryDirectory(prefix="barnabas-cluster-chaos-") as directory:
        campaign = ClusterCampaign(Path(directory), arguments.seed, splits=True, full_disks=problem is None)
        campaign.run(seconds=arguments.seconds, report=True)


if __name__ == "__main__":
    main()
