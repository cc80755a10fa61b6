"""The sticky assignor for cooperative rebalances: a partition that moves is first revoked, then assigned (KIP-429).

In the first rebalance the partition is assigned to no member. Its old owner revokes it and joins again, and the second
rebalance assigns the partition to its new owner. Kafka: CooperativeStickyAssignor.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping

from barnabas.clients.consumer.assignors.partition_assignor import GroupAssignment, PartitionRacks, RebalanceProtocol
from barnabas.clients.consumer.assignors.sticky import GENERATION, AbstractStickyAssignor
from barnabas.clients.consumer.assignors.sticky_members import DEFAULT_GENERATION, MemberData
from barnabas.clients.consumer.group_metadata import ConsumerGroupMetadata
from barnabas.protocol.consumer_protocol import Assignment, Subscription
from barnabas.protocol.topic_partition import TopicPartition


class CooperativeStickyAssignor(AbstractStickyAssignor):
    """An assignor for groups whose members all know the cooperative protocol, and for mixed ones as an eager one."""

    name = "cooperative-sticky"
    protocols = frozenset({RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER})

    def user_data(self, topics: Iterable[str]) -> bytes | None:
        """Return the generation of the last assignment, for leaders that do not read it from the subscription yet."""
        return GENERATION.pack(self._generation)

    def on_assignment(self, assignment: Assignment, metadata: ConsumerGroupMetadata) -> None:
        """Remember the generation of the assignment."""
        self._generation = metadata.generation_id

    def member_data(self, subscription: Subscription) -> MemberData:
        """Return a member's own claim. Its generation is in the subscription (v2), or else in the user data."""
        if subscription.generation_id >= 0:
            return MemberData(subscription.owned_partitions, subscription.generation_id)
        if subscription.user_data is None:
            return MemberData(subscription.owned_partitions, None)
        try:
            (generation,) = GENERATION.unpack_from(subscription.user_data)
        except struct.error:
            generation = DEFAULT_GENERATION
        return MemberData(subscription.owned_partitions, generation)

    def assign(self, topics: PartitionRacks, subscriptions: Mapping[str, Subscription]) -> GroupAssignment:
        """Divide stickily, and leave out partitions that another member has yet to revoke."""
        assignment = super().assign(topics, subscriptions)
        transferred = self._transferred
        # The builder for mixed subscriptions keeps no account of the partitions that move.
        if transferred is None:
            transferred = _transferred(subscriptions, assignment)
        for partition, member_id in transferred.items():
            assignment[member_id].remove(partition)
        return assignment


def _transferred(subscriptions: Mapping[str, Subscription], assignment: GroupAssignment) -> dict[TopicPartition, str]:
    """Return the new owner of each partition that is added to one member and was owned by another."""
    added: dict[TopicPartition, str] = {}
    revoked: set[TopicPartition] = set()
    for member_id, partitions in assignment.items():
        owned = set(subscriptions[member_id].owned_partitions)
        added.update({partition: member_id for partition in partitions if partition not in owned})
        revoked |= owned.difference(partitions)
    return {partition: member_id for partition, member_id in added.items() if partition in revoked}
