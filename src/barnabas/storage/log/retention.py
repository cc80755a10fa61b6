"""Deletion of old segments: by time, by size, and of those wholly below the log start offset.

Called by `UnifiedLog.delete_old_segments`, which holds the log's lock. Kafka: UnifiedLog.deleteOldSegments.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from barnabas.storage.log.state import LogState
from barnabas.storage.segment.log_segment import LogSegment

logger = logging.getLogger(__name__)

# Worked example: segments of 40, 40 and 40 bytes begin at 0, 100 and 200, the log ends at 250, the high watermark is
# 210, and retention.bytes is 50. 70 bytes are too many. The first segment goes, which leaves 30; the second one is
# larger than what is left to delete, so it stays: a log keeps at least its retention.bytes. Whatever the settings are,
# a segment that reaches above the high watermark stays, and so does every later one: a log has no holes.
Predicate = Callable[[LogSegment, LogSegment | None], bool]
"""A test whether a segment goes, given the one behind it (None: there is none)."""


def delete_old_segments(state: LogState) -> int:
    """Delete what the topic's settings no longer want; return the number of segments.

    Compacted topics lose only what lies below the log start offset, unless their policy says delete too.
    Raises OSError, CorruptRecord, CorruptIndex. Raises ApiError: KAFKA_STORAGE_ERROR when the log is closed.
    """
    deleted = _delete(state, _below_start_offset(state), "log start offset breach")
    if state.local.config.is_deleted_by_age_or_size:
        deleted += _delete(state, _beyond_retention_bytes(state), "retention size breach")
        deleted += _delete(state, _beyond_retention_ms(state), "retention time breach")
    return deleted


def _below_start_offset(state: LogState) -> Predicate:
    start = state.bounds.start
    return lambda _segment, following: following is not None and following.base_offset <= start


def _beyond_retention_bytes(state: LogState) -> Predicate:
    """Return a predicate that counts down what is too much: ask it once per segment, the oldest first."""
    retention_bytes = state.local.config.retention_bytes
    surplus = state.local.segments.size - retention_bytes if retention_bytes >= 0 else -1

    def is_surplus(segment: LogSegment, _following: LogSegment | None) -> bool:
        nonlocal surplus
        if surplus < segment.size:
            return False
        surplus -= segment.size
        return True

    return is_surplus


def _beyond_retention_ms(state: LogState) -> Predicate:
    retention_ms, now_ms = state.local.config.retention_ms, state.environment.clock.milliseconds()
    return lambda segment, _following: retention_ms >= 0 and now_ms - segment.largest_timestamp > retention_ms


def _delete(state: LogState, predicate: Predicate, reason: str) -> int:
    """Delete from the oldest on while `predicate` holds, but nothing at or above the high watermark.

    There is always an active segment: when the last one goes, the log is rolled first. An empty last segment stays.
    Raises OSError, CorruptRecord, CorruptIndex.
    """
    local = state.local
    high_watermark = state.bounds.high_watermark.message_offset
    deletable = []
    segments = local.segments.all()
    for place, segment in enumerate(segments):
        following = segments[place + 1] if place + 1 < len(segments) else None
        upper_bound = following.base_offset if following is not None else local.end.message_offset
        if high_watermark < upper_bound or not predicate(segment, following):
            break
        # An empty last segment is what a roll would put in its place.
        if following is None and segment.size == 0:
            break
        deletable.append(segment)
    if not deletable:
        return 0
    if len(deletable) == len(segments):
        state.roll()
    following = local.segments.higher(deletable[-1].base_offset)
    if following is None:
        raise ValueError(f"{local.topic_partition} has no segment after {deletable[-1]}")
    logger.info("Deleting segments of %s due to %s: %s", local.topic_partition, reason, deletable)
    # The start rises first: a reader gets OFFSET_OUT_OF_RANGE and not a missing file. The checkpoint of the start is
    # written later; a start that finds it too low begins at the first segment that is there.
    state.maybe_increment_log_start_offset(following.base_offset, "segment deletion")
    local.delete_segments(deletable, delayed=True)
    state.producers.delete_snapshots_below(following.base_offset)
    return len(deletable)
