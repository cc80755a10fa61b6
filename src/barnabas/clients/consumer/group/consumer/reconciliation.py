"""The reconciliation of what a member owns with what its coordinator has assigned, one assignment at a time (KIP-848).

Owned by the consumer's thread; called by `ReconcilingCoordinator` in each poll of the user, and it never waits. The
membership, which the channel's thread shares, is used under the channel's lock, for moments; commits and the user's
listener run without it. Kafka: AbstractMembershipManager.maybeReconcile.

The member owns t-0 and t-1, the coordinator assigns t-1 and t-2:

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
from typing import NamedTuple

from barnabas.clients.consumer.group.consumer.consumer_membership import (
    AssignedPartition,
    ConsumerMembership,
    MemberAssignment,
)
from barnabas.clients.consumer.group.group_client import GroupClient
from barnabas.clients.consumer.group.offsets import GroupOffsets
from barnabas.protocol.topic_partition import TopicPartition

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
            # Of a topic that was deleted and made anew, a new partition has the name of an old one. It is not among
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
