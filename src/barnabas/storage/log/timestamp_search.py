"""ListOffsets: the offset that belongs to a timestamp, special timestamps included.

Called by UnifiedLog on any thread, without a lock. Kafka: UnifiedLog.fetchOffsetByTimestamp.
"""

from __future__ import annotations

from typing import NamedTuple

from barnabas.storage.log.leader_epochs import LeaderEpochCache
from barnabas.storage.log.local_log import LocalLog

# Special timestamps of ListOffsets: KIP-79, and for the last three KIP-734, KIP-405 and KIP-1005. Without a remote tier
# the earliest local offset is the log start, and there is no latest tiered offset.
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


def find_offset(
    local: LocalLog, leader_epochs: LeaderEpochCache, start_offset: int, timestamp_ms: int
) -> TimestampAndOffset | None:
    """Return the first record that is not older than `timestamp_ms`, or what a negative number asks for.

    None when there is no such record. The latest offset is the log end; the caller, who knows the isolation, takes its
    own limit instead. Raises OSError, CorruptRecord, CorruptIndex.
    """
    if timestamp_ms in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
        epoch = leader_epochs.epoch_for_offset(start_offset)
        return TimestampAndOffset(NO_TIMESTAMP, start_offset, NO_EPOCH if epoch is None else epoch)
    if timestamp_ms == LATEST_TIMESTAMP:
        return TimestampAndOffset(NO_TIMESTAMP, local.end.message_offset, leader_epochs.latest_epoch)
    if timestamp_ms == MAX_TIMESTAMP:
        return _find_max_timestamp(local, start_offset)
    if timestamp_ms == LATEST_TIERED_TIMESTAMP:
        return TimestampAndOffset(NO_TIMESTAMP, -1, NO_EPOCH)
    return _find_timestamp(local, start_offset, timestamp_ms)


def _find_timestamp(local: LocalLog, start_offset: int, timestamp_ms: int) -> TimestampAndOffset | None:
    """Return the first such record in order of offsets.

    Segments whose largest timestamp is large enough but which hold no such record are passed over; Kafka looks into
    one segment only, and finds nothing.
    """
    for segment in local.segments.all():
        if segment.largest_timestamp >= timestamp_ms:
            found = segment.find_offset_by_timestamp(timestamp_ms, start_offset)
            if found is not None:
                return TimestampAndOffset(*found)
    return None


def _find_max_timestamp(local: LocalLog, start_offset: int) -> TimestampAndOffset | None:
    """Return the first record that has the largest timestamp; where no record has one, the first record.

    The largest timestamp that a segment knows may be of a record before the log start (DeleteRecords has cut it off),
    or of one that was cleaned away: then the records that are left decide. Kafka answers with such a record, or none.
    """
    best: TimestampAndOffset | None = None
    # Segments by the largest timestamp they know: those that can hold nothing newer are not read.
    known = [(segment.max_timestamp_and_offset().timestamp, segment) for segment in local.segments.all()]
    for largest, segment in sorted(known, key=lambda each: -each[0]):
        if best is not None and largest < best.timestamp:
            break
        found = segment.find_offset_by_timestamp(largest, start_offset) or segment.find_largest_timestamp(start_offset)
        if found is not None and (best is None or (found[0], -found[1]) > (best.timestamp, -best.offset)):
            best = TimestampAndOffset(*found)
    return best


def segment_boundaries(
    local: LocalLog, start_offset: int, timestamp_ms: int, max_offsets: int, now_ms: int
) -> list[int]:
    """Return up to `max_offsets` offsets where segments begin, no newer than `timestamp_ms`, newest first.

    The log end offset counts as a boundary of `now_ms` unless the last segment is empty. For ListOffsets v0, which
    knows no finer answer. Raises OSError. Kafka: UnifiedLog.legacyFetchOffsetsBefore.
    """
    segments = local.segments.all()
    boundaries = [(max(segment.base_offset, start_offset), segment.largest_timestamp) for segment in segments]
    if segments[-1].size:
        boundaries.append((local.end.message_offset, now_ms))
    if timestamp_ms == LATEST_TIMESTAMP:
        last = len(boundaries) - 1
    elif timestamp_ms == EARLIEST_TIMESTAMP:
        last = 0
    else:
        last = max((place for place, (_, time) in enumerate(boundaries) if time <= timestamp_ms), default=-1)
    offsets = [offset for offset, _ in boundaries[: last + 1]]
    return sorted(offsets, reverse=True)[:max_offsets]
