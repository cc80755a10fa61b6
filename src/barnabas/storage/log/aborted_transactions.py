"""The aborted transactions that a reader of committed records must skip, looked up segment by segment.

Called by UnifiedLog on the reading thread, without a lock. A transaction's entry is in the segment of its marker, so
the search goes on from the segment that was read until an entry's last stable offset shows that no earlier transaction
was open.
Kafka: LocalLog.addAbortedTransactions, collectAbortedTransactions.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from barnabas.storage.fetch_data import AbortedTransaction, FetchDataInfo
from barnabas.storage.log.local_log import LocalLog
from barnabas.storage.log_offset_metadata import LogOffsetMetadata
from barnabas.storage.segment.index_file import CorruptIndex
from barnabas.storage.segment.log_segment import LogSegment
from barnabas.storage.segment.transaction_index import AbortedTransactionEntry

END_OF_ALL = 2**63 - 1


# Worked example: a transaction has batches at 10 and 30, its abort marker is at 60, and segments begin at 0, 20 and 50.
# A fetch reads from 10 on and gets bytes up to offset 19. The entry of the transaction is in the third segment's index,
# that of its marker, so the indexes of the first, second and third segment are read. The entry says (first 10, last 60,
# last stable 61): it overlaps what was read, and since everything before 61 is decided, no later index is read.


def read_committed(
    local: LocalLog, start_offset: int, max_bytes: int, limit: LogOffsetMetadata, *, min_one_message: bool
) -> FetchDataInfo:
    """Read as `LocalLog.read` does, and add the aborted transactions among the records.

    Records and index must be of the same segment. The cleaner may have swapped in another one of the same offset
    between the two reads, whose index lacks transactions without records; then both are read again.
    Raises OSError, CorruptRecord, CorruptIndex.
    """
    while True:
        before = local.segments.all()
        data = local.read(start_offset, max_bytes, limit, min_one_message=min_one_message)
        if not data.records:
            data.aborted_transactions = []
            return data
        base_offset = data.fetch_offset.segment_base_offset
        segment = _segment_at(before, base_offset)
        if segment is not None:
            try:
                data.aborted_transactions = _aborted_among(local, segment, data)
            except (OSError, CorruptIndex):
                data.release()
                raise
            # None: retention has removed the segment, whose records and index belong together all the same.
            if _segment_at(local.segments.all(), base_offset) in (segment, None):
                return data
        data.release()


def _segment_at(segments: tuple[LogSegment, ...], base_offset: int) -> LogSegment | None:
    """Return the segment that begins at `base_offset`, if there is one."""
    place = bisect_left(segments, base_offset, key=lambda segment: segment.base_offset)
    found = segments[place] if place < len(segments) else None
    return found if found is not None and found.base_offset == base_offset else None


def _aborted_among(local: LocalLog, segment: LogSegment, data: FetchDataInfo) -> list[AbortedTransaction]:
    """Return the aborted transactions among the records of `data`, read from `segment`.

    Raises OSError, CorruptIndex.
    """
    place = data.fetch_offset
    start_offset, base_offset = place.message_offset, place.segment_base_offset
    upper_bound = segment.upper_bound_offset(place.position_in_segment, len(data.records))
    if upper_bound is None:
        following = local.segments.higher(base_offset)
        upper_bound = local.end.message_offset if following is None else following.base_offset
    found, is_complete = segment.indexes.collect_aborted(start_offset, upper_bound)
    if not is_complete:
        later = (each for each in local.segments.values(base_offset, END_OF_ALL) if each.base_offset > base_offset)
        found += _collect(later, start_offset, upper_bound)
    return [AbortedTransaction(entry.producer_id, entry.first_offset) for entry in found]


def collect_aborted(local: LocalLog, start_offset: int, upper_bound_offset: int) -> list[AbortedTransactionEntry]:
    """Return the aborted transactions that overlap offsets from the start to below the bound.

    Raises OSError, CorruptIndex.
    """
    return _collect(local.segments.values(start_offset, END_OF_ALL), start_offset, upper_bound_offset)


def _collect(
    segments: Iterable[LogSegment], start_offset: int, upper_bound_offset: int
) -> list[AbortedTransactionEntry]:
    """Do what `collect_aborted` does, from the first of these segments on."""
    found: list[AbortedTransactionEntry] = []
    for segment in segments:
        entries, is_complete = segment.indexes.collect_aborted(start_offset, upper_bound_offset)
        found += entries
        if is_complete:
            break
    return found
