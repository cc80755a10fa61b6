"""The partitions this broker hosts, by topic and number.

Part of ReplicaManager. Look-ups take no lock, on any thread: the maps are replaced, never changed in place, by
`publish`, which LeadershipOrders calls under the replica-state-change lock. Kafka: ReplicaManager.allPartitions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from barnabas.metadata.metadata_cache import MetadataCache
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.replica.offline_partitions import OfflinePartitions
from barnabas.replica.partition import Partition


class HostedPartitions:
    """metadata knows whether the cluster has a partition at all. offline: those that should be here and cannot."""

    def __init__(self, metadata: MetadataCache) -> None:
        self.offline = OfflinePartitions()
        self._metadata = metadata
        self._by_topic: Mapping[str, Mapping[int, Partition]] = {}

    def partition_or_error(self, topic: str, partition: int) -> Partition:
        """The partition if this broker hosts it.

        Else ApiError: KAFKA_STORAGE_ERROR when its directory has failed, NOT_LEADER_OR_FOLLOWER,
        UNKNOWN_TOPIC_OR_PARTITION.
        """
        try:
            return self._by_topic[topic][partition]
        except KeyError:
            self.offline.check(TopicPartition(topic, partition))
            if self._metadata.image.partition(TopicPartition(topic, partition)) is not None:
                raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER) from None
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) from None

    def get(self, key: TopicPartition) -> Partition | None:
        """The partition if this broker hosts it."""
        return self._by_topic.get(key.topic, {}).get(key.partition)

    def hosts_topic(self, topic: str) -> bool:
        """Whether any partition of the topic is here."""
        return topic in self._by_topic

    def __iter__(self) -> Iterator[Partition]:
        """Every partition, at this moment."""
        return iter([partition for of_topic in self._by_topic.values() for partition in of_topic.values()])

    def __len__(self) -> int:
        """Their number."""
        return sum(len(of_topic) for of_topic in self._by_topic.values())

    def publish(self, changes: Mapping[TopicPartition, Partition | None]) -> None:
        """Replace the maps once for all changes of an order (None: gone). One caller at a time."""
        by_topic = dict(self._by_topic)
        copied: dict[str, dict[int, Partition]] = {}
        for key, partition in changes.items():
            of_topic = copied.get(key.topic)
            if of_topic is None:
                of_topic = copied[key.topic] = dict(by_topic.get(key.topic, {}))
            if partition is None:
                of_topic.pop(key.partition, None)
            else:
                of_topic[key.partition] = partition
        for topic, replaced in copied.items():
            if replaced:
                by_topic[topic] = replaced
            else:
                by_topic.pop(topic, None)
        self._by_topic = by_topic
