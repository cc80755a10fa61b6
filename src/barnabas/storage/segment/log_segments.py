"""The segments of one log, in the order of their base offsets.

Changed under the log's lock; any thread reads without a lock: every change replaces the tuples that readers look at.
Kafka: LogSegments.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

from barnabas.storage.segment.log_segment import LogSegment


class LogSegments:
    """An ordered, copy-on-write collection of segments; the last one, `active`, takes the appends."""

    __slots__ = ("_view", "active")

    active: LogSegment

    def __init__(self) -> None:
        self._view: tuple[tuple[int, ...], tuple[LogSegment, ...]] = ((), ())

    def __len__(self) -> int:
        return len(self._view[0])

    def __iter__(self) -> Iterator[LogSegment]:
        return iter(self._view[1])

    @property
    def first(self) -> LogSegment:
        """The oldest segment."""
        return self._view[1][0]

    @property
    def size(self) -> int:
        """Bytes of all log files."""
        return sum(segment.size for segment in self._view[1])

    def all(self) -> tuple[LogSegment, ...]:
        """Return all segments, oldest first, as of now."""
        return self._view[1]

    def add(self, segment: LogSegment) -> None:
        """Add a segment, or replace the one with the same base offset."""
        by_offset = {present.base_offset: present for present in self._view[1]}
        by_offset[segment.base_offset] = segment
        self._replace(by_offset)

    def replace(self, new: LogSegment, old: Iterable[LogSegment]) -> None:
        """Put one segment in the place of others; readers see the old ones or the new one."""
        gone = set(old)
        by_offset = {present.base_offset: present for present in self._view[1] if present not in gone}
        by_offset[new.base_offset] = new
        self._replace(by_offset)

    def remove(self, base_offset: int) -> None:
        """Remove a segment."""
        self._replace({present.base_offset: present for present in self._view[1] if present.base_offset != base_offset})

    def clear(self) -> None:
        """Remove all segments."""
        self._view = ((), ())

    def since(self, offset: int) -> tuple[LogSegment, ...]:
        """Return the segments from the one that holds `offset` on, oldest first; none if `offset` is below the first.

        They are those of one moment: a reader that walks on to the next segment must not look it up in a later view,
        in which the cleaner may have merged that segment into the one before.
        """
        bases, segments = self._view
        place = bisect_right(bases, offset)
        return segments[place - 1 :] if place else ()

    def higher(self, offset: int) -> LogSegment | None:
        """Return the segment with the smallest base offset above `offset`."""
        bases, segments = self._view
        place = bisect_right(bases, offset)
        return segments[place] if place < len(segments) else None

    def values(self, start: int, end: int) -> tuple[LogSegment, ...]:
        """Return the segments from the one that holds `start` to the last one that begins below `end`."""
        bases, segments = self._view
        if end <= start:
            return ()
        return segments[max(0, bisect_right(bases, start) - 1) : bisect_left(bases, end)]

    def _replace(self, by_offset: dict[int, LogSegment]) -> None:
        # Both tuples go out in one assignment: a reader never searches the offsets of one set in the segments of
        # another.
        bases = tuple(sorted(by_offset))
        segments = tuple(by_offset[base] for base in bases)
        self._view = (bases, segments)
        # `active` is a second assignment, after the first: a reader that gets the newer one finds it in the view.
        if segments:
            self.active = segments[-1]
