"""The cluster as a broker knows it at one moment: its brokers, topics and leaders.

Made by `metadata_cache`, read on every thread by one attribute access; immutable, so no lock. A request that reads the
image once sees one state of the cluster throughout, whatever updates arrive meanwhile.
Kafka: MetadataSnapshot, org.apache.kafka.image.MetadataImage.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from operator import attrgetter

from barnabas.protocol.topic_partition import TopicPartition

NO_CONTROLLER = -1


@dataclass(frozen=True, slots=True)
class BrokerMetadata:
    """A live broker. `endpoints`: listener name -> (host, port). `epoch` is -1 where UpdateMetadata has none."""

    id: int
    epoch: int
    rack: str | None
    endpoints: Mapping[str, tuple[str, int]]


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """One partition.

    `leader` is -1 without a leader. Offline replicas are on dead brokers or failed log directories.
    """

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...]
    partition_epoch: int


_NUMBER = attrgetter("partition")


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    """One topic, its partitions in the order of their numbers. `topic_id` is 16 zeros if the topic has none."""

    name: str
    topic_id: bytes
    partitions: tuple[PartitionMetadata, ...]

    @property
    def count_without_gaps(self) -> int:
        """The number of partitions, all of which are known; 0 if one before the last is not."""
        count = len(self.partitions)
        return count if count and self.partitions[-1].partition == count - 1 else 0

    def partition(self, index: int) -> PartitionMetadata | None:
        """Return a partition by its number, or None.

        Numbers are usually positions, but some partitions may be unknown.
        """
        partitions = self.partitions
        if 0 <= index < len(partitions) and partitions[index].partition == index:
            return partitions[index]
        # Clients may ask for very many partitions that do not exist: no scan for numbers beyond the end.
        position = bisect_left(partitions, index, key=_NUMBER)
        if position < len(partitions) and partitions[position].partition == index:
            return partitions[position]
        return None


@dataclass(frozen=True, slots=True)
class MetadataImage:
    """The whole cluster. `version` grows by one with each change. `topic_names`: topic id -> name."""

    version: int = 0
    cluster_id: str | None = None
    controller_id: int = NO_CONTROLLER
    brokers: Mapping[int, BrokerMetadata] = field(default_factory=dict)
    topics: dict[str, TopicMetadata] = field(default_factory=dict)
    topic_names: dict[bytes, str] = field(default_factory=dict)

    def partition(self, partition: TopicPartition) -> PartitionMetadata | None:
        """Return a partition, or None if the controller has not sent it."""
        topic = self.topics.get(partition.topic)
        return None if topic is None else topic.partition(partition.partition)

    def reachable_brokers(self, listener_name: str) -> Iterator[tuple[BrokerMetadata, str, int]]:
        """Yield the brokers that have a listener of this name, each with host and port of the listener."""
        for broker in self.brokers.values():
            endpoint = broker.endpoints.get(listener_name)
            if endpoint is not None:
                yield broker, *endpoint

    def endpoint(self, broker_id: int, listener_name: str) -> tuple[str, int] | None:
        """Return host and port of a broker's listener, or None if the broker is dead or has no such listener."""
        broker = self.brokers.get(broker_id)
        return None if broker is None else broker.endpoints.get(listener_name)
