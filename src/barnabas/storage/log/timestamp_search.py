"""ListOffsets: the offset that belongs to a timestamp, special ones included.

Called by `UnifiedLog.offset_for_timestamp` on any thread, without a lock. Kafka: UnifiedLog.fetchOffsetByTimestamp.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from barnabas.storage.log.unified_log import UnifiedLog

LATEST_TIMESTAMP = -1
EARLIEST_TIMESTAMP = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL_TIMESTAMP = -4
LATEST_TIERED_TIMESTAMP = -5

NO_TIMESTAMP = -1
NO_EPOCH = -1


class TimestampAndOffset(NamedTuple):
    """A record's timestamp (-1 where none is asked for), its offset, and the leader epoch it was written in, or -1."""

    timestamp: int
    offset: int
    leader_epoch: int


def find_offset(log: UnifiedLog, timestamp_ms: int) -> TimestampAndOffset | None:
    """The first record that is not older than `timestamp_ms`, or what a negative number asks for. Raises OSError.

    The latest offset is the log end; the caller, who knows the isolation, takes its own limit instead.
    """
    if timestamp_ms in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
        start = log.log_start_offset
        epoch = log.leader_epochs.epoch_for_offset(start)
        return TimestampAndOffset(NO_TIMESTAMP, start, NO_EPOCH if epoch is None else epoch)
    if timestamp_ms == LATEST_TIMESTAMP:
        return TimestampAndOffset(NO_TIMESTAMP, log.log_end_offset, log.leader_epochs.latest_epoch)
    if timestamp_ms == MAX_TIMESTAMP:
        return _find_max_timestamp(log)
    if timestamp_ms == LATEST_TIERED_TIMESTAMP:
        return TimestampAndOffset(NO_TIMESTAMP, -1, NO_EPOCH)
    return _find_timestamp(log, timestamp_ms)


def _find_timestamp(log: UnifiedLog, timestamp_ms: int) -> TimestampAndOffset | None:
    """The first such record in order of offsets. Segments without one are passed over (Kafka looks into one only)."""
    for segment in log.local.segments.all():
        if segment.largest_timestamp >= timestamp_ms:
            found = segment.find_offset_by_timestamp(timestamp_ms, log.log_start_offset)
            if found is not None:
                return TimestampAndOffset(*found)
    return None


def _find_max_timestamp(log: UnifiedLog) -> TimestampAndOffset | None:
    """The first record that has the largest timestamp; where no record has one, the first record."""
    segments = log.local.segments.all()
    largest = max(segment.max_timestamp_and_offset().timestamp for segment in segments)
    for segment in segments:
        if segment.max_timestamp_and_offset().timestamp == largest:
            found = segment.find_offset_by_timestamp(largest, log.log_start_offset)
            if found is not None:
                return TimestampAndOffset(*found)
    return None


def offsets_before(log: UnifiedLog, timestamp_ms: int, max_offsets: int, now_ms: int) -> list[int]:
    """ListOffsets v0: up to `max_offsets` segment boundaries no newer than `timestamp_ms`, falling."""
    segments = log.local.segments.all()
    boundaries = [(max(segment.base_offset, log.log_start_offset), segment.largest_timestamp) for segment in segments]
    if segments[-1].size:
        boundaries.append((log.log_end_offset, now_ms))
    if timestamp_ms == LATEST_TIMESTAMP:
        last = len(boundaries) - 1
    elif timestamp_ms == EARLIEST_TIMESTAMP:
        last = 0
    else:
        last = max((place for place, (_, time) in enumerate(boundaries) if time <= timestamp_ms), default=-1)
    offsets = [offset for offset, _ in boundaries[: last + 1]]
    return sorted(offsets, reverse=True)[:max_offsets]
