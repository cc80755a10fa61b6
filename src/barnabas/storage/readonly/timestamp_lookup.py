"""Finds the first offset at or after a time in a log that is read without its broker.

Used by the log source's planner on its thread; pure but for the reads of the files. Kafka:
UnifiedLog.fetchOffsetByTimestamp, LogSegment.findOffsetByTimestamp.
"""

from __future__ import annotations

from barnabas.records.errors import CorruptRecord
from barnabas.storage.readonly.log_directories import ReadableLog
from barnabas.storage.readonly.partition_log import ListedSegment, unreadable
from barnabas.storage.segment.batch_scan import scan_batches


def offset_of_timestamp(readable: ReadableLog, timestamp_ms: int) -> int | None:
    """Return the offset of the first readable record that is not older than `timestamp_ms`, or None.

    Raises LogUnreadable, OSError.
    """
    for number, segment in enumerate(readable.segments):
        is_last = number + 1 == len(readable.segments)
        if not is_last and not may_hold(readable, segment, timestamp_ms):
            continue
        found = _in_segment(readable, segment, timestamp_ms)
        if found is not None:
            return found if found < readable.end else None
    return None


def may_hold(readable: ReadableLog, segment: ListedSegment, timestamp_ms: int) -> bool:
    """Return whether a segment that is no longer written may hold a record that is not older. Raises OSError."""
    # The last entry of a closed segment has its largest timestamp; without an index, nothing is known.
    last = readable.log.time_hints(segment).last()
    return last is None or last.timestamp >= timestamp_ms


def _in_segment(readable: ReadableLog, segment: ListedSegment, timestamp_ms: int) -> int | None:
    log = readable.log
    before = log.time_hints(segment).before(timestamp_ms)
    start = max(readable.start, segment.base_offset if before is None else before.offset + 1)
    # Nothing is looked up at the end: behind it may lie what a crash has left.
    if start >= readable.end:
        return None
    offset = start
    file = log.open(segment)
    try:
        position = log.cut_in(file, segment, start).position if start > segment.base_offset else 0
        for batch in scan_batches(file, position, segment.size):
            offset = batch.last_offset
            if batch.max_timestamp >= timestamp_ms:
                for record in batch.records():
                    if record.offset >= start and record.timestamp >= timestamp_ms:
                        return record.offset
            if offset + 1 >= readable.end:
                return None
    except CorruptRecord as error:
        raise unreadable(log.topic_partition, offset, segment.path, error) from None
    finally:
        file.close()
    return None
