"""A piece of a log: a file of batches from a base offset on, with its offset, time and transaction index.

Changed under the log's lock; read from any thread, up to positions that were published after the bytes had been
written. Kafka: LogSegment.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Final

from barnabas.records.errors import CorruptRecord
from barnabas.records.file_records import FileRecords
from barnabas.records.legacy_records import LegacyBatch
from barnabas.records.record_batch import RecordBatch
from barnabas.runtime.files import Buffer
from barnabas.storage.fetch_data import FetchDataInfo
from barnabas.storage.file_names import LOG_SUFFIX, TRANSACTION_INDEX_SUFFIX
from barnabas.storage.log_offset_metadata import LogOffsetMetadata
from barnabas.storage.segment.batch_scan import SEARCH_CHUNK_BYTES, BatchPlace, find_batch, scan_batches
from barnabas.storage.segment.file import SegmentFile
from barnabas.storage.segment.index_file import CorruptIndex, IndexFile
from barnabas.storage.segment.offset_index import OffsetIndex
from barnabas.storage.segment.sequential_reads import MAX_BYTES, SequentialReads
from barnabas.storage.segment.time_index import NO_TIMESTAMP, TimeIndex, TimestampOffset
from barnabas.storage.segment.transaction_index import AbortedTransactionEntry, TransactionIndex

MAX_RELATIVE_OFFSET: Final = 2**31 - 1
"""What fits the four bytes that an index entry has for an offset, relative to the segment's base offset."""
RECENT_BATCHES: Final = 128
"""Places of the newest batches kept in memory, so that a consumer at the end of the log is served without a search."""
_new_tuple: Final = tuple.__new__

Batch = RecordBatch | LegacyBatch


class LogSegment:
    """One segment. Made by `SegmentFactory`.

    size: bytes of whole batches in the log file. rolling_timestamp: timestamp that decides when the segment is old
    enough to roll, None as long as it is empty or not looked at. recent: base offset -> (position, size); keys are
    set and read one at a time, which dictionaries do atomically.
    """

    __slots__ = (
        "_max_timestamp",
        "_offset_of_max_timestamp",
        "_sequels",
        "_transaction_index",
        "base_offset",
        "bytes_since_last_index_entry",
        "created_ms",
        "file",
        "index_interval_bytes",
        "indexes_full",
        "is_preallocated",
        "offset_index",
        "recent",
        "roll_jitter_ms",
        "rolling_timestamp",
        "size",
        "time_index",
    )

    def __init__(
        self,
        base_offset: int,
        file: SegmentFile,
        offset_index: OffsetIndex,
        time_index: TimeIndex,
        *,
        size: int,
        created_ms: int,
        index_interval_bytes: int,
        roll_jitter_ms: int,
        transaction_index: TransactionIndex | None = None,
    ) -> None:
        self.base_offset = base_offset
        self.file = file
        self.offset_index = offset_index
        self.time_index = time_index
        self.size = size
        self.created_ms = created_ms
        self.index_interval_bytes = index_interval_bytes
        self.roll_jitter_ms = roll_jitter_ms
        self.rolling_timestamp: int | None = None
        self.bytes_since_last_index_entry = 0
        self.indexes_full = False
        self.is_preallocated = False
        self.recent: dict[int, tuple[int, int]] = {}
        self._max_timestamp: int | None = NO_TIMESTAMP if size == 0 else None
        self._offset_of_max_timestamp = base_offset
        self._sequels = SequentialReads()
        self._transaction_index = transaction_index
        """None as long as there is no file, which is nearly always."""

    # -- aborted transactions

    @property
    def transaction_index(self) -> TransactionIndex:
        """The index of the transactions that markers in this segment aborted; its file is made with the first."""
        index = self._transaction_index
        if index is None:
            path = self.file.path
            place = path.rindex(LOG_SUFFIX)
            path = path[:place] + TRANSACTION_INDEX_SUFFIX + path[place + len(LOG_SUFFIX) :]
            index = self._transaction_index = TransactionIndex(self.file.sibling(path), self.base_offset, is_new=True)
        return index

    def aborted_transactions(self) -> list[AbortedTransactionEntry]:
        """All entries of the transaction index."""
        return [] if self._transaction_index is None else self._transaction_index.entries()

    def collect_aborted(self, fetch_offset: int, upper_bound_offset: int) -> tuple[list[AbortedTransactionEntry], bool]:
        """See TransactionIndex.collect."""
        if self._transaction_index is None:
            return [], False
        return self._transaction_index.collect(fetch_offset, upper_bound_offset)

    # -- appending, under the log's lock

    def append(
        self,
        buffers: Sequence[Buffer],
        size: int,
        first_offset: int,
        last_offset: int,
        max_timestamp: int,
    ) -> None:
        """Append one batch, given as `buffers` of `size` bytes together. Raises OSError, and then nothing has changed.

        Order of article-facts P6: rolling timestamp, write, max timestamp, index entry when more than the interval lies
        behind the last one, then this batch's size is counted.
        """
        position = self.size
        if position == 0:
            self.rolling_timestamp = max_timestamp
        self.file.write(buffers, position)
        if self._max_timestamp is None:
            self.max_timestamp_and_offset()
        if max_timestamp > self._max_timestamp:  # type: ignore[operator]  # loaded just above
            self._max_timestamp = max_timestamp
            self._offset_of_max_timestamp = last_offset
        since = self.bytes_since_last_index_entry
        if since > self.index_interval_bytes:
            self._append_index_entries(last_offset, position)
            since = 0
        self.bytes_since_last_index_entry = since + size
        recent = self.recent
        recent[first_offset] = (position, size)
        if len(recent) > RECENT_BATCHES:
            del recent[next(iter(recent))]
        self.size = position + size

    def time_waited_for_roll(self, now_ms: int, message_timestamp: int) -> int:
        """Milliseconds since the first batch, by timestamps; without one, since the segment was made."""
        if self.rolling_timestamp is None and self.size:
            self.rolling_timestamp = self.first_batch_timestamp()
        if self.rolling_timestamp is not None and self.rolling_timestamp >= 0:
            return message_timestamp - self.rolling_timestamp
        return now_ms - self.created_ms

    def on_become_inactive(self) -> None:
        """Nothing will be appended any more: enter the largest timestamp, write the indexes, keep nothing in memory."""
        self._enter_max_timestamp()
        self.offset_index.forget_tail()
        self.time_index.forget_tail()
        self.recent.clear()
        self._trim()

    def _trim(self) -> None:
        """Give back what was allocated in advance and is not needed."""
        if self.is_preallocated:
            self.file.truncate(self.size)
            self.is_preallocated = False

    def _append_index_entries(self, last_offset: int, position: int) -> None:
        full = self.offset_index.append(last_offset, position)
        timestamp, offset = self.max_timestamp_and_offset()
        self.indexes_full = self.time_index.maybe_append(timestamp, offset) or full

    def _enter_max_timestamp(self) -> None:
        if self._max_timestamp is not None:
            self.time_index.maybe_append(self._max_timestamp, self._offset_of_max_timestamp)

    # -- reading, any thread

    def read(
        self, start_offset: int, max_bytes: int, max_position: int, *, min_one_message: bool
    ) -> FetchDataInfo | None:
        """Batches from the one that holds `start_offset` on, at most `max_bytes` and not beyond `max_position`.

        None when the segment has no such offset. The first batch is whole with `min_one_message`, whatever the limit.
        """
        place = self.recent.get(start_offset)
        if place is not None:
            position, batch_size = place
        else:
            sequels = self._sequels
            expected_at = sequels.take(start_offset)
            if expected_at >= 0:
                size = min(max_position - expected_at, max_bytes)
                if 0 < size <= MAX_BYTES:
                    records = sequels.read(self.file, start_offset, expected_at, size)
                    if records is not None:
                        return FetchDataInfo(LogOffsetMetadata(start_offset, self.base_offset, expected_at), records)
            found = self.translate_offset(start_offset, max(expected_at, 0))
            if found is None:
                return None
            position, batch_size = found.position, found.size
            if max_bytes <= MAX_BYTES:
                sequels.note(found.last_offset + 1, position + batch_size)
        limit = max_bytes if not min_one_message or max_bytes > batch_size else batch_size
        size = min(max_position - position, limit)
        metadata = _new_tuple(LogOffsetMetadata, (start_offset, self.base_offset, position))
        if size <= 0:
            return FetchDataInfo(metadata, b"", first_entry_incomplete=limit < batch_size)
        return FetchDataInfo(metadata, FileRecords(self.file.borrow(), position, size), limit < batch_size)

    def translate_offset(self, offset: int, from_position: int = 0) -> BatchPlace | None:
        """The first batch whose last offset is at least `offset`; None when there is none."""
        at_or_before, following = self.offset_index.bounds(offset)
        if following - at_or_before > SEARCH_CHUNK_BYTES:
            # Large batches have an entry each, so it is most likely the next one's: that saves reading the one before.
            place = find_batch(self.file, offset, following, self.size)
            if place is not None and place.base_offset <= offset:
                return place
        return find_batch(self.file, offset, max(at_or_before, from_position), self.size)

    def upper_bound_offset(self, position: int, size: int) -> int | None:
        """An offset that batches of `size` bytes from `position` on do not reach; None: the segment's end.

        Taken from the offset index, so it may lie some batches behind.
        """
        return self.offset_index.upper_bound_offset(position + size)

    def next_offset(self) -> int:
        """The offset behind the last batch; the base offset when the segment is empty."""
        position = self.offset_index.lookup(self.offset_index.last_offset).position
        last = self.base_offset - 1
        while (found := find_batch(self.file, last + 1, position, self.size)) is not None:
            last, position = found.last_offset, found.position + found.size
        return last + 1

    def batches(self, from_position: int = 0) -> Sequence[Batch]:
        """All whole batches from a position on; for tests and small ranges."""
        return list(scan_batches(self.file, from_position, self.size))

    def first_batch_timestamp(self) -> int:
        """Largest timestamp of the first batch, -1 when it has none or the segment is empty."""
        if self.size == 0:
            return NO_TIMESTAMP
        return next(iter(scan_batches(self.file, 0, self.size, chunk_bytes=4096))).max_timestamp

    def max_timestamp_and_offset(self) -> TimestampOffset:
        """The largest timestamp, and the last offset of the batch that has it; (-1, base offset) when there is none."""
        if self._max_timestamp is None:
            # A segment that was closed has its largest timestamp as the last entry.
            self._max_timestamp, self._offset_of_max_timestamp = self.time_index.last_entry
        return TimestampOffset(self._max_timestamp, self._offset_of_max_timestamp)

    @property
    def largest_timestamp(self) -> int:
        """The largest timestamp; without one, when the file was changed last, in milliseconds. Raises OSError."""
        timestamp = self.max_timestamp_and_offset().timestamp
        return timestamp if timestamp >= 0 else self.file.modified_ms()

    def find_offset_by_timestamp(self, timestamp: int, from_offset: int) -> tuple[int, int, int] | None:
        """(timestamp, offset, leader epoch) of the first record at or behind `from_offset` that is not older."""
        start = self.time_index.lookup(timestamp)
        position = self.offset_index.lookup(max(start.offset, from_offset)).position
        for batch in scan_batches(self.file, position, self.size):
            if batch.max_timestamp < timestamp or batch.last_offset < from_offset:
                continue
            for record in batch.records():
                if record.timestamp >= timestamp and record.offset >= from_offset:
                    return record.timestamp, record.offset, getattr(batch, "partition_leader_epoch", -1)
        return None

    # -- loading, recovery, truncation

    def sanity_check(self) -> None:
        """Raise CorruptIndex when an index is missing or cannot belong to the segment.

        The last entry of the offset index must point at a batch: Kafka's followers enter the last offset of several
        batches with the position of the first.
        """
        for index in (self.offset_index, self.time_index):
            try:
                index.sanity_check()
            except FileNotFoundError:
                raise CorruptIndex(f"index file {index.path} does not exist") from None
        if self._transaction_index is not None:
            self._transaction_index.sanity_check()
        number = self.offset_index.entries
        if number == 0:
            return
        entry = self.offset_index.entry(number - 1)
        try:
            place = find_batch(self.file, self.base_offset, entry.position, self.size)
        except CorruptRecord:
            place = None
        if (
            place is None
            or place.position != entry.position
            or place.position + place.size > self.size
            or not self.base_offset <= place.base_offset <= place.last_offset <= entry.offset
        ):
            raise CorruptIndex(f"index file {self.offset_index.path} ends in {entry}, where no such batch is")

    def recover(
        self, on_batch: Callable[[Batch], None], gapless_from: int | None = None, *, stays_active: bool = False
    ) -> int:
        """Check every batch, cut the file behind the last good one, rebuild the indexes; returns the bytes cut off.

        Good means whole, with its checksum, behind the batch before it in offset and leader epoch, within the segment's
        range, and from offset `gapless_from` on directly behind it: the checksum does not cover the base offset.
        `on_batch` is called with every good batch, in order; it makes the entries of the transaction index. The indexes
        of a segment that `stays_active` reach the disk when it is flushed, rolls or closes, as if it had been written
        to just now: making files is most of the time of a recovery of many small logs.
        """
        self.offset_index.reset()
        self.time_index.reset()
        if self._transaction_index is not None:
            self._transaction_index.reset()
        self.recent.clear()
        self.indexes_full = False
        self._max_timestamp, self._offset_of_max_timestamp = NO_TIMESTAMP, self.base_offset
        valid_bytes = last_entry_at = 0
        next_offset = self.base_offset
        epoch = -1
        file_size = self.file.size()
        try:
            for batch in scan_batches(self.file, 0, file_size):
                epoch = self._check_recovered(batch, next_offset, epoch)
                if gapless_from is not None and next_offset >= gapless_from and _leaves_gap(batch, next_offset):
                    raise CorruptRecord(f"batch {batch.base_offset} where offset {next_offset} was expected")
                if batch.max_timestamp > self._max_timestamp:
                    self._max_timestamp, self._offset_of_max_timestamp = batch.max_timestamp, batch.last_offset
                if valid_bytes - last_entry_at > self.index_interval_bytes:
                    self._append_index_entries(batch.last_offset, valid_bytes)
                    last_entry_at = valid_bytes
                valid_bytes += batch.length
                next_offset = batch.last_offset + 1
                on_batch(batch)
        except CorruptRecord:
            pass  # the end of what can be kept: the caller reports the bytes cut off
        self.bytes_since_last_index_entry = valid_bytes - last_entry_at
        if valid_bytes < file_size:
            self.file.truncate(valid_bytes)
            self.file.sync()  # what was cut off must not come back behind new batches after another crash
        self.size = valid_bytes
        self.rolling_timestamp = None
        self._enter_max_timestamp()
        if not stays_active:
            if self._transaction_index is not None:
                self._transaction_index.sync()  # no start looks for it again once there are the others
            self.offset_index.write_pending()
            self.time_index.write_pending()
        return file_size - valid_bytes

    def _check_recovered(self, batch: Batch, next_offset: int, epoch: int) -> int:
        """Raise CorruptRecord unless the batch may follow; returns its leader epoch.

        Epochs only rise: an older one is left from before a truncation that did not reach the disk.
        """
        batch.check()
        first, batch_epoch = batch.last_offset, epoch
        if isinstance(batch, RecordBatch):
            first, batch_epoch = batch.base_offset, batch.partition_leader_epoch
        if (
            first < next_offset
            or batch.last_offset < first
            or batch.last_offset - self.base_offset > MAX_RELATIVE_OFFSET
        ):
            raise CorruptRecord(f"batch {first}-{batch.last_offset} where offset {next_offset} was expected")
        if 0 <= batch_epoch < epoch:
            raise CorruptRecord(f"batch {first} of leader epoch {batch_epoch} behind one of {epoch}")
        return max(epoch, batch_epoch)

    def truncate_to(self, offset: int, now_ms: int) -> int:
        """Drop the batches that hold `offset` and what is behind it; returns the bytes cut off."""
        place = self.translate_offset(offset)
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        if self._transaction_index is not None:
            self._transaction_index.truncate_to(offset)
        self.recent.clear()
        self.indexes_full = False
        cut = 0
        if place is not None:
            cut = self.size - place.position
            self.size = place.position
            self.file.truncate(place.position)
            self._sequels = SequentialReads()
        if self.size == 0:
            self.created_ms = now_ms
            self.rolling_timestamp = None
        self.bytes_since_last_index_entry = 0
        self._reload_max_timestamp()
        return cut

    def _reload_max_timestamp(self) -> None:
        largest, offset = self.time_index.last_entry
        position = self.offset_index.lookup(offset).position
        for batch in scan_batches(self.file, position, self.size):
            if batch.max_timestamp > largest:
                largest, offset = batch.max_timestamp, batch.last_offset
        self._max_timestamp, self._offset_of_max_timestamp = largest, offset

    # -- files

    def flush(self) -> None:
        """Return when log file and indexes are on stable storage. Needs no lock of the log."""
        self.file.sync()
        self.offset_index.sync()
        self.time_index.sync()
        if self._transaction_index is not None:
            self._transaction_index.sync()

    def change_suffix(self, old: str, new: str) -> None:
        """Rename the files, from `old` at the end of their names to `new`.

        A crash must not leave a log without its transaction index: the log gets its final name last, loses it first.
        """
        files: list[SegmentFile | IndexFile | TransactionIndex] = [self.file, self.offset_index, self.time_index]
        if self._transaction_index is not None:
            files.append(self._transaction_index)
        for file in files if new else reversed(files):
            file.rename(file.path.removesuffix(old) + new)

    def moved_to(self, directory: str) -> None:
        """The log's directory has been renamed to this."""
        for file in (self.file, self.offset_index, self.time_index):
            file.moved_to(os.path.join(directory, os.path.basename(file.path)))
        if self._transaction_index is not None:
            self._transaction_index.moved_to(directory)

    def close(self) -> None:
        """Enter the largest timestamp, bring the indexes to stable storage, trim and close the files."""
        if self.size:
            self._enter_max_timestamp()
        if self.is_preallocated:
            self._trim()
            self.file.sync()
        self.offset_index.close()
        self.time_index.close()
        if self._transaction_index is not None:
            self._transaction_index.sync()
            self._transaction_index.close()
        self.file.close()

    def close_handlers(self) -> None:
        """Close the files for good and write nothing."""
        self.offset_index.close_handlers()
        self.time_index.close_handlers()
        if self._transaction_index is not None:
            self._transaction_index.close_handlers()
        self.file.close_for_good()

    def delete(self) -> None:
        """Remove the files."""
        self.file.delete()
        self.offset_index.delete()
        self.time_index.delete()
        if self._transaction_index is not None:
            self._transaction_index.delete()

    def __repr__(self) -> str:
        return f"LogSegment(baseOffset={self.base_offset}, size={self.size})"


def _leaves_gap(batch: Batch, next_offset: int) -> bool:
    """Whether offsets are missing before the batch; message sets don't say where they begin."""
    return isinstance(batch, RecordBatch) and batch.base_offset != next_offset
