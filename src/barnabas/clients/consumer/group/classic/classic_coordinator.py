"""The consumer's side of its group: joins when needed, revokes and takes over partitions, calls the listener.

Owned by the consumer's thread. MemberSession, which this thread shares with the channel's thread, is used under the
channel's lock, for moments. Waits happen in the consumer's own network client, so that fetches of partitions which stay
go on during a rebalance. `poll` never waits: it does what can be done now, and is called again when the channel has
progressed. The user's callbacks run here, without any lock.

One rebalance takes several polls. Each `_advance_rebalance` is one step:

    no rebalance, needs_prepare    commit, then revoke what the protocol demands       (_prepare)
    no rebalance                   match the pattern, send JoinGroup                   (_join)
    JOINING, SYNCING               wait: the channel's thread has the next word
    ELECTED                        as leader: divide the partitions, send SyncGroup    (_assign)
    JOINED                         take the assignment over, call the listener         (_complete)
    FAILED                         join again at once or soon, or raise the error      (_give_up)

Kafka: ConsumerCoordinator, AbstractCoordinator.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from barnabas.clients.consumer.assignors.partition_assignor import PartitionAssignor, RebalanceProtocol
from barnabas.clients.consumer.group.classic.classic_member_session import MemberSession, Rebalance, RebalancePhase
from barnabas.clients.consumer.group.classic.classic_membership import MembershipState
from barnabas.clients.consumer.group.coordinator_answers import is_retriable
from barnabas.clients.consumer.group.group_client import FollowedTopics, GroupClient
from barnabas.clients.consumer.group.member_coordinator import MemberCoordinator
from barnabas.clients.consumer.subscription_state import SubscriptionState
from barnabas.clients.values import ConsumerGroupMetadata
from barnabas.protocol.consumer_protocol import (
    Assignment,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from barnabas.protocol.messages.classic_groups import JoinGroupResponse
from barnabas.protocol.topic_partition import TopicPartition

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
    """The assignors by name, the preferred first: what JoinGroup offers, and the division of partitions as leader.

    Raises ValueError if they have no rebalance protocol in common.
    """

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


class ConsumerCoordinator(MemberCoordinator):
    """A group of the classic protocol, in which the leader's assignors divide the partitions."""

    def __init__(self, group: GroupClient, assignors: Sequence[PartitionAssignor]) -> None:
        self._member = MemberSession(group.config, group.channel, group.backoff)
        super().__init__(group, self._member.membership, self._member)
        self._assignors = GroupAssignors(assignors, group.topics, group.subscriptions)
        self._joined = ConsumerGroupMetadata(group.config.group_id, group_instance_id=group.config.group_instance_id)
        self._next_join_ms = 0
        self._is_giving_up = False
        """Whether `leave` is calling the listener."""

    @property
    def group_metadata(self) -> ConsumerGroupMetadata:
        """This consumer's identity in the generation that it joined last."""
        return self._joined

    def check_subscription(self, *, by_server_pattern: bool) -> None:
        """Check that there are assignors to join with, and that the pattern is not the coordinator's to match.

        Raises RuntimeError.
        """
        if by_server_pattern:
            raise RuntimeError(
                "Subscribe to RE2/J pattern is not supported when using the CLASSIC protocol defined in config"
                " group_protocol"
            )
        if not self._assignors:
            raise RuntimeError("Must configure at least one partition assigner class name to subscribe to topics")

    # -- polling

    def _advance(self, now_ms: int) -> None:
        with self.channel.lock:
            self._member.polled(now_ms)
        while self._needs_rejoin() and self._advance_rebalance(now_ms):
            pass

    def next_poll_ms(self, now_ms: int) -> int:
        """Return the milliseconds until `poll` has work again, answers of the coordinator aside."""
        wait_ms = self.offsets.next_poll_ms(now_ms)
        return min(wait_ms, self._next_join_ms - now_ms) if self._next_join_ms > now_ms else wait_ms

    def _needs_rejoin(self) -> bool:
        with self.channel.lock:
            membership = self._member.membership
            if not membership.rejoin_needed and (reason := self._assignors.rejoin_reason()) is not None:
                membership.request_rejoin(reason)
            return membership.rejoin_needed or self._member.rebalance is not None

    def _advance_rebalance(self, now_ms: int) -> bool:
        """Take one step of a rebalance. Returns False if there is something to wait for."""
        with self.channel.lock:
            rebalance = self._member.rebalance
            phase = rebalance.phase if rebalance is not None else None
            needs_prepare = self._member.membership.needs_prepare
        # `phase` was read under the lock; the rest runs without it, because it calls the user's code. Only this thread
        # takes a rebalance from ELECTED, JOINED or FAILED further, so the phase cannot be stale.
        if rebalance is None:
            if needs_prepare and not self._prepare(now_ms):
                return False
            if now_ms >= self._next_join_ms and self._has_matched_pattern():
                self._join(now_ms)
            return False
        if phase is RebalancePhase.ELECTED:
            return self._assign(rebalance, now_ms)
        if phase is RebalancePhase.JOINED:
            self._complete(rebalance, now_ms)
            return True
        if phase is RebalancePhase.FAILED:
            return self._give_up(rebalance, now_ms)
        return False

    # -- before joining

    def _prepare(self, now_ms: int) -> bool:
        """Commit, then revoke the partitions that the protocol demands. Returns False until the commit is answered.

        Raises what the listener raises.
        """
        is_eager = self._assignors.protocol is RebalanceProtocol.EAGER
        about_to_go = list(self._subscriptions.partitions) if is_eager else ()
        if not self.offsets.automatic.has_committed_before_rebalance(now_ms, about_to_go):
            return False
        with self.channel.lock:
            self._member.membership.needs_prepare = False
            is_known = self._member.membership.generation.is_known
        owned = self._subscriptions.partitions
        error = None
        if not is_known:
            # The member has been fenced or has timed out: its partitions may have other owners by now.
            error = self._listener.lost(owned)
            kept: Iterable[TopicPartition] = ()
        elif self._assignors.protocol is RebalanceProtocol.COOPERATIVE:
            kept = [each for each in owned if each.topic in self._subscriptions.topics]
            if len(kept) < len(owned):
                error = self._listener.revoked(owned.keys() - set(kept))
        else:
            error = self._listener.revoked(owned)
            kept = ()
        self._subscriptions.set_partitions(list(kept))
        self._assignors.forget_divided()
        self._subscriptions.group_topics = frozenset()
        if error is not None:
            raise error
        return True

    def _has_matched_pattern(self) -> bool:
        """Match a pattern against fresh metadata before each join, so that one new topic causes one rebalance."""
        return self._subscriptions.pattern is None or self._topics.is_fresh(always=True)

    def _join(self, now_ms: int) -> None:
        with self.channel.lock:
            generation_id = self._member.membership.generation.id
        # Assignors are the user's code, so they run without the lock.
        offers = self._assignors.offers(generation_id, self._config.client_rack or None)
        with self.channel.lock:
            # The channel's thread has lost the generation: its partitions have to be revoked first.
            if self._member.membership.needs_prepare:
                return
            self._member.begin_join(offers, now_ms)
        self.channel.wakeup()

    # -- as leader

    def _assign(self, rebalance: Rebalance, now_ms: int) -> bool:
        """Divide the partitions. Returns False while metadata of the members' topics is missing."""
        assert rebalance.answer is not None
        assignments = self._assignors.divide(rebalance.answer)
        if assignments is None:
            return False
        with self.channel.lock:
            self._member.sync(rebalance, assignments, now_ms)
        self.channel.wakeup()
        return True

    # -- after joining

    def _give_up(self, rebalance: Rebalance, now_ms: int) -> bool:
        """End a rebalance that failed. Returns True to begin another one at once.

        Raises the rebalance's error where no retry cures it.
        """
        with self.channel.lock:
            self._member.rebalance = None
            error, at_once = rebalance.error, rebalance.retry_at_once
        assert error is not None
        if at_once:
            return True
        self._next_join_ms = now_ms + self._config.retry_backoff_ms
        if not is_retriable(error):
            raise error
        return False

    def _complete(self, rebalance: Rebalance, now_ms: int) -> None:
        """Take the assignment over, unless it is out of date already. Raises what the listener raised, at the end."""
        with self.channel.lock:
            self._member.rebalance = None
            membership = self._member.membership
            is_current = membership.state is MembershipState.STABLE and membership.generation == rebalance.generation
            if not is_current:
                membership.reset("rebalance failed since the generation/state was modified by heartbeat thread")
                return
            # Set here rather than at the next join: partitions of a generation that is lost before it are revoked too.
            membership.needs_prepare = True
        generation = rebalance.generation
        self._next_join_ms = 0
        # Only the leader watches the partitions of the group's topics, and only the leader has the JoinGroup answer.
        if rebalance.answer is None:
            self._assignors.forget_divided()
        assignment = decode_assignment(rebalance.assignment)
        assigned = sorted(assignment.partitions)
        self._joined = ConsumerGroupMetadata(
            self._config.group_id, generation.id, generation.member_id, self._config.group_instance_id
        )
        # The user changed the subscription while the group was rebalancing.
        if not self._subscriptions.fits(assigned):
            self.enforce_rebalance("received assignment does not match the current subscription")
            return
        owned = self._subscriptions.partitions.keys()
        added = [each for each in assigned if each not in owned]
        errors = []
        if self._assignors.protocol is RebalanceProtocol.COOPERATIVE:
            revoked = owned - set(assigned)
            logger.info("Updating assignment: assigned %s, owned %s, revoked %s", assigned, sorted(owned), revoked)
            if revoked:
                self.offsets.automatic.commit_revoked(revoked)
                errors.append(self._listener.revoked(revoked))
                # In the group's next rebalance, which this member asks for, the revoked partitions go to their new
                # owners (KIP-429).
                self.enforce_rebalance("need to revoke partitions and re-join")
        # Errors of the listener are collected: the assignment has to be in order before one of them is raised.
        self._obey_leader(assigned)
        errors.append(self._assignors.on_assignment(generation.protocol_name, assignment, self._joined))
        self.offsets.joined(now_ms)
        self._subscriptions.set_partitions(assigned)
        errors.append(self._listener.assigned(added))
        for error in errors:
            if error is not None:
                raise error

    def _obey_leader(self, assigned: Sequence[TopicPartition]) -> None:
        """Subscribe to assigned topics that match the pattern and that this member does not know yet."""
        if self._subscriptions.pattern is None:
            return
        new = {each.topic for each in assigned} - (self._assignors.joined_topics or frozenset())
        if new:
            self._subscriptions.set_matched_topics(self._subscriptions.topics | new)
            self._assignors.add_joined(new)
            self._topics.follow()

    def enforce_rebalance(self, reason: str) -> None:
        """Join again in the next poll."""
        with self.channel.lock:
            self._member.membership.request_rejoin(reason)

    # -- leaving

    def leave(self, reason: str) -> None:
        """Revoke all partitions and send LeaveGroup. Raises what the listener raised.

        The listener may unsubscribe or close the consumer too. Its call leaves at once, without another call of the
        listener.
        """
        error = None
        owned = self._subscriptions.partitions
        if self._subscriptions.is_auto_assigned and owned:
            if not self._is_giving_up:
                with self.channel.lock:
                    membership = self._member.membership
                    is_lost = not membership.generation.is_known or membership.is_rebalancing
                self._is_giving_up = True
                try:
                    error = self._listener.lost(owned) if is_lost else self._listener.revoked(owned)
                finally:
                    self._is_giving_up = False
            self._subscriptions.set_partitions(())
        with self.channel.lock:
            self._member.leave(reason, self._group.client.now_ms())
        self._assignors.forget_joined()
        self.offsets.left()
        self.channel.wakeup()
        if error is not None:
            raise error

    def _prepare_last_commit(self, deadline_ms: int) -> None:
        """Await the end of a rebalance during which this cooperative member has read on.

        Only then can the member commit what it has read. The close has to wait in any case, because LeaveGroup goes
        over the connection on which JoinGroup is answered. (Kafka's consumer commits nothing then, and its successor
        reads the same records again.)
        """
        try:
            self._group.waiting.until(self._is_rebalance_over, deadline_ms)
        except Exception as error:  # noqa: BLE001 - a failing assignor, for example, must not stop a close
            logger.warning("Leaving in the middle of a rebalance: %s", error)

    def _is_rebalance_over(self) -> bool:
        with self.channel.lock:
            rebalance = self._member.rebalance
            if rebalance is None or rebalance.phase in {RebalancePhase.JOINED, RebalancePhase.FAILED}:
                return True
            is_elected = rebalance.phase is RebalancePhase.ELECTED
        if is_elected:
            self._assign(rebalance, self._group.client.now_ms())
        return False
