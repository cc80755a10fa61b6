"""The partitions that this broker hosts, by topic and number, and those that are offline.

A part of ReplicaManager. Look-ups take no lock on any thread: `publish` and `OfflinePartitions.add`, which
LeadershipOrders calls under the replica-state-change lock, replace the maps and the set and never change them in place.

Kafka: ReplicaManager.allPartitions, HostedPartition.Offline.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from barnabas.metadata.metadata_cache import MetadataCache
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.replica.partitions.partition import Partition


class OfflinePartitions:
    """The partitions that this broker should serve and cannot, because their log directory has failed.

    None on a broker whose disks work. A partition stays offline until the broker is started again.
    """

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


class HostedPartitions:
    """The hosted partitions, with `offline`, those whose log directory has failed.

    metadata: tells a partition of another broker from one that does not exist.
    """

    def __init__(self, metadata: MetadataCache) -> None:
        self.offline = OfflinePartitions()
        self._metadata = metadata
        self._by_topic: dict[str, dict[int, Partition]] = {}

    def partition_or_error(self, topic: str, partition: int) -> Partition:
        """Return the partition if this broker hosts it.

        Raises ApiError: KAFKA_STORAGE_ERROR when the directory of the partition has failed, NOT_LEADER_OR_FOLLOWER when
        other brokers host the partition, UNKNOWN_TOPIC_OR_PARTITION when the cluster has no such partition.
        """
        # Two maps, by topic and number: a look-up by (topic, partition) would make a tuple for every partition of every
        # request (decision 0007).
        try:
            return self._by_topic[topic][partition]
        except KeyError:
            # After the miss is soon enough: a partition is marked offline before it is unhosted
            # (`handle_log_dir_failure`).
            self.offline.check(TopicPartition(topic, partition))
            if self._metadata.image.partition(TopicPartition(topic, partition)) is not None:
                raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER) from None
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) from None

    def get(self, key: TopicPartition) -> Partition | None:
        """Return the partition if this broker hosts it, or None."""
        topic, partition = key
        of_topic = self._by_topic.get(topic)
        return None if of_topic is None else of_topic.get(partition)

    def hosts_topic(self, topic: str) -> bool:
        """Return whether this broker hosts any partition of the topic."""
        return topic in self._by_topic

    def __iter__(self) -> Iterator[Partition]:
        """Iterate over every partition hosted at this moment."""
        return iter([partition for of_topic in self._by_topic.values() for partition in of_topic.values()])

    def __len__(self) -> int:
        """Return the number of hosted partitions."""
        return sum([len(of_topic) for of_topic in self._by_topic.values()])

    def publish(self, changes: Mapping[TopicPartition, Partition | None]) -> None:
        """Replace the maps once for all changes of an order (None: hosted no more). One caller at a time."""
        # Copied, since look-ups take no lock: they see all changes of an order or none.
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
