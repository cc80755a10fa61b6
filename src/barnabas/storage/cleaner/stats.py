"""The counts of a cleaning, for the broker's log and the cleaner's metrics. Kafka: CleanerStats, PreCleanStats.

`CopyStats` is owned by the cleaning in its process; a finished `CleaningStats` is immutable and read by any thread.
`CleanerIo` is shared by the cleaner's threads, under its lock.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

from barnabas.metrics.meter import Meter

_MEGABYTE = 1024 * 1024


@dataclass(slots=True)
class CopyStats:
    """Counts of a copy. Bytes are those of whole batches; messages those of batches whose records were read."""

    bytes_read: int = 0
    bytes_written: int = 0
    messages_read: int = 0
    messages_written: int = 0
    invalid_messages_read: int = 0
    """Records without a key, which a compacted log should not have."""

    def add(self, other: CopyStats) -> None:
        """Add the counts of another copy."""
        self.bytes_read += other.bytes_read
        self.bytes_written += other.bytes_written
        self.messages_read += other.messages_read
        self.messages_written += other.messages_written
        self.invalid_messages_read += other.invalid_messages_read


@dataclass(frozen=True, slots=True)
class PreCleanStats:
    """Findings of the choice of a log: the longest delay of a compaction, and how many logs wait for one."""

    max_compaction_delay_ms: int = 0
    delayed_partitions: int = 0
    cleanable_partitions: int = 0


@dataclass(frozen=True, slots=True)
class CleaningStats:
    """The counts of one cleaning. Durations are in seconds; `index_seconds` of them went into the offset map."""

    elapsed_seconds: float = 0.0
    index_seconds: float = 0.0
    map_bytes_read: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    messages_read: int = 0
    messages_written: int = 0
    invalid_messages_read: int = 0
    buffer_utilization: float = 0.0
    """The filled share of the offset map, 0 to 1."""

    def message(self, thread_id: int, log_name: str, from_offset: int, to_offset: int) -> str:
        """Return Kafka's text about a cleaning of the dirty section between the two offsets."""
        elapsed, index = self.elapsed_seconds, self.index_seconds
        read_mb, written_mb = self.bytes_read / _MEGABYTE, self.bytes_written / _MEGABYTE
        map_mb = self.map_bytes_read / _MEGABYTE
        fewer_bytes = 100.0 * (1 - _ratio(self.bytes_written, self.bytes_read))
        fewer_messages = 100.0 * (1 - _ratio(self.messages_written, self.messages_read))
        return (
            f"\n\tLog cleaner thread {thread_id} cleaned log {log_name} (dirty section = [{from_offset}, {to_offset}])"
            f"\n\t{read_mb:,.1f} MB of log processed in {elapsed:,.1f} seconds"
            f" ({_ratio(read_mb, elapsed):,.1f} MB/sec)."
            f"\n\tIndexed {map_mb:,.1f} MB in {index:.1f} seconds"
            f" ({_ratio(map_mb, index):,.1f} Mb/sec, {100 * _ratio(index, elapsed):.1f}% of total time)"
            f"\n\tBuffer utilization: {100 * self.buffer_utilization:.1f}%"
            f"\n\tCleaned {read_mb:,.1f} MB in {elapsed - index:.1f} seconds"
            f" ({_ratio(read_mb, elapsed - index):,.1f} Mb/sec,"
            f" {100 * _ratio(elapsed - index, elapsed):.1f}% of total time)"
            f"\n\tStart size: {read_mb:,.1f} MB ({self.messages_read:,d} messages)"
            f"\n\tEnd size: {written_mb:,.1f} MB ({self.messages_written:,d} messages)"
            f"\n\t{fewer_bytes:.1f}% size reduction ({fewer_messages:.1f}% fewer messages)\n"
        )


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


class CleanerIo:
    """The bytes that all cleanings have read and written. Kafka: the meter `cleaner-io` of its Throttler."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.meter = Meter()

    def add(self, stats: CleaningStats) -> None:
        """Count a cleaning that has ended."""
        with self._lock:
            self.meter.count += stats.map_bytes_read + stats.bytes_read + stats.bytes_written
