"""The batches of a log file that a recovery keeps: the good ones at its start, up to the first that is not.

Called by `LogSegment.recover` on the thread that loads the log. Reads the file and changes nothing.
Kafka: LogSegment.recover.
"""

from __future__ import annotations

from collections.abc import Iterator

from barnabas.records.errors import CorruptRecord
from barnabas.records.legacy_records import LegacyBatch
from barnabas.records.record_batch import RecordBatch
from barnabas.storage.segment.batch_scan import Readable, scan_batches
from barnabas.storage.segment.offset_index import MAX_RELATIVE_OFFSET

Batch = RecordBatch | LegacyBatch


def good_batches(file: Readable, file_size: int, base_offset: int, gapless_from: int | None) -> Iterator[Batch]:
    """Yield the batches from the start of the file that can be kept, in order. Raises OSError.

    Good means: whole, with a right checksum, behind the batch before it in offset and leader epoch, within the
    segment's range, and from offset `gapless_from` on directly behind that batch. The checksum does not cover the base
    offset, so a damaged one shows only as a gap.
    """
    next_offset = base_offset
    epoch = -1
    try:
        for batch in scan_batches(file, 0, file_size):
            epoch = _check_follows(batch, base_offset, next_offset, epoch)
            if gapless_from is not None and next_offset >= gapless_from and _leaves_gap(batch, next_offset):
                return
            yield batch
            next_offset = batch.last_offset + 1
    except CorruptRecord:
        # The end of what can be kept: the caller cuts the rest off, and reports the bytes.
        return


def _check_follows(batch: Batch, base_offset: int, next_offset: int, epoch: int) -> int:
    """Check that the batch may follow; return its leader epoch. Raises CorruptRecord when it may not.

    Epochs only rise: an older one is left from before a truncation that did not reach the disk.
    """
    batch.check()
    first, last, batch_epoch = batch.last_offset, batch.last_offset, epoch
    if isinstance(batch, RecordBatch):
        first, batch_epoch = batch.base_offset, batch.partition_leader_epoch
    if first < next_offset or last < first or last - base_offset > MAX_RELATIVE_OFFSET:
        raise CorruptRecord(f"batch {first}-{last} where offset {next_offset} was expected")
    if 0 <= batch_epoch < epoch:
        raise CorruptRecord(f"batch {first} of leader epoch {batch_epoch} follows one of {epoch}")
    return max(epoch, batch_epoch)


def _leaves_gap(batch: Batch, next_offset: int) -> bool:
    """Return whether offsets are missing before the batch; message sets do not say where they begin."""
    return isinstance(batch, RecordBatch) and batch.base_offset != next_offset
