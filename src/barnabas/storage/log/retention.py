"""Which old segments go: by time, by size, and those wholly below the log start offset.

Called by `UnifiedLog.delete_old_segments`, which holds the log's lock. Kafka: UnifiedLog.deleteOldSegments.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas.storage.log_environment import LogEnvironment
from barnabas.storage.segment.log_segment import LogSegment

if TYPE_CHECKING:
    from barnabas.storage.log.unified_log import UnifiedLog

logger = logging.getLogger(__name__)

Predicate = Callable[[LogSegment, LogSegment | None], bool]


def delete_old_segments(log: UnifiedLog, environment: LogEnvironment) -> int:
    """Delete what the topic's settings no longer want; returns the number of segments. Raises OSError.

    Compacted topics lose only what lies below the log start offset, unless their policy says delete too.
    """
    deleted = _delete(log, _below_start_offset(log), "log start offset breach")
    if log.config.is_deleted_by_age_or_size:
        deleted += _delete(log, _beyond_retention_bytes(log), "retention size breach")
        now_ms = environment.clock.milliseconds()
        deleted += _delete(log, _beyond_retention_ms(log, now_ms), "retention time breach")
    return deleted


def _below_start_offset(log: UnifiedLog) -> Predicate:
    return lambda _segment, following: following is not None and following.base_offset <= log.log_start_offset


def _beyond_retention_bytes(log: UnifiedLog) -> Predicate:
    surplus = log.size - log.config.retention_bytes if log.config.retention_bytes >= 0 else -1

    def goes(segment: LogSegment, _following: LogSegment | None) -> bool:
        nonlocal surplus
        if surplus < segment.size:
            return False
        surplus -= segment.size
        return True

    return goes


def _beyond_retention_ms(log: UnifiedLog, now_ms: int) -> Predicate:
    retention_ms = log.config.retention_ms
    return lambda segment, _following: retention_ms >= 0 and now_ms - segment.largest_timestamp > retention_ms


def _delete(log: UnifiedLog, predicate: Predicate, reason: str) -> int:
    """Delete from the oldest on while `predicate` holds, but nothing at or above the high watermark.

    There is always an active segment: when the last one goes, the log is rolled first. An empty last segment stays.
    """
    doomed = []
    segments = log.local.segments.all()
    for place, segment in enumerate(segments):
        following = segments[place + 1] if place + 1 < len(segments) else None
        upper_bound = following.base_offset if following is not None else log.log_end_offset
        if log.high_watermark < upper_bound or not predicate(segment, following):
            break
        if following is None and segment.size == 0:
            break
        doomed.append(segment)
    if not doomed:
        return 0
    if len(doomed) == len(segments):
        log.roll()
    following = log.local.segments.higher(doomed[-1].base_offset)
    if following is None:
        raise ValueError(f"{log} has no segment behind {doomed[-1]}")
    logger.info("Deleting segments of %s due to %s: %s", log.topic_partition, reason, doomed)
    log.maybe_increment_log_start_offset(following.base_offset, "segment deletion")
    log.local.delete_segments(doomed, delayed=True)
    log.producer_states.delete_snapshots_below(following.base_offset)
    return len(doomed)
