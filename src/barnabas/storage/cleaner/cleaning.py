"""One cleaning of one log, the broker's part: the order of the steps, and the swap of each new segment.

Run by a cleaner thread, which holds no lock except the log's during a swap. A worker does the heavy work, on files.
Before a record is dropped, the newer record of its key is on stable storage: the older one must not be lost when a
crash loses the newer one. Kafka: Cleaner.doClean, Cleaner.cleanSegments.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime

from barnabas.runtime.clock import Clock
from barnabas.runtime.files import Files
from barnabas.storage.cleaner.choice import LogToClean, group_segments
from barnabas.storage.cleaner.config import CleanerConfig
from barnabas.storage.cleaner.messages import CleanerWorker, DirtySegment, GroupRequest, MapRequest, SourceSegment
from barnabas.storage.cleaner.segment_writer import CleanedSegmentTerms, remove_cleaned_files
from barnabas.storage.cleaner.stats import CleaningStats, CopyStats
from barnabas.storage.file_names import LOG_SUFFIX
from barnabas.storage.log.aborted_transactions import collect_aborted
from barnabas.storage.segment.log_segment import LogSegment

logger = logging.getLogger("barnabas.storage.cleaner.log_cleaner")


# The order of a cleaning, and what a crash leaves:
# 1. The dirty part is flushed: the newer record of a key is on stable storage before the older one goes.
# 2. The offset map is filled, in the worker's memory.
# 3. For each group of segments the worker writes `.cleaned` files and syncs them; a start deletes such files. Then the
#    broker swaps them in; `LocalLog.replace_segments` tells what a start makes of each step.
# 4. After the last group, `LogCleanerManager.done_cleaning` writes the checkpoint. Until then the same part counts as
#    dirty, and is cleaned once more.


class LogCleaning:
    """Cleans `cleanable`, once. check_done: called between the steps; it raises to end the cleaning."""

    def __init__(
        self,
        cleanable: LogToClean,
        worker: CleanerWorker,
        config: CleanerConfig,
        files: Files,
        clock: Clock,
        check_done: Callable[[], None],
    ) -> None:
        self._cleanable = cleanable
        self._log = cleanable.log
        self._worker = worker
        self._config = config
        self._files = files
        self._clock = clock
        self._check_done = check_done
        self._now_ms = clock.milliseconds()

    def run(self) -> tuple[int, CleaningStats]:
        """Clean the log; return the first offset that was not cleaned, and the counts.

        Raises the errors of the worker and of `check_done`. Raises ApiError: KAFKA_STORAGE_ERROR.
        """
        log, name = self._log, self._log.topic_partition
        started_ns = self._clock.nanoseconds()
        logger.info("Beginning cleaning of log %s", name)
        # Before anything else: the dirty part, whose records make older ones superfluous, must survive a crash.
        log.flush(self._cleanable.first_uncleanable_offset)
        self._worker.open()
        self._check_done()
        request = self._map_request()
        logger.info(
            "Building offset map for log %s for %d segments in offset range [%d, %d).",
            name,
            len(request.segments),
            request.start_offset,
            self._cleanable.first_uncleanable_offset,
        )
        found = self._worker.build_map(request)
        logger.info("Offset map for log %s complete.", name)
        index_seconds = self._seconds_since(started_ns)
        # The producer wrote the offsets of records within a batch: a wrong one may have put the map beyond the end.
        end_offset = min(found.latest_offset + 1, self._cleanable.first_uncleanable_offset)
        counts = self._clean_groups(end_offset)
        return end_offset, CleaningStats(
            self._seconds_since(started_ns),
            index_seconds,
            found.bytes_read,
            counts.bytes_read,
            counts.bytes_written,
            counts.messages_read,
            counts.messages_written,
            counts.invalid_messages_read,
            found.utilization,
        )

    def _map_request(self) -> MapRequest:
        """Return the request to fill the offset map from the dirty segments. Raises OSError."""
        start, end = self._cleanable.first_dirty_offset, self._cleanable.first_uncleanable_offset
        dirty = self._log.local.segments.values(start, end)
        ends = [*(segment.base_offset for segment in dirty[1:]), end]
        segments = [
            DirtySegment(segment.file.path, segment.indexes.offsets.lookup(start).position, segment.size, segment_end)
            for segment, segment_end in zip(dirty, ends, strict=True)
        ]
        return MapRequest(
            start,
            segments,
            collect_aborted(self._log.local, start, end),
            self._config.map_bytes_per_thread,
            self._config.load_factor,
            self._config.buffer_bytes_per_thread,
            self._config.bytes_per_second_per_thread,
        )

    def _clean_groups(self, end_offset: int) -> CopyStats:
        """Clean all segments that begin below `end_offset`, including those of earlier cleanings."""
        log, config = self._log, self._log.config
        uncleanable = self._cleanable.first_uncleanable_offset
        segments = log.local.segments.values(0, end_offset)
        before = log.local.segments.values(0, uncleanable)
        horizon_ms = self._legacy_delete_horizon_ms()
        logger.info(
            "Cleaning log %s (cleaning prior to %s, discarding tombstones prior to upper bound deletion horizon %s)...",
            log.topic_partition,
            _date(self._modified_ms(before[-1]) if before else 0),
            _date(horizon_ms),
        )
        counts = CopyStats()
        for group in group_segments(segments, config.segment_bytes, config.segment_index_bytes, uncleanable):
            counts.add(self._clean_group(group, horizon_ms))
        return counts

    def _legacy_delete_horizon_ms(self) -> int:
        """Return the time such that tombstones of magic 0 and 1 stay in segments that were last written after it."""
        clean = self._log.local.segments.values(0, self._cleanable.first_dirty_offset)
        return self._modified_ms(clean[-1]) - self._log.config.delete_retention_ms if clean else 0

    def _clean_group(self, group: Sequence[LogSegment], horizon_ms: int) -> CopyStats:
        """Write one new segment from a group of old ones, and put the new one in their place."""
        log, config = self._log, self._log.config
        self._check_done()
        first = group[0]
        path = first.file.path.removesuffix(LOG_SUFFIX)
        target = CleanedSegmentTerms(
            path,
            first.base_offset,
            config.index_interval_bytes,
            config.segment_index_bytes,
            self._config.buffer_bytes_per_thread,
        )
        logger.info("Cleaning %s in log %s into %d", list(group), log.topic_partition, first.base_offset)
        request = GroupRequest(
            target,
            self._sources(group, horizon_ms),
            self._now_ms,
            config.delete_retention_ms,
            list(log.producers.last_records().items()),
            self._modified_ms(group[-1]),
        )
        try:
            result = self._worker.clean_group(request)
            # Copying takes long: a caller that wants the log must not wait for the swap as well.
            self._check_done()
            logger.info("Swapping in cleaned segment %d for segment(s) %s in log %s", first.base_offset, group, log)
            log.replace_segments(first.base_offset, group)
        except BaseException:
            with suppress(OSError):  # the first error is the one to report; the next start removes them too
                remove_cleaned_files(self._files, path)
            raise
        return result.stats

    def _sources(self, group: Sequence[LogSegment], horizon_ms: int) -> list[SourceSegment]:
        """Return the segments to copy, each with the aborted transactions that overlap it. Raises OSError."""
        ends = [*(segment.base_offset for segment in group[1:]), group[-1].next_offset()]
        return [
            SourceSegment(
                segment.file.path,
                segment.size,
                self._modified_ms(segment) > horizon_ms,
                collect_aborted(self._log.local, segment.base_offset, end),
            )
            for segment, end in zip(group, ends, strict=True)
        ]

    def _modified_ms(self, segment: LogSegment) -> int:
        return self._files.modified_ms(segment.file.path)

    def _seconds_since(self, start_ns: int) -> float:
        return (self._clock.nanoseconds() - start_ns) / 1e9


def _date(milliseconds: int) -> str:
    return datetime.fromtimestamp(max(milliseconds, 0) / 1000, UTC).isoformat(" ", "seconds")
