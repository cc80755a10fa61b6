"""One partition's part of a produce request, from the handler to the log and back.

Made by the produce handler, filled in by ReplicaAppender, completed perhaps by DelayedProduce; owned by one of them
at a time, so no lock guards it. Kafka spreads the same over three maps (entries, results, produce status).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barnabas.protocol.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from barnabas.replica.partition import Partition
    from barnabas.storage.log_append_info import LogAppendInfo


class PartitionAppend:
    """What is to be appended, then what came of it.

    records: the batch, a view of the request's frame; dropped after the append so that the purgatory holds no frames.
    error: NONE after a successful append. info: offsets and times of a successful append.
    required_offset: the high watermark that acks=all waits for.
    """

    __slots__ = (
        "error",
        "error_message",
        "hosted_by",
        "info",
        "partition",
        "record_errors",
        "records",
        "required_offset",
        "topic",
    )

    def __init__(self, topic: str, partition: int, records: Any) -> None:
        self.topic = topic
        self.partition = partition
        self.records = records
        self.error: ErrorCode = ErrorCode.NONE
        self.error_message: str | None = None
        self.record_errors: list[tuple[int, str | None]] = []
        self.info: LogAppendInfo | None = None
        self.hosted_by: Partition | None = None
        self.required_offset = -1

    def fail(self, error: ApiError) -> None:
        """The append was refused; nothing of it is in the log."""
        self.error = error.code
        self.error_message = error.message
        self.record_errors = list(getattr(error, "record_errors", ()))
        self.hosted_by = None
        self.records = None

    def succeed(self, partition: Partition, info: LogAppendInfo) -> None:
        """The append is in the local log."""
        self.info = info
        self.hosted_by = partition
        self.required_offset = info.last_offset + 1
