"""How a consumer comes by its records: positions, fetches, fetched records, the loop that waits, and its metrics.

Made by `Consumer`, used by `poll`, `poll_table` and `position`; owned by the consumer's thread; no lock.

One turn of the loop does, without waiting: the group's duties; positions that are missing or have a new leader; records
that are there already; fetches for the next ones. Only then the network may wait, for an answer or the next duty.

Kafka: ClassicKafkaConsumer.poll, pollForFetches, updateFetchPositions, KafkaConsumerMetrics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from typing import TypeVar

from barnabas.clients.calls.blocking_client import BlockingClient
from barnabas.clients.consumer.consumer_config import ConsumerConfig
from barnabas.clients.consumer.fetch.fetch_buffer import FetchBuffer
from barnabas.clients.consumer.fetch.fetch_metrics import FetchMetrics
from barnabas.clients.consumer.fetch.fetcher import Fetcher
from barnabas.clients.consumer.fetch.position_resetter import PositionResetter
from barnabas.clients.consumer.fetch.position_validator import PositionValidator
from barnabas.clients.consumer.group.member_coordinator import MemberCoordinator
from barnabas.clients.consumer.group.offsets import GroupOffsets
from barnabas.clients.consumer.subscription_state import SubscriptionState
from barnabas.clients.consumer.waiting import ConsumerWaiting
from barnabas.metrics.meter import ROLL_MS, RolledMeter
from barnabas.runtime.clock import Clock


class OffsetCall(Enum):
    """The calls about offsets whose time is measured, by the name of the metric."""

    COMMIT_SYNC = "commit-sync-time-ns-total"
    COMMITTED = "committed-time-ns-total"


class PollMetrics:
    """How one consumer's user polls, and how long its `commit_sync` and `committed` take. Monotonic milliseconds.

    Each poll costs two records of a RolledMeter.
    """

    def __init__(self, clock: Clock, now_ms: int) -> None:
        self._clock = clock
        self._gaps = RolledMeter(now_ms)
        self._idle_ratios = RolledMeter(now_ms)
        self._next_roll_ms = now_ms + ROLL_MS
        self._last_poll_ms: int | None = None
        self._gap_ms = 0
        self._total_ns = dict.fromkeys(OffsetCall, 0)

    def poll_began(self, now_ms: int) -> None:
        """Note the begin of a poll."""
        if now_ms >= self._next_roll_ms:
            self._next_roll_ms = now_ms + ROLL_MS
            self._gaps.roll(now_ms)
            self._idle_ratios.roll(now_ms)
        self._gap_ms = 0 if self._last_poll_ms is None else now_ms - self._last_poll_ms
        self._last_poll_ms = now_ms
        self._gaps.record(self._gap_ms)

    def poll_ended(self, now_ms: int) -> None:
        """Note the end of the poll: its share of the time since the poll before began counts as idle."""
        assert self._last_poll_ms is not None
        poll_ms = now_ms - self._last_poll_ms
        # Two polls within a millisecond have no share of it. (Kafka's average is not a number from then on.)
        if poll_ms + self._gap_ms:
            self._idle_ratios.record(poll_ms / (poll_ms + self._gap_ms))

    @contextmanager
    def measured(self, call: OffsetCall) -> Iterator[None]:
        """Add the time of a call about offsets. As in Kafka, a call that raises counts too."""
        began_ns = self._clock.nanoseconds()
        try:
            yield
        finally:
            self._total_ns[call] += self._clock.nanoseconds() - began_ns

    def measure(self, now_ms: int) -> Iterator[tuple[str, float]]:
        """Yield the name and the value of each metric."""
        yield "time-between-poll-avg", self._gaps.average()
        yield "time-between-poll-max", self._gaps.maximum()
        yield "poll-idle-ratio-avg", self._idle_ratios.average()
        yield "last-poll-seconds-ago", -1 if self._last_poll_ms is None else (now_ms - self._last_poll_ms) // 1_000
        for call, total_ns in self._total_ns.items():
            yield call.value, total_ns


T = TypeVar("T")


class _Positions:
    """What is done about positions that are missing, or that a new leader may not have. No call waits."""

    def __init__(self, client: BlockingClient, subscriptions: SubscriptionState, config: ConsumerConfig) -> None:
        self._client = client
        self._subscriptions = subscriptions
        self._resetter = PositionResetter(
            client,
            subscriptions,
            client.clock,
            retry_backoff_ms=config.retry_backoff_ms,
            isolation_level=config.isolation,
        )
        self._validator = PositionValidator(client, subscriptions, retry_backoff_ms=config.retry_backoff_ms)
        self._raised_version = -1
        """The version of the last metadata update whose topic errors were raised."""

    def forget_connections(self) -> None:
        """Forget the requests in flight, in a forked child: their answers will come to the parent."""
        self._resetter.forget_connections()
        self._validator.forget_connections()

    def update(self, offsets: GroupOffsets | None) -> None:
        """Check positions whose leaders are new, and look up those that are missing.

        A group's committed offset comes first, then `auto_offset_reset`. offsets: those of the group, or None without
        one. Raises ApiError, LogTruncation.
        """
        if not self._validator.is_due and self._subscriptions.has_all_positions():
            return
        self._validator.validate()
        if offsets is not None:
            offsets.refresh_committed(self._client.now_ms())
        self._resetter.reset()

    def raise_topic_errors(self) -> None:
        """Raise the error of a topic, once for each metadata update.

        A caller that goes on polling after the error gets the records of the other topics. Raises ApiError.
        """
        metadata = self._client.metadata
        version = metadata.update_version
        if version == self._raised_version:
            return
        self._raised_version = version
        for topic in metadata.cluster.topic_errors:
            if topic in self._subscriptions.metadata_topics:
                metadata.raise_topic_error(topic)


class Reading:
    """The fetches of one consumer, from the position to the records. Times are monotonic milliseconds.

    `buffer` has the fetched records, `metrics` what was read, `polls` how the user polls.
    """

    def __init__(
        self,
        client: BlockingClient,
        subscriptions: SubscriptionState,
        waiting: ConsumerWaiting,
        config: ConsumerConfig,
    ) -> None:
        self._client = client
        self._subscriptions = subscriptions
        self._waiting = waiting
        self._retry_backoff_ms = config.retry_backoff_ms
        self.metrics = FetchMetrics(config.client_id, subscriptions, client.now_ms)
        self.polls = PollMetrics(client.clock, client.now_ms())
        self.buffer = FetchBuffer(subscriptions, config.deserializers(), self.metrics)
        self._fetcher = Fetcher(client, subscriptions, config, self.buffer, self.metrics)
        self._positions = _Positions(client, subscriptions, config)

    def forget_connections(self) -> None:
        """Forget the requests in flight, in a forked child: their answers will come to the parent."""
        self._fetcher.forget_connections()
        self._positions.forget_connections()

    def close_sessions(self) -> None:
        """Tell the brokers to forget their fetch sessions."""
        self._fetcher.close_sessions()

    def update_positions(self, coordinator: MemberCoordinator | None) -> None:
        """Request the positions that are missing or have a new leader. Raises ApiError, LogTruncation."""
        self._positions.update(coordinator.offsets if coordinator is not None else None)

    def poll(self, coordinator: MemberCoordinator | None, deadline_ms: float, take: Callable[[], list[T]]) -> list[T]:
        """Return what `take` takes from the buffer, as soon as that is something, or nothing at the deadline.

        coordinator: that of the group, or None without one. Raises ApiError, WokenUp, and what `take` and the listener
        raise.
        """
        while True:
            self._waiting.raise_if_woken()
            now_ms = self._client.now_ms()
            wait_ms = deadline_ms - now_ms
            if coordinator is not None:
                coordinator.poll(now_ms)
                wait_ms = min(wait_ms, coordinator.next_poll_ms(now_ms))
                self._positions.raise_topic_errors()
            self.update_positions(coordinator)
            records = take()
            if not records:
                self._fetcher.raise_error()
            self._fetcher.send_fetches()
            if records or self._client.now_ms() >= deadline_ms:
                # The next fetch leaves before the caller works on these records, so that both happen at once.
                self._client.poll(0)
                return records or take()
            # No answer is sure to end the wait: leaders and positions that are missing are looked up again soon.
            if not self._fetcher.is_waiting or not self._subscriptions.has_all_positions():
                wait_ms = min(wait_ms, self._retry_backoff_ms)
            self._client.poll(wait_ms)
