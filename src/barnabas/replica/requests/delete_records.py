"""The delete-records path below the handlers: raise log start offsets, answer when every live replica has followed.

`ReplicaRecordDeleter` is made and called by the DeleteRecords handler, on handler threads. It owns no lock.
Kafka: ReplicaManager.deleteRecords, deleteRecordsOnLocalLog.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from barnabas.metadata.topic_name import INTERNAL_TOPICS
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.replica.partitions.partition import Partition
from barnabas.replica.requests.delayed_delete_records import (
    INVALID_LOW_WATERMARK,
    DelayedDeleteRecords,
    DeleteRecordsCallback,
    DeleteRecordsResult,
)
from barnabas.replica.requests.waiting_requests import WaitingRequests

__all__ = ["INVALID_LOW_WATERMARK", "DeleteRecordsResult", "ReplicaRecordDeleter"]

logger = logging.getLogger(__name__)


class ReplicaRecordDeleter:
    """The deletion of records from the partitions of a request, and the decision whether the request waits.

    partition_or_error: returns a partition that this broker hosts, or raises the ApiError that says why it cannot.
    """

    def __init__(self, partition_or_error: Callable[[str, int], Partition], waiting: WaitingRequests) -> None:
        self._partition_or_error = partition_or_error
        self._waiting = waiting

    def delete_records(
        self, offsets: Mapping[TopicPartition, int], *, timeout_ms: int, on_complete: DeleteRecordsCallback
    ) -> None:
        """Delete what lies below each offset (-1: below the high watermark) and call `on_complete` once.

        The leader raises its log start offset at once; followers raise theirs with their next fetches. While a live
        follower has not, the answer waits, for at most `timeout_ms`: then it is REQUEST_TIMED_OUT.
        """
        results: dict[TopicPartition, DeleteRecordsResult] = {}
        required: dict[TopicPartition, int] = {}
        for key, offset in offsets.items():
            results[key] = result = self._delete_from_local_log(key, offset, required)
            if result.error is ErrorCode.NONE and result.low_watermark >= required[key]:
                del required[key]
        if not required:
            on_complete(results)
            return
        keys = list(required)
        operation = DelayedDeleteRecords(
            timeout_ms, results, required, self._partition_or_error, on_complete, self._waiting.deletion_expirations
        )
        self._waiting.deletions.try_complete_else_watch(operation, keys)

    def _delete_from_local_log(
        self, key: TopicPartition, offset: int, required: dict[TopicPartition, int]
    ) -> DeleteRecordsResult:
        """Delete on the leader, and note the required offset. An error is in the result, as Kafka's.

        INVALID_TOPIC_EXCEPTION: an internal topic. POLICY_VIOLATION: a topic that is only compacted.
        OFFSET_OUT_OF_RANGE, NOT_LEADER_OR_FOLLOWER and the errors of a partition that is not hosted.
        """
        if key.topic in INTERNAL_TOPICS:
            return DeleteRecordsResult(INVALID_LOW_WATERMARK, ErrorCode.INVALID_TOPIC_EXCEPTION)
        try:
            partition = self._partition_or_error(key.topic, key.partition)
            required[key] = partition.delete_records_on_leader(offset)
            # A follower that has all records is left out of its session, and raises its start only when it is told.
            self._waiting.sessions.mark(key)
        except ApiError as error:
            return DeleteRecordsResult(INVALID_LOW_WATERMARK, error.code)
        except Exception:
            logger.exception("Error processing delete records operation on partition %s", key)
            return DeleteRecordsResult(INVALID_LOW_WATERMARK, ErrorCode.UNKNOWN_SERVER_ERROR)
        return DeleteRecordsResult(partition.low_watermark, ErrorCode.NONE)
