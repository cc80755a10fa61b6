"""What a read of the log returns, and how far it may read. Made on the reading thread and owned by it.

Kafka: FetchDataInfo, FetchIsolation.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from barnabas.records.file_records import FileRecords
from barnabas.storage.log_offset_metadata import LogOffsetMetadata


class FetchIsolation(Enum):
    """The end of what a reader may see: followers, consumers, and those who read committed transactions only."""

    LOG_END = "log_end"
    HIGH_WATERMARK = "high_watermark"
    TXN_COMMITTED = "txn_committed"


class AbortedTransaction(NamedTuple):
    """A transaction a read_committed consumer must skip."""

    producer_id: int
    first_offset: int


class FetchDataInfo:
    """Batches from `fetch_offset` on.

    records: `b""`, or a range of a file that whoever drops it must release once; its last batch may be cut off.
    first_entry_incomplete: not even the first batch fits the limit of the reader.
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
        """Give the file back, if there is one: the records are not going to be sent."""
        if isinstance(self.records, FileRecords):
            self.records.release()
