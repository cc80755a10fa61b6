"""Commits a consumer's positions automatically: every interval, before each rebalance, and when it closes.

Owned by the consumer's thread; called by `ConsumerCoordinator` and `GroupOffsets`. No lock of its own.
Kafka: ConsumerCoordinator.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from barnabas.clients.consumer.group.coordinator_answers import is_retriable
from barnabas.clients.consumer.group.coordinator_call import CoordinatorCall
from barnabas.clients.consumer.group.offset_calls import OffsetCalls
from barnabas.clients.consumer.group.offset_commits import Offsets
from barnabas.clients.consumer.subscription_state import SubscriptionState
from barnabas.clients.errors import RetriableCommitFailed
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.rpc.metadata_updater import FOREVER_MS

logger = logging.getLogger(__name__)


def _may_retry(error: Exception) -> bool:
    """Return whether to repeat an automatic commit that a rebalance or a close waits for.

    A commit for a deleted topic is not repeated: the offsets of the other topics are committed already. (Kafka's
    consumer repeats it for up to `max_poll_interval_ms`.)
    """
    is_unknown = isinstance(error, ApiError) and error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return is_retriable(error) and not is_unknown


class AutoCommits:
    """The automatic commits of one consumer. With `enable_auto_commit` False, every method does nothing."""

    def __init__(self, calls: OffsetCalls, subscriptions: SubscriptionState) -> None:
        self._calls = calls
        self._subscriptions = subscriptions
        self._is_enabled = calls.config.enable_auto_commit
        self._next_ms = calls.now_ms() + calls.config.auto_commit_interval_ms
        self._rebalance_commit: CoordinatorCall | None = None
        self._rebalance_until_ms: int | None = None
        """The time at which the member joins without the commit that a rebalance waits for."""
        self._next_rebalance_commit_ms = 0

    # -- every interval

    def poll(self, now_ms: int) -> None:
        """Commit if the interval is over."""
        if self._is_enabled and now_ms >= self._next_ms:
            self._next_ms = now_ms + self._calls.config.auto_commit_interval_ms
            self._commit_async()

    def next_poll_ms(self, now_ms: int) -> int:
        """Return the milliseconds until the next automatic commit, or until the next step of one before a rebalance."""
        event_ms = self._next_ms if self._is_enabled else now_ms + FOREVER_MS
        for due_ms in (self._next_rebalance_commit_ms, self._rebalance_until_ms):
            if due_ms is not None and now_ms < due_ms < event_ms:
                event_ms = due_ms
        return max(event_ms - now_ms, 0)

    def commit_now(self) -> None:
        """Commit the positions of the old partitions, before the user chooses others."""
        if self._is_enabled:
            self._commit_async()

    def _commit_async(self) -> None:
        if consumed := self._subscriptions.all_consumed():
            self._calls.run_callbacks()
            self._send(consumed)

    def _send(self, offsets: Offsets) -> None:
        self._calls.commit_async(offsets, self._committed, as_member=self._subscriptions.is_auto_assigned)

    def _committed(self, offsets: Offsets, error: Exception | None) -> None:
        if error is None:
            logger.debug("Completed asynchronous auto-commit of offsets %s", offsets)
        elif isinstance(error, RetriableCommitFailed):
            self._next_ms = self._calls.now_ms() + self._calls.config.retry_backoff_ms
        else:
            logger.warning("Asynchronous auto-commit of offsets %s failed: %s", offsets, error)

    # -- rebalances

    def has_committed_before_rebalance(self, now_ms: int, about_to_go: Iterable[TopicPartition]) -> bool:
        """Commit before a rebalance. Returns False while the commit is not answered: the caller then calls again.

        From here on `poll` returns no more records of the partitions `about_to_go`, which the rebalance revokes.
        """
        if not self._is_enabled:
            return True
        if self._rebalance_until_ms is None:
            self._rebalance_until_ms = now_ms + self._calls.config.max_poll_interval_ms
        if self._rebalance_commit is None:
            if now_ms < self._next_rebalance_commit_ms:
                return False
            # Positions, not the offsets of an earlier commit: automatic commits count records that `poll` has returned
            # as processed when the user polls again.
            consumed = self._subscriptions.all_consumed()
            if consumed:
                # From here on no record may be returned: it would be in no commit, and the next owner would read it
                # again.
                self._subscriptions.mark_revoked(about_to_go)
                until_ms = self._rebalance_until_ms
                self._rebalance_commit = self._calls.begin(
                    lambda: self._calls.commits.commit(consumed, until_ms, as_member=True)
                )
        if not self._is_rebalance_commit_over(now_ms):
            return False
        self._rebalance_commit = self._rebalance_until_ms = None
        return True

    def _is_rebalance_commit_over(self, now_ms: int) -> bool:
        call = self._rebalance_commit
        if call is None:
            return True
        if self._rebalance_until_ms is not None and now_ms >= self._rebalance_until_ms:
            logger.error("Asynchronous auto-commit of offsets failed: joinPrepare timeout. Will continue to join group")
            return True
        if not self._calls.is_done(call):
            return False
        if call.error is not None and _may_retry(call.error):
            self._rebalance_commit = None
            self._next_rebalance_commit_ms = now_ms + self._calls.config.retry_backoff_ms
            return False
        if call.error is not None:
            logger.error("Asynchronous auto-commit of offsets failed: %s. Will continue to join group.", call.error)
        return True

    def commit_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """Commit the positions of revoked partitions, so that their next owner does not read the same records again.

        Nothing waits: the coordinator handles this commit before the JoinGroup that follows on the same connection.
        (Kafka's consumer leaves this commit out.)
        """
        if self._is_enabled:
            consumed = self._subscriptions.all_consumed()
            if offsets := {each: consumed[each] for each in revoked if each in consumed}:
                self._send(offsets)

    def joined(self, now_ms: int) -> None:
        """Schedule the next automatic commit one interval from now, at the end of a rebalance."""
        self._next_ms = now_ms + self._calls.config.auto_commit_interval_ms

    def left(self) -> None:
        """Forget the commit before a rebalance, because the consumer has left its group."""
        self._rebalance_commit = self._rebalance_until_ms = None

    # -- closing

    @property
    def is_due_at_close(self) -> bool:
        """Whether a member that leaves now has positions to commit."""
        return self._is_enabled and self._subscriptions.is_auto_assigned and bool(self._subscriptions.all_consumed())

    def commit_at_close(self, deadline_ms: int) -> None:
        """Commit for the last time, and await the answer. No failure of this commit is raised."""
        consumed = self._subscriptions.all_consumed()
        as_member = self._subscriptions.is_auto_assigned
        commits = self._calls.commits
        try:
            if self._is_enabled and consumed:
                self._calls.call(
                    lambda: commits.commit(consumed, deadline_ms, as_member=as_member, at_last=True),
                    deadline_ms,
                    _may_retry,
                )
        except Exception as error:  # noqa: BLE001 - no failure of an automatic commit may stop a close
            logger.warning("Synchronous auto-commit of offsets failed: %s", error)

    def await_commits(self, deadline_ms: int) -> None:
        """Await the answers to all commits that are under way. Raises WokenUp."""
        self._calls.await_async(deadline_ms)
