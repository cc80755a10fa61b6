"""The choice of a partition for records without a key (KIP-794).

One partitioner for each topic, guarded by the accumulator's lock. It stays with a partition until `sticky_bytes` have
gone there, then picks another at random. So batches are full, and all partitions get the same number of bytes in the
long run. Kafka: BuiltInPartitioner.
"""

from __future__ import annotations

from random import Random

from barnabas.clients.cluster import Cluster


class StickyPartitioner:
    """The partitioner of one topic. `sticky_bytes` is the batch size."""

    __slots__ = ("_partition", "_produced_bytes", "_random", "_sticky_bytes", "_topic")

    def __init__(self, topic: str, sticky_bytes: int, random: Random) -> None:
        self._topic = topic
        self._sticky_bytes = max(sticky_bytes, 1)
        self._random = random
        self._partition = -1
        self._produced_bytes = 0

    def partition(self, cluster: Cluster) -> int:
        """Return the partition for the next record."""
        if self._partition < 0:
            self._partition = self._choose(cluster)
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
            self._partition = self._choose(cluster)
            self._produced_bytes = 0

    def _choose(self, cluster: Cluster) -> int:
        available = cluster.available_partitions(self._topic)
        if available:
            return available[self._random.randrange(len(available))]
        # No partition has a leader: any will do, and the batch waits for a leader.
        return self._random.randrange(cluster.partition_count(self._topic) or 1)


class StickyPartitioners:
    """The partitioners of all topics, each made when it is first used."""

    def __init__(self, sticky_bytes: int, random: Random) -> None:
        self._sticky_bytes = sticky_bytes
        self._random = random
        self._by_topic: dict[str, StickyPartitioner] = {}

    def get(self, topic: str) -> StickyPartitioner:
        """Return the partitioner of a topic."""
        partitioner = self._by_topic.get(topic)
        if partitioner is None:
            partitioner = self._by_topic[topic] = StickyPartitioner(topic, self._sticky_bytes, self._random)
        return partitioner
