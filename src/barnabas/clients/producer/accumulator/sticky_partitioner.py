"""The choice of a partition for records without a key, by the load of the topic's partitions (KIP-794).

One partitioner for each topic, guarded by the accumulator's lock, as are the loads. It stays with a partition until
`sticky_bytes` have gone there, then picks another at random. So batches are full, and all partitions get the same
number of bytes in the long run, unless their brokers drain them at different speeds: `PartitionLoads` prefers
partitions that are drained fast.

A partition's chance is the longest queue of the topic plus 1, minus its own queue. With queues of 0, 3 and 1 batches:

    longest + 1 = 4     chances 4, 1, 3     running sum 4, 5, 8     a number below 8 falls on a partition

Kafka computes the chances in each turn of its sender. Here they are computed when a partitioner moves on, once for each
`batch.size` bytes, from the queues as they are at that moment.

Kafka: BuiltInPartitioner, RecordAccumulator.partitionReady, NodeLatencyStats.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Mapping
from itertools import accumulate
from random import Random

from barnabas.clients.metadata.cluster import Cluster
from barnabas.clients.producer.batches.producer_batch import ProducerBatch
from barnabas.protocol.topic_partition import TopicPartition


class PartitionLoads:
    """The load of partitions: their queues' lengths, and how long nodes have not taken what was ready for them.

    Times are milliseconds.
    """

    def __init__(
        self, queues: Mapping[TopicPartition, deque[ProducerBatch]], *, is_adaptive: bool, availability_timeout_ms: int
    ) -> None:
        self._queues = queues
        self._is_adaptive = is_adaptive
        self._availability_timeout_ms = availability_timeout_ms
        self._unready_since_ms: dict[int, int] = {}
        self._unready_ms: dict[int, int] = {}

    @property
    def watches_nodes(self) -> bool:
        """Whether `note_node` is of use."""
        return self._is_adaptive and self._availability_timeout_ms > 0

    def note_node(self, node_id: int, now_ms: int, *, is_ready: bool) -> None:
        """Note whether a node for which there are batches takes them."""
        if is_ready:
            self._unready_since_ms.pop(node_id, None)
            self._unready_ms.pop(node_id, None)
        else:
            since_ms = self._unready_since_ms.setdefault(node_id, now_ms)
            self._unready_ms[node_id] = now_ms - since_ms

    def choose(self, topic: str, cluster: Cluster, random: Random) -> int:
        """Return a partition with a leader, by chance; any partition when none has a leader."""
        available = cluster.available_partitions(topic)
        if not available:
            return random.randrange(cluster.partition_count(topic) or 1)
        if not self._is_adaptive or len(available) == 1:
            return available[random.randrange(len(available))]
        partitions = [partition for partition in available if self._is_served(cluster, topic, partition)] or available
        lengths = [len(self._queues.get((topic, partition), ())) for partition in partitions]  # type: ignore[call-overload]  # equal, and made faster
        most = max(lengths) + 1
        sums = list(accumulate(most - length for length in lengths))
        return partitions[bisect_right(sums, random.randrange(sums[-1]))]

    def _is_served(self, cluster: Cluster, topic: str, partition: int) -> bool:
        if not self._unready_ms:
            return True
        leader = cluster.leader(TopicPartition(topic, partition))
        return leader is None or self._unready_ms.get(leader.id, 0) <= self._availability_timeout_ms


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
