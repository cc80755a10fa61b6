"""The data directories of a broker, read without it: where partitions lie, which offsets can be read, and the first
of them at or after a time.

Used by the log source's planner, on its thread; every call looks at the disk again. No lock.
Kafka: UnifiedLog.fetchOffsetByTimestamp, LogSegment.findOffsetByTimestamp.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from typing import NamedTuple

from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.errors import CorruptRecord
from barnabas.runtime.files import Files
from barnabas.storage.checkpoints import (
    HIGH_WATERMARK_FILE,
    LOG_START_OFFSET_FILE,
    MalformedCheckpoint,
    OffsetCheckpointFile,
)
from barnabas.storage.file_names import parse_partition_dir
from barnabas.storage.readonly.partition_log import ListedSegment, LogUnreadable, PartitionLog, unreadable
from barnabas.storage.segment.batch_scan import scan_batches


class ReadableLog(NamedTuple):
    """A log's segments at one moment, and the offsets from `start` up to, not including, `end` that can be read."""

    log: PartitionLog
    segments: list[ListedSegment]
    start: int
    end: int


class ReadonlyDirectories:
    """The directories in `paths`. Raises LogUnreadable for one that does not exist."""

    def __init__(self, paths: Sequence[str], files: Files) -> None:
        self._paths = tuple(paths)
        self._files = files
        for path in self._paths:
            if not files.is_dir(path):
                raise LogUnreadable(f"{path} is no directory; name a broker's data directory (its log.dirs)")

    def topics(self) -> set[str]:
        """Return the names of all topics that have a partition here. Raises OSError."""
        return {key.topic for key in self._found()}

    def logs(self, topics: Collection[str]) -> list[PartitionLog]:
        """Return the partitions of the topics, in order. Raises LogUnreadable for a topic without any, OSError."""
        found = self._found()
        for topic in sorted(topics):
            if not any(key.topic == topic for key in found):
                raise LogUnreadable(
                    f"topic {topic!r} has no partition directory ({topic}-0) in {', '.join(self._paths)}"
                )
        return [PartitionLog(key, path, self._files) for key, path in sorted(found.items()) if key.topic in topics]

    def readable(self, log: PartitionLog, *, to_log_end: bool = False) -> ReadableLog:
        """Return the offsets of a partition that can be read now.

        The end is the high watermark that the broker last wrote down; to_log_end: the last sound batch. Raises
        LogUnreadable when there is no high watermark or no segment; OSError.
        """
        # In this order: records up to this high watermark are in the files that are listed afterwards.
        high_watermark = None if to_log_end else self._high_watermark(log)
        log_start = self._offsets(log, LOG_START_OFFSET_FILE).get(log.topic_partition, 0)
        segments = log.segments()
        if not segments:
            raise LogUnreadable(f"{log.topic_partition}: there is no segment in {log.directory}")
        start = max(segments[0].base_offset, log_start)
        end = log.end_offset(segments) if high_watermark is None else high_watermark
        return ReadableLog(log, segments, start, max(start, end))

    def _high_watermark(self, log: PartitionLog) -> int:
        """Return the checkpointed high watermark; 0 for a partition too new to have one. Raises LogUnreadable."""
        path = os.path.join(os.path.dirname(log.directory), HIGH_WATERMARK_FILE)
        if not self._files.exists(path):
            raise LogUnreadable(
                f"{log.topic_partition}: there is no {path}, so the high watermark is not known; option 'endOfLog' ="
                " 'logEnd' reads up to the last sound batch"
            )
        return self._offsets(log, HIGH_WATERMARK_FILE).get(log.topic_partition, 0)

    def _offsets(self, log: PartitionLog, name: str) -> dict[TopicPartition, int]:
        """Read a checkpoint file beside the partition's directory. Raises LogUnreadable, OSError."""
        try:
            return OffsetCheckpointFile(os.path.dirname(log.directory), name, self._files).read()
        except MalformedCheckpoint as error:
            raise LogUnreadable(f"{log.topic_partition}: {error}") from None

    def _found(self) -> dict[TopicPartition, str]:
        """Return the directories of all partitions. Raises LogUnreadable for a partition that has two; OSError."""
        found: dict[TopicPartition, str] = {}
        for root in self._paths:
            for name in self._files.list_dir(root):
                key = parse_partition_dir(name)
                path = os.path.join(root, name)
                if key is None or not self._files.is_dir(path):
                    continue
                if key in found:
                    raise LogUnreadable(f"{key} lies in {found[key]} and in {path}; name the directories of one broker")
                found[key] = path
        return found


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
