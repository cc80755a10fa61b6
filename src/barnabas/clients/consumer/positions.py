"""Makes and keeps the positions of a consumer's partitions valid: committed offsets, resets, checks against leaders.

Called by `Consumer.poll` and `Consumer.position`; owned by the consumer's thread; no lock. No call waits.
Kafka: ClassicKafkaConsumer.updateFetchPositions.
"""

from __future__ import annotations

from barnabas.clients.calls.blocking_client import BlockingClient
from barnabas.clients.consumer.consumer_config import ConsumerConfig
from barnabas.clients.consumer.fetch.position_resetter import PositionResetter
from barnabas.clients.consumer.fetch.position_validator import PositionValidator
from barnabas.clients.consumer.group.offsets import GroupOffsets
from barnabas.clients.consumer.subscription_state import SubscriptionState


class Positions:
    """What is done about positions that are missing, or that a new leader may not have."""

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
