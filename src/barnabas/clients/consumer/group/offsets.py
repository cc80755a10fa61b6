"""A group's offsets as the consumer's thread sees them: committed by itself or by the user, read for new partitions.

Owned by the consumer's thread. Calls go through OffsetCommits, under the channel's lock, held briefly; the callbacks of
asynchronous commits run in `run_callbacks`, without it. Kafka: the half of ConsumerCoordinator that is about offsets.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

from barnabas.clients.blocking_client import BlockingClient
from barnabas.clients.consumer.group.config import GroupRebalanceConfig
from barnabas.clients.consumer.group.coordinator_answers import is_retriable
from barnabas.clients.consumer.group.coordinator_channel import CoordinatorCall, CoordinatorChannel
from barnabas.clients.consumer.group.member_session import MemberSession
from barnabas.clients.consumer.group.offset_commits import CommitCallback, OffsetCommits, Offsets
from barnabas.clients.consumer.subscription_state import SubscriptionState
from barnabas.clients.consumer.waiting import ConsumerWaiting
from barnabas.clients.errors import ClientTimeout, RetriableCommitFailed
from barnabas.clients.offset_and_metadata import OffsetAndMetadata
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.rpc.metadata_updater import FOREVER_MS

logger = logging.getLogger(__name__)


def _may_pass(error: Exception) -> bool:
    """Whether an automatic commit that others wait for is tried again: not for a topic that has been deleted.

    (Kafka's consumer does, for up to `max_poll_interval_ms`.) The offsets of the other topics are committed.
    """
    is_unknown = isinstance(error, ApiError) and error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return is_retriable(error) and not is_unknown


class GroupOffsets:
    """See the module's text. Automatic commits: every interval, before rebalances, and at the end."""

    def __init__(
        self,
        config: GroupRebalanceConfig,
        channel: CoordinatorChannel,
        member: MemberSession,
        subscriptions: SubscriptionState,
        client: BlockingClient,
        waiting: ConsumerWaiting,
    ) -> None:
        self._config = config
        self._channel = channel
        self._member = member
        self._subscriptions = subscriptions
        self._client = client
        self._waiting = waiting
        self._commits = OffsetCommits(config, channel, member.membership)
        self._next_auto_commit_ms = client.now_ms() + config.auto_commit_interval_ms
        self._rebalance_commit: CoordinatorCall | None = None
        self._rebalance_until_ms: int | None = None
        """When joining must go on, whatever became of the commit before it."""
        self._next_rebalance_commit_ms = 0
        self._fetch_call: tuple[frozenset[TopicPartition], CoordinatorCall] | None = None
        self._next_fetch_ms = 0

    # -- polling -----------------------------------------------------------------------------------------------------

    def poll(self, now_ms: int) -> None:
        """Commit if that is automatic and its time has come."""
        if self._config.enable_auto_commit and now_ms >= self._next_auto_commit_ms:
            self._next_auto_commit_ms = now_ms + self._config.auto_commit_interval_ms
            self._auto_commit_async()

    def next_poll_ms(self, now_ms: int) -> int:
        """Milliseconds until something is due that no answer tells of."""
        event_ms = self._next_auto_commit_ms if self._config.enable_auto_commit else now_ms + FOREVER_MS
        for due_ms in (self._next_fetch_ms, self._next_rebalance_commit_ms, self._rebalance_until_ms):
            if due_ms is not None and now_ms < due_ms < event_ms:
                event_ms = due_ms
        return max(event_ms - now_ms, 0)

    def run_callbacks(self) -> None:
        """Tell the user what became of asynchronous commits."""
        while True:
            with self._channel.lock:
                commit = self._commits.take_completed()
            if commit is None:
                return
            commit.callback(commit.offsets, commit.error)  # may raise: the others are told next time

    # -- rebalances --------------------------------------------------------------------------------------------------

    def has_committed_before_rebalance(self, now_ms: int, *, stop_reading: bool) -> bool:
        """Whether the automatic commit before a rebalance is done with, in one way or another, if there has to be one.

        stop_reading: nothing more is returned of any partition, for all will be given away.
        """
        if not self._config.enable_auto_commit:
            return True
        if self._rebalance_until_ms is None:
            self._rebalance_until_ms = now_ms + self._config.max_poll_interval_ms
        if self._rebalance_commit is None:
            if now_ms < self._next_rebalance_commit_ms:
                return False
            consumed = self._subscriptions.all_consumed()
            if consumed:
                if stop_reading:
                    self._subscriptions.mark_revoked()
                with self._channel.lock:
                    self._rebalance_commit = self._commits.commit(consumed, self._rebalance_until_ms, as_member=True)
                self._channel.wakeup()
        if not self._is_rebalance_commit_over(now_ms):
            return False
        self._rebalance_commit = self._rebalance_until_ms = None
        return True

    def _is_rebalance_commit_over(self, now_ms: int) -> bool:
        call = self._rebalance_commit
        if call is None:
            return True
        with self._channel.lock:
            is_done, error = call.done, call.error
        if self._rebalance_until_ms is not None and now_ms >= self._rebalance_until_ms:
            logger.error("Asynchronous auto-commit of offsets failed: joinPrepare timeout. Will continue to join group")
            return True
        if is_done and error is not None and _may_pass(error):
            self._rebalance_commit = None
            self._next_rebalance_commit_ms = now_ms + self._config.retry_backoff_ms
            return False
        if is_done and error is not None:
            logger.error("Asynchronous auto-commit of offsets failed: %s. Will continue to join group.", error)
        return is_done

    def commit_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """What was returned since the commit before joining must not be read again by the next owner.

        Nothing waits: the coordinator handles this before the JoinGroup that follows on the same connection. (Kafka's
        consumer leaves it out.)
        """
        if self._config.enable_auto_commit:
            consumed = self._subscriptions.all_consumed()
            if offsets := {each: consumed[each] for each in revoked if each in consumed}:
                self._send_async(offsets, self._auto_committed)

    def joined(self, now_ms: int) -> None:
        """A rebalance is over: the next automatic commit is an interval away.

        What the group was asked for before it may be out of date: others may have read on and committed since.
        """
        self._fetch_call = None
        self._next_auto_commit_ms = now_ms + self._config.auto_commit_interval_ms

    def left(self) -> None:
        """No rebalance goes on any more."""
        self._rebalance_commit = self._rebalance_until_ms = self._fetch_call = None

    @property
    def has_to_commit_at_last(self) -> bool:
        """Whether a member that leaves now would have something to commit by itself."""
        return (
            self._config.enable_auto_commit
            and self._subscriptions.is_auto_assigned
            and bool(self._subscriptions.all_consumed())
        )

    def commit_at_last(self, deadline_ms: int) -> None:
        """Before leaving: commit if that is automatic, and await what was committed."""
        consumed = self._subscriptions.all_consumed()
        as_member = self._subscriptions.is_auto_assigned
        try:
            if self._config.enable_auto_commit and consumed:
                self._call(
                    lambda: self._commits.commit(consumed, deadline_ms, as_member=as_member, at_last=True),
                    deadline_ms,
                    _may_pass,
                )
        except Exception as error:  # noqa: BLE001 - as other failures of automatic commits, it must not stop a close
            logger.warning("Synchronous auto-commit of offsets failed: %s", error)
        self._waiting.until(lambda: not self._has_async_in_flight(), deadline_ms)

    # -- the user's commits ------------------------------------------------------------------------------------------

    def commit_sync(self, offsets: Offsets, deadline_ms: int) -> None:
        """Commit, and try again while that makes sense. Raises CommitFailed, ApiError, ClientTimeout, WokenUp."""
        self.run_callbacks()
        if not offsets:
            self._waiting.until(lambda: not self._has_async_in_flight(), deadline_ms)
            self.run_callbacks()
            return
        as_member = self._subscriptions.is_auto_assigned
        self._call(lambda: self._commits.commit(offsets, deadline_ms, as_member=as_member), deadline_ms)
        self.run_callbacks()  # of those before this one, so that their order is that of the commits

    def commit_async(self, offsets: Offsets, callback: CommitCallback) -> None:
        """Commit once; `callback` hears of the outcome in one of the next calls."""
        self.run_callbacks()
        if not offsets:
            callback(offsets, None)
            return
        self._send_async(offsets, callback)

    def _send_async(self, offsets: Offsets, callback: CommitCallback) -> None:
        self._channel.start(self._member)
        deadline_ms = self._client.now_ms() + self._config.request_timeout_ms
        with self._channel.lock:
            self._commits.commit_async(offsets, deadline_ms, callback, as_member=self._subscriptions.is_auto_assigned)
        self._channel.wakeup()

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
            self._channel.start(self._member)
            with self._channel.lock:
                self._fetch_call = wanted, self._commits.fetch(wanted, now_ms + FOREVER_MS)
            self._channel.wakeup()
        call = self._fetch_call[1]
        with self._channel.lock:
            if not call.done:
                return
        self._fetch_call = None
        if call.error is None:
            self._subscriptions.set_committed(call.result)
        elif is_retriable(call.error):
            self._next_fetch_ms = now_ms + self._config.retry_backoff_ms
        else:
            raise call.error

    def auto_commit_now(self) -> None:
        """Partitions are chosen anew: commit where we are in the old ones."""
        if self._config.enable_auto_commit:
            self._auto_commit_async()

    def _auto_commit_async(self) -> None:
        if consumed := self._subscriptions.all_consumed():
            self.commit_async(consumed, self._auto_committed)

    def _auto_committed(self, offsets: Offsets, error: Exception | None) -> None:
        if error is None:
            logger.debug("Completed asynchronous auto-commit of offsets %s", offsets)
        elif isinstance(error, RetriableCommitFailed):
            self._next_auto_commit_ms = self._client.now_ms() + self._config.retry_backoff_ms
        else:
            logger.warning("Asynchronous auto-commit of offsets %s failed: %s", offsets, error)

    def _has_async_in_flight(self) -> bool:
        with self._channel.lock:
            return self._commits.has_async_in_flight()

    def _call(
        self,
        begin: Callable[[], CoordinatorCall],
        deadline_ms: int,
        may_retry: Callable[[Exception], bool] = is_retriable,
    ) -> Any:
        """Make a call until it succeeds; its result. Raises ClientTimeout, WokenUp, what is not to be tried again."""
        self._channel.start(self._member)
        backoff_ms = self._config.retry_backoff_ms
        while True:
            with self._channel.lock:
                call = begin()
            self._channel.wakeup()
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
        with self._channel.lock:
            return call.done
