"""Which partitions moved from whom to whom while an assignment is balanced, so that none is moved in vain. Pure.

If a partition of a topic has moved from A to B, and then one of the same topic is to move from B to A, it is better
that the first one goes back. Kafka: AbstractStickyAssignor.PartitionMovements.
"""

from __future__ import annotations

from barnabas.protocol.topic_partition import TopicPartition


class PartitionMovements:
    """Movements by topic, and by (from, to)."""

    def __init__(self) -> None:
        self._by_topic: dict[str, dict[tuple[str, str], dict[TopicPartition, None]]] = {}
        self._by_partition: dict[TopicPartition, tuple[str, str]] = {}

    def move(self, partition: TopicPartition, source: str, target: str) -> None:
        """Note a movement; one that undoes an earlier one is as if neither had been."""
        earlier = self._by_partition.pop(partition, None)
        if earlier is not None:
            pairs = self._by_topic[partition.topic]
            del pairs[earlier][partition]
            if not pairs[earlier]:
                del pairs[earlier]
            source = earlier[0]
        if source != target:
            self._by_partition[partition] = (source, target)
            pairs = self._by_topic.setdefault(partition.topic, {})
            pairs.setdefault((source, target), {})[partition] = None

    def actual(self, partition: TopicPartition, source: str, target: str) -> TopicPartition:
        """The partition to be moved instead of this one: one that goes back, if there is any."""
        earlier = self._by_partition.get(partition)
        if earlier is not None:
            source = earlier[0]
        reverse = self._by_topic.get(partition.topic, {}).get((target, source))
        return next(iter(reverse)) if reverse else partition
