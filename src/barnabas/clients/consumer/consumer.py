"""Reads records: of topics whose partitions a group divides among its members, or of partitions the user chooses.

Owned by the thread that uses it, which also does the network, inside its calls; only `wakeup` may be called from
another thread. A consumer with a `group_id` has a second thread, which talks to the group's coordinator over
connections of its own (`coordinator_channel` says what the two threads share, and under which lock). A forked child
gets connections of its own and goes on at the same positions, but it is no member of its parent's group.

    with Consumer("localhost:9092", group_id="counters", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["flights"])
        for record in consumer.poll(1000):
            print(record.partition, record.offset, record.value)

Kafka: KafkaConsumer, ClassicKafkaConsumer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar, Unpack

from barnabas.clients.calls.blocking_client import BlockingClient
from barnabas.clients.calls.offset_lookup import EARLIEST, LATEST, OffsetAndTimestamp, lookup_offsets, partitions_of
from barnabas.clients.client_metrics import MeasuredNetwork, MetricName, counted, network_metrics
from barnabas.clients.consumer.assignors.built_in import make_assignors
from barnabas.clients.consumer.consumer_config import ConsumerConfig
from barnabas.clients.consumer.consumer_record import ConsumerRecord
from barnabas.clients.consumer.consumer_settings import ConsumerSettings
from barnabas.clients.consumer.fetch.table_taker import TableTaker
from barnabas.clients.consumer.group.coordinator_metrics import GROUP as COORDINATOR_GROUP
from barnabas.clients.consumer.group.group_client import GroupClient
from barnabas.clients.consumer.group.make_coordinator import make_coordinator
from barnabas.clients.consumer.group.member_coordinator import MemberCoordinator
from barnabas.clients.consumer.group.offset_commits import (
    CommitCallback,
    Offsets,
    checked_offsets,
    log_failed_commit,
)
from barnabas.clients.consumer.offset_reset import (
    RESET_TO_EARLIEST,
    RESET_TO_LATEST,
    OffsetReset,
    parse_offset_reset,
)
from barnabas.clients.consumer.reading import OffsetCall, Reading
from barnabas.clients.consumer.subscription_state import (
    RebalanceListener,
    SubscriptionMode,
    SubscriptionPattern,
    SubscriptionState,
)
from barnabas.clients.consumer.waiting import ConsumerWaiting
from barnabas.clients.metadata.cluster import PartitionInfo
from barnabas.clients.settings.notation import chosen_config
from barnabas.clients.telemetry.client_telemetry import LAST_PUSH_MS
from barnabas.clients.values import ConsumerGroupMetadata, OffsetAndMetadata
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.rpc.connection_states import ExponentialBackoff
from barnabas.runtime.clock import Clock

if TYPE_CHECKING:
    from barnabas.clients.arrow.record_tables import Rows, Table

T = TypeVar("T")

DEFAULT_CLOSE_TIMEOUT_MS = 30_000


class Consumer:
    """A consumer with the settings of ConsumerConfig, given by name or as a `config` (both: TypeError is raised).

    Every call that waits does so for `default_api_timeout_ms` at most, unless it takes a timeout of its own, and raises
    WokenUp when another thread calls `wakeup`.
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        config: ConsumerConfig | None = None,
        *,
        clock: Clock | None = None,
        random: Random | None = None,
        client: BlockingClient | None = None,
        **settings: Unpack[ConsumerSettings],
    ) -> None:
        config = chosen_config(ConsumerConfig, config, settings)
        self.config = config
        group_config = config.group_config()
        assignors = make_assignors(config.partition_assignment_strategy) if group_config is not None else []
        self._client = client if client is not None else _make_client(bootstrap_servers, config, clock, random)
        self._subscriptions = SubscriptionState(
            parse_offset_reset(config.auto_offset_reset), has_group=group_config is not None
        )
        self._waiting = ConsumerWaiting(self._client)
        self._reading = Reading(self._client, self._subscriptions, self._waiting, config)
        self._start_telemetry()
        self._interceptors = config.interceptors()
        self._coordinator: MemberCoordinator | None = None
        if group_config is not None:
            group = GroupClient(
                group_config,
                self._subscriptions,
                self._client,
                self._waiting,
                exclude_internal_topics=config.exclude_internal_topics,
            )
            self._coordinator = make_coordinator(group, assignors)
            if self._interceptors:
                self._coordinator.offsets.observe(self._interceptors.on_commit)
        self._closed = False

    # -- what to read

    def subscribe(
        self,
        topics: Iterable[str] = (),
        *,
        pattern: str | re.Pattern[str] | SubscriptionPattern | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Read the partitions that the group assigns, of these topics or of all whose whole names match the pattern.

        A SubscriptionPattern is matched by the coordinator (`group_protocol="consumer"`), any other pattern here. This
        replaces an earlier subscription; without topics it ends it. `poll` joins the group. Raises ValueError without a
        `group_id`, RuntimeError after `assign`, TypeError for a string instead of a list.
        """
        self._check_usable()
        coordinator = self._group()
        if isinstance(topics, str):
            raise TypeError("topics must be a list of names, not one name")
        names = list(dict.fromkeys(topics))
        if pattern is None and not names:
            self.unsubscribe()
            return
        coordinator.check_subscription(by_server_pattern=isinstance(pattern, SubscriptionPattern))
        if pattern is not None:
            if names:
                raise ValueError("give topics or a pattern, not both")
            self._subscribe_pattern(pattern, listener)
        else:
            if any(not name.strip() for name in names):
                raise ValueError("Topic collection to subscribe to cannot contain null or empty topic")
            self._subscriptions.subscribe(names, listener)
        coordinator.subscription_changed()

    def _subscribe_pattern(
        self, pattern: str | re.Pattern[str] | SubscriptionPattern, listener: RebalanceListener | None
    ) -> None:
        """Read the topics that match the pattern: here, or at the coordinator for a SubscriptionPattern.

        Raises ValueError for an empty pattern, re.error for text that is no pattern, RuntimeError after another choice.
        """
        chosen = pattern if isinstance(pattern, SubscriptionPattern) else re.compile(pattern)
        if chosen.pattern == "":
            raise ValueError("Topic pattern to subscribe to cannot be empty")
        if isinstance(chosen, SubscriptionPattern):
            self._subscriptions.subscribe_server_pattern(chosen, listener)
        else:
            self._subscriptions.subscribe_pattern(chosen, listener)

    def subscription(self) -> set[str]:
        """Return the topics that the consumer subscribes to by name, or that match its pattern.

        Only the coordinator knows the topics that match a SubscriptionPattern: the set is empty then.
        """
        return set(self._subscriptions.topics)

    def unsubscribe(self) -> None:
        """Leave the group and forget all partitions. Raises what the listener raises."""
        self._check_usable()
        try:
            if self._coordinator is not None:
                # The listener may raise while partitions are given up. The subscription ends all the same.
                self._coordinator.leave("the consumer unsubscribed from all topics")
        finally:
            self._subscriptions.unsubscribe()
            self._reading.buffer.drop()
            if self._coordinator is not None:
                self._coordinator.subscription_changed()

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions from now on; positions of those that stay are kept.

        With a group, new partitions begin at its committed offsets, else where `auto_offset_reset` says. Raises
        RuntimeError while subscribed.
        """
        self._check_usable()
        wanted = list(dict.fromkeys(partitions))
        if not wanted:
            self.unsubscribe()
            return
        if self._coordinator is not None:
            # The positions of partitions that are dropped here would be lost.
            self._coordinator.offsets.automatic.commit_now()
        self._subscriptions.assign(wanted)
        self._reading.buffer.drop()
        self._follow_topics()

    def assignment(self) -> set[TopicPartition]:
        """Return the partitions that the group or the user assigned."""
        return set(self._subscriptions.partitions)

    def enforce_rebalance(self, reason: str = "") -> None:
        """Join the group again with the next `poll`, as if the subscription had changed.

        With `group_protocol="consumer"` nothing happens: the coordinator decides when to rebalance. Raises ValueError
        without a `group_id`.
        """
        self._check_usable()
        self._group().enforce_rebalance(reason or "rebalance enforced by user")

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return this consumer's identity in its group. Raises ValueError without a `group_id`."""
        return self._group().group_metadata

    # -- positions

    def seek(self, topic_partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Go on at `offset`. Raises LookupError for a partition that is not assigned, ValueError below 0."""
        place = offset if isinstance(offset, OffsetAndMetadata) else OffsetAndMetadata(offset)
        if place.offset < 0:
            raise ValueError(f"seek offset must not be a negative number, not {place.offset}")
        self._subscriptions.state(topic_partition).seek(place.offset, place.leader_epoch)
        self._reading.buffer.drop(topic_partition)

    def seek_to_beginning(self, partitions: Iterable[TopicPartition] = ()) -> None:
        """Go on at the first offset that is still there, of these partitions or of all. Raises LookupError."""
        self._seek_to(partitions, RESET_TO_EARLIEST)

    def seek_to_end(self, partitions: Iterable[TopicPartition] = ()) -> None:
        """Go on at the end of these partitions or of all, as of the next `poll` or `position`. Raises LookupError."""
        self._seek_to(partitions, RESET_TO_LATEST)

    def _seek_to(self, partitions: Iterable[TopicPartition], reset: OffsetReset) -> None:
        for topic_partition in list(partitions) or list(self._subscriptions.partitions):
            self._subscriptions.state(topic_partition).request_reset(reset)
            self._reading.buffer.drop(topic_partition)

    def position(self, topic_partition: TopicPartition, timeout_ms: float | None = None) -> int:
        """Return the offset of the next record that `poll` returns, and look it up first where there is none yet.

        Raises ClientTimeout, ApiError, and LookupError for a partition that is not assigned.
        """
        self._check_usable()
        state = self._subscriptions.state(topic_partition)

        def is_known() -> bool:
            if not state.is_valid:
                self._reading.update_positions(self._coordinator)
            return state.offset is not None and not state.is_validating

        if not self._waiting.until(is_known, self._deadline_ms(timeout_ms), self.config.retry_backoff_ms):
            text = f"The position for partition {topic_partition} could not be determined in time"
            raise self._client.metadata.timeout(text)
        assert state.offset is not None
        return state.offset

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Return no records of these partitions until `resume`, or until they are revoked. Raises LookupError."""
        for topic_partition in partitions:
            self._subscriptions.state(topic_partition).paused = True

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Undo `pause`. Raises LookupError for a partition that is not assigned."""
        for topic_partition in partitions:
            self._subscriptions.state(topic_partition).paused = False

    def paused(self) -> set[TopicPartition]:
        """Return the partitions that are paused."""
        return {each for each, state in self._subscriptions.partitions.items() if state.paused}

    def current_lag(self, topic_partition: TopicPartition) -> int | None:
        """Return how many records are left to read, or None before the first fetch (KIP-695)."""
        state = self._subscriptions.state(topic_partition)
        if state.log.high_watermark is None or state.offset is None:
            return None
        return max(state.log.high_watermark - state.offset, 0)

    def metrics(self) -> dict[MetricName, float]:
        """Return what this consumer has fetched, by Kafka's names; not a number where nothing was measured yet."""
        client_id, now_ms = self.config.client_id, self._client.now_ms()
        tags = (("client-id", client_id),)
        networks = [MeasuredNetwork(self._client.network.counters)]
        if self._coordinator is not None:
            networks.append(MeasuredNetwork(self._coordinator.channel.network_counters, is_coordinators=True))
        measured = self._reading.metrics.measure() | network_metrics("consumer", client_id, networks, now_ms)
        for name, value in self._reading.polls.measure(now_ms):
            measured[MetricName(name, "consumer-metrics", tags)] = value
        if self._coordinator is not None:
            for name, value in self._coordinator.measure(now_ms):
                measured[MetricName(name, COORDINATOR_GROUP, tags)] = value
        return counted(measured, client_id)

    def client_instance_id(self, timeout_ms: float) -> str | None:
        """Return the id that a broker has given this consumer for its telemetry; None if none has in time.

        Raises RuntimeError if `enable_metrics_push` is off, ValueError for a negative timeout, ClientClosed, WokenUp.
        """
        self._check_usable()
        if timeout_ms < 0:
            raise ValueError(f"The timeout cannot be negative: {timeout_ms}")
        telemetry = self._client.telemetry
        if telemetry is None:
            raise RuntimeError("Telemetry is not enabled. Set config `enable_metrics_push` to True.")
        deadline_ms = self._deadline_ms(timeout_ms)
        return telemetry.client_instance_id(lambda answered: self._waiting.until(answered.is_set, deadline_ms))

    # -- the group's offsets

    def commit_sync(self, offsets: Offsets | None = None, timeout_ms: float | None = None) -> None:
        """Commit these offsets, or else all positions, and wait until the coordinator has them.

        An offset is that of the next record to read. Raises ValueError without a `group_id` and for a negative offset,
        CommitFailed when the group has removed this consumer,
        ApiError (after REBALANCE_IN_PROGRESS: poll, then retry), ClientTimeout, WokenUp.
        """
        self._check_usable()
        coordinator = self._group()
        chosen = self._subscriptions.all_consumed() if offsets is None else checked_offsets(offsets)
        with self._reading.polls.measured(OffsetCall.COMMIT_SYNC):
            coordinator.offsets.commit_sync(chosen, self._deadline_ms(timeout_ms))

    def consumed_offsets(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the positions that a commit without offsets commits: behind the last records that were returned."""
        return self._subscriptions.all_consumed()

    def commit_async(self, offsets: Offsets | None = None, callback: CommitCallback | None = None) -> None:
        """Commit these offsets, or else all positions, without waiting and without retries.

        `callback(offsets, error)` runs inside a later call of this consumer, in the order of the commits. Raises
        ValueError without a group.
        """
        self._check_usable()
        coordinator = self._group()
        chosen = self._subscriptions.all_consumed() if offsets is None else checked_offsets(offsets)
        coordinator.offsets.commit_async(chosen, callback or log_failed_commit)

    def committed(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the group's committed offset of each partition, or None. Raises ApiError, ClientTimeout."""
        self._check_usable()
        with self._reading.polls.measured(OffsetCall.COMMITTED):
            return self._group().offsets.committed(partitions, self._deadline_ms(timeout_ms))

    # -- the cluster

    def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the first offset that each partition still has. Raises ClientTimeout, ApiError."""
        return self._offsets(dict.fromkeys(partitions, EARLIEST))

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the offset after the last record of each partition that a consumer may see.

        Raises ClientTimeout, ApiError.
        """
        return self._offsets(dict.fromkeys(partitions, LATEST))

    def _offsets(self, timestamps: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        self._check_usable()
        found = lookup_offsets(self._client, timestamps, self._deadline_ms(), isolation_level=self.config.isolation)
        return {topic_partition: entry.offset for topic_partition, entry in found.items()}

    def offsets_for_times(
        self, timestamps_ms: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first record at or after each timestamp, or None.

        Raises ClientTimeout, ApiError, ValueError for a negative timestamp.
        """
        if any(timestamp < 0 for timestamp in timestamps_ms.values()):
            raise ValueError("The target time cannot be negative.")
        self._check_usable()
        found = lookup_offsets(self._client, timestamps_ms, self._deadline_ms(), isolation_level=self.config.isolation)
        return {each: entry if entry.offset >= 0 else None for each, entry in found.items()}

    def partitions_for(self, topic: str) -> tuple[PartitionInfo, ...]:
        """Return the topic's partitions, or nothing for a topic that does not exist.

        A topic that the consumer does not read is looked up, which may create it if `allow_auto_create_topics`. Raises
        ClientTimeout, ApiError: INVALID_TOPIC_EXCEPTION, TOPIC_AUTHORIZATION_FAILED.
        """
        self._check_usable()
        known = self._client.metadata.cluster.topics.get(topic)
        if known:
            return tuple(known)
        config = self.config
        backoff = ExponentialBackoff(config.retry_backoff_ms, config.retry_backoff_max_ms, self._client.random)
        return partitions_of(
            self._client, topic, backoff, self._deadline_ms(), may_create=config.allow_auto_create_topics
        )

    # -- reading

    def poll(self, timeout_ms: float = 0, max_records: int | None = None) -> list[ConsumerRecord]:
        """Return records, in order within each partition: as soon as there are any, or none after `timeout_ms`.

        Returns at most `max_records`, or else `max_poll_records`. This call also takes part in the group: it joins,
        calls the listener, and commits automatically. Raises ApiError (OFFSET_OUT_OF_RANGE, also as LogTruncation, only
        if `auto_offset_reset` is none), CorruptRecord and RecordDeserializationError (the position stays at the
        record), WokenUp, what the listener raises, RuntimeError without a subscription or partitions.
        """
        limit = self.config.max_poll_records if max_records is None else max_records
        records = self._poll(timeout_ms, lambda: self._reading.buffer.take(limit))
        return self._interceptors.on_consume(records) if records and self._interceptors else records

    def poll_table(
        self,
        timeout_ms: float = 0,
        max_records: int | None = None,
        *,
        max_bytes: int | None = None,
        columns: Sequence[str] | None = None,
    ) -> Table:
        """Return records as a pyarrow Table: as soon as there are any, or without rows after `timeout_ms`.

        Does all that `poll` does, with whole batches. Returns all that was fetched, but at most `max_records`, and no
        further batch once `max_bytes` (default `fetch_max_bytes`) were read. `columns` chooses some of
        `barnabas.clients.arrow.TABLE_SCHEMA`. docs/tables.md has more. Raises what `poll` raises, and ValueError for an
        unknown column or a limit below 1.
        """
        # Imported when used: only tables need pyarrow and numpy.
        from barnabas.clients.arrow.record_tables import TableDecoder  # noqa: PLC0415

        for name, limit in (("max_records", max_records), ("max_bytes", max_bytes)):
            if limit is not None and limit < 1:
                raise ValueError(f"{name} must be at least 1, not {limit}")
        decoder = TableDecoder(columns)
        limit_bytes = self.config.fetch_max_bytes if max_bytes is None else max_bytes

        def take() -> list[Rows]:
            taker = TableTaker(decoder, max_records, limit_bytes)
            self._reading.buffer.drain(taker)
            return taker.rows

        return decoder.table(self._poll(timeout_ms, take))

    def _poll(self, timeout_ms: float, take: Callable[[], list[T]]) -> list[T]:
        """Return what `take` takes from the buffer, or nothing after `timeout_ms`.

        Raises RuntimeError without a subscription or partitions, ClientClosed after `close`, ApiError, WokenUp, and
        what `take` and the listener raise.
        """
        self._check_usable()
        if self._subscriptions.type is SubscriptionMode.NONE:
            raise RuntimeError("Consumer is not subscribed to any topics or assigned any partitions")
        now_ms = self._client.now_ms()
        polls = self._reading.polls
        polls.poll_began(now_ms)
        try:
            return self._reading.poll(self._coordinator, now_ms + timeout_ms, take)
        finally:
            polls.poll_ended(self._client.now_ms())

    def wakeup(self) -> None:
        """Make the call that waits now, or else the next call that may wait, raise WokenUp. Any thread may call it."""
        self._waiting.wakeup()

    def forget_wakeup(self) -> None:
        """Undo a `wakeup` that no call has noticed. On the consumer's thread."""
        self._waiting.forget()

    def close(
        self, timeout_ms: float = DEFAULT_CLOSE_TIMEOUT_MS, *, leave_group: bool = True, commit: bool = True
    ) -> None:
        """Commit if that is automatic, leave the group (a static member stays), close the connections. Idempotent.

        Without `leave_group`, the other members wait for this member's session to end before they take its partitions
        over (KIP-1092). With `commit=False`, `close` skips the last automatic commit. Raises what the listener raises,
        after everything is closed.
        """
        if self._closed:
            return
        self._closed = True
        # A `wakeup` during the close would leave the group without the last commit.
        self._waiting.disable()
        try:
            if self._coordinator is not None:
                self._coordinator.close(int(timeout_ms), leave_group=leave_group, commit=commit)
            self._reading.close_sessions()
        finally:
            self._client.close(min(int(timeout_ms), LAST_PUSH_MS))
            self._interceptors.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # The exception may have ended the work on a record that `poll` has returned. A commit would skip that record.
        self.close(commit=error is None)

    # -- steps

    def _deadline_ms(self, timeout_ms: float | None = None) -> int:
        return self._client.now_ms() + int(self.config.default_api_timeout_ms if timeout_ms is None else timeout_ms)

    def _group(self) -> MemberCoordinator:
        """Return the group's coordinator. Raises ValueError without a `group_id`."""
        if self._coordinator is None:
            raise ValueError(
                "To use the group management or offset commit APIs, you must provide a valid group_id in the consumer"
                " configuration."
            )
        return self._coordinator

    def _check_usable(self) -> None:
        if not self._client.check_usable():
            return
        # This is a forked child. It has new connections, and the answers to earlier requests will come to the parent.
        self._start_telemetry()
        if self._coordinator is not None:
            self._coordinator.forked()
        self._reading.forget_connections()
        self._follow_topics()

    def _start_telemetry(self) -> None:
        if self.config.enable_metrics_push:
            self._client.start_telemetry(self.metrics, self._telemetry_labels)

    def _telemetry_labels(self) -> dict[str, str]:
        config = self.config
        known = {
            "group_id": config.group_id,
            "group_instance_id": config.group_instance_id,
            "client_rack": config.client_rack,
            "group_member_id": None if self._coordinator is None else self._coordinator.group_metadata.member_id,
        }
        return {label: text for label, text in known.items() if text}

    def _follow_topics(self) -> None:
        if self._coordinator is not None:
            self._coordinator.subscription_changed()
        for topic in self._subscriptions.metadata_topics:
            self._client.metadata.add_topic(topic, self._client.now_ms())


def _make_client(
    bootstrap_servers: str | Sequence[str], config: ConsumerConfig, clock: Clock | None, random: Random | None
) -> BlockingClient:
    return BlockingClient(
        bootstrap_servers,
        config.network_config("barnabas-consumer"),
        config.metadata_config(allow_auto_topic_creation=config.allow_auto_create_topics),
        clock=clock,
        random=random,
    )
