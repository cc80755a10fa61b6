"""The indexes of one segment together: offsets, timestamps, and the transactions that were aborted in it.

Owned by a LogSegment: changed under the log's lock, searched by any thread (each index has a lock of its own).
Kafka: LogSegment, which holds the three itself.
"""

from __future__ import annotations

from barnabas.storage.file_names import LOG_SUFFIX, TRANSACTION_INDEX_SUFFIX
from barnabas.storage.segment.file import SegmentFile
from barnabas.storage.segment.index_file import CorruptIndex
from barnabas.storage.segment.offset_index import OffsetIndex
from barnabas.storage.segment.time_index import TimeIndex, TimestampOffset
from barnabas.storage.segment.transaction_index import AbortedSearch, AbortedTransactionEntry, TransactionIndex


class SegmentIndexes:
    """The indexes beside `log_file`. Everything that touches files raises OSError.

    interval_bytes: a batch gets entries when more bytes than this lie behind the last batch that has some. is_full: the
    segment must roll, because an index takes no more entries.
    """

    __slots__ = ("_log_file", "_transactions", "interval_bytes", "is_full", "offsets", "times")

    def __init__(
        self,
        log_file: SegmentFile,
        offsets: OffsetIndex,
        times: TimeIndex,
        transactions: TransactionIndex | None,
        interval_bytes: int,
    ) -> None:
        self.offsets = offsets
        self.times = times
        self.interval_bytes = interval_bytes
        self.is_full = False
        self._log_file = log_file
        self._transactions = transactions
        """The transaction index; None as long as it has no file, which is nearly always."""

    # -- entries

    def append(self, last_offset: int, position: int, largest: TimestampOffset) -> None:
        """Enter the batch that ends with `last_offset` and lies at `position`; `largest` is the segment's so far."""
        is_full = self.offsets.append(last_offset, position)
        self.is_full = self.times.maybe_append(largest.timestamp, largest.offset) or is_full

    def enter_largest(self, largest: TimestampOffset) -> None:
        """Enter the segment's largest timestamp, which a start reads from the last entry."""
        self.times.maybe_append(largest.timestamp, largest.offset)

    @property
    def transactions(self) -> TransactionIndex:
        """The index of the transactions that markers in this segment aborted; its file is made with the first."""
        index = self._transactions
        if index is None:
            # The log file may be called `.log.cleaned` or `.log.deleted` now: its last suffix is kept.
            path = self._log_file.path
            place = path.rindex(LOG_SUFFIX)
            path = path[:place] + TRANSACTION_INDEX_SUFFIX + path[place + len(LOG_SUFFIX) :]
            index = TransactionIndex(self._log_file.sibling(path), self.offsets.base_offset, is_new=True)
            self._transactions = index
        return index

    def aborted_transactions(self) -> list[AbortedTransactionEntry]:
        """Return all entries of the transaction index. Raises CorruptIndex."""
        return [] if self._transactions is None else self._transactions.entries()

    def collect_aborted(self, fetch_offset: int, upper_bound_offset: int) -> AbortedSearch:
        """Return the aborted transactions that overlap these offsets, as `TransactionIndex.collect`."""
        if self._transactions is None:
            return AbortedSearch([], False)
        return self._transactions.collect(fetch_offset, upper_bound_offset)

    def reset(self) -> None:
        """Drop all entries."""
        self.offsets.reset()
        self.times.reset()
        if self._transactions is not None:
            self._transactions.reset()
        self.is_full = False

    def truncate_to(self, offset: int) -> None:
        """Drop the entries of batches at and behind `offset`."""
        self.offsets.truncate_to(offset)
        self.times.truncate_to(offset)
        if self._transactions is not None:
            self._transactions.truncate_to(offset)
        self.is_full = False

    def sanity_check(self) -> None:
        """Check that the files can be indexes of this segment. Raises CorruptIndex when one is missing or cannot."""
        for index in (self.offsets, self.times):
            try:
                index.sanity_check()
            except FileNotFoundError:
                raise CorruptIndex(f"index file {index.path} does not exist") from None
        if self._transactions is not None:
            self._transactions.sanity_check()

    # -- files

    def forget_tail(self) -> None:
        """Write what is only in memory and keep nothing there: the segment is closed for appends."""
        self.offsets.forget_tail()
        self.times.forget_tail()

    def write_recovered(self) -> None:
        """Write the entries of a segment that a recovery has rebuilt.

        The transaction index is synced: once the other two files exist, no start looks for its entries again.
        """
        # The transaction index comes first: were the other two written and this one lost, the next start would find a
        # segment in good order, and readers of committed records would see what was aborted.
        if self._transactions is not None:
            self._transactions.sync()
        self.offsets.write_pending()
        self.times.write_pending()

    def sync(self) -> None:
        """Return when all entries are on stable storage. Needs no lock of the log."""
        self.offsets.sync()
        self.times.sync()
        if self._transactions is not None:
            self._transactions.sync()

    def files(self) -> list[SegmentFile]:
        """Return the files of the indexes, those that have no entry and do not exist yet included."""
        files = [self.offsets.file, self.times.file]
        if self._transactions is not None:
            files.append(self._transactions.file)
        return files

    def close(self) -> None:
        """Bring what is only in memory to stable storage, and close the files."""
        self.offsets.close()
        self.times.close()
        if self._transactions is not None:
            self._transactions.sync()
            self._transactions.file.close()
