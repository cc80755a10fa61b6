"""The calls that commit a group's offsets and read them back: made, sent, awaited, and their answers handled.

OffsetCommits makes the calls on the user's thread and handles the answers on the channel's thread, both under the
channel's lock. OffsetCalls belongs to the user's thread, which GroupOffsets and AutoCommits share: it takes the lock
for moments, waits without it, and runs the callbacks of asynchronous commits, in the order of the answers, without it.
Kafka: ConsumerCoordinator.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

from barnabas.clients.calls.blocking_client import BlockingClient
from barnabas.clients.consumer.group import group_requests
from barnabas.clients.consumer.group.committing_member import CommittingMember, Generation
from barnabas.clients.consumer.group.config import GroupRebalanceConfig
from barnabas.clients.consumer.group.coordinator_answers import Reaction, is_retriable, reaction_to
from barnabas.clients.consumer.group.coordinator_channel import ChannelUser, CoordinatorCall, CoordinatorChannel
from barnabas.clients.consumer.waiting import ConsumerWaiting
from barnabas.clients.errors import ClientTimeout, RetriableCommitFailed
from barnabas.clients.values import OffsetAndMetadata
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode, error_of
from barnabas.protocol.messages.offsets import OffsetCommitResponse, OffsetFetchResponse
from barnabas.protocol.topic_partition import TopicPartition

logger = logging.getLogger(__name__)

Offsets: TypeAlias = Mapping[TopicPartition, OffsetAndMetadata]
CommitCallback: TypeAlias = Callable[[Offsets, Exception | None], None]
"""Called with the outcome of an asynchronous commit, on the consumer's thread."""


class CompletedCommit(NamedTuple):
    """An asynchronous commit that was answered. `error` is None if it succeeded."""

    callback: CommitCallback
    offsets: Offsets
    error: Exception | None


class OffsetCommits:
    """The maker of the channel's calls about offsets. `membership` says whether it may commit as a member."""

    def __init__(self, config: GroupRebalanceConfig, channel: CoordinatorChannel, membership: CommittingMember) -> None:
        self.config = config
        self._channel = channel
        self._membership = membership
        self._completed: deque[CompletedCommit] = deque()
        self._async_in_flight = 0
        self.on_commit: Callable[[Offsets], None] | None = None
        """The consumer's interceptors, or None. `take_completed` returns their calls too, in the commits' order."""

    def commit(self, offsets: Offsets, deadline_ms: int, *, as_member: bool, at_last: bool = False) -> CoordinatorCall:
        """Send a commit, as a member of the group's generation or as a consumer that chose its partitions itself.

        With `at_last` there is no later occasion, so the commit is sent even during a rebalance. The coordinator
        accepts the commit until all members have joined.
        """
        return self._send(offsets, deadline_ms, as_member, None, at_last=at_last)

    def commit_async(self, offsets: Offsets, deadline_ms: int, callback: CommitCallback, *, as_member: bool) -> None:
        """Send a commit whose outcome `take_completed` returns."""
        self._async_in_flight += 1

        def done(call: CoordinatorCall) -> None:
            self._async_in_flight -= 1
            error = call.error
            if error is not None and is_retriable(error):
                retriable = RetriableCommitFailed(f"Offset commit failed with a retriable exception: {error}")
                retriable.__cause__ = error
                error = retriable
            self._completed.append(CompletedCommit(callback, offsets, error))

        self._send(offsets, deadline_ms, as_member, done)

    def has_async_in_flight(self) -> bool:
        """Return whether asynchronous commits are not answered yet."""
        return self._async_in_flight > 0

    def take_completed(self) -> CompletedCommit | None:
        """Return the next asynchronous commit that was answered, or None, and forget it."""
        return self._completed.popleft() if self._completed else None

    def fetch(self, partitions: Iterable[TopicPartition], deadline_ms: int) -> CoordinatorCall:
        """Request committed offsets. The call's result maps each partition to its offset, or to None."""
        wanted = list(partitions)
        call = CoordinatorCall(
            group_requests.offset_fetch(self.config.group_id, wanted, self._membership.reading_generation),
            lambda body: self._handle_fetch(wanted, body),
            deadline_ms,
        )
        self._channel.send(call)
        return call

    def _send(
        self,
        offsets: Offsets,
        deadline_ms: int,
        as_member: bool,
        on_done: Callable[[CoordinatorCall], None] | None,
        *,
        at_last: bool = False,
    ) -> CoordinatorCall:
        generation = self._membership.generation if as_member else None
        call = CoordinatorCall(
            group_requests.offset_commit(self.config, generation, offsets),
            lambda body: self._handle_commit(generation, body),
            deadline_ms,
            on_done=on_done if self.on_commit is None else self._observed(offsets, self.on_commit, on_done),
        )
        refusal = self._membership.commit_refusal(at_last=at_last) if as_member else None
        if refusal is not None:
            logger.info("Failing OffsetCommit request since the consumer is not part of an active group")
            call.finish(error=refusal)
        else:
            self._channel.send(call)
        return call

    def _observed(
        self,
        offsets: Offsets,
        on_commit: Callable[[Offsets], None],
        on_done: Callable[[CoordinatorCall], None] | None,
    ) -> Callable[[CoordinatorCall], None]:
        """Return a function that queues a call of the interceptors, if the commit succeeded, before `on_done`."""

        def done(call: CoordinatorCall) -> None:
            if call.error is None:
                self._completed.append(CompletedCommit(lambda committed, _error: on_commit(committed), offsets, None))
            if on_done is not None:
                on_done(call)

        return done

    # -- answers: the channel's thread

    def _handle_commit(self, sent: Generation | None, body: OffsetCommitResponse) -> None:
        """Read the answer to OffsetCommit. Raises ApiError, CommitFailed when the member was removed."""
        # The answer has one error for each partition. The first one decides for the whole commit, except that
        # unauthorized topics are collected, so that one error names them all.
        unauthorized = set()
        for topic in body.topics:
            for partition in topic.partitions:
                error = error_of(partition.error_code)
                if error is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                    unauthorized.add(topic.name)
                elif error is not ErrorCode.NONE:
                    logger.warning(
                        "Offset commit failed on partition %s-%d: %s", topic.name, partition.partition_index, error.name
                    )
                    self._raise_commit_error(error, sent)
        if unauthorized:
            names = ", ".join(sorted(unauthorized))
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"Not authorized to access topics: [{names}]")

    def _raise_commit_error(self, error: ErrorCode, sent: Generation | None) -> None:
        """React to the error of one partition. Raises ApiError, CommitFailed when the member was removed."""
        if reaction_to(ApiKey.OFFSET_COMMIT, error) is Reaction.REDISCOVER:
            self._channel.forget_coordinator(f"error response {error.name}")
        elif (failure := self._membership.commit_failure(error, sent)) is not None:
            raise failure
        raise ApiError(error, f"{error.message} Group: {self.config.group_id}")

    def _handle_fetch(
        self, wanted: list[TopicPartition], body: OffsetFetchResponse
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the committed offsets in an answer to OffsetFetch. Raises ApiError for the first error in it."""
        # v8 and later answer for several groups; earlier versions have one answer in the body itself (KIP-709).
        groups = body.groups
        error = error_of(groups[0].error_code if groups else body.error_code)
        self._raise_fetch_error(error, f"Group: {self.config.group_id}")
        found: dict[TopicPartition, OffsetAndMetadata | None] = dict.fromkeys(wanted)
        for topic in groups[0].topics if groups else body.topics:
            for partition in topic.partitions:
                topic_partition = TopicPartition(topic.name, partition.partition_index)
                self._raise_fetch_error(error_of(partition.error_code), f"Partition: {topic_partition}")
                # -1 stands for "no offset committed".
                if partition.committed_offset >= 0:
                    found[topic_partition] = OffsetAndMetadata(
                        partition.committed_offset, partition.metadata or "", partition.committed_leader_epoch
                    )
        return found

    def _raise_fetch_error(self, error: ErrorCode, whose: str) -> None:
        """React to an error of OffsetFetch. Raises ApiError."""
        if error is ErrorCode.NONE:
            return
        if reaction_to(ApiKey.OFFSET_FETCH, error) is Reaction.REDISCOVER:
            self._channel.forget_coordinator(f"error response {error.name}")
        raise ApiError(error, f"{error.message} {whose}")


def log_failed_commit(offsets: Offsets, error: Exception | None) -> None:
    """Log a failed commit. This is the callback where the user passes none."""
    if error is not None:
        logger.error("Offset commit with offsets %s failed: %s", offsets, error)


def checked_offsets(offsets: Offsets) -> Offsets:
    """Return a copy of offsets to commit. Raises ValueError for a negative one."""
    for topic_partition, offset in offsets.items():
        if offset.offset < 0:
            raise ValueError(f"Invalid offset: {offset.offset} of {topic_partition}")
    return dict(offsets)


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
            # Not a sleep: `wakeup` ends the backoff too.
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
