"""Numbers at fixed places, native: each is a load and a swap of its bytes."""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final

from librt.strings import BytesWriter, read_i16_be, read_i32_be, read_i64_be, write_i32_be, write_i64_be

from barnabas.records.errors import CorruptRecord

if TYPE_CHECKING:
    from mypy_extensions import i32, i64

_HEADER_SIZE: Final = 61
_LOG_OVERHEAD: Final = 12
EXTENT_SIZE: Final = 27


class HeaderFields:
    """The fields of the header at `position` of `buffer`. Raises CorruptRecord when the buffer ends inside it."""

    attributes: i64
    base_offset: i64
    base_sequence: i64
    base_timestamp: i64
    count: i64
    crc: i64
    last_offset_delta: i64
    length: i64
    magic: i64
    max_timestamp: i64
    partition_leader_epoch: i64
    producer_epoch: i64
    producer_id: i64

    def __init__(self, buffer: bytes | bytearray | memoryview, position: i64 = 0) -> None:
        if isinstance(buffer, bytes):
            data = buffer
        else:
            data = bytes(buffer[position : position + _HEADER_SIZE])
            position = 0
        if position < 0 or len(data) < position + _HEADER_SIZE:
            raise CorruptRecord(f"{len(data) - position} bytes are too few for a batch header")
        self.base_offset = read_i64_be(data, position)
        self.length = i64(read_i32_be(data, position + 8)) + _LOG_OVERHEAD
        self.partition_leader_epoch = i64(read_i32_be(data, position + 12))
        self.magic = data[position + 16]
        self.crc = i64(read_i32_be(data, position + 17)) & 0xFFFFFFFF
        self.attributes = i64(read_i16_be(data, position + 21))
        self.last_offset_delta = i64(read_i32_be(data, position + 23))
        self.base_timestamp = read_i64_be(data, position + 27)
        self.max_timestamp = read_i64_be(data, position + 35)
        self.producer_id = read_i64_be(data, position + 43)
        self.producer_epoch = i64(read_i16_be(data, position + 51))
        self.base_sequence = i64(read_i32_be(data, position + 53))
        self.count = i64(read_i32_be(data, position + 57))


def extent_at(buffer: bytes, position: i64) -> tuple[i64, i64, i64]:
    """Return base offset, last offset and length of the batch there; of an old message both offsets are its last."""
    base_offset = read_i64_be(buffer, position)
    last_offset = base_offset
    if buffer[position + 16] == 2:
        last_offset += i64(read_i32_be(buffer, position + 23))
    return base_offset, last_offset, i64(read_i32_be(buffer, position + 8)) + _LOG_OVERHEAD


def first_bytes(base_offset: i64, length: i64, leader_epoch: i64, crc: i64, following: bytes) -> bytes:
    """Return the bytes of a batch before those that its checksum covers, and `following`."""
    written = BytesWriter()
    write_i64_be(written, base_offset)
    write_i32_be(written, i32(length - _LOG_OVERHEAD))
    write_i32_be(written, i32(leader_epoch))
    written.append(2)
    write_i32_be(written, i32(crc))
    if following:
        written.write(following)
    return written.getvalue()


ENTRY_STRUCTS: Final = {8: Struct(">ii"), 12: Struct(">qi")}


def _number(page: bytes, size: i64, field: i64, place: i64) -> i64:
    at = place * size
    if field:
        return i64(read_i32_be(page, at + size - 4))
    if size == 8:
        return i64(read_i32_be(page, at))
    return read_i64_be(page, at)


def entry_at(page: bytes, size: i64, place: i64) -> tuple[i64, i64]:
    """Return the entry at a place of the page."""
    return _number(page, size, 0, place), _number(page, size, 1, place)


def entries_up_to(page: bytes, size: i64, field: i64, target: i64, count: i64) -> i64:
    """Return how many of the first `count` entries have a field of at most `target`, by halves."""
    low: i64 = 0
    high = count
    while low < high:
        middle = (low + high) >> 1
        if _number(page, size, field, middle) <= target:
            low = middle + 1
        else:
            high = middle
    return low
