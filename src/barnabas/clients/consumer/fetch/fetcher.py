"""Fetches the records of the assigned partitions ahead of the user, one request to a node at a time.

Owned by the consumer's thread; no lock. Answers arrive inside its polls of the network, and their records wait in the
FetchBuffer. `node_fetches` has the rules by which a node is asked.
Kafka: Fetcher, AbstractFetch, FetchCollector.handleInitializeErrors.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from barnabas.clients.calls.blocking_client import BlockingClient
from barnabas.clients.consumer.consumer_config import ConsumerConfig
from barnabas.clients.consumer.fetch.completed_fetch import AnswerFrame, CompletedFetch
from barnabas.clients.consumer.fetch.fetch_buffer import BufferedRecords, FetchBuffer
from barnabas.clients.consumer.fetch.fetch_metrics import FetchMetrics
from barnabas.clients.consumer.fetch.node_fetches import FetchPlan, NodeFetches
from barnabas.clients.consumer.subscription_state import PreferredReplica, SubscriptionState, TopicPartitionState
from barnabas.clients.errors import INVALID_METADATA_ERRORS
from barnabas.clients.metadata.cluster import LeaderHints
from barnabas.clients.values import READ_COMMITTED
from barnabas.protocol.errors import ApiError, ErrorCode, error_of
from barnabas.protocol.messages.fetch import FetchResponse
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.rpc.client_request import ClientResponse
from barnabas.rpc.connection_states import Node
from barnabas.rpc.fetch_request import FETCH_VERSIONS_WITH_IDS, FetchLimits, FetchPosition

logger = logging.getLogger(__name__)

_STALE_METADATA = INVALID_METADATA_ERRORS | {ErrorCode.OFFSET_NOT_AVAILABLE}
# The consumer's metadata is newer than the broker's, or the broker failed: another try is all that helps.
_RETRIED = frozenset({ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.UNKNOWN_SERVER_ERROR})
_LEADER_CHANGED = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})
"""The errors with which a broker names the current leader (KIP-951)."""

_CLOSING_LIMITS = FetchLimits(0, 0, 0)


class _FetchErrors:
    """The errors of partitions in answers: which are retried, which reset the position, which the next poll raises."""

    def __init__(self, client: BlockingClient, subscriptions: SubscriptionState, retry_backoff_ms: int) -> None:
        self._client = client
        self._subscriptions = subscriptions
        self._retry_backoff_ms = retry_backoff_ms
        self._error: Exception | None = None

    def keep(self, error: Exception) -> None:
        """Keep an error for the user."""
        self._error = error

    def raise_first(self) -> None:
        """Raise the error that was kept. Raises ApiError or UnsupportedVersion, each once."""
        error, self._error = self._error, None
        if error is not None:
            raise error

    def handle(
        self, topic_partition: TopicPartition, state: TopicPartitionState, error: ErrorCode, offset: int
    ) -> None:
        """Retry, reset or keep the error of a fetch of `offset`."""
        state.retry_ms = self._client.now_ms() + self._retry_backoff_ms
        if error in _STALE_METADATA:
            logger.debug("Error in fetch for partition %s: %s", topic_partition, error.name)
            state.preferred_replica = None
            self._client.metadata.request_update()
        elif error in _RETRIED:
            logger.warning("Error in fetch of offset %d for partition %s: %s", offset, topic_partition, error.name)
        elif offset != state.offset:
            # The records before `offset` are still unread. When they are read, the fetch is repeated, and fails again.
            logger.debug("Error in fetch ahead for partition %s: %s", topic_partition, error.name)
        elif error is ErrorCode.OFFSET_OUT_OF_RANGE:
            self._handle_out_of_range(topic_partition, state)
        else:
            self._error = ApiError(error, f"{error.message} Partition: {topic_partition}, offset: {offset}")

    def leaders_named(self, hints: LeaderHints) -> None:
        """Take over the leaders that an answer names, and fetch from them without a wait.

        The next check of the positions compares them with the new leaders' logs.
        """
        for topic_partition in self._client.metadata.update_leaders(hints):
            state = self._subscriptions.partitions.get(topic_partition)
            if state is not None:
                state.retry_ms = 0

    def _handle_out_of_range(self, topic_partition: TopicPartition, state: TopicPartitionState) -> None:
        reset = self._subscriptions.default_reset
        if state.preferred_replica is not None:
            # A follower may lag behind: what is out of its range need not be out of the leader's.
            state.preferred_replica = None
        elif reset.is_none:
            code = ErrorCode.OFFSET_OUT_OF_RANGE
            self._error = ApiError(code, f"{code.message} Partition: {topic_partition}, offset: {state.offset}")
        else:
            logger.info("Fetch position %s is out of range for %s, resetting offset", state.offset, topic_partition)
            state.request_reset(reset)


class Fetcher:
    """The fetches of one consumer."""

    def __init__(
        self,
        client: BlockingClient,
        subscriptions: SubscriptionState,
        config: ConsumerConfig,
        buffer: FetchBuffer,
        metrics: FetchMetrics,
    ) -> None:
        self._client = client
        self._subscriptions = subscriptions
        self._config = config
        self._limits = FetchLimits(
            config.fetch_max_wait_ms,
            config.fetch_min_bytes,
            config.fetch_max_bytes,
            config.isolation,
            config.client_rack,
        )
        self._buffer = buffer
        self._metrics = metrics
        self._nodes: dict[int, NodeFetches] = {}
        self._errors = _FetchErrors(client, subscriptions, config.retry_backoff_ms)

    @property
    def is_waiting(self) -> bool:
        """Whether a fetch is in flight."""
        return any(node.in_flight for node in self._nodes.values())

    def forget_connections(self) -> None:
        """Forget the fetches in flight, in a forked child: their answers and the sessions belong to the parent."""
        self._nodes.clear()

    def raise_error(self) -> None:
        """Raise the error of an earlier fetch that no retry cures. Raises ApiError or UnsupportedVersion, each once."""
        self._errors.raise_first()

    # -- asking

    def send_fetches(self) -> None:
        """Send a fetch to each node that is to be asked now, as `node_fetches` says."""
        now_ms = self._client.now_ms()
        for node, plan in self._plans(now_ms).items():
            fetches = self._nodes.get(node.id)
            if fetches is None:
                fetches = self._nodes[node.id] = NodeFetches(node.id, self._config.fetch_max_wait_ms)
            wait_ms = fetches.wait_ms(plan, now_ms)
            if wait_ms is not None and self._client.network.ready(node, now_ms):
                self._send_fetch(node, fetches, plan.positions, self._limits._replace(max_wait_ms=wait_ms))

    def _plans(self, now_ms: int) -> dict[Node, FetchPlan]:
        """Return what could be fetched from each node that has no fetch in flight."""
        # A partition is asked for again when half of what one answer may bring is read. So memory is bounded by
        # one and a half times `max_partition_fetch_bytes` for each partition.
        most_unread_bytes = self._config.max_partition_fetch_bytes // 2
        buffered = self._buffer.by_partition()
        plans: dict[Node, FetchPlan] = {}
        for topic_partition, state in self._subscriptions.partitions.items():
            if not state.is_fetchable:
                continue
            node = self._node_for(topic_partition, state, now_ms)
            fetches = self._nodes.get(node.id)
            if fetches is not None and fetches.in_flight:
                continue
            plan = plans.get(node)
            if plan is None:
                plan = plans[node] = FetchPlan()
            unread = buffered.get(topic_partition)
            if unread is not None:
                plan.unread_bytes += unread.unread_bytes
            if state.retry_ms <= now_ms and (unread is None or unread.unread_bytes <= most_unread_bytes):
                self._add_position(plan, topic_partition, state, unread)
        return plans

    def _add_position(
        self,
        plan: FetchPlan,
        topic_partition: TopicPartition,
        state: TopicPartitionState,
        unread: BufferedRecords | None,
    ) -> None:
        leader = state.leader
        offset = state.offset if unread is None else unread.last.end_offset
        assert offset is not None
        assert leader is not None
        topic_id = self._client.metadata.cluster.topic_id(topic_partition.topic)
        plan.positions.append(
            FetchPosition(topic_partition, offset, self._config.max_partition_fetch_bytes, leader.epoch, topic_id)
        )
        plan.has_more = plan.has_more or state.log.has_more(offset)

    def _node_for(self, topic_partition: TopicPartition, state: TopicPartitionState, now_ms: int) -> Node:
        """Return the replica that the leader named as closer, while that is valid, or else the leader."""
        leader, preferred = state.leader, state.preferred_replica
        assert leader is not None
        if preferred is None:
            return leader.node
        if now_ms > preferred.expires_ms:
            state.preferred_replica = None
            return leader.node
        cluster = self._client.metadata.cluster
        info = cluster.partition(topic_partition)
        node = cluster.nodes.get(preferred.node_id)
        if node is None or info is None or preferred.node_id in info.offline_replicas:
            state.preferred_replica = None
            self._client.metadata.request_update()
            return leader.node
        return node

    def _send_fetch(
        self, node: Node, fetches: NodeFetches, positions: Sequence[FetchPosition], limits: FetchLimits
    ) -> None:
        now_ms = self._client.now_ms()
        # Another partition comes first each time, because an answer may be full before the last partition's turn.
        first = now_ms % len(positions)
        data = fetches.session.build([*positions[first:], *positions[:first]])
        offsets = {position.topic_partition: position.offset for position in positions}
        request = self._client.network.new_request(
            node.id,
            data.builder(limits),
            callback=lambda response: self._handle_fetched(fetches, offsets, response),
        )
        fetches.sent(now_ms)
        self._client.network.send(request, now_ms)

    def close_sessions(self) -> None:
        """Tell the brokers to forget their fetch sessions."""
        now_ms = self._client.now_ms()
        for node_id, fetches in self._nodes.items():
            message = fetches.session.closing_request(_CLOSING_LIMITS)
            if message is not None and self._client.network.can_send_request(node_id, now_ms):
                request = self._client.network.new_request(node_id, message, versions=FETCH_VERSIONS_WITH_IDS)
                self._client.network.send(request, now_ms)
        # Not by the client's own poll, which raises the failures of connections: a close has no use for them.
        self._client.network.poll(0, now_ms)

    # -- answers

    def _handle_fetched(
        self, fetches: NodeFetches, offsets: Mapping[TopicPartition, int], response: ClientResponse
    ) -> None:
        body = response.body
        record_bytes = 0
        try:
            if response.version_error is not None:
                self._errors.keep(response.version_error)
            elif not isinstance(body, FetchResponse):
                # The node disconnected. The metadata updater has noticed, and the next poll fetches again.
                fetches.session.handle_error()
                self._forget_preferred(fetches)
            elif fetches.session.handle_response(body, response.version):
                latency_ms = response.received_ms - fetches.sent_ms
                self._metrics.answered(latency_ms, body.throttle_time_ms)
                self._client.network.record_latency(response.request.node_id, latency_ms)
                record_bytes = self._take_answer(fetches, offsets, response, body)
            elif body.error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR:
                self._client.metadata.request_update()
        finally:
            # The network client logs what a callback raises. With its fetch still noted as in flight, the node would
            # never be asked again.
            fetches.answered(record_bytes)

    def _forget_preferred(self, fetches: NodeFetches) -> None:
        for topic_partition in fetches.session.partitions:
            state = self._subscriptions.partitions.get(topic_partition)
            if state is not None:
                state.preferred_replica = None

    def _take_answer(
        self,
        fetches: NodeFetches,
        offsets: Mapping[TopicPartition, int],
        response: ClientResponse,
        body: FetchResponse,
    ) -> int:
        """Keep the records of an answer, and note its errors. Return the size of all its records."""
        record_bytes = 0
        frame = AnswerFrame(response.release, self._metrics)
        hints = LeaderHints()
        # All are held before the first is released: the last release gives the frame back.
        for _ in range(sum(len(topic.partitions) for topic in body.responses)):
            frame.hold()
        for topic in body.responses:
            name = fetches.session.topic_name(topic, response.version)
            assert name is not None
            for partition in topic.partitions:
                topic_partition = TopicPartition(name, partition.partition_index)
                records = b"" if partition.records is None else partition.records
                record_bytes += len(records)
                fetch = self._completed(topic_partition, offsets.get(topic_partition), partition, frame)
                if fetch is None:
                    frame.release(records, name)
                else:
                    self._buffer.add(fetch)
                if partition.error_code in _LEADER_CHANGED:
                    hints.add(topic_partition, partition.current_leader)
        hints.add_nodes(body.node_endpoints)
        self._errors.leaders_named(hints)
        if not record_bytes:
            self._note_empty(offsets)
        return record_bytes

    def _note_empty(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Note that the node has no records at these offsets, whatever the high watermarks say.

        Without this note a fetch that may not wait would be repeated without a pause.
        """
        for topic_partition, offset in offsets.items():
            state = self._subscriptions.partitions.get(topic_partition)
            if state is not None and state.preferred_replica is None:
                state.log.empty_at = offset

    def _completed(
        self,
        topic_partition: TopicPartition,
        offset: int | None,
        partition: FetchResponse.PartitionData,
        frame: AnswerFrame,
    ) -> CompletedFetch | None:
        """Take note of a partition's part of an answer, and return its records, if there are some of use."""
        state = self._subscriptions.partitions.get(topic_partition)
        # While the fetch was in flight, the partition was revoked, or the user sought another offset.
        if state is None or offset is None or self._buffer.next_fetch_offset(topic_partition) != offset:
            return None
        error = error_of(partition.error_code)
        if error is not ErrorCode.NONE:
            self._errors.handle(topic_partition, state, error, offset)
            return None
        # For readers of committed records the log ends at the last stable offset, so the lag counts to there.
        is_committed = self._limits.isolation_level == READ_COMMITTED
        state.log.high_watermark = partition.last_stable_offset if is_committed else partition.high_watermark
        if partition.log_start_offset >= 0:
            state.log.start_offset = partition.log_start_offset
        if partition.preferred_read_replica >= 0:
            self._prefer(state, partition.preferred_read_replica)
        if partition.records is None or not len(partition.records):
            return None
        return CompletedFetch(
            topic_partition,
            offset,
            partition.records,
            check_crcs=self._config.check_crcs,
            aborted=(partition.aborted_transactions or ()) if is_committed else (),
            frame=frame,
        )

    def _prefer(self, state: TopicPartitionState, node_id: int) -> None:
        if state.preferred_replica is None or state.preferred_replica.node_id != node_id:
            # The leader is asked again when metadata would be: by then another replica may be closer, or in sync.
            expires_ms = self._client.now_ms() + self._config.metadata_max_age_ms
            state.preferred_replica = PreferredReplica(node_id, expires_ms)
