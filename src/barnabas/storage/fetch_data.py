"""The result of a read of the log, and the limit of a read. Made on the reading thread and owned by it.

Kafka: FetchDataInfo, FetchIsolation.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from barnabas.records.file_records import FileRecords
from barnabas.storage.log_offset_metadata import LogOffsetMetadata


class FetchIsolation(Enum):
    """The end of what a reader may read: a follower, a consumer, a consumer of committed transactions."""

    LOG_END = "log_end"
    HIGH_WATERMARK = "high_watermark"
    TXN_COMMITTED = "txn_committed"


class AbortedTransaction(NamedTuple):
    """A transaction that a read_committed consumer must skip."""

    producer_id: int
    first_offset: int


class FetchDataInfo:
    """Batches from `fetch_offset` on.

    records: `b""`, or a range of a file, which its owner must release once; the last batch may be cut off.
    first_entry_incomplete: not even the first batch fits the reader's limit.
    aborted_transactions: None unless the reader asked for committed records.
    """

    __slots__ = ("aborted_transactions", "fetch_offset", "first_entry_incomplete", "records")

    def __init__(
        self,
        fetch_offset: LogOffsetMetadata,
        records: FileRecords | bytes,
        first_entry_incomplete: bool = False,
        aborted_transactions: list[AbortedTransaction] | None = None,
    ) -> None:
        self.fetch_offset = fetch_offset
        self.records = records
        self.first_entry_incomplete = first_entry_incomplete
        self.aborted_transactions = aborted_transactions

    def release(self) -> None:
        """Release the file, if there is one: the records are not going to be sent."""
        if isinstance(self.records, FileRecords):
            self.records.release()
