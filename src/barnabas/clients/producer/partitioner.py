"""Which partition a record without a key goes to (Kafka: BuiltInPartitioner, KIP-794).

One per topic, guarded by the accumulator's lock. It sticks to a partition until `sticky_bytes` have gone there, then
picks another at random: full batches, and the same number of bytes for each partition in the long run.
"""

from __future__ import annotations

from random import Random

from barnabas.clients.cluster import Cluster


class StickyPartitioner:
    """`sticky_bytes` is the batch size."""

    __slots__ = ("_partition", "_produced_bytes", "_random", "_sticky_bytes", "_topic")

    def __init__(self, topic: str, sticky_bytes: int, random: Random) -> None:
        self._topic = topic
        self._sticky_bytes = max(sticky_bytes, 1)
        self._random = random
        self._partition = -1
        self._produced_bytes = 0

    def partition(self, cluster: Cluster) -> int:
        """The partition for the next record."""
        if self._partition < 0:
            self._partition = self._choose(cluster)
        return self._partition

    def add(self, appended_bytes: int, cluster: Cluster, *, batch_is_closed: bool) -> None:
        """Bytes have gone to the partition. Move on if it has had its share and its batch is complete.

        A batch that stays open (linger) is given up to twice the share, since leaving it would make a fragment.
        """
        self._produced_bytes += appended_bytes
        share = self._sticky_bytes if batch_is_closed else 2 * self._sticky_bytes
        if self._produced_bytes >= share:
            self._partition = self._choose(cluster)
            self._produced_bytes = 0

    def _choose(self, cluster: Cluster) -> int:
        available = cluster.available_partitions(self._topic)
        if available:
            return available[self._random.randrange(len(available))]
        # None has a leader: any will do, the batch waits for one.
        return self._random.randrange(cluster.partition_count(self._topic) or 1)
