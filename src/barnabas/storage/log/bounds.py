"""The offsets that bound what readers of a log may see, as one immutable value.

Owned by a log's `LogState`, which replaces the value by one assignment, under the log's lock; readers on any thread
take no lock, and offsets they read from one value belong together. Pure: a move returns another value.
Kafka: UnifiedLog's fields logStartOffset, highWatermarkMetadata and firstUnstableOffsetMetadata.
"""

from __future__ import annotations

from typing import NamedTuple

from barnabas.storage.fetch_data import FetchIsolation
from barnabas.storage.log_offset_metadata import LogOffsetMetadata


class LogBounds(NamedTuple):
    """The bounds of one log, from its start up; the log end offset is not among them, it moves with every append.

    start: the log start offset. high_watermark: consumers see what lies below; a follower's has no place until somebody
    reads up to it (`LogState.placed_bounds`). first_unstable: where the oldest transaction begins that is open, or
    whose marker is not replicated yet. last_stable: consumers that read committed records see what lies below;
    `bounds_of` computes it from the other two.
    """

    start: int
    high_watermark: LogOffsetMetadata
    first_unstable: LogOffsetMetadata | None
    last_stable: LogOffsetMetadata

    def limit(self, isolation: FetchIsolation) -> LogOffsetMetadata:
        """Return up to where a consumer of this isolation may read."""
        return self.last_stable if isolation is FetchIsolation.TXN_COMMITTED else self.high_watermark

    def with_start(self, start: int) -> LogBounds:
        """Return these bounds with another log start offset."""
        return bounds_of(start, self.high_watermark, self.first_unstable)

    def with_high_watermark(self, place: LogOffsetMetadata) -> LogBounds:
        """Return these bounds with another high watermark."""
        return bounds_of(self.start, place, self.first_unstable)

    def with_first_unstable(self, place: LogOffsetMetadata | None) -> LogBounds:
        """Return these bounds with another first unstable offset."""
        return bounds_of(self.start, self.high_watermark, place)

    def cut_at(self, end: LogOffsetMetadata) -> LogBounds:
        """Return these bounds for a log that was truncated and ends at `end` now: no bound lies above the end."""
        high_watermark = self.high_watermark
        if high_watermark.message_offset >= end.message_offset:
            high_watermark = end
        return bounds_of(min(self.start, end.message_offset), high_watermark, self.first_unstable)

    def is_raised_by(self, place: LogOffsetMetadata) -> bool:
        """Return whether `place` raises the high watermark, or moves it from an older segment into a newer one."""
        old = self.high_watermark
        if old.message_offset == place.message_offset:
            return old.on_older_segment(place)
        return old.message_offset < place.message_offset


def bounds_of(start: int, high_watermark: LogOffsetMetadata, first_unstable: LogOffsetMetadata | None) -> LogBounds:
    """Make bounds; the last stable offset is the high watermark, or the first unstable offset if that is smaller."""
    last_stable = high_watermark
    if first_unstable is not None and first_unstable.message_offset < high_watermark.message_offset:
        last_stable = first_unstable
    return LogBounds(start, high_watermark, first_unstable, last_stable)
