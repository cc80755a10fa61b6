"""The `.index` and `.timeindex` of a segment, as hints: they may be preallocated, torn, stale or missing.

Used by `partition_log` on its caller's thread. An index is immutable bytes; no lock.

A broker that runs, or was killed, leaves its newest indexes at their full size with zeros at the end; a crash of the
machine may leave anything. So an index is searched without a look at all of it, and its caller checks the found place
in the log file itself. `storage.segment` has the broker's own indexes and the format.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right

from barnabas.runtime.files import Files
from barnabas.storage.segment.offset_index import OffsetPosition
from barnabas.storage.segment.time_index import TimestampOffset

_OFFSET_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")


class OffsetHints:
    """Places of batches in a log file, by their last offsets."""

    __slots__ = ("_base_offset", "_count", "_data")

    def __init__(self, data: bytes, base_offset: int) -> None:
        self._data = data
        self._base_offset = base_offset
        self._count = _used_bytes(data, _OFFSET_ENTRY.size) // _OFFSET_ENTRY.size

    @classmethod
    def read(cls, files: Files, path: str, base_offset: int) -> OffsetHints:
        """Read the file. A missing one has no entries. Raises OSError."""
        return cls(_content(files, path), base_offset)

    def at_or_before(self, offset: int) -> OffsetPosition | None:
        """Return the last entry whose offset is at most `offset`, or None."""
        number = bisect_right(range(self._count), offset, key=lambda entry: self._place(entry).offset)
        return self._place(number - 1) if number else None

    def from_position(self, position: int) -> OffsetPosition | None:
        """Return the first entry at or behind a position of the log file, or None."""
        number = bisect_left(range(self._count), position, key=lambda entry: self._place(entry).position)
        return self._place(number) if number < self._count else None

    def last(self) -> OffsetPosition | None:
        """Return the last entry, or None."""
        return self._place(self._count - 1) if self._count else None

    def _place(self, number: int) -> OffsetPosition:
        relative, position = _OFFSET_ENTRY.unpack_from(self._data, number * _OFFSET_ENTRY.size)
        return OffsetPosition(self._base_offset + relative, position)


class TimeHints:
    """The offsets up to which a log file holds no larger timestamps."""

    __slots__ = ("_base_offset", "_count", "_data")

    def __init__(self, data: bytes, base_offset: int) -> None:
        self._data = data
        self._base_offset = base_offset
        self._count = _used_bytes(data, _TIME_ENTRY.size) // _TIME_ENTRY.size

    @classmethod
    def read(cls, files: Files, path: str, base_offset: int) -> TimeHints:
        """Read the file. A missing one has no entries. Raises OSError."""
        return cls(_content(files, path), base_offset)

    def before(self, timestamp_ms: int) -> TimestampOffset | None:
        """Return the last entry with a smaller timestamp, or None: up to its offset, all timestamps are smaller."""
        number = bisect_left(range(self._count), timestamp_ms, key=lambda entry: self._place(entry).timestamp)
        return self._place(number - 1) if number else None

    def last(self) -> TimestampOffset | None:
        """Return the last entry, or None. In a segment that a broker has closed, it has the largest timestamp."""
        return self._place(self._count - 1) if self._count else None

    def _place(self, number: int) -> TimestampOffset:
        timestamp, relative = _TIME_ENTRY.unpack_from(self._data, number * _TIME_ENTRY.size)
        return TimestampOffset(timestamp, self._base_offset + relative)


def _content(files: Files, path: str) -> bytes:
    try:
        return files.read_bytes(path)
    except FileNotFoundError:
        return b""


def _used_bytes(data: bytes, entry_size: int) -> int:
    """Return the bytes of whole entries before the zeros of a preallocated file."""
    # The last entry may end in zeros of its own.
    used = len(data.rstrip(b"\0"))
    return min(-(-used // entry_size) * entry_size, len(data) // entry_size * entry_size)
