"""The part of a log that can be cleaned, its dirtiness, and the segments that become one. Reads logs, changes none.

Functions of a log's current state, called by LogCleanerManager and the cleaner's threads without the log's lock.
Kafka: LogCleanerManager's companion object, LogToClean, Cleaner.groupSegmentsBySize.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import NamedTuple

from barnabas.config.config_key import LONG_MAX
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.segment import offset_index
from barnabas.storage.segment import time_index as time_index_module
from barnabas.storage.segment.log_segment import NOT_KNOWN, LogSegment

logger = logging.getLogger("barnabas.storage.cleaner.log_cleaner")


# The parts of a compacted log, from its start to its end:
#
#   | clean            | dirty                  | uncleanable                        | active segment |
#   ^ log start        ^ first_dirty            ^ first_uncleanable                                 ^ log end
#
# Clean: every key once, as of the last cleaning, whose checkpoint is `first_dirty`. Dirty: its keys go into the offset
# map, and clean and dirty part are copied together. Uncleanable: at or above the last stable offset, or younger than
# min.compaction.lag.ms, or in the active segment. The dirty ratio is dirty / (clean + dirty), in bytes.


class OffsetsToClean(NamedTuple):
    """The offsets from `first_dirty` to below `first_uncleanable`. resets_checkpoint: the checkpoint was wrong."""

    first_dirty: int
    first_uncleanable: int
    resets_checkpoint: bool = False


class LogToClean(NamedTuple):
    """A log that may be cleaned.

    first_uncleanable_offset: where the first segment begins that must not be touched. must_clean_now: the log has
    waited longer than max.compaction.lag.ms allows.
    """

    log: UnifiedLog
    first_dirty_offset: int
    first_uncleanable_offset: int
    clean_bytes: int
    cleanable_bytes: int
    must_clean_now: bool = False

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition of the log."""
        return self.log.topic_partition

    @property
    def total_bytes(self) -> int:
        """The bytes of the segments that may be touched."""
        return self.clean_bytes + self.cleanable_bytes

    @property
    def cleanable_ratio(self) -> float:
        """The dirty share of these bytes, 0 to 1."""
        return self.cleanable_bytes / self.total_bytes if self.total_bytes else 0.0

    @property
    def is_worth_cleaning(self) -> bool:
        """Whether the log is dirty enough, or has waited long enough."""
        if self.must_clean_now and self.cleanable_bytes > 0:
            return True
        return self.cleanable_ratio > self.log.config.min_cleanable_dirty_ratio


def cleanable_offsets(log: UnifiedLog, last_clean_offset: int | None, now_ms: int) -> OffsetsToClean:
    """Return the offsets that can be cleaned.

    They lie behind the checkpoint, and before the last stable offset, the active segment, and the first segment with a
    timestamp younger than min.compaction.lag.ms. A checkpoint outside of the log is reset to the log's start.
    """
    start = log.log_start_offset
    first_dirty, resets = last_clean_offset if last_clean_offset is not None else start, False
    if first_dirty < start:
        if not (log.config.is_compacted and log.config.is_deleted_by_age_or_size):
            logger.warning(
                "Resetting first dirty offset of %s to log start offset %d"
                " since the checkpointed offset %d is invalid.",
                log.topic_partition,
                start,
                first_dirty,
            )
        first_dirty, resets = start, True
    elif first_dirty > log.log_end_offset:
        logger.warning(
            "The last checkpoint dirty offset for partition %s is %d, which is larger than the log end offset %d."
            " Resetting to the log start offset %d.",
            log.topic_partition,
            first_dirty,
            log.log_end_offset,
            start,
        )
        first_dirty, resets = start, True
    # Above the last stable offset it is not decided yet which records were aborted (KIP-98).
    first_uncleanable = min(log.last_stable_offset, log.local.segments.active.base_offset)
    lag_ms = log.config.min_compaction_lag_ms
    if lag_ms > 0:
        for segment in inactive_segments(log, first_dirty):
            if segment.largest_timestamp > now_ms - lag_ms:
                first_uncleanable = min(first_uncleanable, segment.base_offset)
                break
    return OffsetsToClean(first_dirty, max(first_dirty, first_uncleanable), resets)


def log_to_clean(log: UnifiedLog, offsets: OffsetsToClean, *, must_clean_now: bool) -> LogToClean:
    """Measure how dirty the log is; a segment with one uncleanable offset is left out as a whole."""
    first_uncleanable, cleanable_bytes = cleanable_part(log, offsets.first_dirty, offsets.first_uncleanable)
    clean_bytes = sum(segment.size for segment in log.local.segments.values(-1, offsets.first_dirty))
    return LogToClean(log, offsets.first_dirty, first_uncleanable, clean_bytes, cleanable_bytes, must_clean_now)


def cleanable_part(log: UnifiedLog, first_dirty: int, uncleanable: int) -> tuple[int, int]:
    """Return where the segment begins that holds the offset `uncleanable`, and the dirty bytes before it."""
    inactive = inactive_segments(log, uncleanable)
    first_uncleanable = (inactive[0] if inactive else log.local.segments.active).base_offset
    dirty = log.local.segments.values(min(first_dirty, first_uncleanable), first_uncleanable)
    return first_uncleanable, sum(segment.size for segment in dirty)


def max_compaction_delay_ms(log: UnifiedLog, first_dirty: int, now_ms: int) -> int:
    """Return how long the log has been due by max.compaction.lag.ms; 0 when it is not.

    The timestamps of the first batches of all dirty segments count, except the active one's.
    """
    if log.config.max_compaction_lag_ms >= LONG_MAX:
        return 0
    timestamps = [_first_timestamp(segment) for segment in inactive_segments(log, first_dirty)]
    earliest = min((timestamp for timestamp in timestamps if timestamp > 0), default=LONG_MAX)
    return max(0, now_ms - max(log.config.max_compaction_lag_ms, 0) - earliest)


def _first_timestamp(segment: LogSegment) -> int:
    """Return the timestamp of the first batch. It never changes, so the segment keeps it."""
    if segment.rolling_timestamp == NOT_KNOWN and segment.size:
        segment.rolling_timestamp = segment.first_batch_timestamp()
    return max(segment.rolling_timestamp, -1)


def inactive_segments(log: UnifiedLog, offset: int) -> Sequence[LogSegment]:
    """Return the segments from the one that holds `offset` on, without the active one."""
    active = log.local.segments.active
    return log.local.segments.values(offset, active.base_offset)


def group_segments(
    segments: Sequence[LogSegment], max_bytes: int, max_index_bytes: int, first_uncleanable_offset: int
) -> list[list[LogSegment]]:
    """Group neighbours that fit one segment together, by size, by size of either index, and by range of offsets.

    The last offset of a segment is taken to be the one before the next segment; an empty segment has none.
    """
    groups: list[list[LogSegment]] = []
    log_bytes = index_bytes = time_index_bytes = 0
    for place, segment in enumerate(segments):
        following = segments[place + 1].base_offset if place + 1 < len(segments) else first_uncleanable_offset
        # The sizes of the old indexes stand for that of the new one, as in Kafka.
        index = segment.indexes.offsets.entries * offset_index.ENTRY_SIZE
        time_index = segment.indexes.times.entries * time_index_module.ENTRY_SIZE
        fits = (
            groups
            and log_bytes + segment.size <= max_bytes
            and index_bytes + index <= max_index_bytes
            and time_index_bytes + time_index <= max_index_bytes
            and (segment.size == 0 or following - 1 - groups[-1][0].base_offset <= offset_index.MAX_RELATIVE_OFFSET)
        )
        if not fits:
            groups.append([])
            log_bytes = index_bytes = time_index_bytes = 0
        groups[-1].append(segment)
        log_bytes += segment.size
        index_bytes += index
        time_index_bytes += time_index
    return groups
