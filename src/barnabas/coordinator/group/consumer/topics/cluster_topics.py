"""The topics of the cluster in one metadata image, for a consumer group and its assignors.

Made for each request that needs it; immutable, as the image is. A topic without an id does not exist here: members get
ids. Kafka: SubscribedTopicDescriberImpl, TopicIds, CoordinatorMetadataImage.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

from barnabas.coordinator.group.consumer.topics.hash import TopicHashes
from barnabas.metadata.metadata_image import MetadataImage, TopicMetadata
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.protocol.uuid import ZERO_UUID


class ClusterTopics:
    """The topics of one image, by name and by id. Implements TopicDescriber."""

    __slots__ = ("_hashes", "image")

    def __init__(self, image: MetadataImage, hashes: TopicHashes) -> None:
        self.image = image
        self._hashes = hashes

    def ids(self, names: Iterable[str]) -> frozenset[bytes]:
        """Return the ids of those topics that exist."""
        # Topics without an id are of a cluster that has not given them one yet: a member could not be told of them.
        topics = self.image.topics
        return frozenset(
            topics[name].topic_id for name in names if name in topics and topics[name].topic_id != ZERO_UUID
        )

    def name(self, topic_id: bytes) -> str | None:
        """Return a topic's name, None if it does not exist."""
        return self.image.topic_names.get(topic_id)

    def partition_count(self, topic_id: bytes) -> int:
        """Return the number of partitions, -1 if the topic does not exist."""
        topic = self._topic(topic_id)
        return -1 if topic is None else len(topic.partitions)

    def racks_for_partition(self, topic_id: bytes, partition: int) -> AbstractSet[str]:
        """Return the racks of the partition's replicas."""
        topic = self._topic(topic_id)
        found = None if topic is None else topic.partition(partition)
        if found is None:
            return frozenset()
        brokers = self.image.brokers
        racks = (brokers[replica].rack for replica in found.replicas if replica in brokers)
        return frozenset(rack for rack in racks if rack is not None)

    def hash_of(self, names: Iterable[str]) -> int:
        """Return the hash of the metadata of these topics (KIP-1101)."""
        return self._hashes.group_hash(names, self.image)

    def by_id(self, partitions: Iterable[TopicPartition]) -> dict[bytes, frozenset[int]]:
        """Return the partitions by topic id, without those of topics that do not exist."""
        found: dict[bytes, set[int]] = {}
        for name, number in partitions:
            topic = self.image.topics.get(name)
            if topic is not None and topic.topic_id != ZERO_UUID:
                found.setdefault(topic.topic_id, set()).add(number)
        return {topic_id: frozenset(numbers) for topic_id, numbers in found.items()}

    def by_name(self, partitions: Mapping[bytes, Iterable[int]]) -> tuple[TopicPartition, ...]:
        """Return the partitions with topic names, without those of topics that do not exist."""
        return tuple(
            TopicPartition(name, number)
            for topic_id, numbers in partitions.items()
            if (name := self.name(topic_id)) is not None
            for number in sorted(numbers)
        )

    def _topic(self, topic_id: bytes) -> TopicMetadata | None:
        name = self.image.topic_names.get(topic_id)
        return None if name is None else self.image.topics.get(name)
