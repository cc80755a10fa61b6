"""The partitions that this broker should serve and cannot, because their log directory has failed.

Owned by HostedPartitions. Changed under the replica-state-change lock and read by any thread: every change replaces the
set. A partition stays offline until the broker is started again. Kafka: HostedPartition.Offline.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.topic_partition import TopicPartition

logger = logging.getLogger(__name__)


class OfflinePartitions:
    """A set of partitions, empty on a broker whose disks work."""

    __slots__ = ("_partitions",)

    def __init__(self) -> None:
        self._partitions: frozenset[TopicPartition] = frozenset()

    def __len__(self) -> int:
        return len(self._partitions)

    def __contains__(self, topic_partition: TopicPartition) -> bool:
        return topic_partition in self._partitions

    def add(self, partitions: Iterable[TopicPartition]) -> None:
        """Mark partitions as offline."""
        self._partitions = self._partitions.union(partitions)

    def check(self, topic_partition: TopicPartition) -> None:
        """Reject an offline partition. Raises ApiError: KAFKA_STORAGE_ERROR."""
        if topic_partition in self._partitions:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"Partition {topic_partition} is in an offline log directory")
