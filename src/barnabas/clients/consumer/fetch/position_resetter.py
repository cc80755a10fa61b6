"""Looks up where partitions without a position begin, end, or were at some time, by asking their leaders.

Owned by the consumer's thread. No call waits: answers arrive inside the consumer's polls of the network, and the next
call repeats a request that failed. Kafka: OffsetFetcher.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from barnabas.clients.calls.blocking_client import BlockingClient
from barnabas.clients.calls.offset_lookup import OffsetAndTimestamp, offsets_in, offsets_request, oldest_version
from barnabas.clients.consumer.offset_reset import RESET_TO_LATEST, OffsetReset
from barnabas.clients.consumer.subscription_state import SubscriptionState
from barnabas.clients.errors import INVALID_METADATA_ERRORS
from barnabas.protocol.errors import ApiError, ErrorCode, error_of
from barnabas.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.rpc.client_request import ClientResponse
from barnabas.runtime.clock import Clock

logger = logging.getLogger(__name__)


class PositionResetter:
    """The look-ups of one consumer. Resets by duration count from the clock's wall time."""

    def __init__(
        self,
        client: BlockingClient,
        subscriptions: SubscriptionState,
        clock: Clock,
        *,
        retry_backoff_ms: int,
        isolation_level: int,
    ) -> None:
        self._client = client
        self._subscriptions = subscriptions
        self._clock = clock
        self._isolation_level = isolation_level
        self._retry_backoff_ms = retry_backoff_ms
        self._asked: set[TopicPartition] = set()
        self._error: Exception | None = None

    def forget_connections(self) -> None:
        """Forget the requests in flight, in a forked child: their answers will come to the parent."""
        self._asked.clear()

    def reset(self) -> None:
        """Request every position that is to be reset.

        Raises ApiError: OFFSET_OUT_OF_RANGE for a partition without a reset policy, or the error of an earlier look-up.
        """
        error, self._error = self._error, None
        if error is not None:
            raise error
        now_ms = self._client.now_ms()
        wanted: dict[int, dict[TopicPartition, OffsetReset]] = {}
        for topic_partition, reset in self._subscriptions.awaiting_reset(now_ms).items():
            if reset.is_none:
                raise ApiError(
                    ErrorCode.OFFSET_OUT_OF_RANGE,
                    f"Undefined offset with no reset policy for partition {topic_partition}",
                )
            if topic_partition in self._asked:
                continue
            leader = self._client.metadata.cluster.leader(topic_partition)
            if leader is None:
                self._client.metadata.request_update()
            elif self._client.network.ready(leader, now_ms):
                wanted.setdefault(leader.id, {})[topic_partition] = reset
        for node_id, resets in wanted.items():
            self._ask(node_id, resets, now_ms)

    def _ask(self, node_id: int, resets: Mapping[TopicPartition, OffsetReset], now_ms: int) -> None:
        wall_ms = self._clock.milliseconds()
        timestamps = {each: reset.timestamp_at(wall_ms) for each, reset in resets.items()}
        request = self._client.network.new_request(
            node_id,
            offsets_request(timestamps, self._isolation_level),
            versions=(oldest_version(timestamps.values(), self._isolation_level), ListOffsetsRequest.max_version),
            callback=lambda response: self._handle(resets, response),
        )
        self._asked.update(resets)
        self._client.network.send(request, now_ms)

    def _handle(self, resets: Mapping[TopicPartition, OffsetReset], response: ClientResponse) -> None:
        self._asked.difference_update(resets)
        if response.version_error is not None:
            self._error = response.version_error
        if not isinstance(response.body, ListOffsetsResponse):
            return
        for topic_partition, code, found in offsets_in(response.body):
            state = self._subscriptions.partitions.get(topic_partition)
            reset = resets.get(topic_partition)
            # While the request was in flight, the partition was revoked, or a seek or another reset came in between.
            if state is None or reset is None or state.reset is not reset:
                continue
            error = error_of(code)
            if error is ErrorCode.NONE:
                self._set_position(topic_partition, reset, found)
                continue
            state.retry_ms = response.received_ms + self._retry_backoff_ms
            self._client.metadata.request_update()
            if not error.retriable and error not in INVALID_METADATA_ERRORS:
                self._error = ApiError(error, f"{error.message} Partition: {topic_partition}")

    def _set_position(self, topic_partition: TopicPartition, reset: OffsetReset, found: OffsetAndTimestamp) -> None:
        state = self._subscriptions.partitions[topic_partition]
        # Only a reset by duration finds nothing: no record is that young, so reading begins with the next one.
        if found.offset < 0:
            state.request_reset(RESET_TO_LATEST)
            return
        logger.info("Resetting offset for partition %s to position %d.", topic_partition, found.offset)
        state.seek(found.offset, found.leader_epoch)
