"""A consumer's part in its group: joins when it must, divides partitions as leader, calls the listener.

Owned by the consumer's thread. What it shares with the channel's thread (MemberSession) it touches under the channel's
lock, briefly; it waits for answers in the consumer's own network client, so that fetches of partitions
which stay go on during a rebalance. `poll` never waits: it does what can be done now, and is called again when the
channel has progressed. Callbacks of the user run here without any lock.

Kafka: ConsumerCoordinator, and the user's half of AbstractCoordinator.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from barnabas.clients.blocking_client import BlockingClient
from barnabas.clients.consumer.assignors.partition_assignor import PartitionAssignor, RebalanceProtocol
from barnabas.clients.consumer.group.config import GroupRebalanceConfig
from barnabas.clients.consumer.group.coordinator_answers import is_retriable
from barnabas.clients.consumer.group.coordinator_channel import CoordinatorChannel, SharedNodes
from barnabas.clients.consumer.group.followed_topics import FollowedTopics
from barnabas.clients.consumer.group.listener_calls import ListenerCalls
from barnabas.clients.consumer.group.member_session import MemberSession, Rebalance, RebalancePhase
from barnabas.clients.consumer.group.membership import MembershipState
from barnabas.clients.consumer.group.offsets import GroupOffsets
from barnabas.clients.consumer.group_metadata import ConsumerGroupMetadata
from barnabas.clients.consumer.subscription_state import SubscriptionState
from barnabas.clients.consumer.waiting import ConsumerWaiting
from barnabas.clients.errors import ClientClosed
from barnabas.protocol.consumer_protocol import (
    Assignment,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.rpc.exponential_backoff import ExponentialBackoff

logger = logging.getLogger(__name__)

_EAGER = RebalanceProtocol.EAGER


def common_protocol(assignors: Sequence[PartitionAssignor]) -> RebalanceProtocol:
    """The most advanced protocol that all of them know. Raises ValueError if there is none."""
    common = frozenset.intersection(*(assignor.protocols for assignor in assignors))
    if not common:
        names = ", ".join(assignor.name for assignor in assignors)
        raise ValueError(f"Specified assignors [{names}] do not have commonly supported rebalance protocol")
    return max(common)


class ConsumerCoordinator:
    """See the module's text."""

    def __init__(
        self,
        config: GroupRebalanceConfig,
        assignors: Sequence[PartitionAssignor],
        subscriptions: SubscriptionState,
        client: BlockingClient,
        waiting: ConsumerWaiting,
        *,
        exclude_internal_topics: bool = True,
    ) -> None:
        self._config = config
        self._assignors = {assignor.name: assignor for assignor in assignors}
        self._protocol = common_protocol(assignors) if assignors else None
        self._subscriptions = subscriptions
        self._client = client
        self._waiting = waiting
        self._topics = FollowedTopics(
            client, subscriptions, config.client_rack, exclude_internal=exclude_internal_topics
        )
        self._listener = ListenerCalls(subscriptions)
        backoff = ExponentialBackoff(config.retry_backoff_ms, config.retry_backoff_max_ms, client.random)
        self.channel = CoordinatorChannel(
            config, client.make_network(SharedNodes(client.metadata)), backoff, client.network.wakeup
        )
        self._member = MemberSession(config, self.channel, backoff)
        self.offsets = GroupOffsets(config, self.channel, self._member, subscriptions, client, waiting)
        self._metadata = ConsumerGroupMetadata(config.group_id, group_instance_id=config.group_instance_id)
        self._joined_topics: frozenset[str] | None = None
        self._assigned_by: Mapping[str, Any] | None = None
        """As leader: the partitions that the last assignment divided."""
        self._fresh_version: int | None = None
        """The update of metadata that is waited for before joining or assigning."""
        self._next_join_ms = 0

    @property
    def group_metadata(self) -> ConsumerGroupMetadata:
        """Who this consumer is in its group."""
        return self._metadata

    @property
    def has_assignors(self) -> bool:
        """Whether it can join at all."""
        return bool(self._assignors)

    def forked(self) -> None:
        """See CoordinatorChannel.forked. Raises ClientClosed if the parent is a member."""
        if self.channel.has_started:
            raise ClientClosed("A forked process is no member of its parent's group: make a consumer of its own")
        self.channel.forked(self._client.make_network(SharedNodes(self._client.metadata)))

    # -- polling -----------------------------------------------------------------------------------------------------

    def subscription_changed(self) -> None:
        """Topics, pattern or partitions were chosen."""
        self._topics.follow()

    def poll(self, now_ms: int) -> None:
        """Do what the group asks for now. Raises what the listener, a callback, or the group's membership met."""
        self._topics.refresh()
        self.offsets.run_callbacks()
        if self._subscriptions.is_auto_assigned:
            self.channel.start(self._member)
            with self.channel.lock:
                self._member.polled(now_ms)
            while self._needs_rejoin() and self._advance_rebalance(now_ms):
                pass
        self.offsets.poll(now_ms)

    def next_poll_ms(self, now_ms: int) -> int:
        """Milliseconds until `poll` has something to do that no answer tells of."""
        wait_ms = self.offsets.next_poll_ms(now_ms)
        return min(wait_ms, self._next_join_ms - now_ms) if self._next_join_ms > now_ms else wait_ms

    def _needs_rejoin(self) -> bool:
        with self.channel.lock:
            membership = self._member.membership
            if not membership.rejoin_needed:
                if self._assigned_by is not None and self._assigned_by != self._topics.snapshot:
                    membership.request_rejoin("cached metadata has changed")
                elif self._joined_topics is not None and self._joined_topics != self._subscriptions.topics:
                    membership.request_rejoin("subscription has changed")
            return membership.rejoin_needed or self._member.rebalance is not None

    def _advance_rebalance(self, now_ms: int) -> bool:
        """One step; False if there is something to wait for."""
        with self.channel.lock:
            rebalance = self._member.rebalance
            phase = rebalance.phase if rebalance is not None else None
            needs_prepare = self._member.membership.needs_prepare
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

    # -- before joining ----------------------------------------------------------------------------------------------

    def _prepare(self, now_ms: int) -> bool:
        """Commit, then give away what the protocol demands; False while the commit is not answered."""
        if not self.offsets.has_committed_before_rebalance(now_ms, stop_reading=self._protocol is _EAGER):
            return False
        with self.channel.lock:
            self._member.membership.needs_prepare = False
            is_known = self._member.membership.generation.is_known
        owned = self._subscriptions.partitions
        error = None
        if not is_known:
            # Fenced or timed out meanwhile: what was owned may have other owners by now.
            error = self._listener.lost(owned)
            kept: Iterable[TopicPartition] = ()
        elif self._protocol is RebalanceProtocol.COOPERATIVE:
            kept = [each for each in owned if each.topic in self._subscriptions.topics]
            if len(kept) < len(owned):
                error = self._listener.revoked(owned.keys() - set(kept))
        else:
            error = self._listener.revoked(owned)
            kept = ()
        self._subscriptions.set_partitions(list(kept))
        self._assigned_by = None
        self._subscriptions.group_topics = frozenset()
        if error is not None:
            raise error
        return True

    def _has_matched_pattern(self) -> bool:
        """A pattern is matched against fresh metadata before each join: one new topic, one rebalance."""
        if self._subscriptions.pattern is None:
            return True
        return self._has_fresh_metadata(always=True)

    def _has_fresh_metadata(self, *, always: bool) -> bool:
        """Whether metadata was updated since this was asked first, if it had to be."""
        metadata = self._client.metadata
        if self._fresh_version is None:
            if not always and not metadata.update_requested():
                return True
            self._fresh_version = metadata.request_update() if always else metadata.update_version
        if metadata.update_version <= self._fresh_version:
            return False
        self._fresh_version = None
        self._topics.refresh()
        return True

    def _join(self, now_ms: int) -> None:
        topics = self._joined_topics = self._subscriptions.topics
        owned = tuple(self._subscriptions.partitions)
        with self.channel.lock:
            generation_id = self._member.membership.generation.id
            protocols = [
                (
                    assignor.name,
                    encode_subscription(
                        Subscription(
                            tuple(topics),
                            assignor.user_data(topics),
                            owned,
                            generation_id,
                            self._config.client_rack or None,
                        )
                    ),
                )
                for assignor in self._assignors.values()
            ]
            self._member.begin_join(protocols, now_ms)
        self.channel.wakeup()

    # -- as leader ---------------------------------------------------------------------------------------------------

    def _assign(self, rebalance: Rebalance, now_ms: int) -> bool:
        """Divide the partitions; False while metadata of the members' topics is on its way."""
        answer = rebalance.answer
        assert answer is not None
        members = {
            member.member_id: decode_subscription(member.metadata, member.group_instance_id)
            for member in answer.members
        }
        all_topics = frozenset(topic for subscription in members.values() for topic in subscription.topics)
        if self._subscriptions.group_topics != all_topics:
            self._subscriptions.group_topics = all_topics
            self._topics.follow()
        if not self._has_fresh_metadata(always=False):
            return False
        self._topics.refresh()
        self._assigned_by = self._topics.snapshot
        assignments: dict[str, bytes] = {}
        if answer.skip_assignment:
            logger.info("Skipped assignment for returning static leader at generation %d.", answer.generation_id)
        else:
            assignor = self._assignor(answer.protocol_name)
            partitions = self._topics.partitions_of(all_topics, self._client.metadata.cluster)
            divided = assignor.assign(partitions, members)
            logger.info("Finished assignment for group at generation %d: %s", answer.generation_id, divided)
            assignments = {
                member_id: encode_assignment(Assignment(tuple(assigned))) for member_id, assigned in divided.items()
            }
        with self.channel.lock:
            self._member.sync(rebalance, assignments, now_ms)
        self.channel.wakeup()
        return True

    def _assignor(self, name: str | None) -> PartitionAssignor:
        assignor = self._assignors.get(name or "")
        if assignor is None:
            raise RuntimeError(f"Coordinator selected invalid assignment protocol: {name}")
        return assignor

    # -- after joining -----------------------------------------------------------------------------------------------

    def _give_up(self, rebalance: Rebalance, now_ms: int) -> bool:
        """A rebalance failed: begin another one, at once or soon, or tell the user why not."""
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
            membership.needs_prepare = True
        generation = rebalance.generation
        self._next_join_ms = 0
        if rebalance.answer is None:
            self._assigned_by = None  # only the leader watches the partitions of the group's topics
        assignment = decode_assignment(rebalance.assignment)
        assigned = sorted(assignment.partitions)
        self._metadata = ConsumerGroupMetadata(
            self._config.group_id, generation.id, generation.member_id, self._config.group_instance_id
        )
        if not self._subscriptions.fits(assigned):
            self._request_rejoin("received assignment does not match the current subscription")
            return
        owned = self._subscriptions.partitions.keys()
        added = [each for each in assigned if each not in owned]
        errors = []
        if self._protocol is RebalanceProtocol.COOPERATIVE:
            revoked = owned - set(assigned)
            logger.info("Updating assignment: assigned %s, owned %s, revoked %s", assigned, sorted(owned), revoked)
            if revoked:
                self.offsets.commit_revoked(revoked)
                errors.append(self._listener.revoked(revoked))
                self._request_rejoin("need to revoke partitions and re-join")
        self._obey_leader(assigned)
        errors.append(self._tell_assignor(assignment, generation.protocol_name))
        self.offsets.joined(now_ms)
        self._subscriptions.set_partitions(assigned)
        errors.append(self._listener.assigned(added))
        for error in errors:
            if error is not None:
                raise error

    def _tell_assignor(self, assignment: Assignment, name: str | None) -> Exception | None:
        """What the assignor raises, as the listener does, at the end: the assignment must be taken over first."""
        try:
            self._assignor(name).on_assignment(assignment, self._metadata)
        except Exception as error:  # noqa: BLE001 - the user's; raised again when the rebalance is in order
            return error
        return None

    def _obey_leader(self, assigned: Sequence[TopicPartition]) -> None:
        """The leader may know topics that match the pattern and are new to us."""
        if self._subscriptions.pattern is None:
            return
        new = {each.topic for each in assigned} - (self._joined_topics or frozenset())
        if new:
            self._subscriptions.set_matched_topics(self._subscriptions.topics | new)
            self._joined_topics = (self._joined_topics or frozenset()) | new
            self._topics.follow()

    def _request_rejoin(self, reason: str) -> None:
        with self.channel.lock:
            self._member.membership.request_rejoin(reason)

    def enforce_rebalance(self, reason: str) -> None:
        """Join again in the next poll."""
        self._request_rejoin(reason)

    # -- leaving -----------------------------------------------------------------------------------------------------

    def leave(self, reason: str) -> None:
        """Give everything away and tell the coordinator. Raises what the listener raised."""
        error = None
        owned = self._subscriptions.partitions
        if self._subscriptions.is_auto_assigned and owned:
            with self.channel.lock:
                membership = self._member.membership
                is_lost = not membership.generation.is_known or membership.is_rebalancing
            error = self._listener.lost(owned) if is_lost else self._listener.revoked(owned)
            self._subscriptions.set_partitions(())
        with self.channel.lock:
            self._member.leave(reason, self._client.now_ms())
        self._assigned_by = self._joined_topics = None
        self.offsets.left()
        self.channel.wakeup()
        if error is not None:
            raise error

    def close(self, timeout_ms: int, *, leave_group: bool) -> None:
        """Commit if that is automatic, await what was committed, leave; at most so long for everything."""
        deadline_ms = self._client.now_ms() + timeout_ms
        try:
            if self.offsets.has_to_commit_at_last:
                self._end_rebalance(deadline_ms)
            self.offsets.commit_at_last(deadline_ms)
            if leave_group:
                self.leave("the consumer is being closed")
        finally:
            self.channel.close(max(deadline_ms - self._client.now_ms(), 0))
            self.offsets.run_callbacks()

    def _end_rebalance(self, deadline_ms: int) -> None:
        """Await the end of a rebalance in which this cooperative member has read on: only then it can commit that.

        It has to wait in any case, for LeaveGroup goes over the connection on which JoinGroup is answered. (Kafka's
        consumer commits nothing then, and its successor reads the same again.)
        """
        try:
            self._waiting.until(self._is_rebalance_over, deadline_ms)
        except Exception as error:  # noqa: BLE001 - an assignor's failure, say, must not stop a close
            logger.warning("Leaving in the middle of a rebalance: %s", error)

    def _is_rebalance_over(self) -> bool:
        with self.channel.lock:
            rebalance = self._member.rebalance
            if rebalance is None or rebalance.phase in {RebalancePhase.JOINED, RebalancePhase.FAILED}:
                return True
            is_elected = rebalance.phase is RebalancePhase.ELECTED
        if is_elected:
            self._assign(rebalance, self._client.now_ms())
        return False
