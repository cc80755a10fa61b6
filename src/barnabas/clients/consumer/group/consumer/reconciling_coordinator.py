"""The consumer's side of a group whose coordinator assigns the partitions (KIP-848): joins, reconciles, leaves.

Owned by the consumer's thread. ConsumerMembership and ConsumerMemberSession, which this thread shares with the
channel's thread, are used under the channel's lock, for moments; `member_states` has the table of what may follow what.
`poll` never waits: it does what can be done now, and is called again when the channel has progressed. Commits and the
user's callbacks run here, without any lock. Kafka: ConsumerMembershipManager, AsyncKafkaConsumer,
AbstractMembershipManager.maybeReconcile.

What the member owns is reconciled with what the coordinator has assigned, one assignment at a time. The member owns t-0
and t-1, the coordinator assigns t-1 and t-2:

    poll 1   t-2's topic is resolved; `poll` returns no more records of t-0; an automatic commit is sent
    poll 2   the commit is not answered yet: nothing happens, t-1 is read on
    poll 3   it is: on_partitions_revoked(t-0), then the member owns t-1;
             on_partitions_assigned(t-2), then it owns t-1 and t-2; the heartbeat that says so is due at once

No step may rely on the one before: while a commit travels or a listener works, the channel's thread may learn that the
member was fenced, so each step asks again whether the membership lasts. A newer assignment changes nothing: the member
finishes this one, acknowledges it, and goes on to that one. It takes over only what `ConsumerMembership.take_over` lets
it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple

from barnabas.clients.consumer.group.consumer.consumer_member_session import ConsumerMemberSession
from barnabas.clients.consumer.group.consumer.consumer_membership import (
    AssignedPartition,
    ConsumerMembership,
    MemberAssignment,
)
from barnabas.clients.consumer.group.consumer.heartbeats import TopicSelection
from barnabas.clients.consumer.group.consumer.member_states import MemberState
from barnabas.clients.consumer.group.group_client import GroupClient
from barnabas.clients.consumer.group.member_coordinator import MemberCoordinator
from barnabas.clients.consumer.group.offsets import GroupOffsets
from barnabas.clients.values import ConsumerGroupMetadata
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.protocol.uuid import random_uuid, uuid_to_string

logger = logging.getLogger(__name__)


class _Plan(NamedTuple):
    """One reconciliation: from `owned` to the partitions of `assignment`, as of the membership number `joins`.

    is_first: whether the membership has had no assignment yet. The listener is called then even without partitions.
    """

    joins: int
    is_first: bool
    owned: frozenset[AssignedPartition]
    assignment: MemberAssignment

    @property
    def changes_nothing(self) -> bool:
        """Whether the member owns all of the assignment already, and only has to acknowledge it."""
        return not self.is_first and self.owned == self.assignment.partitions

    @property
    def revoked(self) -> frozenset[AssignedPartition]:
        """The partitions to give up."""
        return self.owned - self.assignment.partitions

    @property
    def kept(self) -> frozenset[AssignedPartition]:
        """The partitions that stay."""
        return self.owned & self.assignment.partitions

    @property
    def added(self) -> frozenset[AssignedPartition]:
        """The partitions to take over."""
        return self.assignment.partitions - self.owned


class MemberReconciliation:
    """The reconciliations of one member, and the names of the topics that it owns."""

    def __init__(self, group: GroupClient, membership: ConsumerMembership, offsets: GroupOffsets) -> None:
        self._channel = group.channel
        self._subscriptions = group.subscriptions
        self._topics = group.topics
        self._listener = group.listener
        self._membership = membership
        self._offsets = offsets
        self._plan: _Plan | None = None
        """The reconciliation that waits for its commit."""
        self._names: dict[bytes, str] = {}
        """The topics of the last assignment. Metadata may lose a topic that is being deleted before its owner does."""

    def advance(self, now_ms: int) -> bool:
        """Reconcile as far as possible now. Returns False if there is something to wait for, or nothing to do.

        Raises what the listener raises, when the partitions are in order.
        """
        plan = self._plan
        if plan is None:
            plan = self._plan = self._make_plan()
            if plan is None:
                return False
        with self._channel.lock:
            is_current = self._membership.is_reconciling(plan.joins)
        if not is_current:
            self.abandon()
            return True
        revoked = self._named(plan.revoked)
        if revoked and not self._offsets.automatic.has_committed_before_rebalance(now_ms, revoked):
            return False
        self._plan = None
        self._carry_out(plan, now_ms)
        return True

    def abandon(self) -> None:
        """Drop the reconciliation that waits for its commit, because the membership has ended."""
        if self._plan is not None:
            self._plan = None
            self._offsets.left()

    def _make_plan(self) -> _Plan | None:
        """Return the next reconciliation.

        None when nothing has to change, and while the member waits for an answer or for new metadata.
        """
        with self._channel.lock:
            membership = self._membership
            if not membership.is_reconciling(membership.joins) or membership.is_report_unanswered:
                return None
            joins, target, current = membership.joins, membership.target, membership.current
        assert target is not None
        owned = frozenset() if current is None else current.partitions
        wanted_ids = {each.topic_id for each in target.partitions}
        known = self._names | self._topics.names_of(wanted_ids)
        self._topics.follow_assigned(wanted_ids | {each.topic_id for each in owned})
        resolved = frozenset(each for each in target.partitions if each.topic_id in known)
        if resolved != target.partitions:
            # The coordinator knows a new topic before the brokers that serve metadata do.
            self._topics.request_update()
            is_acknowledged = current is None or current.number == target.number
            if resolved == owned and is_acknowledged:
                return None
        self._names = {topic_id: known[topic_id] for topic_id in {each.topic_id for each in resolved | owned}}
        plan = _Plan(joins, current is None, owned, MemberAssignment(target.number, resolved))
        logger.info(
            "Reconciling assignment %d: owned %s, added %s, revoked %s",
            target.number,
            sorted(self._named(owned)),
            sorted(self._named(plan.added)),
            sorted(self._named(plan.revoked)),
        )
        return plan

    def _carry_out(self, plan: _Plan, now_ms: int) -> None:
        """Revoke and assign, and tell the membership. Raises what the listener raised."""
        errors = []
        if plan.revoked:
            errors.append(self._listener.revoked(self._named(plan.revoked)))
        with self._channel.lock:
            # The listener may have ended the subscription, and the channel's thread may have learnt that the member was
            # fenced. A fenced member loses only the partitions that it has kept.
            is_same_membership = self._membership.joins == plan.joins
            is_current = self._membership.is_reconciling(plan.joins)
            if is_current:
                plan = plan._replace(assignment=self._membership.take_over(plan.assignment))
        if is_same_membership and plan.revoked:
            # Of a topic that was deleted and created again, a new partition has the name of an old one. It is not among
            # those kept, so that it does not inherit the position.
            self._subscriptions.set_partitions(self._named(plan.kept))
        if is_current:
            if not plan.changes_nothing:
                self._offsets.joined(now_ms)
                self._subscriptions.set_partitions(self._named(plan.assignment.partitions))
                errors.append(self._listener.assigned(self._named(plan.added)))
            with self._channel.lock:
                if self._membership.is_reconciling(plan.joins):
                    self._membership.reconciled(plan.assignment)
            self._channel.wakeup()
        for error in errors:
            if error is not None:
                raise error

    def _named(self, partitions: frozenset[AssignedPartition]) -> list[TopicPartition]:
        return [TopicPartition(self._names[each.topic_id], each.partition) for each in partitions]


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
