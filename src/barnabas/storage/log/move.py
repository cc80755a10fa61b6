"""The copying of a log into another log directory, batch by batch.

The copy is a UnifiedLog in a `-future` directory, with a lock of its own that is taken inside the log's
(LockRank.FUTURE_LOG). Its segments begin where the log's begin, so that the files come out equal byte for byte, and a
place in the old files is the same place in the new ones.

Called by `FutureLogs` on the threads of the replica layer that move logs. Kafka: ReplicaAlterLogDirsThread.
"""

from __future__ import annotations

from dataclasses import replace

from barnabas.config.config_key import INT_MAX, LONG_MAX
from barnabas.config.log_config import LogConfig
from barnabas.records.file_records import FileRecords
from barnabas.storage.log.unified_log import UnifiedLog


def config_of_copy(config: LogConfig) -> LogConfig:
    """Return the settings of a copy: it rolls where the log has rolled, and is flushed once, at the end."""
    return replace(
        config,
        segment_bytes=INT_MAX,
        segment_ms=LONG_MAX,
        preallocate=False,
        flush_messages=LONG_MAX,
        flush_ms=LONG_MAX,
    )


def copy_batches(log: UnifiedLog, future: UnifiedLog, max_bytes: int) -> int:
    """Append the next batches of `log` to its copy; return their bytes. 0: the copy ends where the log ended.

    What the log has lost meanwhile, at either end, the copy loses first. Raises ApiError: KAFKA_STORAGE_ERROR,
    CORRUPT_MESSAGE. Raises OSError, CorruptRecord, CorruptIndex when the log cannot be read; FileNotFoundError when a
    segment was deleted meanwhile, and the next call goes on behind it.
    """
    local = log.local
    end = local.end
    _cut(log, future)
    first = local.segments.first.base_offset
    if future.log_end_offset < first:
        future.truncate_fully_and_start_at(first)
    position = future.log_end_offset
    if position >= end.message_offset:
        _roll_as(future, local.segments.active.base_offset)
        return 0
    data = local.read(position, max_bytes, end, min_one_message=True)
    try:
        records = data.records.read() if isinstance(data.records, FileRecords) else data.records
    finally:
        data.release()
    if records:
        _roll_as(future, data.fetch_offset.segment_base_offset)
        future.append_as_follower(records)
    return len(records)


def _roll_as(future: UnifiedLog, base_offset: int) -> None:
    """Begin the segment that the log begins at `base_offset`, unless the copy is in it."""
    if base_offset > future.local.segments.active.base_offset:
        future.roll(base_offset)


def _cut(log: UnifiedLog, future: UnifiedLog) -> None:
    """Cut the end of the copy off that the log has lost since: it was truncated to its leader's (KIP-101)."""
    end = future.log_end_offset
    offset = min(end, log.log_end_offset)
    epoch = future.leader_epochs.latest_epoch
    if epoch >= 0:
        known = log.end_offset_for_epoch(epoch)
        if known is None:
            # The log knows no such epoch any more: they agree at most up to the end of its newest one.
            known = future.end_offset_for_epoch(log.leader_epochs.latest_epoch)
        elif known.epoch < epoch:
            common = future.end_offset_for_epoch(known.epoch)
            offset = min(offset, known.start_offset, 0 if common is None else common.start_offset)
        if known is not None:
            offset = min(offset, known.start_offset)
    if offset < end:
        future.truncate_to(max(offset, 0))
