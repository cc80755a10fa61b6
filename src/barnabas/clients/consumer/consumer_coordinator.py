"""A consumer's part in its group: joins when it must, divides partitions as leader, calls the listener, commits.

Owned by the consumer's thread. What it shares with the channel's thread (GroupMember, OffsetCommits) it touches under
the channel's lock, briefly; it waits for answers in the consumer's own network client, so that fetches of partitions
which stay go on during a rebalance. `poll` never waits: it does what can be done now, and is called again when the
channel has progressed. Callbacks of the user run here without any lock.

Kafka: ConsumerCoordinator, and the user's half of AbstractCoordinator.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from barnabas.clients.blocking_client import BlockingClient
from barnabas.clients.consumer.assignors.partition_assignor import PartitionAssignor, RebalanceProtocol
from barnabas.clients.consumer.coordinator_answers import is_retriable
from barnabas.clients.consumer.coordinator_channel import CoordinatorCall, CoordinatorChannel, SharedNodes
from barnabas.clients.consumer.group_config import GroupConfig
from barnabas.clients.consumer.group_member import GroupMember, Rebalance, RebalancePhase
from barnabas.clients.consumer.group_membership import MemberState
from barnabas.clients.consumer.group_metadata import ConsumerGroupMetadata
from barnabas.clients.consumer.group_topics import GroupTopics
from barnabas.clients.consumer.listener_calls import ListenerCalls
from barnabas.clients.consumer.offset_commits import CommitCallback, OffsetCommits, Offsets
from barnabas.clients.consumer.subscription_state import SubscriptionState
from barnabas.clients.consumer.waiting import ConsumerWaiting
from barnabas.clients.errors import ClientTimeout
from barnabas.clients.offset_and_metadata import OffsetAndMetadata
from barnabas.protocol.consumer_protocol import (
    Assignment,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.rpc.exponential_backoff import ExponentialBackoff
from barnabas.rpc.metadata_updater import FOREVER_MS

_log = logging.getLogger(__name__)


def common_protocol(assignors: Sequence[PartitionAssignor]) -> RebalanceProtocol:
    """The most advanced protocol that all of them know. Raises ValueError if there is none."""
    common = frozenset.intersection(*(assignor.protocols for assignor in assignors))
    if not common:
        names = ", ".join(assignor.name for assignor in assignors)
        raise ValueError(f"Specified assignors [{names}] do not have commonly supported rebalance protocol")
    return max(common)


def _may_pass(error: Exception) -> bool:
    """Whether an automatic commit that others wait for is tried again: not for a topic that has been deleted.

    (Kafka's consumer does, for up to `max_poll_interval_ms`.) The offsets of the other topics are committed.
    """
    is_unknown = isinstance(error, ApiError) and error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return is_retriable(error) and not is_unknown


class ConsumerCoordinator:
    """See the module's text."""

    def __init__(
        self,
        config: GroupConfig,
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
        self._topics = GroupTopics(client, subscriptions, config.client_rack, exclude_internal=exclude_internal_topics)
        self._listener = ListenerCalls(subscriptions)
        backoff = ExponentialBackoff(config.retry_backoff_ms, config.retry_backoff_max_ms, client.random)
        self.channel = CoordinatorChannel(
            config, client.make_network(SharedNodes(client.metadata)), backoff, client.network.wakeup
        )
        self._member = GroupMember(config, self.channel, backoff)
        self._commits = OffsetCommits(config, self.channel, self._member.membership)
        self._metadata = ConsumerGroupMetadata(config.group_id, group_instance_id=config.group_instance_id)
        self._joined_topics: frozenset[str] | None = None
        self._assigned_by: Mapping[str, Any] | None = None
        """As leader: the partitions that the last assignment divided."""
        self._fresh_version: int | None = None
        """The update of metadata that is waited for before joining or assigning."""
        self._next_join_ms = 0
        self._prepare_until_ms: int | None = None
        self._prepare_commit: CoordinatorCall | None = None
        self._next_auto_commit_ms = client.now_ms() + config.auto_commit_interval_ms
        self._fetch_call: tuple[frozenset[TopicPartition], CoordinatorCall] | None = None
        self._next_fetch_ms = 0

    @property
    def group_metadata(self) -> ConsumerGroupMetadata:
        """Who this consumer is in its group."""
        return self._metadata

    @property
    def has_assignors(self) -> bool:
        """Whether it can join at all."""
        return bool(self._assignors)

    # -- polling -----------------------------------------------------------------------------------------------------

    def subscription_changed(self) -> None:
        """Topics, pattern or partitions were chosen."""
        self._topics.follow()

    def poll(self, now_ms: int) -> None:
        """Do what the group asks for now. Raises what the listener, a callback, or the group's membership met."""
        self._topics.refresh()
        self.run_commit_callbacks()
        if self._subscriptions.is_auto_assigned:
            self.channel.start(self._member)
            with self.channel.lock:
                self._member.polled(now_ms)
            while self._needs_rejoin() and self._advance_rebalance(now_ms):
                pass
        if self._config.enable_auto_commit and now_ms >= self._next_auto_commit_ms:
            self._next_auto_commit_ms = now_ms + self._config.auto_commit_interval_ms
            self._auto_commit_async()

    def next_poll_ms(self, now_ms: int) -> int:
        """Milliseconds until `poll` has something to do that no answer tells of."""
        event_ms = now_ms + FOREVER_MS
        if self._config.enable_auto_commit:
            event_ms = self._next_auto_commit_ms
        for due_ms in (self._next_join_ms, self._next_fetch_ms, self._prepare_until_ms):
            if due_ms is not None and now_ms < due_ms < event_ms:
                event_ms = due_ms
        return max(event_ms - now_ms, 0)

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
        if self._config.enable_auto_commit and not self._has_committed(now_ms):
            return False
        self._prepare_until_ms = self._prepare_commit = None
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

    def _has_committed(self, now_ms: int) -> bool:
        """Whether the automatic commit before a rebalance is done with, in one way or another."""
        if self._prepare_until_ms is None:
            self._prepare_until_ms = now_ms + self._config.max_poll_interval_ms
        if self._prepare_commit is None:
            if now_ms < self._next_join_ms:
                return False
            consumed = self._subscriptions.all_consumed()
            if not consumed:
                return True
            if self._protocol is RebalanceProtocol.EAGER:
                self._subscriptions.mark_revoked()
            with self.channel.lock:
                self._prepare_commit = self._commits.commit(consumed, self._prepare_until_ms, as_member=True)
            self.channel.wakeup()
        with self.channel.lock:
            is_done, error = self._prepare_commit.done, self._prepare_commit.error
        if now_ms >= self._prepare_until_ms:
            _log.error("Asynchronous auto-commit of offsets failed: joinPrepare timeout. Will continue to join group")
            return True
        if is_done and error is not None and _may_pass(error):
            self._prepare_commit = None
            self._next_join_ms = now_ms + self._config.retry_backoff_ms
            return False
        if is_done and error is not None:
            _log.error("Asynchronous auto-commit of offsets failed: %s. Will continue to join group.", error)
        return is_done

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
            _log.info("Skipped assignment for returning static leader at generation %d.", answer.generation_id)
        else:
            assignor = self._assignor(answer.protocol_name)
            partitions = self._topics.partitions_of(all_topics, self._client.metadata.cluster)
            divided = assignor.assign(partitions, members)
            _log.info("Finished assignment for group at generation %d: %s", answer.generation_id, divided)
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
            is_current = membership.state is MemberState.STABLE and membership.generation == rebalance.generation
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
            _log.info("Updating assignment: assigned %s, owned %s, revoked %s", assigned, sorted(owned), revoked)
            if revoked:
                self._commit_revoked(revoked)
                errors.append(self._listener.revoked(revoked))
                self._request_rejoin("need to revoke partitions and re-join")
        self._obey_leader(assigned)
        self._assignor(generation.protocol_name).on_assignment(assignment, self._metadata)
        self._next_auto_commit_ms = now_ms + self._config.auto_commit_interval_ms
        self._subscriptions.set_partitions(assigned)
        errors.append(self._listener.assigned(added))
        for error in errors:
            if error is not None:
                raise error

    def _commit_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """What was returned since the commit before joining must not be read again by the next owner.

        Nothing waits: the coordinator handles this before the JoinGroup that follows on the same connection. (Kafka's
        consumer leaves it out.)
        """
        if self._config.enable_auto_commit:
            consumed = self._subscriptions.all_consumed()
            if offsets := {each: consumed[each] for each in revoked if each in consumed}:
                self.commit_async(offsets, self._auto_committed)

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
        self._prepare_commit = self._prepare_until_ms = None
        self.channel.wakeup()
        if error is not None:
            raise error

    def close(self, timeout_ms: int, *, leave_group: bool) -> None:
        """Commit if that is automatic, await what was committed, leave; at most so long for everything."""
        deadline_ms = self._client.now_ms() + timeout_ms
        try:
            if self._config.enable_auto_commit:
                self._auto_commit_at_last(deadline_ms)
            self._waiting.until(lambda: not self._has_async_in_flight(), deadline_ms)
            if leave_group:
                self.leave("the consumer is being closed")
        finally:
            self.channel.close(max(deadline_ms - self._client.now_ms(), 0))
            self.run_commit_callbacks()

    def _auto_commit_at_last(self, deadline_ms: int) -> None:
        consumed = self._subscriptions.all_consumed()
        as_member = self._subscriptions.is_auto_assigned
        try:
            if consumed:
                self._call(
                    lambda: self._commits.commit(consumed, deadline_ms, as_member=as_member), deadline_ms, _may_pass
                )
        except Exception as error:  # noqa: BLE001 - as other failures of automatic commits, it must not stop a close
            _log.warning("Synchronous auto-commit of offsets failed: %s", error)

    # -- offsets -----------------------------------------------------------------------------------------------------

    def commit_sync(self, offsets: Offsets, deadline_ms: int) -> None:
        """Commit, and try again while that makes sense. Raises CommitFailed, ApiError, ClientTimeout, WokenUp."""
        self.run_commit_callbacks()
        if not offsets:
            self._waiting.until(lambda: not self._has_async_in_flight(), deadline_ms)
            self.run_commit_callbacks()
            return
        as_member = self._subscriptions.is_auto_assigned
        self._call(lambda: self._commits.commit(offsets, deadline_ms, as_member=as_member), deadline_ms)
        self.run_commit_callbacks()  # of those before this one, so that their order is that of the commits

    def commit_async(self, offsets: Offsets, callback: CommitCallback) -> None:
        """Commit once; `callback` hears of the outcome in one of the next calls."""
        self.run_commit_callbacks()
        if not offsets:
            callback(offsets, None)
            return
        self.channel.start(self._member)
        deadline_ms = self._client.now_ms() + self._config.request_timeout_ms
        with self.channel.lock:
            self._commits.commit_async(offsets, deadline_ms, callback, as_member=self._subscriptions.is_auto_assigned)
        self.channel.wakeup()

    def committed(
        self, partitions: Iterable[TopicPartition], deadline_ms: int
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """The group's committed offsets. Raises ApiError, ClientTimeout, WokenUp."""
        wanted = list(partitions)
        if not wanted:
            return {}
        found: dict[TopicPartition, OffsetAndMetadata | None] = self._call(
            lambda: self._commits.fetch(wanted, deadline_ms), deadline_ms
        )
        return found

    def refresh_committed(self, now_ms: int) -> None:
        """Have the positions of new partitions set to their committed offsets, sooner or later. Raises ApiError."""
        wanted = frozenset(self._subscriptions.awaiting_committed())
        if not wanted:
            return
        if self._fetch_call is None or self._fetch_call[0] != wanted:
            if now_ms < self._next_fetch_ms:
                return
            self.channel.start(self._member)
            with self.channel.lock:
                self._fetch_call = wanted, self._commits.fetch(wanted, now_ms + FOREVER_MS)
            self.channel.wakeup()
        call = self._fetch_call[1]
        with self.channel.lock:
            if not call.done:
                return
        self._fetch_call = None
        if call.error is None:
            self._subscriptions.set_committed(call.result)
        elif is_retriable(call.error):
            self._next_fetch_ms = now_ms + self._config.retry_backoff_ms
        else:
            raise call.error

    def run_commit_callbacks(self) -> None:
        """Tell the user what became of asynchronous commits."""
        with self.channel.lock:
            completed = self._commits.take_completed()
        for commit in completed:
            commit.callback(commit.offsets, commit.error)

    def auto_commit_now(self) -> None:
        """Partitions are chosen anew: commit where we are in the old ones."""
        if self._config.enable_auto_commit:
            self._auto_commit_async()

    def _auto_commit_async(self) -> None:
        if consumed := self._subscriptions.all_consumed():
            self.commit_async(consumed, self._auto_committed)

    def _auto_committed(self, offsets: Offsets, error: Exception | None) -> None:
        if error is None:
            _log.debug("Completed asynchronous auto-commit of offsets %s", offsets)
        elif error.__cause__ is not None:  # a RetriableCommitFailed
            self._next_auto_commit_ms = self._client.now_ms() + self._config.retry_backoff_ms
        else:
            _log.warning("Asynchronous auto-commit of offsets %s failed: %s", offsets, error)

    def _has_async_in_flight(self) -> bool:
        with self.channel.lock:
            return self._commits.has_async_in_flight()

    def _call(
        self,
        begin: Callable[[], CoordinatorCall],
        deadline_ms: int,
        may_retry: Callable[[Exception], bool] = is_retriable,
    ) -> Any:
        """Make a call until it succeeds; its result. Raises ClientTimeout, WokenUp, what is not to be tried again."""
        self.channel.start(self._member)
        backoff_ms = self._config.retry_backoff_ms
        while True:
            with self.channel.lock:
                call = begin()
            self.channel.wakeup()
            if not self._waiting.until(lambda call=call: self._is_done(call), deadline_ms):  # type: ignore[misc]
                raise ClientTimeout(f"Group coordinator of {self._config.group_id} did not answer in time")
            if call.error is None:
                return call.result
            if not may_retry(call.error) or isinstance(call.error, ClientTimeout):
                raise call.error
            until_ms = self._client.now_ms() + backoff_ms
            self._waiting.until(lambda: False, min(until_ms, deadline_ms))
            if self._client.now_ms() >= deadline_ms:
                raise ClientTimeout(f"Offsets of group {self._config.group_id}: {call.error}") from call.error

    def _is_done(self, call: CoordinatorCall) -> bool:
        with self.channel.lock:
            return call.done
