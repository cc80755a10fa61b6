"""A deletion of records that waits until every live replica has raised its log start offset.

Made by ReplicaRecordDeleter, tried whenever leadership or the log start offset of a follower changes, expired by the
timer. DelayedOperation's lock guards it.
Kafka: DelayedDeleteRecords.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from barnabas.metrics.meter import Meter
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.purgatory.delayed_operation import DelayedOperation
from barnabas.replica.partitions.partition import Partition

INVALID_LOW_WATERMARK = -1


class DeleteRecordsResult(NamedTuple):
    """The answer for a partition: the smallest log start offset of its live replicas (-1 with an error)."""

    low_watermark: int
    error: ErrorCode


DeleteRecordsCallback = Callable[[Mapping[TopicPartition, DeleteRecordsResult]], None]


class DelayedDeleteRecords(DelayedOperation):
    """A wait that completes when every partition is decided.

    Case 1: this broker does not lead or host the partition any more. Its answer is the error that says so.
    Case 2: the low watermark of the partition reached the offset. Its answer is the low watermark.
    On time-out an undecided partition answers REQUEST_TIMED_OUT with the low watermark it had at the beginning, as in
    Kafka.

    results: the answers so far, with those that undecided partitions give on time-out. required: the undecided
    partitions and the offsets they wait for. expirations: counts the partitions that timed out.
    """

    __slots__ = ("_expirations", "_on_decided", "_partition_or_error", "_required", "_results")

    def __init__(
        self,
        timeout_ms: int,
        results: dict[TopicPartition, DeleteRecordsResult],
        required: dict[TopicPartition, int],
        partition_or_error: Callable[[str, int], Partition],
        on_complete: DeleteRecordsCallback,
        expirations: Meter,
    ) -> None:
        super().__init__(timeout_ms)
        self._results = results
        self._required = required
        self._partition_or_error = partition_or_error
        self._on_decided = on_complete
        self._expirations = expirations

    def try_complete(self) -> bool:
        """Decide the partitions that can be decided, by cases 1 and 2 of the class."""
        for key, offset in list(self._required.items()):
            result = self._decide(key, offset)
            if result is not None:
                self._results[key] = result
                del self._required[key]
        return not self._required and self.force_complete()

    def on_complete(self) -> None:
        """Answer.

        Partitions still undecided have timed out. The loop runs over a copy: a try may be under way meanwhile.
        """
        results = dict(self._results)
        for key in list(self._required):
            results[key] = results[key]._replace(error=ErrorCode.REQUEST_TIMED_OUT)
        self._on_decided(results)

    def on_expiration(self) -> None:
        """Count the partitions that timed out. Only the expiration executor's thread counts, so no lock."""
        self._expirations.count += len(self._required)

    def _decide(self, key: TopicPartition, offset: int) -> DeleteRecordsResult | None:
        try:
            partition = self._partition_or_error(key.topic, key.partition)
        except ApiError as error:
            return DeleteRecordsResult(INVALID_LOW_WATERMARK, error.code)
        if not partition.is_leader:
            return DeleteRecordsResult(INVALID_LOW_WATERMARK, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        low_watermark = partition.low_watermark
        return DeleteRecordsResult(low_watermark, ErrorCode.NONE) if low_watermark >= offset else None
