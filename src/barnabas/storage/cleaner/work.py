"""The cleaner's heavy work on files, at a limited rate: fill the offset map, copy segments.

Knows no logs, locks or settings. One CleanerWork in the cleaner's process (tests run it in theirs, on a simulated
disk); one thread, no lock. It keeps the map and the open transactions from one request to the next: the map first, then
the groups of segments in log order.

Kafka: Cleaner.buildOffsetMap, Cleaner.cleanSegments, org.apache.kafka.storage.internals.utils.Throttler.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import cast

from barnabas.records.legacy_records import LegacyBatch
from barnabas.runtime.clock import Clock, SystemClock
from barnabas.runtime.files import Files
from barnabas.storage.cleaner.batch_cleaner import Batch, BatchCleaner, CleanedTransactions, CleaningTerms, batch_keys
from barnabas.storage.cleaner.messages import DirtySegment, GroupRequest, GroupResult, MapRequest, MapResult
from barnabas.storage.cleaner.offset_map import OffsetMap, offset_map_for
from barnabas.storage.cleaner.segment_writer import CleanedSegmentWriter, cleaned_paths, remove_cleaned_files
from barnabas.storage.cleaner.stats import CopyStats
from barnabas.storage.segment.batch_scan import scan_batches

_THROTTLE_INTERVAL_NS = 300_000_000
_UNLIMITED_RATE = 1e15
"""A rate that no disk reaches: the setting's default, the largest number there is, means no limit."""
LONGEST_SLEEP_SECONDS = 86_400.0
"""The longest pause of a throttle. The setting may be 0, which means that nothing is cleaned."""


class CleanerThrottle:
    """Limits a cleaning's reading and writing: sleeps when more than `bytes_per_second` went by since the last look.

    It looks every 300 ms. sleep: takes seconds.
    """

    __slots__ = ("_bytes_so_far", "_clock", "_period_start_ns", "_sleep", "bytes_per_second")

    def __init__(self, bytes_per_second: float, clock: Clock, sleep: Callable[[float], None]) -> None:
        self.bytes_per_second = bytes_per_second
        self._clock = clock
        self._sleep = sleep
        self._period_start_ns = clock.nanoseconds()
        self._bytes_so_far = 0

    def add(self, size: int) -> None:
        """Count `size` bytes that were read or written; return when more may be."""
        if self.bytes_per_second >= _UNLIMITED_RATE:
            return
        self._bytes_so_far += size
        elapsed_ns = self._clock.nanoseconds() - self._period_start_ns
        if elapsed_ns > _THROTTLE_INTERVAL_NS and self._bytes_so_far:
            rate = self.bytes_per_second
            wanted_ns = self._bytes_so_far / rate * 1e9 if rate else math.inf
            if wanted_ns > elapsed_ns:
                self._sleep(min((wanted_ns - elapsed_ns) / 1e9, LONGEST_SLEEP_SECONDS))
            self._period_start_ns = self._clock.nanoseconds()
            self._bytes_so_far = 0


class CleanerWork:
    """A CleanerWorker that works in this process, on the calling thread."""

    def __init__(
        self,
        files: Files,
        *,
        clock: Clock | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._files = files
        self._clock = clock or SystemClock()
        self._sleep = sleep
        self._map: OffsetMap | None = None
        self._transactions = CleanedTransactions()
        self._throttle = CleanerThrottle(1.0, self._clock, sleep)
        self._buffer_bytes = 0

    def open(self) -> None:
        """Do nothing: this worker is always ready."""

    def interrupt(self) -> None:
        """Do nothing: the calling thread does the work, and no other request can come in between."""

    def build_map(self, request: MapRequest) -> MapResult:
        """Begin a cleaning: fill the map up to the load factor with the newest offsets of keys.

        Raises OSError, CorruptRecord.
        """
        dirty_offsets = max((segment.end_offset for segment in request.segments), default=0) - request.start_offset
        self._map = offset_map_for(request.map_bytes, request.load_factor, request.start_offset, dirty_offsets)
        # For the copy, which begins at the start of the log. The filling, from the first dirty offset on, has its own.
        self._transactions = CleanedTransactions()
        self._throttle = CleanerThrottle(request.bytes_per_second, self._clock, self._sleep)
        self._buffer_bytes = request.buffer_bytes
        filling = _MapFilling(self._map, request)
        for segment in request.segments:
            if not filling.add_segment(segment, self._batches(segment.path, segment.position, segment.size)):
                break
        self._map.finish()
        return MapResult(self._map.latest_offset, self._map.utilization, filling.bytes_read)

    def clean_group(self, request: GroupRequest) -> GroupResult:
        """Write the `.cleaned` files of one group of segments; none are left when this raises.

        Raises OSError, CorruptRecord. Raises ValueError when no map was built.
        """
        if self._map is None:
            raise ValueError("no offset map was built")
        stats = CopyStats()
        terms = CleaningTerms(request.now_ms, request.delete_retention_ms, dict(request.last_records))
        writer = CleanedSegmentWriter(request.target, self._files)
        try:
            self._transactions.on_kept_abort = writer.add_aborted
            cleaner = BatchCleaner(self._map, self._transactions, terms, stats)
            for segment in request.segments:
                self._transactions.add_aborted(segment.aborted)
                cleaner.keeps_legacy_tombstones = segment.keeps_legacy_tombstones
                for batch in self._batches(segment.path, 0, segment.size):
                    cleaned = cleaner.clean(batch)
                    if cleaned is not None:
                        writer.append(cleaned)
                        self._throttle.add(cleaned.size)
            size = writer.finish()
        except BaseException:
            writer.close()
            # The first error is the one to report; the broker removes the files as well.
            with suppress(OSError):
                remove_cleaned_files(self._files, request.target.path)
            raise
        # Retention and the legacy delete horizon go by the time of the last change: a copy must not look younger.
        for path in cleaned_paths(request.target.path):
            if self._files.exists(path):
                self._files.set_modified_ms(path, request.modified_ms)
        return GroupResult(
            size,
            stats.bytes_read,
            stats.bytes_written,
            stats.messages_read,
            stats.messages_written,
            stats.invalid_messages_read,
        )

    def close(self) -> None:
        """Free the memory of the map: the cleaning has ended."""
        self._map = None

    def _batches(self, path: str, position: int, end: int) -> Iterator[Batch]:
        file = self._files.open(path)
        try:
            for batch in scan_batches(file, position, end, self._buffer_bytes):
                self._throttle.add(batch.length)
                yield batch
        finally:
            file.close()


class _MapFilling:
    """Puts the keys of segments into a map until it is full. Kafka: Cleaner.buildOffsetMapForSegment."""

    def __init__(self, offsets: OffsetMap, request: MapRequest) -> None:
        self.bytes_read = 0
        self._map = offsets
        self._start_offset = request.start_offset
        self._most_entries = int(offsets.slots * request.load_factor)
        self._transactions = CleanedTransactions()
        self._transactions.add_aborted(request.aborted)

    def add_segment(self, segment: DirtySegment, batches: Iterator[Batch]) -> bool:
        """Put the keys of a segment into the map; False when the map is full."""
        for batch in batches:
            if not self._add_batch(batch):
                return False
            if batch.last_offset >= self._start_offset:
                self._map.latest_offset = batch.last_offset
            self.bytes_read += batch.length
        # Offsets may be missing at the end of the segment, so the whole segment counts as read.
        self._map.latest_offset = segment.end_offset - 1
        return True

    def _add_batch(self, batch: Batch) -> bool:
        """Put the keys of a batch into the map; False when the map is full. Raises CorruptRecord."""
        if isinstance(batch, LegacyBatch):
            records = list(batch.records())
            return self._add([record.key for record in records], [record.offset for record in records], in_order=False)
        if batch.is_control:
            self._transactions.on_control_batch(batch)
            return True
        # The records of an aborted transaction go: in the map they would take older, committed records with them.
        if self._transactions.on_batch(batch) or batch.count == 0:
            return True
        found = batch_keys(batch)[1]
        return self._add(found.keys, found.offsets, in_order=found.in_order and not found.keyless)

    def _add(self, keys: list[bytes | None], offsets: list[int], *, in_order: bool) -> bool:
        """Put the records that have a key and lie behind the start; False when the map is full."""
        start = self._start_offset
        if offsets[0] < start or None in keys:
            wanted = [
                (key, offset) for key, offset in zip(keys, offsets, strict=True) if key is not None and offset >= start
            ]
            present = [key for key, _ in wanted]
            offsets = [offset for _, offset in wanted]
        else:
            present = cast("list[bytes]", keys)
        room = self._most_entries - len(self._map)
        if len(present) <= room:
            self._map.put_all(present, offsets, in_order=in_order)
            return True
        for key, offset in zip(present, offsets, strict=True):
            if len(self._map) >= self._most_entries:
                return False
            self._map.put(key, offset)
        return True
