"""The input of the sticky assignors: the partitions that members owned, and the racks of both. Pure.

Kafka: AbstractStickyAssignor.MemberData, AbstractStickyAssignor.RackInfo.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from barnabas.clients.consumer.assignors.partition_assignor import PartitionRacks, needs_racks
from barnabas.protocol.consumer_protocol import Subscription
from barnabas.protocol.topic_partition import TopicPartition

logger = logging.getLogger(__name__)

DEFAULT_GENERATION = -1


class MemberData(NamedTuple):
    """The partitions a member owned, and in which generation; None if its subscription does not say."""

    partitions: Sequence[TopicPartition]
    generation: int | None


ReadMemberData: TypeAlias = Callable[[Subscription], MemberData]


class Ownership:
    """Each member's partitions that still exist.

    A partition that two members claim belongs to the claim of the younger generation. Claims of the same generation
    are both void.
    """

    def __init__(
        self, topics: Collection[str], subscriptions: Mapping[str, Subscription], read: ReadMemberData
    ) -> None:
        self.members = {member_id: read(subscription) for member_id, subscription in subscriptions.items()}
        self.max_generation = DEFAULT_GENERATION
        self.owned: dict[str, list[TopicPartition]] = {}
        self.doubly_claimed: set[TopicPartition] = set()
        owners: dict[TopicPartition, str] = {}
        for member_id, data in self.members.items():
            generation = DEFAULT_GENERATION if data.generation is None else data.generation
            self.max_generation = max(self.max_generation, generation)
            self.owned[member_id] = []
            for partition in data.partitions:
                if partition.topic not in topics:
                    continue
                other = owners.get(partition)
                if other is None:
                    self.owned[member_id].append(partition)
                    owners[partition] = member_id
                    continue
                others_generation = subscriptions[other].generation_id
                logger.warning("Consumers %s and %s claim the same partition %s", member_id, other, partition)
                # The older claim is stale: its member missed the rebalance in which the partition moved (KIP-341).
                if generation >= others_generation:
                    if partition in self.owned[other]:
                        self.owned[other].remove(partition)
                    owners[partition] = member_id
                    if generation == others_generation:
                        self.doubly_claimed.add(partition)
                    else:
                        self.owned[member_id].append(partition)


def are_subscriptions_equal(subscriptions: Mapping[str, Subscription]) -> bool:
    """Return whether all members subscribe to the same topics."""
    return len({frozenset(subscription.topics) for subscription in subscriptions.values()}) <= 1


class RackInfo:
    """The racks of members and partitions. Both are empty where racks make no difference."""

    def __init__(self, topics: PartitionRacks, subscriptions: Mapping[str, Subscription]) -> None:
        racks_of_members = {each: subscription.rack_id for each, subscription in subscriptions.items()}
        members = {each: rack for each, rack in racks_of_members.items() if rack}
        partitions = (
            {TopicPartition(topic, index): racks for topic, each in topics.items() for index, racks in enumerate(each)}
            if members
            else {}
        )
        per_rack: dict[str, int] = {}
        for rack in members.values():
            per_rack[rack] = per_rack.get(rack, 0) + 1
        self._members_of_partition = {
            partition: sum(per_rack.get(rack, 0) for rack in racks) for partition, racks in partitions.items()
        }
        if not needs_racks(members.values(), partitions.values(), frozenset().union(*partitions.values())):
            members, partitions = {}, {}
        self.members: Mapping[str, str] = members
        self.partitions: Mapping[TopicPartition, frozenset[str]] = partitions

    def mismatch(self, member_id: str, partition: TopicPartition) -> bool:
        """Return whether the member is in a rack that has no replica."""
        rack = self.members.get(member_id)
        return rack is not None and rack not in self.partitions.get(partition, frozenset())

    def by_members(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Return the partitions, those with the fewest members in their racks first."""
        return sorted(partitions, key=lambda partition: self._members_of_partition.get(partition, 0))

    def next_member(self, partition: TopicPartition, members: Sequence[str], first: int) -> int:
        """Return the index of the next member in a rack of the partition, from `first` on and around, or -1."""
        racks = self.partitions.get(partition)
        if racks:
            for offset in range(len(members)):
                index = (first + offset) % len(members)
                if self.members.get(members[index]) in racks:
                    return index
        return -1
