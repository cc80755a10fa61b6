"""The places where the readers of a segment will most likely go on: behind the batch that each found last.

One per segment. A consumer that goes on where a small read ended finds its batch without the index, and with the same
`pread` that reads the batch. Any thread; entries are set and taken one at a time, which dictionaries do atomically. A
truncation cuts the file first and replaces this object then, so that an entry of a slow reader, which may be wrong now,
goes into the old object.
"""

from __future__ import annotations

import struct
from typing import Final

from barnabas.records.file_records import FileRecords
from barnabas.records.record_batch import LOG_OVERHEAD
from barnabas.storage.segment.file import SegmentFile

MAX_BYTES: int = 64 * 1024
"""Reads of at most this size are made at once; larger ones go out by sendfile, where a search does not matter."""
MAX_PLACES: Final = 64

_HEADER: Final = struct.Struct(">qi4xb6xi")
"""Base offset, length, magic, last offset delta."""


class SequentialReads:
    """Next offset -> position, of the readers seen last."""

    __slots__ = ("_places",)

    def __init__(self) -> None:
        self._places: dict[int, int] = {}

    def note(self, next_offset: int, position: int) -> None:
        """Note that the batch before `next_offset` ends at this position."""
        places = self._places
        # Readers that never came back left their places here. Clearing them all is rare and needs no order of use.
        if len(places) >= MAX_PLACES:
            places.clear()
        places[next_offset] = position

    def take(self, offset: int) -> int:
        """Return the position of the batch that holds `offset`, if a reader was expected there; else -1."""
        return self._places.pop(offset, -1)

    def read(self, file: SegmentFile, offset: int, position: int, size: int) -> FileRecords | None:
        """Read `size` bytes; None unless the batch of `offset` lies there, whole and of the newest format.

        Raises OSError.
        """
        open_file = file.borrow()
        content = b""
        try:
            content = open_file.read(position, size)
        finally:
            if len(content) < _HEADER.size:
                open_file.release()
        if len(content) < _HEADER.size:
            return None
        # The entry was a guess: a cleaning may have put another segment's batches here. The header tells.
        base_offset, length, magic, delta = _HEADER.unpack_from(content)
        end = length + LOG_OVERHEAD
        if magic != 2 or not base_offset <= offset <= base_offset + delta or not _HEADER.size < end <= len(content):
            open_file.release()
            return None
        self.note(base_offset + delta + 1, position + end)
        return FileRecords(open_file, position, len(content), content)
