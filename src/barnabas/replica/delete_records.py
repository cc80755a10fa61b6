"""The delete-records path below the handlers: raise log start offsets, answer when every replica has followed.

`ReplicaRecordDeleter` is part of ReplicaManager's facade; it runs on handler threads and owns no lock.
Kafka: ReplicaManager.deleteRecords, deleteRecordsOnLocalLog.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import NamedTuple

from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.replica.partition import Partition

logger = logging.getLogger(__name__)

INVALID_LOW_WATERMARK = -1
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state"})


class DeleteRecordsResult(NamedTuple):
    """What a partition answers: the smallest log start offset of its live replicas (-1 with an error)."""

    low_watermark: int
    error: ErrorCode


DeleteRecordsCallback = Callable[[Mapping[TopicPartition, DeleteRecordsResult]], None]


class ReplicaRecordDeleter:
    """Deletes records of the partitions of one request.

    partition_or_error: finds a partition this broker hosts, or raises the ApiError that says why it cannot.
    """

    def __init__(self, partition_or_error: Callable[[str, int], Partition]) -> None:
        self._partition_or_error = partition_or_error

    def delete_records(
        self, offsets: Mapping[TopicPartition, int], *, timeout_ms: int, on_complete: DeleteRecordsCallback
    ) -> None:
        """Delete what lies below each offset (-1: below the high watermark) and call `on_complete` once."""
        on_complete({key: self._delete_from_local_log(key, offset) for key, offset in offsets.items()})

    def _delete_from_local_log(self, key: TopicPartition, offset: int) -> DeleteRecordsResult:
        """Errors as Kafka has them: INVALID_TOPIC_EXCEPTION, POLICY_VIOLATION, OFFSET_OUT_OF_RANGE, and no leader."""
        if key.topic in INTERNAL_TOPICS:
            return DeleteRecordsResult(INVALID_LOW_WATERMARK, ErrorCode.INVALID_TOPIC_EXCEPTION)
        try:
            partition = self._partition_or_error(key.topic, key.partition)
            partition.delete_records_on_leader(offset)
        except ApiError as error:
            return DeleteRecordsResult(INVALID_LOW_WATERMARK, error.code)
        except Exception:
            logger.exception("Error processing delete records operation on partition %s", key)
            return DeleteRecordsResult(INVALID_LOW_WATERMARK, ErrorCode.UNKNOWN_SERVER_ERROR)
        return DeleteRecordsResult(partition.log.log_start_offset, ErrorCode.NONE)
