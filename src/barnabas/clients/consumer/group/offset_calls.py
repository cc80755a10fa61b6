"""Sends the calls about offsets, and waits for them on the consumer's thread.

Owned by the consumer's thread and shared by `GroupOffsets` and `AutoCommits`. The calls go through OffsetCommits under
the channel's lock, held for moments; the callbacks of asynchronous commits run in `run_callbacks`, without it.
Kafka: ConsumerCoordinator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from barnabas.clients.calls.blocking_client import BlockingClient
from barnabas.clients.consumer.group.coordinator_answers import is_retriable
from barnabas.clients.consumer.group.coordinator_call import CoordinatorCall
from barnabas.clients.consumer.group.coordinator_channel import ChannelUser, CoordinatorChannel
from barnabas.clients.consumer.group.offset_commits import CommitCallback, OffsetCommits, Offsets
from barnabas.clients.consumer.waiting import ConsumerWaiting
from barnabas.clients.errors import ClientTimeout


class OffsetCalls:
    """The calls of one consumer. `commits` makes them, and each method here takes the lock which that needs."""

    def __init__(
        self,
        commits: OffsetCommits,
        channel: CoordinatorChannel,
        member: ChannelUser,
        client: BlockingClient,
        waiting: ConsumerWaiting,
    ) -> None:
        self.config = commits.config
        self.commits = commits
        self.waiting = waiting
        self._channel = channel
        self._member = member
        self._client = client

    def now_ms(self) -> int:
        """Return the monotonic time in milliseconds."""
        return self._client.now_ms()

    def begin(self, make: Callable[[], CoordinatorCall]) -> CoordinatorCall:
        """Queue the call that `make` makes, and wake the channel's thread."""
        self._channel.start(self._member)
        with self._channel.lock:
            call = make()
        self._channel.wakeup()
        return call

    def commit_async(self, offsets: Offsets, callback: CommitCallback, *, as_member: bool) -> None:
        """Commit once; a later `run_callbacks` calls `callback` with the outcome."""
        self._channel.start(self._member)
        deadline_ms = self.now_ms() + self.config.request_timeout_ms
        with self._channel.lock:
            self.commits.commit_async(offsets, deadline_ms, callback, as_member=as_member)
        self._channel.wakeup()

    def run_callbacks(self) -> None:
        """Run the callbacks of the asynchronous commits that were answered. Raises what a callback raises."""
        while True:
            with self._channel.lock:
                commit = self.commits.take_completed()
            if commit is None:
                return
            # The callback runs without the lock. If it raises, the next call runs the callbacks that are left.
            commit.callback(commit.offsets, commit.error)

    def await_async(self, deadline_ms: int) -> None:
        """Wait until all asynchronous commits are answered. Raises WokenUp."""
        self.waiting.until(lambda: not self._has_async_in_flight(), deadline_ms)

    def call(
        self,
        make: Callable[[], CoordinatorCall],
        deadline_ms: int,
        may_retry: Callable[[Exception], bool] = is_retriable,
    ) -> Any:
        """Make a call, repeat it until it succeeds, and return its result.

        Raises ClientTimeout when the deadline passes, WokenUp, and any error that `may_retry` does not accept.
        """
        group_id = self.config.group_id
        while True:
            call = self.begin(make)
            if not self.waiting.until(lambda call=call: self.is_done(call), deadline_ms):  # type: ignore[misc]
                text = f"Group coordinator of {group_id} did not answer in time"
                raise self._client.metadata.timeout(self._channel.with_obstacle(text))
            if call.error is None:
                return call.result
            if not may_retry(call.error) or isinstance(call.error, ClientTimeout):
                raise call.error
            until_ms = self.now_ms() + self.config.retry_backoff_ms
            # A `wakeup` must be able to end the backoff too, so this is no sleep.
            self.waiting.until(lambda: False, min(until_ms, deadline_ms))
            if self.now_ms() >= deadline_ms:
                raise ClientTimeout(f"Offsets of group {group_id}: {call.error}") from call.error

    def is_done(self, call: CoordinatorCall) -> bool:
        """Return whether the call has a result or an error, which may then be read without the lock."""
        with self._channel.lock:
            return call.done

    def _has_async_in_flight(self) -> bool:
        with self._channel.lock:
            return self.commits.has_async_in_flight()
