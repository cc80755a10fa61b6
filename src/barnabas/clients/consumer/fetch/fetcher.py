"""Fetches the records of the assigned partitions ahead of the user, one request to a node at a time.

Owned by the consumer's thread; answers arrive inside its polls of the network. Kafka: Fetcher, FetchCollector.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING

from barnabas.clients.blocking_client import BlockingClient
from barnabas.clients.consumer.consumer_config import READ_COMMITTED, ConsumerConfig
from barnabas.clients.consumer.fetch.completed_fetch import CompletedFetch
from barnabas.clients.consumer.fetch.request import FETCH_VERSIONS, FetchLimits, FetchPosition
from barnabas.clients.consumer.fetch.session_handler import FetchSessionHandler
from barnabas.clients.consumer.subscription_state import SubscriptionState, TopicPartitionState
from barnabas.clients.errors import INVALID_METADATA_ERRORS, error_of
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.fetch import FetchResponse
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.errors import CorruptRecord
from barnabas.rpc.client_request import ClientResponse

if TYPE_CHECKING:
    from barnabas.clients.consumer.consumer_record import ConsumerRecord

logger = logging.getLogger(__name__)

_CLOSING_LIMITS = FetchLimits(0, 0, 0)


class Fetcher:
    """The fetches of one consumer: those in flight, and those whose records wait for the user."""

    def __init__(self, client: BlockingClient, subscriptions: SubscriptionState, config: ConsumerConfig) -> None:
        self._client = client
        self._subscriptions = subscriptions
        self._config = config
        self._limits = FetchLimits(
            config.fetch_max_wait_ms, config.fetch_min_bytes, config.fetch_max_bytes, config.isolation
        )
        self._completed: deque[CompletedFetch] = deque()
        self._in_flight: set[int] = set()
        """The nodes that have not answered their fetch yet."""
        self._sessions: dict[int, FetchSessionHandler] = {}
        self._error: Exception | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether a fetch is in flight."""
        return bool(self._in_flight)

    def forget_connections(self) -> None:
        """Forget the fetches in flight, in a forked child: their answers and the sessions belong to the parent."""
        self._in_flight.clear()
        self._sessions.clear()

    def drop(self, topic_partition: TopicPartition | None = None) -> None:
        """Drop the fetched records of a partition, and of all that are no longer assigned."""
        self._completed = deque(
            fetch
            for fetch in self._completed
            if fetch.topic_partition in self._subscriptions.partitions and fetch.topic_partition != topic_partition
        )

    def raise_error(self) -> None:
        """Raise the error of an earlier fetch that no retry cures. Raises ApiError or UnsupportedVersion, each once."""
        error, self._error = self._error, None
        if error is not None:
            raise error

    # -- taking

    def take(self, limit: int) -> list[ConsumerRecord]:
        """Return up to `limit` records, and move the positions behind them. Raises CorruptRecord, ApiError."""
        records: list[ConsumerRecord] = []
        held_back = []
        while self._completed and len(records) < limit:
            fetch = self._completed[0]
            state = self._subscriptions.partitions.get(fetch.topic_partition)
            # These records were fetched before a seek, or before the partition was assigned to another member.
            if state is None or state.offset != fetch.next_offset:
                self._completed.popleft()
                continue
            # Records of a paused partition stay: after `resume` they need no second fetch (KAFKA-7548).
            if state.paused or state.revoked:
                held_back.append(self._completed.popleft())
                continue
            try:
                taken = fetch.take(limit - len(records))
            except (CorruptRecord, ApiError):
                # The position stays at the bad record: the next poll raises again, unless the caller seeks on.
                self._completed.popleft()
                state.seek(fetch.next_offset, fetch.last_epoch)
                # Records of other partitions are returned first. The next poll fetches the bad one again and raises.
                if records:
                    break
                raise
            records += taken
            state.seek(fetch.next_offset, fetch.last_epoch)
            if len(records) < limit:
                self._completed.popleft()
        self._completed.extendleft(reversed(held_back))
        return records

    # -- fetching

    def send_fetches(self) -> None:
        """Send one fetch to each node that leads partitions without fetched records and has no fetch in flight."""
        now_ms = self._client.now_ms()
        cluster = self._client.metadata.cluster
        # At most one answer a partition is kept: memory is bounded by partitions * max_partition_fetch_bytes.
        fetched = {fetch.topic_partition for fetch in self._completed}
        wanted: dict[int, list[FetchPosition]] = {}
        for topic_partition, state in self._subscriptions.partitions.items():
            if (
                state.offset is None
                or state.paused
                or state.revoked
                or state.retry_ms > now_ms
                or topic_partition in fetched
            ):
                continue
            leader = cluster.leader(topic_partition)
            if leader is None:
                self._client.metadata.request_update()
            elif leader.id not in self._in_flight and self._client.network.ready(leader, now_ms):
                info = cluster.partition(topic_partition)
                epoch = -1 if info is None else info.leader_epoch
                wanted.setdefault(leader.id, []).append(
                    FetchPosition(topic_partition, state.offset, self._config.max_partition_fetch_bytes, epoch)
                )
        for node_id, positions in wanted.items():
            self._send_fetch(node_id, positions, now_ms)

    def _send_fetch(self, node_id: int, positions: list[FetchPosition], now_ms: int) -> None:
        session = self._sessions.get(node_id)
        if session is None:
            session = self._sessions[node_id] = FetchSessionHandler(node_id)
        # Another partition comes first each time, because an answer may be full before the last partition's turn.
        first = now_ms % len(positions)
        message = session.build(positions[first:] + positions[:first], self._limits)
        offsets = {position.topic_partition: position.offset for position in positions}
        request = self._client.network.new_request(
            node_id,
            message,
            versions=FETCH_VERSIONS,
            callback=lambda response: self._handle_fetched(node_id, offsets, response),
        )
        self._in_flight.add(node_id)
        self._client.network.send(request, now_ms)

    def close_sessions(self) -> None:
        """Tell the brokers to forget their fetch sessions."""
        now_ms = self._client.now_ms()
        for node_id, session in self._sessions.items():
            message = session.closing_request(_CLOSING_LIMITS)
            if message is not None and self._client.network.can_send_request(node_id, now_ms):
                request = self._client.network.new_request(node_id, message, versions=FETCH_VERSIONS)
                self._client.network.send(request, now_ms)
        self._client.poll(0)

    def _handle_fetched(self, node_id: int, offsets: Mapping[TopicPartition, int], response: ClientResponse) -> None:
        self._in_flight.discard(node_id)
        session = self._sessions.get(node_id)
        if response.version_error is not None:
            self._error = response.version_error
            return
        # The node disconnected. The metadata updater has noticed, and the next poll fetches again.
        if not isinstance(response.body, FetchResponse):
            if session is not None:
                session.handle_error()
            return
        if session is None or not session.handle_response(response.body):
            return
        for topic in response.body.responses:
            for partition in topic.partitions:
                topic_partition = TopicPartition(topic.topic, partition.partition_index)
                state = self._subscriptions.partitions.get(topic_partition)
                offset = offsets.get(topic_partition)
                # While the fetch was in flight, the partition was revoked, or the user sought another offset.
                if state is None or offset is None or state.offset != offset:
                    continue
                error = error_of(partition.error_code)
                if error is not ErrorCode.NONE:
                    self._handle_error(topic_partition, state, error, response.received_ms)
                    continue
                # For readers of committed records the log ends at the last stable offset, so the lag counts to there.
                is_committed = self._limits.isolation_level == READ_COMMITTED
                state.high_watermark = partition.last_stable_offset if is_committed else partition.high_watermark
                if partition.records is not None and len(partition.records):
                    aborted = (partition.aborted_transactions or ()) if is_committed else ()
                    fetch = CompletedFetch(
                        topic_partition,
                        offset,
                        partition.records,
                        check_crcs=self._config.check_crcs,
                        aborted=[(each.first_offset, each.producer_id) for each in aborted],
                    )
                    self._completed.append(fetch)

    def _handle_error(
        self, topic_partition: TopicPartition, state: TopicPartitionState, error: ErrorCode, now_ms: int
    ) -> None:
        state.retry_ms = now_ms + self._config.retry_backoff_ms
        reset = self._subscriptions.default_reset
        if error is ErrorCode.OFFSET_OUT_OF_RANGE and not reset.is_none:
            logger.info("Fetch position %s is out of range for %s, resetting offset", state.offset, topic_partition)
            state.request_reset(reset)
        elif error in INVALID_METADATA_ERRORS or error is ErrorCode.UNKNOWN_LEADER_EPOCH:
            self._client.metadata.request_update()
        elif not error.retriable or error is ErrorCode.CORRUPT_MESSAGE:
            self._error = ApiError(error, f"{error.message} Partition: {topic_partition}, offset: {state.offset}")
