"""A group's offsets: the user's commits and look-ups, and the first positions of new partitions.

Owned by the consumer's thread; called by `Consumer` and `ConsumerCoordinator`. No lock of its own.
Kafka: ConsumerCoordinator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from barnabas.clients.consumer.group.auto_commits import AutoCommits
from barnabas.clients.consumer.group.coordinator_answers import is_about_membership, is_retriable
from barnabas.clients.consumer.group.coordinator_call import CoordinatorCall
from barnabas.clients.consumer.group.offset_calls import OffsetCalls
from barnabas.clients.consumer.group.offset_commits import CommitCallback, Offsets
from barnabas.clients.consumer.subscription_state import SubscriptionState
from barnabas.clients.values import OffsetAndMetadata
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.rpc.metadata_updater import FOREVER_MS


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
