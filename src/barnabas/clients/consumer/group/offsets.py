"""A group's offsets: the user's commits and look-ups, the automatic commits, and the first positions of new partitions.

Owned by the consumer's thread; called by `Consumer`, `ConsumerCoordinator` and `ReconcilingCoordinator`. No lock of its
own. Kafka: ConsumerCoordinator.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import NamedTuple

from barnabas.clients.consumer.group.coordinator_answers import is_about_membership, is_retriable
from barnabas.clients.consumer.group.coordinator_channel import CoordinatorCall
from barnabas.clients.consumer.group.offset_commits import CommitCallback, OffsetCalls, Offsets
from barnabas.clients.consumer.subscription_state import SubscriptionState
from barnabas.clients.errors import RetriableCommitFailed
from barnabas.clients.values import OffsetAndMetadata
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
    """The automatic commits of one consumer: every interval, before each rebalance, and when it closes.

    With `enable_auto_commit` False, every method does nothing.
    """

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


class _Fetch(NamedTuple):
    """An OffsetFetch for the partitions that have no position yet."""

    partitions: frozenset[TopicPartition]
    call: CoordinatorCall


class GroupOffsets:
    """The commits, look-ups and first positions of one consumer. `automatic` makes its automatic commits."""

    def __init__(self, calls: OffsetCalls, subscriptions: SubscriptionState) -> None:
        self.automatic = AutoCommits(calls, subscriptions)
        self._calls = calls
        self._subscriptions = subscriptions
        self._fetch: _Fetch | None = None
        self._next_fetch_ms = 0

    def observe(self, on_commit: Callable[[Offsets], None]) -> None:
        """Have `on_commit` called with all offsets that are committed, inside a later call of the consumer."""
        self._calls.commits.on_commit = on_commit

    # -- the group's rhythm

    def run_callbacks(self) -> None:
        """Run the callbacks of the asynchronous commits that were answered. Raises what a callback raises."""
        self._calls.run_callbacks()

    def next_poll_ms(self, now_ms: int) -> int:
        """Return the milliseconds until a commit or a retry is due, answers of the coordinator aside."""
        wait_ms = self.automatic.next_poll_ms(now_ms)
        return min(wait_ms, self._next_fetch_ms - now_ms) if self._next_fetch_ms > now_ms else wait_ms

    def joined(self, now_ms: int) -> None:
        """Forget a look-up that began before a rebalance: previous owners may have committed since."""
        self._fetch = None
        self.automatic.joined(now_ms)

    def left(self) -> None:
        """Forget the look-up in flight, because the consumer has left its group."""
        self._fetch = None
        self.automatic.left()

    # -- the user's commits

    def commit_sync(self, offsets: Offsets, deadline_ms: int) -> None:
        """Commit, and retry after errors that may pass. Raises CommitFailed, ApiError, ClientTimeout, WokenUp."""
        self.run_callbacks()
        if offsets:
            as_member = self._subscriptions.is_auto_assigned
            commits = self._calls.commits
            self._calls.call(lambda: commits.commit(offsets, deadline_ms, as_member=as_member), deadline_ms)
        else:
            self._calls.await_async(deadline_ms)
        # The asynchronous commits before this one are answered now: callbacks run in the order of the commits.
        self.run_callbacks()

    def commit_async(self, offsets: Offsets, callback: CommitCallback) -> None:
        """Commit once. A later call of the consumer runs `callback` with the outcome."""
        self.run_callbacks()
        if offsets:
            self._calls.commit_async(offsets, callback, as_member=self._subscriptions.is_auto_assigned)
        else:
            callback(offsets, None)

    # -- committed offsets

    def committed(
        self, partitions: Iterable[TopicPartition], deadline_ms: int
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the group's committed offsets. Raises ApiError, ClientTimeout, WokenUp."""
        wanted = list(partitions)
        if not wanted:
            return {}
        found: dict[TopicPartition, OffsetAndMetadata | None] = self._calls.call(
            lambda: self._calls.commits.fetch(wanted, deadline_ms), deadline_ms
        )
        return found

    def refresh_committed(self, now_ms: int) -> None:
        """Set the positions of new partitions to their committed offsets, once these are here.

        Never waits. Raises ApiError for an error that no retry cures.
        """
        wanted = frozenset(self._subscriptions.awaiting_committed())
        if not wanted:
            return
        # The assignment has changed since the request: its answer would miss partitions.
        if self._fetch is None or self._fetch.partitions != wanted:
            if now_ms < self._next_fetch_ms:
                return
            self._fetch = _Fetch(
                wanted, self._calls.begin(lambda: self._calls.commits.fetch(wanted, now_ms + FOREVER_MS))
            )
        call = self._fetch.call
        if not self._calls.is_done(call):
            return
        self._fetch = None
        if call.error is None:
            self._subscriptions.set_committed(call.result)
        # A member that joins again loses these partitions first.
        elif is_retriable(call.error) or is_about_membership(call.error):
            self._next_fetch_ms = now_ms + self._calls.config.retry_backoff_ms
        else:
            raise call.error
