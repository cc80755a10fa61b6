"""The partitions that this broker should serve and cannot: their log directory has failed.

Owned by ReplicaManager; changed under its state change lock, read by any thread: every change replaces the set.
A partition stays offline until the broker is started again. Kafka: HostedPartition.Offline.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.topic_partition import TopicPartition

logger = logging.getLogger(__name__)


class OfflinePartitions:
    """A set of partitions. An empty one costs nothing but a look at it."""

    __slots__ = ("_partitions",)

    def __init__(self) -> None:
        self._partitions: frozenset[TopicPartition] = frozenset()

    def __len__(self) -> int:
        return len(self._partitions)

    def __contains__(self, topic_partition: TopicPartition) -> bool:
        return topic_partition in self._partitions

    def add(self, partitions: Iterable[TopicPartition]) -> None:
        """These are offline from here on."""
        self._partitions = self._partitions.union(partitions)

    def check(self, topic_partition: TopicPartition) -> None:
        """Raise ApiError: KAFKA_STORAGE_ERROR when the partition is offline."""
        if topic_partition in self._partitions:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"Partition {topic_partition} is in an offline log directory")
