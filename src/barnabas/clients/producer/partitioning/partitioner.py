"""The choice of a partition for records without a key (KIP-794).

One partitioner for each topic, guarded by the accumulator's lock. It stays with a partition until `sticky_bytes` have
gone there, then picks another at random. So batches are full, and all partitions get the same number of bytes in the
long run, unless their brokers drain them at different speeds (`PartitionLoads`). Kafka: BuiltInPartitioner.
"""

from __future__ import annotations

from random import Random

from barnabas.clients.metadata.cluster import Cluster
from barnabas.clients.producer.partitioning.partition_loads import PartitionLoads


class StickyPartitioner:
    """The partitioner of one topic. `sticky_bytes` is the batch size."""

    __slots__ = ("_loads", "_partition", "_produced_bytes", "_random", "_sticky_bytes", "_topic")

    def __init__(self, topic: str, sticky_bytes: int, random: Random, loads: PartitionLoads) -> None:
        self._topic = topic
        self._loads = loads
        self._sticky_bytes = max(sticky_bytes, 1)
        self._random = random
        self._partition = -1
        self._produced_bytes = 0

    def partition(self, cluster: Cluster) -> int:
        """Return the partition for the next record."""
        if self._partition < 0:
            self._partition = self._loads.choose(self._topic, cluster, self._random)
        return self._partition

    def add(self, appended_bytes: int, cluster: Cluster, *, batch_is_closed: bool) -> None:
        """Count bytes that went to the partition, and move on once it has its share and its batch is complete.

        A batch that stays open (linger) may get twice the share, because leaving it would make a small batch.
        """
        # Moving on after each batch instead would give slow partitions more records: their batches fill up more before
        # they leave, so an equal number of batches is not an equal number of bytes (KIP-794).
        self._produced_bytes += appended_bytes
        share = self._sticky_bytes if batch_is_closed else 2 * self._sticky_bytes
        if self._produced_bytes >= share:
            self._partition = self._loads.choose(self._topic, cluster, self._random)
            self._produced_bytes = 0


class StickyPartitioners:
    """The partitioners of all topics, each made when it is first used."""

    def __init__(self, sticky_bytes: int, random: Random, loads: PartitionLoads) -> None:
        self.loads = loads
        self._sticky_bytes = sticky_bytes
        self._random = random
        self._by_topic: dict[str, StickyPartitioner] = {}

    def get(self, topic: str) -> StickyPartitioner:
        """Return the partitioner of a topic."""
        partitioner = self._by_topic.get(topic)
        if partitioner is None:
            partitioner = self._by_topic[topic] = StickyPartitioner(topic, self._sticky_bytes, self._random, self.loads)
        return partitioner
