"""The cluster as a broker knows it at one moment: brokers, topics, leaders. Immutable: readers keep what they took.

Made by `metadata_cache` (fed by UpdateMetadata), read on every thread by one attribute access; never changed, so no
lock. Kafka: MetadataSnapshot of kafka.server.metadata.ZkMetadataCache, org.apache.kafka.image.MetadataImage.
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
    """A live broker. `endpoints`: listener name -> (host, port). `epoch` -1 where it isn't known (UpdateMetadata)."""

    id: int
    epoch: int
    rack: str | None
    endpoints: Mapping[str, tuple[str, int]]


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """One partition. `leader` -1: there is none. Offline replicas are on dead brokers or failed log directories."""

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
    """One topic: its partitions in order of their numbers. `topic_id` is 16 zeros if the topic has none."""

    name: str
    topic_id: bytes
    partitions: tuple[PartitionMetadata, ...]

    def partition(self, index: int) -> PartitionMetadata | None:
        """A partition by its number; numbers are usually positions, but a controller may tell of some only."""
        partitions = self.partitions
        if 0 <= index < len(partitions) and partitions[index].partition == index:
            return partitions[index]
        # Clients may ask for very many that do not exist.
        position = bisect_left(partitions, index, key=_NUMBER)
        if position < len(partitions) and partitions[position].partition == index:
            return partitions[position]
        return None


@dataclass(frozen=True, slots=True)
class MetadataImage:
    """Everything at once. `version` grows by one with each change; `topic_names`: topic id -> name."""

    version: int = 0
    cluster_id: str | None = None
    controller_id: int = NO_CONTROLLER
    brokers: Mapping[int, BrokerMetadata] = field(default_factory=dict)
    topics: Mapping[str, TopicMetadata] = field(default_factory=dict)
    topic_names: Mapping[bytes, str] = field(default_factory=dict)

    def partition(self, partition: TopicPartition) -> PartitionMetadata | None:
        """A partition, None if the controller hasn't told of it."""
        topic = self.topics.get(partition.topic)
        return None if topic is None else topic.partition(partition.partition)

    def reachable_brokers(self, listener_name: str) -> Iterator[tuple[BrokerMetadata, str, int]]:
        """The brokers that have a listener of this name, each with its host and port there."""
        for broker in self.brokers.values():
            endpoint = broker.endpoints.get(listener_name)
            if endpoint is not None:
                yield broker, *endpoint

    def endpoint(self, broker_id: int, listener_name: str) -> tuple[str, int] | None:
        """Where a broker listens on a listener; None if it isn't alive or has no such listener."""
        broker = self.brokers.get(broker_id)
        return None if broker is None else broker.endpoints.get(listener_name)
