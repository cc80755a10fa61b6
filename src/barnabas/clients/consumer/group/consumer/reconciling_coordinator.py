"""The consumer's side of a group whose coordinator assigns the partitions (KIP-848): joins, reconciles, leaves.

Owned by the consumer's thread. ConsumerMembership and ConsumerMemberSession, which this thread shares with the
channel's thread, are used under the channel's lock, for moments; `member_states` has the table of what may follow what.
`poll` never waits: it does what can be done now, and is called again when the channel has progressed. The user's
callbacks run here, without any lock. Kafka: ConsumerMembershipManager, AsyncKafkaConsumer.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from barnabas.clients.consumer.group.consumer.consumer_member_session import ConsumerMemberSession
from barnabas.clients.consumer.group.consumer.consumer_membership import ConsumerMembership
from barnabas.clients.consumer.group.consumer.heartbeat_fields import TopicSelection
from barnabas.clients.consumer.group.consumer.member_states import MemberState
from barnabas.clients.consumer.group.consumer.reconciliation import MemberReconciliation
from barnabas.clients.consumer.group.group_client import GroupClient
from barnabas.clients.consumer.group.member_coordinator import MemberCoordinator
from barnabas.clients.values import ConsumerGroupMetadata
from barnabas.protocol.uuid import random_uuid, uuid_to_string

logger = logging.getLogger(__name__)


def random_member_id() -> str:
    """Return an id that no other member has: not even one of a process that was forked from this one."""
    return uuid_to_string(random_uuid())


class ReconcilingCoordinator(MemberCoordinator):
    """A group of the consumer protocol, in which the coordinator divides the partitions."""

    def __init__(self, group: GroupClient, make_member_id: Callable[[], str] = random_member_id) -> None:
        self._membership = ConsumerMembership(make_member_id, self._state_changed)
        self._member = ConsumerMemberSession(group.config, group.channel, group.backoff, self._membership)
        super().__init__(group, self._membership, self._member)
        self._reconciliation = MemberReconciliation(group, self._membership, self.offsets)

    def _state_changed(self, before: MemberState, after: MemberState) -> None:
        """Measure the rebalances, which are reconciliations here. Called under the channel's lock."""
        now_ms = self.channel.now_ms()
        if after is MemberState.RECONCILING:
            self.channel.metrics.rebalance_began(now_ms)
        elif before is MemberState.RECONCILING and after in (MemberState.STABLE, MemberState.ACKNOWLEDGING):
            self.channel.metrics.rebalance_completed(now_ms)

    @property
    def group_metadata(self) -> ConsumerGroupMetadata:
        """This consumer's identity in its group, with the member's epoch as generation."""
        with self.channel.lock:
            generation = self._membership.generation
        return ConsumerGroupMetadata(
            self._config.group_id, generation.id, generation.member_id, self._config.group_instance_id
        )

    def check_subscription(self, *, by_server_pattern: bool) -> None:
        """Do nothing: the coordinator knows names and patterns."""

    def enforce_rebalance(self, reason: str) -> None:
        """Log that the coordinator decides when to rebalance. Kafka does the same."""
        logger.warning("Operation not supported in new consumer group protocol: enforce_rebalance (%s)", reason)

    # -- polling

    def _advance(self, now_ms: int) -> None:
        topics = self._subscribed_topics()
        with self.channel.lock:
            is_changed = self._member.polled(topics, now_ms)
        if is_changed:
            self.channel.wakeup()
        # The listener, which a step may call, may end the subscription.
        while self._subscriptions.is_auto_assigned and self._take_step(now_ms):
            pass

    def _subscribed_topics(self) -> TopicSelection:
        subscriptions = self._subscriptions
        pattern = subscriptions.server_pattern
        return TopicSelection(subscriptions.topics, None if pattern is None else pattern.pattern)

    def _take_step(self, now_ms: int) -> bool:
        """Take the member one state further. Returns False if there is something to wait for, or nothing to do."""
        with self.channel.lock:
            state = self._membership.state
        # The state was read under the lock; the rest runs without it, because it calls the user's code.
        if state.has_lost_partitions:
            return self._release_lost()
        if state is MemberState.UNSUBSCRIBED:
            return self._join()
        if state is MemberState.RECONCILING:
            return self._reconciliation.advance(now_ms)
        self._reconciliation.abandon()
        return False

    def _join(self) -> bool:
        # A pattern is matched before the first heartbeat, so that the group does not rebalance for a member that reads
        # nothing yet.
        if self._subscriptions.pattern is not None and not self._topics.is_fresh(always=True):
            return False
        topics = self._subscribed_topics()
        with self.channel.lock:
            self._member.subscribe(topics)
        self.channel.wakeup()
        return False

    def _release_lost(self) -> bool:
        """Give up partitions that may have other owners already. Raises what the listener raised."""
        self._reconciliation.abandon()
        error = self._listener.lost(self._subscriptions.partitions)
        if self._subscriptions.is_auto_assigned:
            self._subscriptions.set_partitions(())
        self.offsets.left()
        with self.channel.lock:
            # The user may have unsubscribed in the listener.
            if self._membership.state.has_lost_partitions:
                self._membership.released()
            self._member.raise_failure()
        self.channel.wakeup()
        if error is not None:
            raise error
        return False

    # -- leaving

    def leave(self, reason: str) -> None:
        """Revoke all partitions and tell the coordinator. Raises what the listener raised.

        The listener, which is called here, may unsubscribe or close the consumer too. Its call then tells the
        coordinator at once, because the consumer has no connection to the coordinator once `close` has returned.
        """
        self._reconciliation.abandon()
        with self.channel.lock:
            joins = self._membership.joins
            is_within_listener = self._membership.state is MemberState.PREPARE_LEAVING
            is_lost = not self._membership.generation.is_known
            if not is_within_listener:
                self._membership.unsubscribe()
        error = None
        try:
            owned = self._subscriptions.partitions
            if not is_within_listener and self._subscriptions.is_auto_assigned and owned:
                error = self._listener.lost(owned) if is_lost else self._listener.revoked(owned)
        finally:
            self._depart(reason, joins)
        if error is not None:
            raise error

    def _depart(self, reason: str, joins: int) -> None:
        """Give the partitions up and tell the coordinator, unless the listener has left this membership already."""
        with self.channel.lock:
            if self._membership.joins != joins:
                return
            self._member.leave(reason, self._group.client.now_ms())
        if self._subscriptions.is_auto_assigned:
            self._subscriptions.set_partitions(())
        self.offsets.left()
        self.channel.wakeup()

    def _prepare_last_commit(self, deadline_ms: int) -> None:
        """Do nothing: a member may commit at any time."""

    @property
    def _leaves_for_a_while(self) -> bool:
        """Whether the member is a static one: only that heartbeat tells its coordinator that it may come back."""
        return self._config.group_instance_id is not None
