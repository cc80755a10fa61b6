"""Checks every field of every record of an uncompressed v2 body without making objects of them. Pure.

Called by validation for each batch whose records are read, which by default is every produced batch. It accepts exactly
what `records.v2.walk` decodes.

Three ways through a body, each for what the one before leaves over:

1. Uniform records (`records.v2.uniform`), which is what a producer of measurements or of fixed fields sends.
2. Records that differ in the lengths of their keys and values (`_check_short_records`): the numbers before the key in
   one unpacking, lengths by table. A batch of one record has the same without a loop (`_single_record`).
3. All others, one number at a time (`walk.check_records`): long times, long keys, headers. It alone raises.

In the compiled build the third way is the quickest (about 6 ns a record) and the only one; `i64` makes machine integers
of numbers and means nothing otherwise (decisions/0009-compiled-build.md).

A large body is not needed as a whole (`scan_pieces`): its pieces are joined to windows of 1 MB, whose whole records are
checked as above. Of a record that is larger than a window, the key, the value and the headers are skipped piece by
piece (`_check_long_record`): 8 KB of zstd that hold a value of 200 MB take no 200 MB of heap.
Kafka: DefaultRecord.readFrom, DefaultRecordBatch.skipKeyValueIterator.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Final

from barnabas.records.errors import CorruptRecord
from barnabas.records.v2.layout import (
    HIGH,
    LOW,
    MAX_VARINT_BYTES,
    MAX_VARLONG_BYTES,
    OFFSET_BYTES,
    ONE_BYTE_OFFSETS,
    SHORT,
    TWO_BYTE_OFFSETS,
    decode_zigzag,
    shape_at,
)
from barnabas.records.v2.uniform import timestamps, uniform_count
from barnabas.records.v2.walk import CheckedRecords, check_records

if TYPE_CHECKING:
    from mypy_extensions import i64

_FEWEST_UNIFORM: Final = 6
"""The smallest number of records that is worth the slices."""
_MOST_UNIFORM: Final = 1024
"""The largest number of records whose columns are compared at once; more are compared in several steps.

Looking for uniform records must not cost more the more records are left: a batch whose records are all unlike would
take the square of their number.
"""
_MOST_AT_ONCE: Final = 128
"""The largest number of records that `_check_short_records` is asked for, for the same reason."""
_UNLIKE: Final = 32
"""The number of records that are read carefully after one that was not read quickly: they are mostly like it."""

_WINDOW_BYTES: Final = 1 << 20

_EARLY: Final = bytes(range(0, 0x80, 2))
"""Time deltas of one byte, none of them negative: they are ordered like their bytes. A longer one begins otherwise."""
_TWO_BYTE_OFFSETS: Final = tuple(low << 8 | high for low, high in zip(*OFFSET_BYTES, strict=True))
_BEFORE_KEY_1: Final = struct.Struct("BxBBB").unpack_from
_BEFORE_KEY_2: Final = struct.Struct(">BxBHB").unpack_from
"""Last byte of the length, time, offset delta of one byte or two, length of the key."""


def scan_records(body: bytes, position: i64, count: i64) -> CheckedRecords:
    """Check `count` records, not none, that must fill `body` from `position` on exactly. Raises CorruptRecord."""
    # Compiled, the plain loop is quicker than unpacking, and than slices of columns.
    if not _INTERPRETED:
        found = check_records(body, position, 0, count)
    else:
        if count == 1:
            single = _single_record(body, position)
            if single is not None:
                return single
        found = _check_some(body, position, 0, count)
        while found.next_index < count:
            found = _together(found, _check_some(body, found.position, found.next_index, count))
    if found.position != len(body):
        raise CorruptRecord(f"{len(body) - found.position} bytes after the last of {count} records")
    return found


class _PiecedBody:
    """A body of which `data` is here from `position` on; what lies behind comes from `pieces`."""

    __slots__ = ("_before", "_pieces", "data", "position")

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self.data = b""
        self.position = 0
        self._before = 0
        self._pieces = pieces

    @property
    def place(self) -> int:
        """The bytes of the body that have been read or skipped."""
        return self._before + self.position

    def fill(self, size: int) -> int:
        """Have `size` bytes behind the position, or all there are. Return how many there are now."""
        there = len(self.data) - self.position
        if there >= size:
            return there
        parts = [self.data[self.position :]]
        while there < size:
            piece = next(self._pieces, None)
            if piece is None:
                break
            parts.append(piece)
            there += len(piece)
        self._before += self.position
        self.position = 0
        self.data = parts[0] if len(parts) == 1 else b"".join(parts)
        return there

    def skip(self, size: int) -> None:
        """Move the position. Raises CorruptRecord when the body has fewer bytes."""
        there = len(self.data) - self.position
        while size > there:
            size -= there
            self._before += len(self.data)
            self.position = 0
            piece = next(self._pieces, None)
            self.data = b"" if piece is None else piece
            there = len(self.data)
            if piece is None:
                raise CorruptRecord("the last record is cut off")
        self.position += size

    def number(self, longest: int = MAX_VARINT_BYTES) -> int:
        """Return the next number. Raises CorruptRecord when it is cut off or too long."""
        self.fill(longest)
        value, self.position = decode_zigzag(self.data, self.position, longest)
        return value


def scan_pieces(pieces: Iterator[bytes], count: int) -> CheckedRecords:
    """Check what `scan_records` checks, of a body that comes in pieces. Raises CorruptRecord, and what `pieces` raises.

    One piece and 1 MB are in memory at a time.
    """
    source = _PiecedBody(pieces)
    index = stop = 0
    found = CheckedRecords(0, 0, 2**63 - 1, -(2**63), True, False)
    while index < count:
        if index == stop:
            source.fill(_WINDOW_BYTES)
            stop += _whole_records(source.data, source.position, count - index)
        if index == stop:
            part = _check_long_record(source, index)
            stop += 1
        else:
            part = _check_some(source.data, source.position, index, stop)
            source.position = part.position
        index = part.next_index
        found = _together(found, part)
    if source.fill(1):
        raise CorruptRecord(f"more bytes after the last of {count} records")
    return found


def _whole_records(data: bytes, position: int, most: int) -> int:
    """Return how many records, `most` at most, `data` holds as a whole, by their lengths; 0 if the first is wrong."""
    found, end = 0, len(data)
    try:
        while found < most:
            low = data[position]
            if low < 0x80 and not low & 1:
                position += 1 + (low >> 1)
            else:
                length, position = decode_zigzag(data, position, MAX_VARINT_BYTES)
                position = position + length if length >= 0 else end + 1
            if position > end:
                break
            found += 1
    # What is cut off here is whole in the next window, or named by `_check_long_record`.
    except (IndexError, CorruptRecord):
        pass
    return found


def _check_long_record(source: _PiecedBody, index: int) -> CheckedRecords:
    """Check the record at the beginning of what is left, whatever its size. Raises CorruptRecord."""
    length = source.number()
    start = source.place
    if length < 0:
        raise CorruptRecord(f"record {index} claims an impossible length of {length} bytes")
    source.skip(1)  # the attributes
    time = source.number(MAX_VARLONG_BYTES)
    offset = source.number()
    key = _skip_long_field(source, start + length)
    _skip_long_field(source, start + length)
    headers = source.number()
    left = start + length - source.place
    if headers < 0 or headers > left // 2:
        raise CorruptRecord(f"a record claims {headers} headers in {left} bytes")
    for _ in range(headers):
        if _skip_long_field(source, start + length) == -1:
            raise CorruptRecord("a header without a name")
        _skip_long_field(source, start + length)
    if source.place != start + length:
        raise CorruptRecord(f"record {index} ends at byte {start + length}, its fields at {source.place}")
    return CheckedRecords(source.position, index + 1, time, time, offset == index, key == -1)


def _skip_long_field(source: _PiecedBody, end: int) -> int:
    """Skip a length and as many bytes, and return the length; -1 stands for null.

    Raises CorruptRecord when the field ends behind `end`.
    """
    length = source.number()
    if length < -1 or source.place + max(length, 0) > end:
        raise CorruptRecord(f"a field claims {length} bytes, {end - source.place} are there")
    source.skip(max(length, 0))
    return length


def _check_some(body: bytes, position: i64, index: i64, count: i64) -> CheckedRecords:
    """Check at least one record from `index` on, at `position`: as many as go the same way. Raises CorruptRecord."""
    if index >= TWO_BYTE_OFFSETS:
        return check_records(body, position, index, count)
    stop = min(count, index + _MOST_UNIFORM, ONE_BYTE_OFFSETS if index < ONE_BYTE_OFFSETS else TWO_BYTE_OFFSETS)
    found = None
    if _INTERPRETED:
        if stop - index >= _FEWEST_UNIFORM:
            found = _check_uniform_records(body, position, index, stop)
        if found is None:
            found = _check_short_records(body, position, index, min(stop, index + _MOST_AT_ONCE))
            stop = min(stop, index + _UNLIKE)
    return found or check_records(body, position, index, stop)


def _together(first: CheckedRecords, second: CheckedRecords) -> CheckedRecords:
    """Return what is to be known of all records of two parts, the second of which follows the first."""
    return CheckedRecords(
        second.position,
        second.next_index,
        min(first.min_timestamp_delta, second.min_timestamp_delta),
        max(first.max_timestamp_delta, second.max_timestamp_delta),
        first.offsets_consecutive and second.offsets_consecutive,
        first.has_null_key or second.has_null_key,
    )


def _check_uniform_records(body: bytes, position: i64, index: i64, stop: i64) -> CheckedRecords | None:
    """Check the uniform records that begin at `position`, or return None if there are too few to be worth it.

    The offset deltas of records `index` to `stop` take the same number of bytes.
    """
    # Most records that differ do so in the length.
    try:
        low = body[position]
        size = 1 + SHORT[low] if low < 0x80 else 2 + LOW[low] + HIGH[body[position + 1]]
    except IndexError:
        return None
    if body[position : position + _FEWEST_UNIFORM * size : size].count(low) < _FEWEST_UNIFORM:
        return None
    shape = shape_at(body, position)
    if shape is None or (count := uniform_count(body, position, shape, index, stop - index)) < _FEWEST_UNIFORM:
        return None
    end = position + count * size
    times = body[position + shape.timestamp_place : end : size]
    if times.strip(_EARLY):
        deltas = timestamps(body, position, shape, count, 0)
        lowest, highest = min(deltas), max(deltas)
    else:
        lowest, highest = min(times) >> 1, max(times) >> 1
    return CheckedRecords(end, index + count, lowest, highest, True, shape.key_size < 0)


def _single_record(body: bytes, start: int) -> CheckedRecords | None:
    """Check the only record of a body, at `start`, or return None when it is none that can be read quickly."""
    try:
        low = body[start]
        if low >= 0x80:
            start += 1
        high, time, offset, key = _BEFORE_KEY_1(body, start)
        place = start + 5 + SHORT[key]
        value = body[place]
        if value < 0x80:
            place += 1 + SHORT[value]
        else:
            place += 2 + LOW[value] + HIGH[body[place + 1]]
        # The place of the number of headers, which is the record's last byte: it must be 0.
        if body[place] or offset or time >= 0x80 or time & 1 or place + 1 != len(body):
            return None
        if place - start != (LOW[low] + HIGH[high] if low >= 0x80 else SHORT[low]):
            return None
    except (IndexError, struct.error):
        return None
    time >>= 1
    return CheckedRecords(place + 1, 1, time, time, True, key == 1)


def _check_short_records(body: bytes, position: int, index: int, stop: int) -> CheckedRecords | None:
    """Check records of up to 8,191 bytes that have early times, no headers and keys of less than 64 bytes.

    Returns those before the first record that is otherwise, or None when these are none.
    """
    offsets: Sequence[int]
    if index < ONE_BYTE_OFFSETS:
        unpack, width, offsets = _BEFORE_KEY_1, 5, OFFSET_BYTES[0]
    else:
        unpack, width, offsets = _BEFORE_KEY_2, 6, _TWO_BYTE_OFFSETS
    short_of, low_of, high_of = SHORT, LOW, HIGH
    times: list[int] = []
    null_key = False
    start = position
    try:
        for expected in offsets[index:stop]:
            low = body[start]
            if low >= 0x80:
                start += 1
            high, time, offset, key = unpack(body, start)
            place = start + width + short_of[key]
            value = body[place]
            if value < 0x80:
                place += 1 + short_of[value]
            else:
                place += 2 + low_of[value] + high_of[body[place + 1]]
            if offset != expected or body[place]:
                break
            if place - start != (low_of[low] + high_of[high] if low >= 0x80 else short_of[low]):
                break
            if key == 1:
                null_key = True
            times.append(time)
            start = position = place + 1
    # The careful way finds out what is wrong.
    except (IndexError, struct.error):
        pass
    if not times or bytes(times).strip(_EARLY):
        return None
    return CheckedRecords(position, index + len(times), min(times) >> 1, max(times) >> 1, True, null_key)


_INTERPRETED: Final = isinstance(_check_some, FunctionType)
"""Whether this module is not compiled."""
