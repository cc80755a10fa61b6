"""A snapshot of a cluster as the last metadata answers describe it.

Immutable: ClusterMetadata replaces it as a whole, and every thread reads it without a lock.
Kafka: Cluster, MetadataSnapshot.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, Self

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.metadata import MetadataResponse
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.protocol.uuid import ZERO_UUID
from barnabas.rpc.node import Node


class PartitionInfo(NamedTuple):
    """One partition. `leader` is a node id, -1 for none; `leader_epoch` is -1 from old brokers."""

    topic: str
    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...]

    @classmethod
    def of(cls, topic: str, partition: MetadataResponse.MetadataResponsePartition) -> Self:
        """Return a partition as a metadata answer describes it."""
        return cls(
            topic,
            partition.partition_index,
            partition.leader_id,
            partition.leader_epoch,
            tuple(partition.replica_nodes),
            tuple(partition.isr_nodes),
            tuple(partition.offline_replicas),
        )


class Cluster:
    """The nodes and the requested topics. `topic_errors` has the topics that the broker cannot describe."""

    __slots__ = (
        "_available",
        "_leaders",
        "_partitions",
        "cluster_id",
        "controller_id",
        "is_bootstrap",
        "nodes",
        "topic_errors",
        "topic_ids",
        "topics",
    )

    def __init__(
        self,
        nodes: Sequence[Node],
        topics: Mapping[str, Sequence[PartitionInfo]] = MappingProxyType({}),
        *,
        cluster_id: str | None = None,
        controller_id: int = -1,
        topic_ids: Mapping[str, bytes] = MappingProxyType({}),
        topic_errors: Mapping[str, ErrorCode] = MappingProxyType({}),
        is_bootstrap: bool = False,
    ) -> None:
        self.nodes: Mapping[int, Node] = {node.id: node for node in nodes}
        self.topics: Mapping[str, tuple[PartitionInfo, ...]] = {
            topic: tuple(sorted(partitions, key=lambda info: info.partition)) for topic, partitions in topics.items()
        }
        self.cluster_id = cluster_id
        self.controller_id = controller_id
        self.topic_ids = topic_ids
        self.topic_errors = topic_errors
        self.is_bootstrap = is_bootstrap
        # All three are computed once here, because a producer looks them up for every record, or for every batch.
        self._partitions = {
            TopicPartition(topic, info.partition): info
            for topic, partitions in self.topics.items()
            for info in partitions
        }
        self._leaders = {
            TopicPartition(topic, info.partition): self.nodes[info.leader]
            for topic, partitions in self.topics.items()
            for info in partitions
            if info.leader in self.nodes
        }
        self._available = {
            topic: tuple(info.partition for info in partitions if info.leader in self.nodes)
            for topic, partitions in self.topics.items()
        }

    def leader(self, topic_partition: TopicPartition) -> Node | None:
        """Return the leader, or None if it is unknown or not alive."""
        return self._leaders.get(topic_partition)

    def partition_count(self, topic: str) -> int | None:
        """Return how many partitions the topic has, or None for an unknown topic."""
        partitions = self.topics.get(topic)
        return None if partitions is None else len(partitions)

    def available_partitions(self, topic: str) -> tuple[int, ...]:
        """Return the partitions of the topic that have a leader."""
        return self._available.get(topic, ())

    def partition(self, topic_partition: TopicPartition) -> PartitionInfo | None:
        """Return the description of a partition, or None for an unknown one."""
        return self._partitions.get(topic_partition)

    def leader_epoch(self, topic_partition: TopicPartition) -> int:
        """Return the epoch of the leader, -1 for an unknown partition and from old brokers."""
        info = self._partitions.get(topic_partition)
        return -1 if info is None else info.leader_epoch

    def topic_id(self, topic: str) -> bytes:
        """Return the topic's id: 16 bytes, zeros when the broker gave none."""
        return self.topic_ids.get(topic, ZERO_UUID)

    @property
    def controller(self) -> Node | None:
        """The controller, or None if it is unknown."""
        return self.nodes.get(self.controller_id)
