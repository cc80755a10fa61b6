"""The moves of partitions between members while an assignment is balanced, so that no two cancel out. Pure.

If a partition of a topic has moved from member A to member B, and then another one of the same topic is to move from B
to A, the first one goes back instead. Kafka: AbstractStickyAssignor.PartitionMovements.
"""

from __future__ import annotations

from barnabas.protocol.topic_partition import TopicPartition


class PartitionMovements:
    """Movements by topic, and by (from, to)."""

    def __init__(self) -> None:
        self._by_topic: dict[str, dict[tuple[str, str], dict[TopicPartition, None]]] = {}
        self._by_partition: dict[TopicPartition, tuple[str, str]] = {}

    def move(self, partition: TopicPartition, source: str, target: str) -> None:
        """Note a movement. One that undoes an earlier one cancels it out."""
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
        """Return the partition to move instead of this one: one that would go back to its owner, if possible."""
        earlier = self._by_partition.get(partition)
        if earlier is not None:
            source = earlier[0]
        reverse = self._by_topic.get(partition.topic, {}).get((target, source))
        return next(iter(reverse)) if reverse else partition
