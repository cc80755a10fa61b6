"""The layout of a record of format v2: its numbers, its fields, and the shape of records that are laid out alike. Pure.

Every reader and writer of records takes what it knows of the layout from here. A record is:

    length           of everything behind this field
    attributes       one byte, of which Kafka uses no bit
    timestamp delta  to the batch's base timestamp; up to ten bytes
    offset delta     to the batch's base offset
    key length       -1 for null; then the key
    value length     -1 for null, a tombstone in a compacted topic; then the value
    header count     then for each header (KIP-82): name length, name, value length (-1 for null), value

For example, the key "a" with a null value, the first of its batch, is 0e | 00 | 00 | 00 | 02 61 | 01 | 00: seven bytes
(0e), no attributes, both deltas 0, a key of one byte (02), no value (01), no headers.

All numbers are zigzag varints. Zigzag maps 0, -1, 1, -2 to 0, 1, 2, 3, so that small numbers of both signs take one
byte; a varint has seven bits a byte, the lowest first, and bit 7 says that more follow. 150 becomes 300, which is
0b10_0101100: bytes ac 02.

Records are *uniform* if they have one `Shape`: no headers, and fields of the same sizes. Then each field stands at the
same place in all of them, and they differ only in timestamps, offsets, keys and values. The shape of the example has
the length 0e at place 0, one byte each of timestamp and offset at 2 and 3, the lengths 02 and 01 at 4 and 6, the key at
5, and the number of headers, 00, at 7.

`i64` means machine integers in the compiled build (decisions/0009-compiled-build.md), and nothing otherwise.
Kafka: ByteUtils, DefaultRecord.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.records.errors import CorruptRecord

if TYPE_CHECKING:
    from mypy_extensions import i64

MAX_VARINT_BYTES: Final = 5
MAX_VARLONG_BYTES: Final = 10

MIN_RECORD_SIZE: Final = 6
"""Attributes, timestamp delta, offset delta, key length, value length, header count: a byte each."""

# -- numbers


def encode_zigzag(value: int) -> bytes:
    """Encode a signed 64-bit integer."""
    rest = ((value << 1) ^ (value >> 63)) & 0xFFFFFFFFFFFFFFFF
    encoded = bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


_LARGEST: Final = 2**63 - 1
"""Ten bytes hold 70 bits, of which Java drops those above 64. Brokers and clients must agree, so this does, too."""
ZIGZAG: tuple[bytes, ...] = tuple(encode_zigzag(value) for value in range(4096))
"""Encodings of 0..4095: nearly all lengths and offset deltas of a batch."""

FAR: Final = 1 << 48
"""The entry of the tables for impossible bytes: it leads out of any body, and to no end of a record."""
SHORT: Final = tuple(0 if byte == 1 else byte >> 1 if byte < 0x80 and not byte & 1 else FAR for byte in range(256))
"""The length that a single byte encodes; null (1) takes no bytes."""
LOW: Final = tuple((byte & 0x7F) >> 1 if byte >= 0x80 and not byte & 1 else FAR for byte in range(256))
HIGH: Final = tuple(byte << 6 if byte < 0x80 else FAR for byte in range(256))
"""The length that two bytes encode is the sum of both."""
ONE_BYTE_NUMBERS: Final = tuple((byte >> 1) ^ -(byte & 1) for byte in range(0x80))

ONE_BYTE_OFFSETS: Final = 64
"""Offset deltas below this number take one byte."""
TWO_BYTE_OFFSETS: Final = 8192
"""Offset deltas below this number take at most two bytes."""
THREE_BYTE_OFFSETS: Final = 1 << 20
_OFFSET_BOUNDS: Final = (0, 0, ONE_BYTE_OFFSETS, TWO_BYTE_OFFSETS, THREE_BYTE_OFFSETS)
"""Size of an offset delta in bytes -> the first offset delta that takes so many."""
_OFFSETS: Final = tuple(encode_zigzag(delta) for delta in range(TWO_BYTE_OFFSETS))
OFFSET_BYTES: Final = (bytes(offset[0] for offset in _OFFSETS), bytes(offset[-1] for offset in _OFFSETS))
"""Place of a byte in an offset delta -> offset delta -> the byte. The second is not used where there is only one."""


def zigzag(value: int) -> bytes:
    """Encode a signed 64-bit integer, by table where it is small."""
    return ZIGZAG[value] if 0 <= value < 4096 else encode_zigzag(value)


def decode_zigzag(buffer: bytes, position: i64, max_bytes: i64 = MAX_VARLONG_BYTES) -> tuple[i64, i64]:
    """Decode the number at `position`. Return it and the position behind it.

    Raises CorruptRecord when the buffer ends inside it or it takes more than `max_bytes` bytes.
    """
    # Numbers of one and two bytes, which nearly all are, without the loop.
    try:
        first: i64 = buffer[position]
        if first < 0x80:
            return (first >> 1) ^ -(first & 1), position + 1
        second: i64 = buffer[position + 1]
        if second < 0x80:
            both: i64 = first & 0x7F | second << 7
            return (both >> 1) ^ -(both & 1), position + 2
        value: i64 = 0
        shift: i64 = 0
        index: i64
        for index in range(position, position + max_bytes):
            byte: i64 = buffer[index]
            value |= (byte & 0x7F) << shift
            # The mask drops the bits above 64, which plain Python keeps, and the sign, which `>>` keeps in an i64.
            if byte < 0x80:
                return (value >> 1 & _LARGEST) ^ -(value & 1), index + 1
            shift += 7
    except IndexError:
        raise CorruptRecord("a number is cut off by the end of the batch") from None
    raise CorruptRecord(f"a number takes more than {max_bytes} bytes")


# -- uniform records


class Shape(NamedTuple):
    """Where the fields of uniform records lie. Places count from the beginning of a record; sizes are in bytes.

    fixed_bytes: the bytes of the three lengths and of the number of headers, which are the same in all records.
    columns: the fixed bytes, the bytes of the offset, and the last one of the timestamp, each as the slice that takes
    it from all records. parts: the format of a `struct` that takes out the key and the value, if they are not null.
    key_size, value_size: -1 for null. first_offset, end_offset: the offset deltas that take `offset_size` bytes.
    """

    size: int
    length: bytes
    fixed_bytes: bytes
    columns: tuple[slice, ...]
    parts: str
    timestamp_place: int
    timestamp_size: int
    offset_place: int
    offset_size: int
    first_offset: int
    end_offset: int
    key_size: int
    value_size: int


@lru_cache(maxsize=256)
def shape_of(timestamp_size: int, offset_size: int, key_size: int, value_size: int) -> Shape:
    """Return the shape of records with fields of these sizes in bytes. Raises ValueError when one is impossible.

    An offset delta has three bytes at most.
    """
    if key_size < -1 or value_size < -1:
        raise ValueError(f"a key of {key_size} bytes, a value of {value_size}")
    key_length, value_length = zigzag(key_size), zigzag(value_size)
    key_place = 1 + timestamp_size + offset_size + len(key_length)
    value_place = key_place + max(key_size, 0) + len(value_length)
    content_size = value_place + max(value_size, 0) + 1
    length = zigzag(content_size)
    start, size = len(length), len(length) + content_size
    offset_place = start + 1 + timestamp_size
    fields = (
        (0, length),
        (start + key_place - len(key_length), key_length),
        (start + value_place - len(value_length), value_length),
        (size - 1, b"\x00"),
    )
    key = "" if key_size < 0 else f"{key_size}s"
    value = "" if value_size < 0 else f"{value_size}s"
    places = [place + index for place, content in fields for index in range(len(content))]
    places += (*range(offset_place, offset_place + offset_size), offset_place - 1)
    return Shape(
        size,
        length,
        b"".join(content for _, content in fields),
        tuple(slice(place, None, size) for place in places),
        f"{start + key_place}x{key}{len(value_length)}x{value}1x",
        start + 1,
        timestamp_size,
        offset_place,
        offset_size,
        _OFFSET_BOUNDS[offset_size],
        _OFFSET_BOUNDS[offset_size + 1],
        key_size,
        value_size,
    )


def shape_at(body: bytes, position: int) -> Shape | None:
    """Return the shape that the record at `position` has if it is uniform with others; None if it cannot be.

    Only the sizes of its fields are read: whether its length and the rest fit them, `uniform` finds out.
    """
    try:
        time = position + 2
        if body[position] >= 0x80:
            time += 1
            if body[position + 1] >= 0x80:
                time = decode_zigzag(body, position, MAX_VARINT_BYTES)[1] + 1
        # One byte or two: the last byte of a longer number is not where the shape says.
        offset = time + 1 if body[time] < 0x80 else time + 2
        place = key_length = offset + 1 if body[offset] < 0x80 else offset + 2
        low = body[place]
        if low < 0x80:
            key_size = ONE_BYTE_NUMBERS[low]
            place += 1
        else:
            key_size, place = decode_zigzag(body, place, MAX_VARINT_BYTES)
        if key_size > 0:
            place += key_size
        low = body[place]
        if low < 0x80:
            value_size = ONE_BYTE_NUMBERS[low]
        elif (high := body[place + 1]) < 0x80 and not low & 1:
            value_size = (low & 0x7F) >> 1 | high << 6
        else:
            value_size, _ = decode_zigzag(body, place, MAX_VARINT_BYTES)
        return shape_of(offset - time, key_length - offset, key_size, value_size)
    except (IndexError, ValueError, CorruptRecord):
        return None
