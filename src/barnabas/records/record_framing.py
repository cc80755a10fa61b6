"""Counts the records of an uncompressed v2 batch by hopping from length to length. Pure.

Called by log validation at `record.validation=framing` for every produced batch. The loop is unrolled for lengths of
one and two bytes (records below 8 KB): 90-150 ns a record, 10 in the compiled build. There `i64` makes machine integers
of numbers; in plain Python it means nothing (decisions/0009-compiled-build.md).
Kafka: DefaultRecord.readFrom, which decodes every record instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.records.compression import Buffer
from barnabas.records.errors import CorruptRecord
from barnabas.records.varint import MAX_VARINT_BYTES

if TYPE_CHECKING:
    from mypy_extensions import i64

MIN_RECORD_SIZE: Final = 6
"""Attributes, timestamp delta, offset delta, key length, value length, header count: a byte each."""

_PIECE_BYTES: Final = 1 << 16
# Bytes to skip, by the first byte of a length: the length's own bytes and the record's. An impossible length leads out
# of any buffer, which ends the quick walk without a test in its loop. The careful walk then finds out what is wrong.
# Lengths are never negative, so bit 0, the sign of a zigzag number, must be 0.
_FAR: Final = 1 << 48
_SKIP_ONE: Final = tuple(_FAR if low & 1 or low >> 1 < MIN_RECORD_SIZE else 1 + (low >> 1) for low in range(128))
_SKIP_TWO: Final = tuple(_FAR if low & 1 else 2 + ((low & 0x7F) >> 1) for low in range(256))
_SKIP_HIGH: Final = tuple(high << 6 if high else _FAR for high in range(128))


def count_records(buffer: Buffer, start: int, end: int) -> int:
    """Count the records that fill the bytes between `start` and `end` exactly.

    The buffer may be bytes, bytearray or a memoryview of format "B". Raises CorruptRecord when a length is negative,
    smaller than any record, or leads past `end`.
    """
    if end - start <= _PIECE_BYTES:
        walk = _walk(bytes(buffer[start:end]), end - start)
        return walk[0] if walk[1] == end - start else _count_carefully(buffer, start, end)
    position = start
    count = 0
    # Pieces stay in the processor's cache, and bytes are quicker to index than views. The walk of a piece ends before
    # its last bytes, so that a length is never cut in two; the last record may reach beyond the piece.
    while end - position > _PIECE_BYTES:
        counted, walked = _walk(bytes(buffer[position : position + _PIECE_BYTES]), _PIECE_BYTES - MAX_VARINT_BYTES)
        count += counted
        position += walked
    if position < end:
        counted, walked = _walk(bytes(buffer[position:end]), end - position)
        count += counted
        position += walked
    return count if position == end else _count_carefully(buffer, start, end)


def _walk(data: bytes, end: i64) -> tuple[i64, i64]:
    """Hop over records until `end` is reached or passed. Return their number, and the position then."""
    skip_one, skip_two, skip_high = _SKIP_ONE, _SKIP_TWO, _SKIP_HIGH
    position: i64 = 0
    count: i64 = 0
    try:
        while position < end:
            low: i64 = data[position]
            if low < 0x80:
                position += skip_one[low]
            else:
                high: i64 = data[position + 1]
                if high < 0x80:
                    position += skip_two[low] + skip_high[high]
                else:
                    position = _skip_long_record(data, position, count)
            count += 1
    # The data ends within a length: the caller sees a position that is not the end, and counts carefully.
    except IndexError:
        return count, _FAR
    return count, position


def _count_carefully(buffer: Buffer, start: int, end: int) -> int:
    """Count again, one byte at a time; a length may take more bytes than it needs.

    Raises CorruptRecord with what is wrong.
    """
    data = bytes(buffer[start:end])
    position = 0
    count = 0
    while position < len(data):
        try:
            position = _skip_long_record(data, position, count)
        except IndexError:
            raise CorruptRecord(f"the length of record {count} is cut off") from None
        count += 1
    if position != len(data):
        raise CorruptRecord(f"record {count - 1} reaches {position - len(data)} bytes past the end of its batch")
    return count


def _skip_long_record(data: bytes, position: i64, index: i64) -> i64:
    """Return the position behind the record at `position`, by a length of one to five bytes.

    Raises CorruptRecord when the length is impossible, IndexError when the data ends inside the length.
    """
    value: i64 = 0
    shift: i64
    for shift in range(0, 7 * MAX_VARINT_BYTES, 7):
        byte: i64 = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value & 1 or value >> 1 < MIN_RECORD_SIZE:
                raise CorruptRecord(f"record {index} has an impossible length")
            return position + (value >> 1)
    raise CorruptRecord(f"the length of record {index} takes more than {MAX_VARINT_BYTES} bytes")
