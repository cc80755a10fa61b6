"""The assignors of a group's member: the offers of its JoinGroup, and the division of partitions as leader.

Owned by the consumer's thread; called by `ConsumerCoordinator`. No lock. Kafka: ConsumerCoordinator.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from barnabas.clients.consumer.assignors.partition_assignor import PartitionAssignor, RebalanceProtocol
from barnabas.clients.consumer.group.followed_topics import FollowedTopics
from barnabas.clients.consumer.subscription_state import SubscriptionState
from barnabas.clients.values import ConsumerGroupMetadata
from barnabas.protocol.consumer_protocol import (
    Assignment,
    Subscription,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from barnabas.protocol.messages.classic_groups import JoinGroupResponse

logger = logging.getLogger(__name__)


def common_protocol(assignors: Sequence[PartitionAssignor]) -> RebalanceProtocol:
    """Return the most advanced protocol that all assignors know. Raises ValueError if they have none in common."""
    common = frozenset.intersection(*(assignor.protocols for assignor in assignors))
    if not common:
        names = ", ".join(assignor.name for assignor in assignors)
        raise ValueError(f"Specified assignors [{names}] do not have commonly supported rebalance protocol")
    # With `max`, a consumer whose assignors all know both protocols rebalances cooperatively. One eager assignor in the
    # list makes all of it eager, which is how a group moves from one protocol to the other (KIP-429).
    return max(common)


class GroupAssignors:
    """The assignors by name, the preferred first. Raises ValueError if they have no rebalance protocol in common."""

    def __init__(
        self, assignors: Sequence[PartitionAssignor], topics: FollowedTopics, subscriptions: SubscriptionState
    ) -> None:
        self.protocol = common_protocol(assignors) if assignors else None
        self.joined_topics: frozenset[str] | None = None
        """The topics that the last JoinGroup named."""
        self._by_name = {assignor.name: assignor for assignor in assignors}
        self._topics = topics
        self._subscriptions = subscriptions
        self._divided: Mapping[str, Any] | None = None
        """The partitions that the last assignment divided. None unless this member leads the group."""

    def __bool__(self) -> bool:
        return bool(self._by_name)

    def offers(self, generation_id: int, rack: str | None) -> list[tuple[str, bytes]]:
        """Return each assignor's name and metadata for a JoinGroup, and remember its topics."""
        topics = self.joined_topics = self._subscriptions.topics
        owned = tuple(self._subscriptions.partitions)
        return [
            (
                assignor.name,
                encode_subscription(
                    Subscription(tuple(topics), assignor.user_data(topics), owned, generation_id, rack)
                ),
            )
            for assignor in self._by_name.values()
        ]

    def rejoin_reason(self) -> str | None:
        """Return why the member has to join again, or None if neither partitions nor the subscription have changed."""
        if self._divided is not None and self._divided != self._topics.snapshot:
            return "cached metadata has changed"
        if self.joined_topics is not None and self.joined_topics != self._subscriptions.topics:
            return "subscription has changed"
        return None

    def forget_divided(self) -> None:
        """Stop watching the partitions of the group's topics, because this member no longer leads."""
        self._divided = None

    def forget_joined(self) -> None:
        """Forget the last generation, because the member leaves its group."""
        self._divided = self.joined_topics = None

    def divide(self, answer: JoinGroupResponse) -> dict[str, bytes] | None:
        """Return each member's encoded assignment, as leader, or None while metadata of their topics is missing.

        Raises RuntimeError when the coordinator chose an assignor that this member did not offer.
        """
        members = {
            member.member_id: decode_subscription(member.metadata, member.group_instance_id)
            for member in answer.members
        }
        all_topics = frozenset(topic for subscription in members.values() for topic in subscription.topics)
        # The other members may subscribe to topics that this consumer has never looked up.
        if self._subscriptions.group_topics != all_topics:
            self._subscriptions.group_topics = all_topics
            self._topics.follow()
        if not self._topics.is_fresh(always=False):
            return None
        self._topics.refresh()
        self._divided = self._topics.snapshot
        # A static leader that restarted must not change the assignment, but it still has to watch the partitions
        # (KIP-814).
        if answer.skip_assignment:
            logger.info("Skipped assignment for returning static leader at generation %d.", answer.generation_id)
            return {}
        divided = self._get(answer.protocol_name).assign(self._topics.partitions_of(all_topics), members)
        logger.info("Finished assignment for group at generation %d: %s", answer.generation_id, divided)
        return {member_id: encode_assignment(Assignment(tuple(assigned))) for member_id, assigned in divided.items()}

    def on_assignment(
        self, name: str | None, assignment: Assignment, metadata: ConsumerGroupMetadata
    ) -> Exception | None:
        """Tell the chosen assignor its assignment. Returns what it raises, so that the rebalance can end first."""
        try:
            self._get(name).on_assignment(assignment, metadata)
        except Exception as error:  # noqa: BLE001 - the user's error, raised again when the rebalance is in order
            return error
        return None

    def add_joined(self, topics: Iterable[str]) -> None:
        """Treat topics as named in the last JoinGroup, because the leader knew that they match the pattern."""
        self.joined_topics = (self.joined_topics or frozenset()) | frozenset(topics)

    def _get(self, name: str | None) -> PartitionAssignor:
        """Return the assignor that the coordinator chose. Raises RuntimeError for one that was not offered."""
        assignor = self._by_name.get(name or "")
        if assignor is None:
            raise RuntimeError(f"Coordinator selected invalid assignment protocol: {name}")
        return assignor
