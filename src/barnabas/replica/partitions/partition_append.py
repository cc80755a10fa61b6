"""One partition's part of a produce request, from the handler to the log and back.

Made by the produce handler, filled in by ReplicaAppender, and completed by DelayedProduce if it waits. One of them owns
it at a time, so no lock guards it. Kafka: ProducePartitionStatus, and two maps of entries and results.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.records.record_batch import BatchHeader

if TYPE_CHECKING:
    from barnabas.replica.partitions.partition import Partition
    from barnabas.storage.log_append_info import LogAppendInfo


class PartitionAppend:
    """The records to append, then the result.

    records: the batch, a view of the request's frame; dropped after the append so that the purgatory holds no frames.
    header, body: the batch's header as read before the append, and the batch's records if they were decompressed.
    info: offsets and times of an append to the local log. failure: why there was none, or why it counts as none.
    hosted_by: the partition, once the append is in its log.
    log_start_offset: of the log that refused an append for an unexpected reason; else -1.
    """

    __slots__ = ("body", "failure", "header", "hosted_by", "info", "log_start_offset", "partition", "records", "topic")

    def __init__(self, topic: str, partition: int, records: Any, header: BatchHeader | None = None) -> None:
        self.topic = topic
        self.partition = partition
        self.records = records
        self.header = header
        self.body: bytes | None = None
        self.info: LogAppendInfo | None = None
        self.failure: ApiError | None = None
        self.hosted_by: Partition | None = None
        self.log_start_offset = -1

    @property
    def error(self) -> ErrorCode:
        """The error of the append, or NONE."""
        return ErrorCode.NONE if self.failure is None else self.failure.code

    @property
    def record_errors(self) -> Sequence[tuple[int, str | None]]:
        """The rejected records by index, with the reason for each (KIP-467)."""
        return getattr(self.failure, "record_errors", ())

    def fail(self, failure: ApiError) -> None:
        """Note that the append was rejected; no record of it is in the log.

        The traceback is dropped: its frames would keep the records in memory while other partitions of the request
        wait.
        """
        self.failure = failure.with_traceback(None)
        failure.__cause__ = failure.__context__ = None
        self.records = self.body = None
