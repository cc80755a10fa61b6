"""Which aborted transactions a reader of committed records must skip, looked up segment by segment.

Called by `UnifiedLog` on the reading thread, without a lock. A transaction's entry is in the segment of its marker, so
the search goes on from the segment that was read until an entry says that everything before was decided.
Kafka: LocalLog.addAbortedTransactions, collectAbortedTransactions.
"""

from __future__ import annotations

from barnabas.storage.fetch_data import AbortedTransaction, FetchDataInfo
from barnabas.storage.local_log import LocalLog
from barnabas.storage.log_segments import LogSegments
from barnabas.storage.transaction_index import AbortedTransactionEntry

_END = 2**63 - 1


def aborted_of_fetch(local: LocalLog, data: FetchDataInfo) -> list[AbortedTransaction]:
    """What was aborted among the records that were read. Raises OSError."""
    if not data.records:
        return []
    start_offset, base_offset, position = data.fetch_offset
    segment = local.segments.floor(base_offset)
    if segment is None or segment.base_offset != base_offset:
        return []  # retention has removed it meanwhile, and the file with it
    upper_bound = segment.upper_bound_offset(position, len(data.records))
    if upper_bound is None:
        following = local.segments.higher(base_offset)
        upper_bound = local.end.message_offset if following is None else following.base_offset
    found = collect_aborted(local.segments, base_offset, start_offset, upper_bound)
    return [AbortedTransaction(entry.producer_id, entry.first_offset) for entry in found]


def collect_aborted(
    segments: LogSegments, from_segment: int, start_offset: int, upper_bound_offset: int
) -> list[AbortedTransactionEntry]:
    """The aborted transactions that overlap the offsets, from the segment that holds `from_segment` on."""
    found: list[AbortedTransactionEntry] = []
    for segment in segments.values(from_segment, _END):
        entries, complete = segment.collect_aborted(start_offset, upper_bound_offset)
        found += entries
        if complete:
            break
    return found
