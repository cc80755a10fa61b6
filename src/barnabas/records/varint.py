"""Zigzag varints, the numbers inside a v2 record. Pure.

Zigzag maps 0, -1, 1, -2 to 0, 1, 2, 3, so that small numbers of both signs take one byte; a varint has seven bits a
byte, the lowest first, and bit 7 says that more follow. 150 becomes 300, which is 0b10_0101100: bytes ac 02.

Builders encode through `ZIGZAG`, a table of the small values; readers in this package unroll the one-byte case. `i64`
means machine integers in the compiled build (decisions/0009-compiled-build.md).
Kafka: ByteUtils.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.records.errors import CorruptRecord

if TYPE_CHECKING:
    from mypy_extensions import i64

MAX_VARINT_BYTES: Final = 5
MAX_VARLONG_BYTES: Final = 10


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
