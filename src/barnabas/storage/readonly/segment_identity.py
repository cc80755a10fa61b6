"""Tells whether a segment's log file is the one that something was derived from, without reading all of it.

Used by the sidecars of the log source, on any thread; pure but for the reads of the file.
"""

from __future__ import annotations

from typing import NamedTuple

from barnabas.records.crc import crc32c
from barnabas.runtime.files import File

_BLOCKS = 16
_BLOCK_BYTES = 4096
_CHUNK_BYTES = 4 << 20


class SegmentIdentity(NamedTuple):
    """The size of a log file, and the CRC-32C of 16 blocks of it: the first, the last, and others evenly between.

    A cleaning that removes records changes the size, or at least shifts all batches behind. The time of the last change
    is no part of it: the cleaner gives a new file the time of the old one, and a copy has another time.
    """

    size: int
    blocks_crc: int

    @classmethod
    def of(cls, file: File) -> SegmentIdentity:
        """Read the blocks. Raises OSError."""
        size = file.size()
        last = max(size - _BLOCK_BYTES, 0)
        crc = 0
        for number in range(_BLOCKS):
            crc = crc32c(file.read(last * number // (_BLOCKS - 1), _BLOCK_BYTES), crc)
        return cls(size, crc)


def whole_crc(file: File) -> int:
    """Return the CRC-32C of the whole file. Raises OSError."""
    crc, position = 0, 0
    while True:
        data = file.read(position, _CHUNK_BYTES)
        if not data:
            return crc
        crc = crc32c(data, crc)
        position += len(data)
