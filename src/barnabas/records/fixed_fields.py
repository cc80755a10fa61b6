"""Numbers at fixed places: the header of a batch, its first bytes, the entries of an index. All are big-endian. Pure.

`HeaderFields` is the base of `BatchHeader` and `RecordBatch`. The compiled build takes this module from `native/`
(decisions/0009-compiled-build.md).
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from typing import Final

from barnabas.records.errors import CorruptRecord

_LOG_OVERHEAD: Final = 12
_unpack: Final = struct.Struct(">qiibIhiqqqhii").unpack_from
"""`record_batch.HEADER`."""

_unpack_extent: Final = struct.Struct(">qi4xb6xi").unpack_from
"""Base offset, length, magic, last offset delta (which in magic 0 and 1 is something else)."""
EXTENT_SIZE: Final = 27
_pack: Final = struct.Struct(">qiibI").pack


class HeaderFields:
    """The fields of the header at `position` of `buffer`. length: the whole batch, with the 12 that its field lacks.

    Nothing is checked: the magic may be another one, the length negative. The constructor raises CorruptRecord when the
    buffer ends inside the header.
    """

    __slots__ = (
        "attributes",
        "base_offset",
        "base_sequence",
        "base_timestamp",
        "count",
        "crc",
        "last_offset_delta",
        "length",
        "magic",
        "max_timestamp",
        "partition_leader_epoch",
        "producer_epoch",
        "producer_id",
    )
    attributes: int
    base_offset: int
    base_sequence: int
    base_timestamp: int
    count: int
    crc: int
    last_offset_delta: int
    length: int
    magic: int
    max_timestamp: int
    partition_leader_epoch: int
    producer_epoch: int
    producer_id: int

    def __init__(self, buffer: bytes | bytearray | memoryview, position: int = 0) -> None:
        try:
            (
                self.base_offset,
                length,
                self.partition_leader_epoch,
                self.magic,
                self.crc,
                self.attributes,
                self.last_offset_delta,
                self.base_timestamp,
                self.max_timestamp,
                self.producer_id,
                self.producer_epoch,
                self.base_sequence,
                self.count,
            ) = _unpack(buffer, position)
        except struct.error:
            raise CorruptRecord(f"{len(buffer) - position} bytes are too few for a batch header") from None
        self.length = length + _LOG_OVERHEAD


def extent_at(buffer: bytes, position: int) -> tuple[int, int, int]:
    """Return base offset, last offset and length of the batch there; of an old message both offsets are its last.

    The buffer has EXTENT_SIZE bytes from the position on.
    """
    base_offset, length, magic, delta = _unpack_extent(buffer, position)
    return base_offset, base_offset + delta if magic == 2 else base_offset, length + _LOG_OVERHEAD


def first_bytes(base_offset: int, length: int, leader_epoch: int, crc: int, following: bytes) -> bytes:
    """Return the bytes of a batch of `length` bytes before those that its checksum covers, and `following`."""
    return _pack(base_offset, length - _LOG_OVERHEAD, leader_epoch, 2, crc) + following


# -- the entries of an index: two numbers, of 4 and 4 bytes or of 8 and 4

ENTRY_STRUCTS: Final = {8: struct.Struct(">ii"), 12: struct.Struct(">qi")}
"""By the size of an entry."""


def entry_at(page: bytes, size: int, place: int) -> tuple[int, int]:
    """Return the entry at a place of the page; its entries have `size` bytes."""
    key, value = ENTRY_STRUCTS[size].unpack_from(page, place * size)
    return key, value


def entries_up_to(page: bytes, size: int, field: int, target: int, count: int) -> int:
    """Return how many of the first `count` entries have a field 0 or 1 of at most `target`. The field only rises."""
    unpack = ENTRY_STRUCTS[size].unpack_from
    return bisect_right(range(count), target, key=lambda place: unpack(page, place * size)[field])
