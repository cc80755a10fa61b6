"""The offsets from which on a segment holds larger timestamps: a sparse `.timeindex` of 12-byte entries.

An entry is a timestamp in 8 bytes and an offset relative to the base offset in 4, big-endian. It says that no batch up
to that offset has a larger timestamp; the offset is the last one of the batch that has the timestamp. Owned by
SegmentIndexes; threads and lock are those of `index_file`. Kafka: TimeIndex.

For example, a segment begins at 100; its batches end at 109 (time 50), 119 (time 40), 129 (time 70), 139 (time 60). The
entries made with the second and the fourth batch are (50, 9) and (70, 29): a search for time 65 begins at offset 109.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.storage.segment.file import SegmentFile
from barnabas.storage.segment.index_file import CorruptIndex, IndexFile, IndexPages

if TYPE_CHECKING:
    from mypy_extensions import i64

ENTRY_FORMAT: Final = ">qi"
ENTRY_SIZE: Final = 12
NO_TIMESTAMP: Final = -1


class TimestampOffset:
    """A timestamp in milliseconds, and the last offset of the batch that has it. Never changed."""

    __slots__ = ("offset", "timestamp")

    def __init__(self, timestamp: i64, offset: i64) -> None:
        self.timestamp: i64 = timestamp
        self.offset: i64 = offset


class TimeIndex(IndexFile):
    """The time index of one segment."""

    __slots__ = ()

    def __init__(
        self, file: SegmentFile, base_offset: int, max_bytes: int, pages: IndexPages, *, is_new: bool = False
    ) -> None:
        super().__init__(file, base_offset, max_bytes, ENTRY_FORMAT, pages, is_new=is_new)

    @property
    def last_entry(self) -> TimestampOffset:
        """The last entry; (-1, base offset) when there is none."""
        with self._lock:
            self._load()
            if not self._entries:
                return TimestampOffset(NO_TIMESTAMP, self.base_offset)
            return TimestampOffset(self._last_key, self.base_offset + self._last_value)

    def maybe_append(self, timestamp: i64, offset: i64) -> bool:
        """Add an entry if the timestamp is larger than the last one; True if the index is full now.

        One entry is left for the segment's largest timestamp, which is entered when the segment rolls.
        Raises ValueError when the offset is smaller than the last one.
        """
        relative = offset - self.base_offset
        with self._lock:
            self._load()
            if not self._entries:
                if timestamp > NO_TIMESTAMP:
                    self._append(timestamp, relative)
            elif timestamp > self._last_key:
                if relative < self._last_value:
                    raise ValueError(f"offset {offset} is before {self.base_offset + self._last_value} in {self.path}")
                self._append(timestamp, relative)
            # The last one is for `LogSegment.on_become_inactive`.
            return self._entries >= self.max_entries - 1

    def lookup(self, timestamp: i64) -> TimestampOffset:
        """Return the last entry with at most `timestamp`; (-1, base offset) when there is none."""
        with self._lock:
            number = self._search(timestamp)
            if number < 0:
                return TimestampOffset(NO_TIMESTAMP, self.base_offset)
            key, relative = self._stored_entry(number)
        return TimestampOffset(key, self.base_offset + relative)

    def entry(self, number: int) -> TimestampOffset:
        """Return the entry of this number. Raises IndexError when there is no such entry."""
        timestamp, relative = self.entry_at(number)
        return TimestampOffset(timestamp, self.base_offset + relative)

    def truncate_to(self, offset: int) -> None:
        """Drop the entries of offsets at and behind `offset`."""
        # By the second field, the offset: the timestamps of the batches that go may be smaller than those that stay.
        with self._lock:
            self._load()
            self._truncate_to_entries(self._number_of_last(1, offset - self.base_offset - 1) + 1)

    def sanity_check(self) -> None:
        """Check that the file can be a time index of this segment. Raises CorruptIndex when it cannot."""
        self._check_size()
        with self._lock:
            self._load()
            if not self._entries:
                return
            timestamp, relative = self._last_key, self._last_value
            if relative < 0 or timestamp < self._stored_entry(0)[0]:
                raise CorruptIndex(
                    f"time index file {self.path} ends in timestamp {timestamp}, offset {self.base_offset + relative}"
                )
