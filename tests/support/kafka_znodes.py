"""Writes to Apache Kafka's ZooKeeper behind its back: topics that are already on its disks, later leader epochs.

Called by compatibility tests while the broker is down. The values are made by our own encoders, which other tests hold
against Kafka's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from kazoo.client import KazooClient

from barnabas.protocol.topic_partition import TopicPartition
from barnabas.protocol.uuid import uuid_from_string
from barnabas.zk.znodes.broker_zk_data import BrokerIdZNode, ClusterIdZNode
from barnabas.zk.znodes.config_znodes import ConfigEntityType, ConfigEntityZNode
from barnabas.zk.znodes.leader_and_isr import LeaderAndIsr, LeaderIsrAndControllerEpoch
from barnabas.zk.znodes.replica_assignment import ReplicaAssignment
from barnabas.zk.znodes.topic_zk_data import TopicPartitionStateZNode, TopicZNode
from tests.support.apache_kafka import ZooKeeper
from tests.support.waiting import wait_until

BROKER_ID = 0


class KafkaZnodes:
    """A session with a running ZooKeeper."""

    def __init__(self, client: KazooClient) -> None:
        self._client = client

    def wait_for_session_end(self, broker_id: int = BROKER_ID, timeout_seconds: float = 30) -> None:
        """Return when a killed broker's registration has expired, so that it can come back."""
        wait_until(lambda: self._client.exists(BrokerIdZNode.path(broker_id)) is None, timeout_seconds)

    def raise_leader_epoch(self, partition: TopicPartition, by: int) -> None:
        """The broker will lead the partition in an epoch that much higher."""
        path = TopicPartitionStateZNode.path(partition)
        data, stat = self._client.get(path)
        state = TopicPartitionStateZNode.decode(data, stat.version)
        leadership = state.leader_and_isr
        raised = leadership._replace(leader_epoch=leadership.leader_epoch + by)
        self._client.set(path, TopicPartitionStateZNode.encode(state._replace(leader_and_isr=raised)))

    def write_cluster_id(self, cluster_id: str) -> None:
        """The cluster's id, as `meta.properties` has it."""
        self._client.create(ClusterIdZNode.path, ClusterIdZNode.encode(cluster_id), makepath=True)

    def write_topic(self, topic: str, directories: Mapping[int, Path], config: Mapping[str, str]) -> None:
        """A topic of which these partition directories are there: led by the broker, in the next leader epochs."""
        topic_id = _topic_id(directories[0])
        replicas = {TopicPartition(topic, number): ReplicaAssignment((BROKER_ID,)) for number in directories}
        self._client.create(
            ConfigEntityZNode.path(ConfigEntityType.TOPIC, topic), ConfigEntityZNode.encode(config), makepath=True
        )
        self._client.create(TopicZNode.path(topic), TopicZNode.encode(topic_id, replicas), makepath=True)
        for number, directory in directories.items():
            leadership = LeaderAndIsr(BROKER_ID, _latest_epoch(directory) + 1, (BROKER_ID,))
            state = TopicPartitionStateZNode.encode(LeaderIsrAndControllerEpoch(leadership, 0))
            self._client.create(TopicPartitionStateZNode.path(TopicPartition(topic, number)), state, makepath=True)


@contextmanager
def kafka_znodes(zookeeper: ZooKeeper) -> Iterator[KafkaZnodes]:
    """A session for the block."""
    client = KazooClient(hosts=zookeeper.bootstrap_servers)
    client.start(timeout=30)
    try:
        yield KafkaZnodes(client)
    finally:
        client.stop()
        client.close()


def _topic_id(directory: Path) -> bytes:
    fields = dict(line.split(": ") for line in (directory / "partition.metadata").read_text().splitlines())
    return uuid_from_string(fields["topic_id"])


def _latest_epoch(directory: Path) -> int:
    lines = (directory / "leader-epoch-checkpoint").read_text().splitlines()[2:]
    return max((int(line.split()[0]) for line in lines), default=-1)
