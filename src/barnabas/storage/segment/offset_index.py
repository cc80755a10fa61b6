"""The places of batches in a segment's log file, by offset: a sparse `.index` of 8-byte entries.

An entry is the last offset of a batch, relative to the segment's base offset, and the batch's position, in 4 bytes
each, big-endian. Owned by SegmentIndexes; threads and lock are those of `index_file`. Kafka: OffsetIndex.

For example, a segment begins at offset 100 and holds three batches of 4,000 bytes and 5 records each. With the default
interval of 4,096 bytes only the third one gets an entry: 0000000e 00001f40, which is offset 114 and position 8,000. A
search for offset 112 finds no entry at or before it, so it walks the batches from position 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.storage.segment.file import SegmentFile
from barnabas.storage.segment.index_file import CorruptIndex, IndexFile, IndexPages

if TYPE_CHECKING:
    from mypy_extensions import i64

ENTRY_FORMAT: Final = ">ii"
ENTRY_SIZE: Final = 8
MAX_RELATIVE_OFFSET: Final = 2**31 - 1
"""The largest offset, relative to the segment's base offset, that fits the four bytes which an entry has for it."""


class OffsetPosition(NamedTuple):
    """The last offset of a batch, and where the batch begins in the log file."""

    offset: int
    position: int


class OffsetIndex(IndexFile):
    """The offset index of one segment."""

    __slots__ = ()

    def __init__(
        self, file: SegmentFile, base_offset: int, max_bytes: int, pages: IndexPages, *, is_new: bool = False
    ) -> None:
        super().__init__(file, base_offset, max_bytes, ENTRY_FORMAT, pages, is_new=is_new)

    @property
    def last_offset(self) -> int:
        """The offset of the last entry; the base offset when there is none."""
        with self._lock:
            self._load()
            return self.base_offset + (self._last_key if self._entries else 0)

    def append(self, offset: i64, position: i64) -> bool:
        """Add an entry; True if the index is full now. Raises ValueError unless the offset is larger than the last."""
        relative = offset - self.base_offset
        with self._lock:
            self._load()
            if self._entries and relative <= self._last_key:
                raise ValueError(f"offset {offset} is not above {self.base_offset + self._last_key} in {self.path}")
            self._append(relative, position)
            return self._entries >= self.max_entries

    def lookup(self, offset: i64) -> OffsetPosition:
        """Return the last entry at or before `offset`; (base offset, 0) when there is none."""
        with self._lock:
            number = self._search(offset - self.base_offset)
            if number < 0:
                return OffsetPosition(self.base_offset, 0)
            key, position = self._stored_entry(number)
        return OffsetPosition(self.base_offset + key, position)

    def bounds(self, offset: i64) -> tuple[i64, i64]:
        """Return the positions of the last entry at or before `offset`, and of the next entry.

        The batch lies between the two. The second is -1 when there is no next entry, or no reason to look there: the
        first entry is of that very offset, or there is no first entry, in which case the batch is as likely the one at
        the start of the file, which has no entry.
        """
        relative = offset - self.base_offset
        with self._lock:
            if self._entries < 0:
                self._load()
            number = self._number_of_last(0, relative)
            if number < 0:
                return 0, -1
            key, position = self._stored_entry(number)
            if key == relative or number + 1 >= self._entries:
                return position, -1
            return position, self._stored_entry(number + 1)[1]

    def upper_bound_offset(self, position: int) -> int | None:
        """Return the offset of the first entry at or behind a position of the log file; None when there is none.

        The very first entry of the index has to lie behind the position, not at it. Kafka's search has this result, and
        the aborted transactions in an answer to a fetch depend on it.
        """
        with self._lock:
            self._load()
            number = self._number_of_last(1, position - 1) + 1
            if number == 0 and self._entries and self._stored_entry(0)[1] == position:
                number = 1
            return self.base_offset + self._stored_entry(number)[0] if number < self._entries else None

    def entry(self, number: int) -> OffsetPosition:
        """Return the entry of this number. Raises IndexError when there is no such entry."""
        relative, position = self.entry_at(number)
        return OffsetPosition(self.base_offset + relative, position)

    def truncate_to(self, offset: int) -> None:
        """Drop the entries at and behind `offset`."""
        # An entry holds the last offset of its batch: a batch with `offset` in its middle goes, and so does its entry.
        with self._lock:
            self._load()
            self._truncate_to_entries(self._number_of_last(0, offset - self.base_offset - 1) + 1)

    def sanity_check(self) -> None:
        """Check that the file can be an offset index of this segment. Raises CorruptIndex when it cannot.

        An entry never points at position 0, and never at the base offset: a batch is entered only when others lie
        before it. So zeros at the end, which a crash of Kafka leaves behind, are recognised.
        """
        self._check_size()
        with self._lock:
            self._load()
            if self._entries and (self._last_key <= 0 or self._last_value <= 0):
                raise CorruptIndex(
                    f"index file {self.path} ends in offset {self.base_offset + self._last_key}, position"
                    f" {self._last_value}, which cannot be in a segment that begins at {self.base_offset}"
                )
