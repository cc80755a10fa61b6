"""Checks every field of every record of an uncompressed v2 body without making objects of them. Pure.

Used by validation at `record.validation=full` and for compacted topics; over twice as fast as decoding. It accepts
exactly what `records.record_reader` decodes. `i64` makes machine integers of numbers in the compiled build, where this
takes 10 ns a record (decisions/0009-compiled-build.md), and means nothing otherwise.
Numbers of one byte, and of two where lengths and times often have them, are read in place: calls would double the time.
Only a record's end is compared with where its fields end, since no field moves the position back.
Kafka: DefaultRecord.readFrom, DefaultRecordBatch.skipKeyValueIterator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.records.errors import CorruptRecord
from barnabas.records.varint import MAX_VARINT_BYTES, decode_zigzag

if TYPE_CHECKING:
    from mypy_extensions import i64

_ONE_BYTE_OFFSETS: Final = 64
"""Offset deltas below take one byte."""
_TWO_BYTE_OFFSETS: Final = 8192
"""Others below take two."""


class RecordSummary(NamedTuple):
    """What a body holds: extremes of the timestamp deltas, whether offset deltas count from 0, records without key."""

    min_timestamp_delta: int
    max_timestamp_delta: int
    offsets_consecutive: bool
    has_null_key: bool


def scan_records(body: bytes, count: i64) -> RecordSummary:  # noqa: C901, PLR0912, PLR0915 - unrolled: see above
    """Check `count` records, not none, that must fill `body` exactly. Raises CorruptRecord."""
    position: i64 = 0
    total: i64 = len(body)
    lowest: i64 = 2**63 - 1
    highest: i64 = -(2**63)
    low = high = start = end = length = delta = index = position  # all of them i64
    consecutive, null_key = True, False
    try:
        for index in range(count):
            low = body[position]
            if low >= 0x80 and (high := body[position + 1]) < 0x80:
                start = position + 2
                end = -1 if low & 1 else start + ((low & 0x7F) >> 1) + (high << 6)
            elif low < 0x80:
                start = position + 1
                end = -1 if low & 1 else start + (low >> 1)
            else:
                length, start = decode_zigzag(body, position, MAX_VARINT_BYTES)
                end = start + length if length >= 0 else -1
            if not start <= end <= total:
                raise CorruptRecord(f"record {index} claims an impossible length, {total - start} bytes are there")
            low = body[start + 1]
            if low < 0x80:
                position = start + 2
                delta = (low >> 1) ^ -(low & 1)
            elif (high := body[start + 2]) < 0x80:
                position = start + 3
                delta = ((low & 0x7F | high << 7) >> 1) ^ -(low & 1)
            else:
                delta, position = decode_zigzag(body, start + 1)
            if delta > highest:  # noqa: PLR1730 - a call costs as much as all the rest of a look at a time
                highest = delta
            if delta < lowest:  # noqa: PLR1730
                lowest = delta
            if index < _ONE_BYTE_OFFSETS and body[position] == index << 1:
                position += 1
            elif (
                _ONE_BYTE_OFFSETS <= index < _TWO_BYTE_OFFSETS
                and body[position] == (index << 1 & 0x7F | 0x80)
                and body[position + 1] == index >> 6
            ):
                position += 2
            else:
                delta, position = decode_zigzag(body, position, MAX_VARINT_BYTES)
                consecutive = consecutive and delta == index
            low = body[position]
            if low == 1:
                null_key = True
                position += 1
            elif low < 0x80 and not low & 1:
                position += 1 + (low >> 1)
            else:
                is_null, position = _skip_key(body, position, end)
                null_key = null_key or is_null
            low = body[position]
            if low < 0x80 and not low & 1:
                position += 1 + (low >> 1)
            elif (high := body[position + 1]) < 0x80 <= low and not low & 1:
                position += 2 + ((low & 0x7F) >> 1) + (high << 6)
            else:
                position = _skip_field(body, position, end)
            position = position + 1 if body[position] == 0 else _skip_headers(body, position, end)
            if position != end:
                raise CorruptRecord(f"record {index} ends at byte {end}, its fields at {position}")
    except IndexError:
        raise CorruptRecord("the last record is cut off") from None
    if position != total:
        raise CorruptRecord(f"{total - position} bytes behind the last of {count} records")
    return RecordSummary(lowest, highest, consecutive, null_key)


def _skip_key(body: bytes, position: i64, end: i64) -> tuple[bool, i64]:
    """Whether a key is null, and the position behind it."""
    length: i64
    behind: i64
    length, behind = decode_zigzag(body, position, MAX_VARINT_BYTES)
    return length == -1, _skip_field(body, position, end) if length else behind


def _skip_field(body: bytes, position: i64, end: i64) -> i64:
    """Position behind a length and as many bytes; -1 stands for null."""
    byte: i64 = body[position]
    length: i64
    if byte < 0x80:
        if byte == 1:
            return position + 1
        length, position = (-1 if byte & 1 else byte >> 1), position + 1
    else:
        length, position = decode_zigzag(body, position, MAX_VARINT_BYTES)
        if length == -1:
            return position
    if length < 0 or position + length > end:
        raise CorruptRecord(f"a field claims {length} bytes, {end - position} are there")
    return position + length


def _skip_headers(body: bytes, position: i64, end: i64) -> i64:
    count: i64
    count, position = decode_zigzag(body, position, MAX_VARINT_BYTES)
    if count < 0 or count > (end - position) // 2:
        raise CorruptRecord(f"a record claims {count} headers in {end - position} bytes")
    for _ in range(count):
        if body[position] == 1:
            raise CorruptRecord("a header without a name")
        position = _skip_field(body, _skip_field(body, position, end), end)
    return position
