"""Version 0 of OffsetCommit and OffsetFetch: offsets in the store, of consumers that coordinate themselves there.

Called by their handler on request handler threads; blocks on the store and keeps nothing, so no lock. These offsets and
those of groups are independent of each other. Kafka 4.0 has no version 0.
Kafka: KafkaApis.commitOffsetsToZookeeper, handleOffsetFetchRequestFromZookeeper.
"""

from __future__ import annotations

import logging

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.zk.kafka_zk_client import KafkaZkClient, is_path_element
from barnabas.zk.store.errors import StoreError

logger = logging.getLogger(__name__)


class OldConsumerOffsets:
    """The offsets. max_metadata_size: `offset.metadata.max.bytes`. The store has no place for the metadata itself."""

    def __init__(self, zk_client: KafkaZkClient, max_metadata_size: int) -> None:
        self._znodes = zk_client.consumer_offsets
        self._max_metadata_size = max_metadata_size

    def commit(self, group_id: str, partition: TopicPartition, offset: int, metadata: str) -> ErrorCode:
        """Write an offset. Return the error, or NONE."""
        if len(metadata) > self._max_metadata_size:
            return ErrorCode.OFFSET_METADATA_TOO_LARGE
        # The group id becomes a part of a path: with a slash or dots it would reach other znodes.
        if not is_path_element(group_id):
            return ErrorCode.INVALID_GROUP_ID
        try:
            self._znodes.set_or_create(group_id, partition, offset)
        except StoreError:
            logger.exception("The offset of %s in group %s cannot be stored", partition, group_id)
            return ErrorCode.UNKNOWN_SERVER_ERROR
        return ErrorCode.NONE

    def fetch(self, group_id: str, partition: TopicPartition) -> int | None:
        """Return the offset, or None."""
        return self._znodes.get(group_id, partition) if is_path_element(group_id) else None
