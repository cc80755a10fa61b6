"""The sticky assignor for cooperative rebalances: what moves is given to nobody until its owner has given it up.

The owner then joins again, and the next rebalance assigns it (KIP-429). Kafka: CooperativeStickyAssignor.
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
    """See the module's text."""

    name = "cooperative-sticky"
    protocols = frozenset({RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER})

    def user_data(self, topics: Iterable[str]) -> bytes | None:
        """The generation of the last assignment, for leaders that do not read it from the subscription yet."""
        return GENERATION.pack(self._generation)

    def on_assignment(self, assignment: Assignment, metadata: ConsumerGroupMetadata) -> None:
        """Remember its generation."""
        self._generation = metadata.generation_id

    def member_data(self, subscription: Subscription) -> MemberData:
        """What the member says it owns; the generation from the subscription (v2), or else from the user data."""
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
        """See PartitionAssignor."""
        assignment = super().assign(topics, subscriptions)
        transferred = self._transferred
        if transferred is None:
            transferred = _transferred(subscriptions, assignment)
        for partition, member_id in transferred.items():
            assignment[member_id].remove(partition)
        return assignment


def _transferred(subscriptions: Mapping[str, Subscription], assignment: GroupAssignment) -> dict[TopicPartition, str]:
    """What is added to one member and was owned by another."""
    added: dict[TopicPartition, str] = {}
    revoked: set[TopicPartition] = set()
    for member_id, partitions in assignment.items():
        owned = set(subscriptions[member_id].owned_partitions)
        added.update({partition: member_id for partition in partitions if partition not in owned})
        revoked |= owned.difference(partitions)
    return {partition: member_id for partition, member_id in added.items() if partition in revoked}
