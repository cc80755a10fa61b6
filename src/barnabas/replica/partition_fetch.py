"""One partition's part of a fetch request, and the request-wide terms of reading.

Made by the fetch handler, filled in by ReplicaReader; owned by one thread at a time. Kafka: FetchParams,
FetchRequest.PartitionData, LogReadResult.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.records.file_records import FileRecords
from barnabas.storage.fetch_data import FetchIsolation
from barnabas.storage.log_offset_metadata import LogOffsetMetadata


@dataclass(frozen=True, slots=True)
class FetchTerms:
    """What holds for all partitions of one fetch.

    max_bytes: limit of the whole answer; the first batch is returned even when it is larger, unless
    `hard_max_bytes` (Fetch v0-2). replica_id: -1 for consumers.
    """

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation: FetchIsolation
    hard_max_bytes: bool = False
    replica_id: int = -1


class PartitionFetch:
    """Where to read, then what was read.

    records: `b""`, bytes, or a FileRecords that whoever answers (or drops the answer) must release once.
    read_from: log position of the fetch offset, for the comparison that ends a long poll; None after an error.
    """

    __slots__ = (
        "aborted_transactions",
        "current_leader_epoch",
        "error",
        "fetch_offset",
        "high_watermark",
        "last_stable_offset",
        "log_start_offset",
        "max_bytes",
        "partition",
        "read_from",
        "records",
        "topic",
        "topic_id",
    )

    def __init__(
        self,
        topic: str,
        partition: int,
        fetch_offset: int,
        max_bytes: int,
        *,
        topic_id: bytes = b"",
        current_leader_epoch: int = -1,
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partition = partition
        self.fetch_offset = fetch_offset
        self.max_bytes = max_bytes
        self.current_leader_epoch = current_leader_epoch
        self.forget()

    def forget(self) -> None:
        """Back to the unread state."""
        self.error: ErrorCode = ErrorCode.NONE
        self.records: Any = b""
        self.read_from: LogOffsetMetadata | None = None
        self.high_watermark = -1
        self.last_stable_offset = -1
        self.log_start_offset = -1
        self.aborted_transactions: list[Any] | None = None

    def release(self) -> None:
        """Drop what was read: the answer will not be sent."""
        if isinstance(self.records, FileRecords):
            self.records.release()
        self.forget()

    def fail(self, error: ApiError) -> None:
        """The partition could not be read."""
        self.forget()
        self.error = error.code
