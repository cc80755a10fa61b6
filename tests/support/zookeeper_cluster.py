"""Clusters on a real ZooKeeper: brokers of Apache Kafka, of ours, or of both.

Called by tests marked `java` and by benchmarks/cluster.py, on the caller's thread. `barnabas.testing.cluster` needs
neither Java nor ZooKeeper; it has no place for Apache Kafka's brokers.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from barnabas.clients.admin import Admin
from tests.support.apache_kafka import ApacheKafka, ZooKeeper
from tests.support.barnabas_process import BarnabasProcess
from tests.support.cluster_state import in_sync_replicas
from tests.support.server_process import ServerFailed, ServerProcess

APACHE_KAFKA = "apache-kafka"

SETTINGS: Mapping[str, str] = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "zookeeper.session.timeout.ms": "6000",
}
POLL_SECONDS = 0.05


class JoinedKafka(ApacheKafka):
    """A broker of Apache Kafka in a cluster that has a ZooKeeper already."""

    def __init__(self, directory: Path, properties: Mapping[str, str], zookeeper: ZooKeeper) -> None:
        super().__init__(directory, properties)
        self.zookeeper = zookeeper

    def stop(self, timeout_seconds: float = 60) -> int:
        """Stop the broker alone."""
        return ServerProcess.stop(self, timeout_seconds)

    def close(self) -> None:
        """Stop the broker alone, if it runs."""
        ServerProcess.close(self)


class ZooKeeperCluster:
    """A ZooKeeper and brokers with the ids 0, 1, ... `brokers`: by id."""

    def __init__(self, directory: Path, brokers: Sequence[ApacheKafka | BarnabasProcess], zookeeper: ZooKeeper) -> None:
        self.directory = directory
        self.brokers = brokers
        self._zookeeper = zookeeper

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all brokers, host:port, separated by commas."""
        return ",".join(broker.bootstrap_servers for broker in self.brokers)

    def start(self) -> None:
        """Start ZooKeeper and the brokers, and wait until the controller knows all of them. Raises ServerFailed."""
        self._zookeeper.start()
        for broker in self.brokers:
            broker.start()
        self.wait_until_known(len(self.brokers), 60)

    def wait_until_known(self, count: int, timeout_seconds: float) -> None:
        """Wait until the cluster knows so many brokers. Raises ServerFailed."""
        deadline = time.monotonic() + timeout_seconds
        with Admin(self.bootstrap_servers) as admin:
            while len(known := admin.describe_cluster().nodes) != count:
                if time.monotonic() > deadline:
                    raise ServerFailed(f"the cluster knows {known} after {timeout_seconds} s, not {count} brokers")
                time.sleep(POLL_SECONDS)

    def close(self) -> None:
        """Stop what runs, the brokers first."""
        for broker in self.brokers:
            broker.close()
        self._zookeeper.close()

    def empty_disk(self, broker_id: int) -> None:
        """Remove the data of a broker that does not run."""
        shutil.rmtree(self.brokers[broker_id].data_dir)

    def controller_id(self) -> int:
        """The id of the broker that is the controller."""
        with Admin(self.bootstrap_servers) as admin:
            return admin.describe_cluster().controller_id

    def wait_until_in_sync(self, topics: Sequence[str], replicas: int, timeout_seconds: float) -> None:
        """Wait until the partitions of these topics together have so many replicas in sync. Raises ServerFailed."""
        deadline = time.monotonic() + timeout_seconds
        with Admin(self.bootstrap_servers) as admin:
            while (found := in_sync_replicas(admin, topics)) != replicas:
                if time.monotonic() > deadline:
                    raise ServerFailed(
                        f"{found} replicas of {topics} in sync after {timeout_seconds} s, not {replicas}"
                    )
                time.sleep(POLL_SECONDS)
