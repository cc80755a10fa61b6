"""Checks positions against the logs of new leaders, and finds out when a log was cut below a position (KIP-320).

Owned by the consumer's thread. No call waits: answers arrive inside the consumer's polls of the network, and the next
call repeats a request that failed. `subscription_state` has an example. Kafka: OffsetFetcher,
OffsetsForLeaderEpochClient, SubscriptionState.maybeCompleteValidation.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from barnabas.clients.calls.blocking_client import BlockingClient
from barnabas.clients.consumer.subscription_state import LeaderAndEpoch, SubscriptionState, TopicPartitionState
from barnabas.clients.errors import LogTruncation
from barnabas.clients.metadata.cluster import Cluster
from barnabas.clients.values import OffsetAndMetadata
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode, error_of
from barnabas.protocol.messages.list_offsets import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.rpc.client_request import ClientResponse
from barnabas.rpc.connection_states import Node

logger = logging.getLogger(__name__)

# From v3 on, the right to describe a topic is enough (KIP-320); older versions were for brokers.
_OLDEST_VERSION = 3
_VERSIONS = (_OLDEST_VERSION, OffsetForLeaderEpochRequest.max_version)
_CONSUMER_REPLICA_ID = -1


class _Asked(NamedTuple):
    """A position as it was when its check was requested."""

    offset: int
    offset_epoch: int
    leader: LeaderAndEpoch


class PositionValidator:
    """The checks of one consumer's positions."""

    def __init__(self, client: BlockingClient, subscriptions: SubscriptionState, *, retry_backoff_ms: int) -> None:
        self._client = client
        self._subscriptions = subscriptions
        self._retry_backoff_ms = retry_backoff_ms
        self._checked: Cluster | None = None
        """The view of the cluster whose leaders were compared with those of the positions."""
        self._asked: dict[TopicPartition, _Asked] = {}
        self._error: Exception | None = None

    @property
    def is_due(self) -> bool:
        """Whether the metadata has changed since the last check, or an error waits to be raised."""
        return self._error is not None or self._checked is not self._client.metadata.cluster

    def forget_connections(self) -> None:
        """Forget the requests in flight, in a forked child: their answers will come to the parent."""
        self._asked.clear()
        self._checked = None

    def validate(self) -> None:
        """Give every position its leader, and request a check of those whose leader or epoch is new.

        Raises LogTruncation, and ApiError: TOPIC_AUTHORIZATION_FAILED.
        """
        error, self._error = self._error, None
        if error is not None:
            raise error
        self._find_leaders()
        now_ms = self._client.now_ms()
        wanted: dict[Node, dict[TopicPartition, _Asked]] = {}
        for topic_partition, state in self._subscriptions.awaiting_validation(now_ms).items():
            asked = _position_of(state)
            if asked is None or self._asked.get(topic_partition) == asked:
                continue
            node = asked.leader.node
            if not self._client.network.ready(node, now_ms):
                continue
            if self._can_answer(node):
                wanted.setdefault(node, {})[topic_partition] = asked
            else:
                state.is_validating = False
        for node, positions in wanted.items():
            self._ask(node, positions, now_ms)

    def _find_leaders(self) -> None:
        metadata = self._client.metadata
        cluster = metadata.cluster
        # Not by the version of updates: a leader that an answer names makes a new view without an update.
        is_new = cluster is not self._checked
        self._checked = cluster
        for topic_partition, state in self._subscriptions.partitions.items():
            if state.offset is None or not (is_new or state.leader is None):
                continue
            node = cluster.leader(topic_partition)
            info = cluster.partition(topic_partition)
            if node is not None and info is not None:
                leader = LeaderAndEpoch(node, info.leader_epoch)
                state.check_leader(leader, can_validate=self._can_answer(node))
            elif state.leader is None:
                metadata.request_update()

    def _can_answer(self, node: Node) -> bool:
        """Return whether the node knows the request, or is not connected, so that its versions are not known."""
        versions = self._client.network.api_versions(node.id)
        if versions is None:
            return True
        supported = versions.range_of(ApiKey.OFFSET_FOR_LEADER_EPOCH)
        return supported is not None and supported[1] >= _OLDEST_VERSION

    def _ask(self, node: Node, positions: Mapping[TopicPartition, _Asked], now_ms: int) -> None:
        request = self._client.network.new_request(
            node.id,
            _epoch_request(positions),
            versions=_VERSIONS,
            callback=lambda response: self._handle(positions, response),
        )
        self._asked.update(positions)
        self._client.network.send(request, now_ms)

    def _handle(self, positions: Mapping[TopicPartition, _Asked], response: ClientResponse) -> None:
        missing = dict(positions)
        if response.version_error is not None:
            self._error = response.version_error
        if isinstance(response.body, OffsetForLeaderEpochResponse):
            for topic_partition, found in _ends_in(response.body):
                asked = missing.pop(topic_partition, None)
                if asked is not None:
                    self._take(topic_partition, asked, found, response.received_ms)
        # The node disconnected, or left partitions out: they are asked for again.
        for topic_partition in missing:
            self._retry(topic_partition, response.received_ms)
        for topic_partition in positions:
            self._asked.pop(topic_partition, None)

    def _retry(self, topic_partition: TopicPartition, now_ms: int) -> None:
        state = self._subscriptions.partitions.get(topic_partition)
        if state is not None:
            state.retry_ms = now_ms + self._retry_backoff_ms
        self._client.metadata.request_update()

    def _take(
        self,
        topic_partition: TopicPartition,
        asked: _Asked,
        found: OffsetForLeaderEpochResponse.EpochEndOffset,
        now_ms: int,
    ) -> None:
        state = self._subscriptions.partitions.get(topic_partition)
        # While the request was in flight, the partition was revoked, the user sought, or the leader changed again.
        if state is None or not state.is_validating or _position_of(state) != asked:
            return
        error = error_of(found.error_code)
        if error is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            self._error = ApiError(error, f"{error.message} Topic: {topic_partition.topic}")
            state.retry_ms = now_ms + self._retry_backoff_ms
        elif error is not ErrorCode.NONE:
            logger.debug("Cannot check the position in %s: %s", topic_partition, error.name)
            self._retry(topic_partition, now_ms)
        elif found.end_offset < 0 or found.leader_epoch < 0:
            # The leader's log begins after the epoch of the position, or never had it.
            self._truncated(topic_partition, state, asked, None)
        elif found.end_offset < asked.offset:
            parted = OffsetAndMetadata(found.end_offset, leader_epoch=found.leader_epoch)
            self._truncated(topic_partition, state, asked, parted)
        else:
            state.is_validating = False

    def _truncated(
        self,
        topic_partition: TopicPartition,
        state: TopicPartitionState,
        asked: _Asked,
        parted: OffsetAndMetadata | None,
    ) -> None:
        """Go back to where the logs part, or reset as the policy says; without a policy, leave it to the user."""
        reset = self._subscriptions.default_reset
        if reset.is_none:
            logger.warning("Truncation detected for partition %s at offset %d", topic_partition, asked.offset)
            divergent = {} if parted is None else {topic_partition: parted}
            self._error = LogTruncation({topic_partition: asked.offset}, divergent)
        elif parted is None:
            logger.info(
                "Truncation detected for partition %s at offset %d, resetting offset", topic_partition, asked.offset
            )
            state.request_reset(reset)
        else:
            logger.info(
                "Truncation detected for partition %s at offset %d, resetting offset to the first offset known to"
                " diverge, %d",
                topic_partition,
                asked.offset,
                parted.offset,
            )
            state.advance(parted.offset, parted.leader_epoch)
            state.is_validating = False


def _position_of(state: TopicPartitionState) -> _Asked | None:
    if state.offset is None or state.leader is None:
        return None
    return _Asked(state.offset, state.offset_epoch, state.leader)


def _epoch_request(positions: Mapping[TopicPartition, _Asked]) -> OffsetForLeaderEpochRequest:
    topics: dict[str, list[OffsetForLeaderEpochRequest.OffsetForLeaderPartition]] = {}
    for (topic, partition), asked in positions.items():
        entry = OffsetForLeaderEpochRequest.OffsetForLeaderPartition(
            partition=partition, current_leader_epoch=asked.leader.epoch, leader_epoch=asked.offset_epoch
        )
        topics.setdefault(topic, []).append(entry)
    return OffsetForLeaderEpochRequest(
        replica_id=_CONSUMER_REPLICA_ID,
        topics=[
            OffsetForLeaderEpochRequest.OffsetForLeaderTopic(topic=name, partitions=entries)
            for name, entries in topics.items()
        ],
    )


def _ends_in(
    response: OffsetForLeaderEpochResponse,
) -> Iterable[tuple[TopicPartition, OffsetForLeaderEpochResponse.EpochEndOffset]]:
    for topic in response.topics:
        for partition in topic.partitions:
            yield TopicPartition(topic.topic, partition.partition), partition
