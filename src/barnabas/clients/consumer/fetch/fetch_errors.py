"""The errors of partitions in answers to fetches: which are retried, which reset the position, which the user gets.

Called by the Fetcher; owned by the consumer's thread; no lock. Kafka: FetchCollector.handleInitializeErrors.
"""

from __future__ import annotations

import logging

from barnabas.clients.calls.blocking_client import BlockingClient
from barnabas.clients.consumer.subscription_state import SubscriptionState, TopicPartitionState
from barnabas.clients.errors import INVALID_METADATA_ERRORS
from barnabas.clients.metadata.leader_hints import LeaderHints
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.topic_partition import TopicPartition

logger = logging.getLogger(__name__)

_STALE_METADATA = INVALID_METADATA_ERRORS | {ErrorCode.OFFSET_NOT_AVAILABLE}
# The consumer's metadata is newer than the broker's, or the broker failed: another try is all that helps.
_RETRIED = frozenset({ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.UNKNOWN_SERVER_ERROR})


class FetchErrors:
    """What to do about an error, and the error that the next poll raises."""

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
