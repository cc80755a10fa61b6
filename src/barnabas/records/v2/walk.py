"""Walks the uncompressed records of a v2 batch one by one: the careful readers, which say what is wrong. Pure.

Called on the thread that has the batch:

- `read_records` by `RecordBatch.records`: makes a `Record` of each;
- `check_records` by validation, for what `uniform` leaves over: makes nothing;
- `scan_keys` by the cleaner: makes keys and offsets, and does not look behind a key;
- `count_records` by validation at `record.validation=framing`: hops from length to length.

The first two accept the same records, the other two look at less of them. The consumer and the Arrow path have their
own loops, which make their own objects; a test compares all with `read_records`.

Numbers of one byte, and of two where lengths and times often have them, are read in place: calls would double the time.
In the compiled build `i64` makes machine integers of numbers, and a record takes about 6 ns
(decisions/0009-compiled-build.md); in plain Python `i64` means nothing. Only a record's end is compared with where its
fields end, since no field moves the position back.
Kafka: DefaultRecord.readFrom.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from barnabas.records.compression import Buffer
from barnabas.records.errors import CorruptRecord
from barnabas.records.v2.layout import (
    FAR,
    MAX_VARINT_BYTES,
    MIN_RECORD_SIZE,
    decode_zigzag,
)

if TYPE_CHECKING:
    from mypy_extensions import i64

Header: TypeAlias = tuple[str, bytes | None]

_PIECE_BYTES: Final = 1 << 16
# Bytes to skip, by the first byte of a length: the length's own bytes and the record's. An impossible length leads out
# of any buffer, which ends the quick walk without a test in its loop. The careful walk then finds out what is wrong.
# Lengths are never negative, so bit 0, the sign of a zigzag number, must be 0.
_SKIP_ONE: Final = tuple(FAR if low & 1 or low >> 1 < MIN_RECORD_SIZE else 1 + (low >> 1) for low in range(128))
_SKIP_TWO: Final = tuple(FAR if low & 1 else 2 + ((low & 0x7F) >> 1) for low in range(256))
_SKIP_HIGH: Final = tuple(high << 6 if high else FAR for high in range(128))

# -- making records


class Record(NamedTuple):
    """One record: offset, timestamp in milliseconds since the epoch (-1: none), key, value, headers in order."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


def read_records(
    body: bytes, count: int, base_offset: int, base_timestamp: int, append_time: int | None
) -> Iterator[Record]:
    """Yield the `count` records that fill `body` exactly. append_time: replaces their timestamps, unless None.

    Raises CorruptRecord when a field is malformed, the count is not that of the records, or bytes are left over; some
    good records may come before.
    """
    if count < 0:
        raise CorruptRecord(f"a batch claims {count} records")
    position = 0
    total = len(body)
    # Without the NamedTuple's constructor, a Python function, a record takes half the time.
    new = tuple.__new__
    try:
        for index in range(count):
            if position >= total:
                raise CorruptRecord(f"the batch holds {index} records, its header says {count}")
            length, start = decode_zigzag(body, position, MAX_VARINT_BYTES)
            end = start + length
            if length < 0 or end > total:
                raise CorruptRecord(f"record {index} claims {length} bytes, {total - start} are there")
            # Numbers of one byte, nearly all there are, are decoded here: a call costs more than the decoding. The byte
            # at `start`, the attributes, is skipped.
            first = body[start + 1]
            if first < 0x80:
                timestamp, position = (first >> 1) ^ -(first & 1), start + 2
            else:
                timestamp, position = decode_zigzag(body, start + 1)
            first = body[position]
            if first < 0x80:
                offset, position = (first >> 1) ^ -(first & 1), position + 1
            else:
                offset, position = decode_zigzag(body, position, MAX_VARINT_BYTES)
            key, position = read_bytes(body, position, end)
            value, position = read_bytes(body, position, end)
            headers, position = read_headers(body, position, end) if body[position] else ((), position + 1)
            if position != end:
                raise CorruptRecord(f"record {index} claims {length} bytes, its fields take {position - start}")
            timestamp = base_timestamp + timestamp if append_time is None else append_time
            yield new(Record, (base_offset + offset, timestamp, key, value, headers))
    except IndexError:
        raise CorruptRecord("the last record is cut off") from None
    if position != total:
        raise CorruptRecord(f"{total - position} bytes after the last of {count} records")


def read_bytes(body: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    """Decode a length and as many bytes; -1 is None. Return them and the position behind.

    Raises CorruptRecord when the field ends behind `end`, the end of the record.
    """
    first = body[position]
    if first < 0x80:
        position += 1
        # 1 is -1 in zigzag: null.
        if first == 1:
            return None, position
        length = -1 if first & 1 else first >> 1
    else:
        length, position = decode_zigzag(body, position, MAX_VARINT_BYTES)
        if length == -1:
            return None, position
    stop = position + length
    if length < 0 or stop > end:
        raise CorruptRecord(f"a field claims {length} bytes, {end - position} are there")
    return body[position:stop], stop


def read_headers(body: bytes, position: int, end: int) -> tuple[tuple[Header, ...], int]:
    """Decode the number of headers and the headers. Raises CorruptRecord when they do not end before `end`."""
    count, position = decode_zigzag(body, position, MAX_VARINT_BYTES)
    # A header takes two bytes at least, so what is left of the record bounds the count before the loop begins.
    if count < 0 or count > (end - position) // 2:
        raise CorruptRecord(f"a record claims {count} headers in {end - position} bytes")
    headers = []
    for _ in range(count):
        name, position = read_bytes(body, position, end)
        if name is None:
            raise CorruptRecord("a header without a name")
        value, position = read_bytes(body, position, end)
        # As Java does: a name that is not UTF-8 must not stop the consumer.
        headers.append((name.decode("utf-8", "replace"), value))
    return tuple(headers), position


# -- checking


class CheckedRecords:
    """Some records of a body: where they end, and the number of the next one; and what is to be known of them.

    That is the extremes of the timestamp deltas, whether offsets count from 0, whether a record has no key.
    """

    __slots__ = (
        "has_null_key",
        "max_timestamp_delta",
        "min_timestamp_delta",
        "next_index",
        "offsets_consecutive",
        "position",
    )

    def __init__(
        self,
        position: i64,
        next_index: i64,
        min_timestamp_delta: i64,
        max_timestamp_delta: i64,
        offsets_consecutive: bool,
        has_null_key: bool,
    ) -> None:
        self.position: i64 = position
        self.next_index: i64 = next_index
        self.min_timestamp_delta: i64 = min_timestamp_delta
        self.max_timestamp_delta: i64 = max_timestamp_delta
        self.offsets_consecutive = offsets_consecutive
        self.has_null_key = has_null_key


def check_records(body: bytes, position: i64, first: i64, stop: i64) -> CheckedRecords:  # noqa: C901, PLR0912, PLR0915 - unrolled
    """Check the records from `first` to `stop`, the first of them at `position`. Raises CorruptRecord."""
    total: i64 = len(body)
    lowest: i64 = 2**63 - 1
    highest: i64 = -(2**63)
    low = high = length = end = delta = index = position  # all of them i64
    consecutive, null_key = True, False
    try:
        for index in range(first, stop):
            low = body[position]
            if low < 0x80:
                length = low
                position += 1
            elif (high := body[position + 1]) < 0x80:
                length = low & 0x7F | high << 7
                position += 2
            else:
                length, position = decode_zigzag(body, position, MAX_VARINT_BYTES)
                length <<= 1
            end = position + (length >> 1)
            if length & 1 or length < 0 or end > total:
                raise CorruptRecord(f"record {index} claims an impossible length, {total - position} bytes are there")
            low = body[position + 1]
            position += 2
            if low < 0x80:
                delta = (low >> 1) ^ -(low & 1)
            elif (high := body[position]) < 0x80:
                delta = ((low & 0x7F | high << 7) >> 1) ^ -(low & 1)
                position += 1
            else:
                delta, position = decode_zigzag(body, position - 1)
            if delta > highest:  # noqa: PLR1730 - a call costs as much as all the rest of a look at a time
                highest = delta
            if delta < lowest:  # noqa: PLR1730
                lowest = delta
            low = body[position]
            if low < 0x80:
                position += 1
                if low != index << 1:
                    consecutive = False
            elif (high := body[position + 1]) < 0x80:
                position += 2
                if low & 0x7F | high << 7 != index << 1:
                    consecutive = False
            else:
                delta, position = decode_zigzag(body, position, MAX_VARINT_BYTES)
                if delta != index:
                    consecutive = False
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
            elif not low & 1 and (high := body[position + 1]) < 0x80:
                position += 2 + ((low & 0x7F) >> 1) + (high << 6)
            else:
                position = _skip_field(body, position, end)
            position = position + 1 if body[position] == 0 else _skip_headers(body, position, end)
            if position != end:
                raise CorruptRecord(f"record {index} ends at byte {end}, its fields at {position}")
    except IndexError:
        raise CorruptRecord("the last record is cut off") from None
    return CheckedRecords(position, stop, lowest, highest, consecutive, null_key)


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


# -- keys


class RecordKeys:
    """One entry per record, in order. `starts` has one more: the end of the last record.

    keys: empty if they were not asked for. tombstones: the places, in these lists, of records without a value. keyless:
    how many keys are None. in_order: each offset is the one behind the offset before.
    """

    __slots__ = ("in_order", "keyless", "keys", "offsets", "starts", "tombstones")

    def __init__(
        self,
        starts: list[int],
        offsets: list[int],
        keys: list[bytes | None],
        tombstones: list[int],
        keyless: i64,
        in_order: bool,
    ) -> None:
        self.starts = starts
        self.offsets = offsets
        self.keys = keys
        self.tombstones = tombstones
        self.keyless: i64 = keyless
        self.in_order = in_order


def scan_keys(  # noqa: C901, PLR0912 - unrolled
    body: bytes, position: i64, end: i64, count: i64, base_offset: i64, with_keys: bool = True
) -> RecordKeys:
    """Walk the `count` records that fill `body` from `position` to `end`. Raises CorruptRecord."""
    # Varints of one and two bytes are decoded in place, which is most of them: a call would double the time.
    starts: list[int] = []
    offsets: list[int] = []
    keys: list[bytes | None] = []
    tombstones: list[int] = []
    low = high = start = stop = length = index = position  # all of them i64
    keyless: i64 = 0
    expected: i64 = 0
    in_order = True
    try:
        for index in range(count):
            starts.append(position)
            low = body[position]
            if low >= 0x80 and (high := body[position + 1]) < 0x80:
                start = position + 2
                stop = start + ((low & 0x7F) >> 1) + (high << 6) if not low & 1 else -1
            else:
                length, start = decode_zigzag(body, position, MAX_VARINT_BYTES)
                stop = start + length if length >= 0 else -1
            if not start < stop <= end:
                raise CorruptRecord(f"record {index} claims an impossible length, {end - start} bytes are there")
            position = start + 2
            while body[position - 1] > 0x7F:  # the timestamp, which is of no interest
                position += 1
            low = body[position]
            if low < 0x80:
                length = (low >> 1) ^ -(low & 1)
                position += 1
            elif (high := body[position + 1]) < 0x80:
                low = low & 0x7F | high << 7
                length = (low >> 1) ^ -(low & 1)
                position += 2
            else:
                length, position = decode_zigzag(body, position, MAX_VARINT_BYTES)
            offsets.append(base_offset + length)
            if length != expected and index:
                in_order = False
            expected = length + 1
            low = body[position]
            if low < 0x80:
                length, position = (-1 if low & 1 else low >> 1), position + 1
            else:
                length, position = decode_zigzag(body, position, MAX_VARINT_BYTES)
            if length < 0:
                keyless += 1
                if with_keys:
                    keys.append(None)
            else:
                if with_keys:
                    keys.append(body[position : position + length])
                position += length
            if position >= stop:
                raise CorruptRecord(f"the key of record {index} reaches beyond the record")
            # 1 is -1 in zigzag: a null value.
            if body[position] == 1:
                tombstones.append(index)
            position = stop
    except IndexError:
        raise CorruptRecord("the last record is cut off") from None
    if position != end:
        raise CorruptRecord(f"{end - position} bytes after the last of {count} records")
    starts.append(end)
    return RecordKeys(starts, offsets, keys, tombstones, keyless, in_order)


# -- counting


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
        return count, FAR
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
