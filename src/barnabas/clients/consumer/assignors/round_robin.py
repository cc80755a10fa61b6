"""The round-robin assignor: it deals all partitions, topic by topic, to the members in turn.

Kafka: RoundRobinAssignor.
"""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.clients.consumer.assignors.partition_assignor import (
    GroupAssignment,
    PartitionAssignor,
    PartitionRacks,
    member_order,
)
from barnabas.protocol.consumer_protocol import Subscription
from barnabas.protocol.topic_partition import TopicPartition


class RoundRobinAssignor(PartitionAssignor):
    """An assignor that skips members without a subscription to the partition's topic."""

    name = "roundrobin"

    def assign(self, topics: PartitionRacks, subscriptions: Mapping[str, Subscription]) -> GroupAssignment:
        """Deal the partitions."""
        assignment: GroupAssignment = {member_id: [] for member_id in subscriptions}
        ordered = sorted(subscriptions, key=lambda member_id: member_order(member_id, subscriptions[member_id]))
        subscribed = {topic for subscription in subscriptions.values() for topic in subscription.topics}
        turn = 0
        for topic in sorted(subscribed & topics.keys()):
            for partition in range(len(topics[topic])):
                # This loop ends: only topics that at least one member subscribes to are dealt.
                while topic not in subscriptions[ordered[turn]].topics:
                    turn = (turn + 1) % len(ordered)
                assignment[ordered[turn]].append(TopicPartition(topic, partition))
                turn = (turn + 1) % len(ordered)
        return assignment
