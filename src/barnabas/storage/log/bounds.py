"""The offsets that bound what readers of a log may see, as one immutable value.

Owned by a log's `LogState`, which replaces the value by one assignment, under the log's lock; readers on any thread
take no lock, and offsets they read from one value belong together. Pure: a move returns another value.
Kafka: UnifiedLog's fields logStartOffset, highWatermarkMetadata and firstUnstableOffsetMetadata.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.storage.fetch_data import FetchIsolation
from barnabas.storage.log_offset_metadata import LogOffsetMetadata

if TYPE_CHECKING:
    from mypy_extensions import i64

_COMMITTED: Final = FetchIsolation.TXN_COMMITTED

# How the offsets of a log move
#
# Five offsets matter, and they never lie in another order than this:
#
#     log start <= last stable <= high watermark <= log end        last stable = min(first unstable, high watermark)
#
# A produced batch moves the log end only. The high watermark follows when all in-sync replicas have the batch: the
# replica layer says so (`maybe_increment_high_watermark`), or, when a batch is committed by its append, the caller of
# `append_as_leader` does. An open transaction holds the last stable offset back, until the high watermark has passed
# the transaction's marker: a consumer of committed records must not see the records before it knows how they end, and
# must not see the end before it is replicated. A partition with one follower, from its creation on:
#
#     | event                                                | start | last stable | high watermark | end |
#     | the log is made                                      |     0 |           0 |              0 |   0 |
#     | the leader appends offsets 0 to 4                    |     0 |           0 |              0 |   5 |
#     | the follower fetches from 5: it has what lies below  |     0 |           5 |              5 |   5 |
#     | a transaction begins: offsets 5 and 6                |     0 |           5 |              5 |   7 |
#     | the follower fetches from 7                          |     0 |           5 |              7 |   7 |
#     | the coordinator's commit marker is appended at 7     |     0 |           5 |              7 |   8 |
#     | the follower fetches from 8                          |     0 |           8 |              8 |   8 |
#     | DeleteRecords up to 6                                |     6 |           8 |              8 |   8 |
#
# Between the last two "fetches" the transaction is ended but not stable: `ProducerStates` keeps it among the
# unreplicated ones, so that the first unstable offset stays 5. Offsets carry their place in the files
# (`LogOffsetMetadata`), so that a fetch at a watermark finds its bytes without an index; a roll or a swapped segment
# moves the place and not the offset.


class LogBounds:
    """The bounds of one log, from its start up; the log end offset is not among them, it moves with every append.

    start: the log start offset. high_watermark: consumers see what lies below; a follower's has no place until somebody
    reads up to it (`LogState.placed_bounds`). first_unstable: where the oldest transaction begins that is open, or
    whose marker is not replicated yet. last_stable: consumers that read committed records see what lies below;
    it follows from the other two.
    """

    __slots__ = ("first_unstable", "high_watermark", "last_stable", "start")

    def __init__(self, start: i64, high_watermark: LogOffsetMetadata, first_unstable: LogOffsetMetadata | None) -> None:
        self.start: i64 = start
        self.high_watermark = high_watermark
        self.first_unstable = first_unstable
        self.last_stable = high_watermark
        if first_unstable is not None and first_unstable.message_offset < high_watermark.message_offset:
            self.last_stable = first_unstable

    def limit(self, isolation: FetchIsolation) -> LogOffsetMetadata:
        """Return up to where a consumer of this isolation may read."""
        return self.last_stable if isolation is _COMMITTED else self.high_watermark

    def with_start(self, start: i64) -> LogBounds:
        """Return these bounds with another log start offset."""
        return LogBounds(start, self.high_watermark, self.first_unstable)

    def with_high_watermark(self, place: LogOffsetMetadata) -> LogBounds:
        """Return these bounds with another high watermark."""
        return LogBounds(self.start, place, self.first_unstable)

    def with_first_unstable(self, place: LogOffsetMetadata | None) -> LogBounds:
        """Return these bounds with another first unstable offset."""
        return LogBounds(self.start, self.high_watermark, place)

    def cut_at(self, end: LogOffsetMetadata) -> LogBounds:
        """Return these bounds for a log that was truncated and ends at `end` now: no bound lies above the end."""
        high_watermark = self.high_watermark
        if high_watermark.message_offset >= end.message_offset:
            high_watermark = end
        return LogBounds(min(self.start, end.message_offset), high_watermark, self.first_unstable)

    def is_raised_by(self, place: LogOffsetMetadata) -> bool:
        """Return whether `place` raises the high watermark, or moves it from an older segment into a newer one."""
        old = self.high_watermark
        if old.message_offset == place.message_offset:
            return old.on_older_segment(place)
        return old.message_offset < place.message_offset
