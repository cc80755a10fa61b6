"""Checks every field of every record of an uncompressed v2 body without making objects of them. Pure.

Called by validation for each batch whose records are read, which by default is every produced batch. It accepts exactly
what `records.record_reader` decodes.

Three ways through a body, each for what the one before leaves over:

1. Runs of records of the same shape (`_same_shape`), which is what a producer of measurements or of fixed fields sends.
   In such a run every number of a record stands a fixed distance behind that of the record before, so a slice with a
   step takes out all first bytes of lengths, all offset deltas and so on, and C code compares each such column. An
   example, records of 8 bytes with null keys and one byte of value, timestamps 0, 0 and 3 ms (6 in zigzag):

       0e 00 00 00 01 02 41 00 | 0e 00 00 02 01 02 42 00 | 0e 00 06 04 01 02 43 00
       ^length  ^time ^offset delta  ^key -1  ^value 1   ^no headers

   The columns are 0e 0e 0e, 00 00 06, 00 02 04, 01 01 01, 02 02 02 and 00 00 00.
2. Records that differ in the lengths of their keys and values (`_check_short_records`): the numbers before the key in
   one unpacking, lengths by table. A batch of one record has the same without a loop (`_single_record`).
3. All others, one number at a time (`_check_each_record`): long times, long keys, headers. It alone raises.

In the compiled build the third way is the quickest (about 45 ns a record) and the only one; `i64` makes machine
integers of numbers and means nothing otherwise (decisions/0009-compiled-build.md). Numbers of one byte, and of
two where lengths and times often have them, are read in place: calls would double the time. Only a record's end is
compared with where its fields end, since no field moves the position back.

A large body is not needed as a whole (`scan_pieces`): its pieces are joined to windows of 1 MB, whose whole records are
checked as above. Of a record that is larger than a window, the key, the value and the headers are skipped piece by
piece (`_check_long_record`): 8 KB of zstd that hold a value of 200 MB take no 200 MB of heap.
Kafka: DefaultRecord.readFrom, DefaultRecordBatch.skipKeyValueIterator.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.records.errors import CorruptRecord
from barnabas.records.varint import MAX_VARINT_BYTES, MAX_VARLONG_BYTES, decode_zigzag

if TYPE_CHECKING:
    from mypy_extensions import i64

_ONE_BYTE_OFFSETS: Final = 64
"""Offset deltas below this number take one byte."""
_TWO_BYTE_OFFSETS: Final = 8192
"""Offset deltas below this number take at most two bytes."""
_SHORTEST_RUN: Final = 6
"""The smallest number of records that is worth the slices."""
_LONGEST_RUN: Final = 1024
"""The largest number of records in a run; more are several runs.

Looking for a run must not cost more the more records are left: a batch whose records are all unlike would take the
square of their number.
"""
_MOST_AT_ONCE: Final = 128
"""The largest number of records that `_check_short_records` is asked for, for the same reason."""
_UNLIKE: Final = 32
"""The number of records that are read carefully after one that was not read quickly: they are mostly like it."""

_WINDOW_BYTES: Final = 1 << 20

_FAR: Final = 1 << 48
"""The entry of the tables for impossible bytes: it leads out of any body, and to no end of a record."""
_SHORT: Final = tuple(0 if byte == 1 else byte >> 1 if byte < 0x80 and not byte & 1 else _FAR for byte in range(256))
"""The length that a single byte encodes; none (1) takes no bytes."""
_LOW: Final = tuple((byte & 0x7F) >> 1 if byte >= 0x80 and not byte & 1 else _FAR for byte in range(256))
_HIGH: Final = tuple(byte << 6 if byte < 0x80 else _FAR for byte in range(256))
"""The length that two bytes encode is the sum of both."""
_EARLY: Final = bytes(range(0, 0x80, 2))
"""Time deltas of one byte, none of them negative."""

_OFFSETS: Final = bytes(range(0, 0x80, 2))
_OFFSETS_LOW: Final = bytes(index << 1 & 0x7F | 0x80 for index in range(_TWO_BYTE_OFFSETS))
_OFFSETS_HIGH: Final = bytes(index >> 6 for index in range(_TWO_BYTE_OFFSETS))
_OFFSETS_BOTH: Final = tuple(low << 8 | high for low, high in zip(_OFFSETS_LOW, _OFFSETS_HIGH, strict=True))
_BEFORE_KEY_1: Final = struct.Struct("BxBBB").unpack_from
_BEFORE_KEY_2: Final = struct.Struct(">BxBHB").unpack_from
"""Last byte of the length, time, offset delta of one byte or two, length of the key."""

_new = tuple.__new__


class RecordSummary(NamedTuple):
    """The summary of a body: extremes of the timestamp deltas, whether offsets count from 0, records without key."""

    min_timestamp_delta: int
    max_timestamp_delta: int
    offsets_consecutive: bool
    has_null_key: bool


class _Part(NamedTuple):
    """Some records of a body: where they end, the number of the next one, and what RecordSummary says of all."""

    position: int
    next_index: int
    min_timestamp_delta: int
    max_timestamp_delta: int
    offsets_consecutive: bool
    has_null_key: bool


def scan_records(body: bytes, count: i64) -> RecordSummary:
    """Check `count` records, not none, that must fill `body` exactly. Raises CorruptRecord."""
    if count == 1 and _INTERPRETED:
        summary = _single_record(body)
        if summary is not None:
            return summary
    part = _check_run(body, 0, 0, count)
    # Most batches are one part, for which the minima and maxima below are not worth a generator each.
    if part.next_index == count:
        if part.position != len(body):
            raise CorruptRecord(f"{len(body) - part.position} bytes after the last of {count} records")
        return _new(RecordSummary, part[2:])
    parts = [part]
    while part.next_index < count:
        part = _check_run(body, part.position, part.next_index, count)
        parts.append(part)
    if part.position != len(body):
        raise CorruptRecord(f"{len(body) - part.position} bytes after the last of {count} records")
    return RecordSummary(
        min(part.min_timestamp_delta for part in parts),
        max(part.max_timestamp_delta for part in parts),
        all(part.offsets_consecutive for part in parts),
        any(part.has_null_key for part in parts),
    )


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
        try:
            value, self.position = decode_zigzag(self.data, self.position, longest)
        except IndexError:
            raise CorruptRecord("the last record is cut off") from None
        return value


def scan_pieces(pieces: Iterator[bytes], count: int) -> RecordSummary:
    """Check what `scan_records` checks, of a body that comes in pieces. Raises CorruptRecord, and what `pieces` raises.

    One piece and 1 MB are in memory at a time.
    """
    source = _PiecedBody(pieces)
    lowest, highest, consecutive, null_key = 2**63 - 1, -(2**63), True, False
    index = stop = 0
    while index < count:
        if index == stop:
            source.fill(_WINDOW_BYTES)
            stop += _whole_records(source.data, source.position, count - index)
        if index == stop:
            part = _check_long_record(source, index)
            stop += 1
        else:
            part = _check_run(source.data, source.position, index, stop)
            source.position = part.position
        index = part.next_index
        lowest, highest = min(lowest, part.min_timestamp_delta), max(highest, part.max_timestamp_delta)
        consecutive, null_key = consecutive and part.offsets_consecutive, null_key or part.has_null_key
    if source.fill(1):
        raise CorruptRecord(f"more bytes after the last of {count} records")
    return RecordSummary(lowest, highest, consecutive, null_key)


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


def _check_long_record(source: _PiecedBody, index: int) -> _Part:
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
    return _Part(source.position, index + 1, time, time, offset == index, key == -1)


def _skip_long_field(source: _PiecedBody, end: int) -> int:
    """Skip a length and as many bytes, and return the length; -1 stands for null.

    Raises CorruptRecord when the field ends behind `end`.
    """
    length = source.number()
    if length < -1 or source.place + max(length, 0) > end:
        raise CorruptRecord(f"a field claims {length} bytes, {end - source.place} are there")
    source.skip(max(length, 0))
    return length


def _check_run(body: bytes, position: i64, index: i64, count: i64) -> _Part:
    """Check at least one record from `index` on, at `position`: as many as go the same way. Raises CorruptRecord."""
    if index >= _TWO_BYTE_OFFSETS:
        return _check_each_record(body, position, index, count)
    stop = min(count, index + _LONGEST_RUN, _ONE_BYTE_OFFSETS if index < _ONE_BYTE_OFFSETS else _TWO_BYTE_OFFSETS)
    found = None
    # Compiled, the plain loop is quicker than slices of columns.
    if _INTERPRETED:
        if stop - index >= _SHORTEST_RUN:
            found = _same_shape(body, position, index, stop)
        if found is None:
            found = _check_short_records(body, position, index, min(stop, index + _MOST_AT_ONCE))
            stop = min(stop, index + _UNLIKE)
    return found or _check_each_record(body, position, index, stop)


class _Run(NamedTuple):
    """Records of the same length, one after another. prefix: how many bytes the length takes, which `size` counts."""

    size: int
    prefix: int
    records: int


def _same_length(body: bytes, position: i64, most: i64) -> _Run | None:
    """Find out how many records from `position` on say the same length, or return None when they are few."""
    if len(body) - position < 8:
        return None
    low = body[position]
    high = body[position + 1]
    prefix = 1 if low < 0x80 else 2
    size = prefix + (_SHORT[low] if low < 0x80 else _LOW[low] + _HIGH[high])
    if body[position : position + _SHORTEST_RUN * size : size].count(low) < _SHORTEST_RUN:
        return None
    column = body[position : position + most * size : size]
    records = len(column) - len(column.lstrip(column[:1]))
    if prefix == 2:
        column = body[position + 1 : position + records * size : size]
        records = len(column) - len(column.lstrip(column[:1]))
    return _new(_Run, (size, prefix, records)) if position + records * size <= len(body) else None


def _same_shape(body: bytes, position: i64, index: i64, stop: i64) -> _Part | None:
    """Check the run of records of the same shape that begins at `position`, or return None if there is none worth it.

    The offset deltas of records `index` to `stop` take the same number of bytes.
    """
    run = _same_length(body, position, stop - index)
    if run is None:
        return None
    size, prefix, records = run
    # Of times that take one byte, those that are not negative are ordered like their bytes. The run ends at any other.
    times = body[position + prefix + 1 : position + records * size : size]
    records = len(times) - len(times.lstrip(_EARLY))
    if records < _SHORTEST_RUN:
        return None
    end = position + records * size
    place = position + prefix + 2
    if index < _ONE_BYTE_OFFSETS:
        if body[place:end:size] != _OFFSETS[index : index + records]:
            return None
        place += 1
    else:
        if body[place:end:size] != _OFFSETS_LOW[index : index + records]:
            return None
        if body[place + 1 : end : size] != _OFFSETS_HIGH[index : index + records]:
            return None
        place += 2
    key = body[place]
    if body[place:end:size].count(key) != records or (place := place + 1 + _SHORT[key]) >= end - 1:
        return None
    value = body[place]
    if body[place:end:size].count(value) != records:
        return None
    if value < 0x80:
        place += 1 + _SHORT[value]
    else:
        high = body[place + 1]
        if body[place + 1 : end : size].count(high) != records:
            return None
        place += 2 + _LOW[value] + _HIGH[high]
    if place + 1 != position + size or body[place:end:size].count(0) != records:
        return None
    times = times[:records]
    return _Part(end, index + records, min(times) >> 1, max(times) >> 1, True, key == 1)


def _single_record(body: bytes) -> RecordSummary | None:
    """Check the only record of a body, or return None when it is none that can be read quickly."""
    try:
        low = body[0]
        start = 0 if low < 0x80 else 1
        high, time, offset, key = _BEFORE_KEY_1(body, start)
        place = start + 5 + _SHORT[key]
        value = body[place]
        if value < 0x80:
            place += 1 + _SHORT[value]
        else:
            place += 2 + _LOW[value] + _HIGH[body[place + 1]]
        # The place of the number of headers, which is the record's last byte: it must be 0.
        if body[place] or offset or time >= 0x80 or time & 1 or place + 1 != len(body):
            return None
        if place - start != (_LOW[low] + _HIGH[high] if start else _SHORT[low]):
            return None
    except (IndexError, struct.error):
        return None
    time >>= 1
    return _new(RecordSummary, (time, time, True, key == 1))


def _check_short_records(body: bytes, position: int, index: int, stop: int) -> _Part | None:
    """Check records of up to 8,191 bytes that have early times, no headers and keys of less than 64 bytes.

    Returns those before the first record that is otherwise, or None when these are none.
    """
    offsets: Sequence[int]
    if index < _ONE_BYTE_OFFSETS:
        unpack, width, offsets = _BEFORE_KEY_1, 5, _OFFSETS
    else:
        unpack, width, offsets = _BEFORE_KEY_2, 6, _OFFSETS_BOTH
    short_of, low_of, high_of = _SHORT, _LOW, _HIGH
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
    return _Part(position, index + len(times), min(times) >> 1, max(times) >> 1, True, null_key)


def _check_each_record(body: bytes, position: i64, first: i64, stop: i64) -> _Part:  # noqa: C901, PLR0912 - unrolled
    """Check the records from `first` to `stop`, the first of them at `position`. Raises CorruptRecord."""
    total: i64 = len(body)
    lowest: i64 = 2**63 - 1
    highest: i64 = -(2**63)
    low = high = start = end = length = delta = index = position  # all of them i64
    consecutive, null_key = True, False
    try:
        for index in range(first, stop):
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
    return _Part(position, stop, lowest, highest, consecutive, null_key)


def _skip_key(body: bytes, position: i64, end: i64) -> tuple[bool, i64]:
    """Return whether a key is null, and the position behind it. Raises CorruptRecord when the key is cut off."""
    length: i64
    behind: i64
    length, behind = decode_zigzag(body, position, MAX_VARINT_BYTES)
    return length == -1, _skip_field(body, position, end) if length else behind


def _skip_field(body: bytes, position: i64, end: i64) -> i64:
    """Return the position behind a length and as many bytes; -1 stands for null.

    Raises CorruptRecord when the length is negative or leads beyond `end`.
    """
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
    """Return the position behind the headers. Raises CorruptRecord when the count lies or a header has no name."""
    count: i64
    count, position = decode_zigzag(body, position, MAX_VARINT_BYTES)
    if count < 0 or count > (end - position) // 2:
        raise CorruptRecord(f"a record claims {count} headers in {end - position} bytes")
    for _ in range(count):
        if body[position] == 1:
            raise CorruptRecord("a header without a name")
        position = _skip_field(body, _skip_field(body, position, end), end)
    return position


_INTERPRETED: Final = isinstance(_check_each_record, FunctionType)
"""Whether this module is not compiled."""
