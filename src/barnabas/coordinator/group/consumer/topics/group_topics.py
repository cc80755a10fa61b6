"""The topics that the members of a consumer group read, and these topics as the cluster has them (KIP-848).

SubscribedTopics is owned by a `ConsumerGroup`, guarded by the group's lock; it counts a topic for as long as a member
reads it. ClusterTopics is made for each request that needs it, of one metadata image, and is immutable. Pure.
Kafka: SubscriptionCount, ResolvedRegularExpression, ModernGroup; SubscribedTopicDescriberImpl, TopicIds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from barnabas.coordinator.group.assignors.assignor import GroupSubscriptionType
from barnabas.coordinator.group.consumer.consumer_group_member import ConsumerGroupMember
from barnabas.coordinator.group.consumer.topics.hash import TopicHashes
from barnabas.metadata.metadata_image import MetadataImage, TopicMetadata
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.protocol.uuid import ZERO_UUID


@dataclass(frozen=True, slots=True)
class ResolvedRegularExpression:
    """The topics that a regular expression matched, the metadata version, and the time (wall clock, ms)."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


class SubscribedTopics:
    """The numbers of subscribers of each topic and of each expression.

    by_name: topic -> members that name it. by_regex: topic -> resolved expressions that match it. members_by_regex:
    expression -> members that use it. resolved: expression -> the topics that it matched.
    """

    __slots__ = ("by_name", "by_regex", "members_by_regex", "resolved")

    def __init__(self) -> None:
        self.by_name: Counter[str] = Counter()
        self.by_regex: Counter[str] = Counter()
        self.members_by_regex: Counter[str] = Counter()
        self.resolved: dict[str, ResolvedRegularExpression] = {}

    def copy(self) -> SubscribedTopics:
        """Return a copy, for trial changes."""
        other = SubscribedTopics()
        other.by_name = self.by_name.copy()
        other.by_regex = self.by_regex.copy()
        other.members_by_regex = self.members_by_regex.copy()
        other.resolved = dict(self.resolved)
        return other

    def replace_member(self, old: ConsumerGroupMember | None, new: ConsumerGroupMember | None) -> None:
        """Count `new` instead of `old`. None stands for a member that joins (`old`) or leaves (`new`)."""
        if old is not None:
            _decrement(self.by_name, old.subscribed_topic_names)
            if old.subscribed_topic_regex:
                _decrement(self.members_by_regex, (old.subscribed_topic_regex,))
        if new is not None:
            self.by_name.update(new.subscribed_topic_names)
            if new.subscribed_topic_regex:
                self.members_by_regex[new.subscribed_topic_regex] += 1

    def resolve(self, regex: str, resolved: ResolvedRegularExpression | None) -> None:
        """Set the topics that an expression matches; None removes the expression."""
        before = self.resolved.pop(regex, None)
        if before is not None:
            _decrement(self.by_regex, before.topics)
        if resolved is not None:
            self.resolved[regex] = resolved
            self.by_regex.update(resolved.topics)

    def forget_unused(self) -> list[str]:
        """Remove the resolved expressions that no member uses, and return them."""
        unused = [regex for regex in self.resolved if regex not in self.members_by_regex]
        for regex in unused:
            self.resolve(regex, None)
        return unused

    def names(self) -> set[str]:
        """Return every topic that a member reads, whether it exists or not."""
        return {*self.by_name, *self.by_regex}

    def contains(self, topic: str) -> bool:
        """Return whether a member reads the topic."""
        return topic in self.by_name or topic in self.by_regex

    def names_of(self, member: ConsumerGroupMember) -> frozenset[str]:
        """Return the topics that one member reads; an expression that is not resolved yet matches none."""
        resolved = self.resolved.get(member.subscribed_topic_regex or "")
        return member.subscribed_topic_names if resolved is None else member.subscribed_topic_names | resolved.topics

    def subscription_type(self, members: int) -> GroupSubscriptionType:
        """Return whether all members (their number is `members`) read the same topics."""
        if not self.members_by_regex:
            same = all(count == members for count in self.by_name.values()) and not self.by_regex
        else:
            # Homogeneous only with one expression that all members use, and with no name beside it.
            first = next(iter(self.members_by_regex.values()))
            same = first == members and not self.by_name and all(count == 1 for count in self.by_regex.values())
        return GroupSubscriptionType.HOMOGENEOUS if same else GroupSubscriptionType.HETEROGENEOUS


def _decrement(counts: Counter[str], names: Iterable[str]) -> None:
    for name in names:
        # Removed at 0, and not kept with it: the keys are the topics that are read.
        if counts[name] <= 1:
            del counts[name]
        else:
            counts[name] -= 1


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
