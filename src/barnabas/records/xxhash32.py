"""LZ4 as message format 0 has it, with a wrong checksum in the frame's header (KAFKA-3160): an xxHash-32. Pure.

Called for old clients and old logs.
"""

from __future__ import annotations

from typing import Final

from barnabas.records.compression import DEFAULT_LIMIT_BYTES, Buffer, Codec, compress, decompress
from barnabas.records.errors import CorruptRecord

_LZ4_MAGIC: Final = b"\x04\x22\x4d\x18"
_PRIME_1 = 2654435761
_PRIME_2 = 2246822519
_PRIME_3 = 3266489917
_PRIME_4 = 668265263
_PRIME_5 = 374761393
_MASK = 0xFFFFFFFF


def xxhash32(data: bytes) -> int:
    """Hash `data` with seed 0."""
    if len(data) >= 16:
        return _finish(_stripes(data), data[len(data) // 16 * 16 :], len(data))
    return _finish(_PRIME_5, data, len(data))


def _stripes(data: bytes) -> int:
    """Return the sum of the four lanes over all whole stripes of 16 bytes."""
    # Four lanes take every fourth word each. The seed is 0, and so left out of the four starting values.
    lanes = [(_PRIME_1 + _PRIME_2) & _MASK, _PRIME_2, 0, -_PRIME_1 & _MASK]
    for start in range(0, len(data) // 16 * 16, 4):
        lane = start // 4 % 4
        word = int.from_bytes(data[start : start + 4], "little")
        lanes[lane] = _rotate((lanes[lane] + word * _PRIME_2) & _MASK, 13) * _PRIME_1 & _MASK
    return sum(_rotate(lane, turn) for lane, turn in zip(lanes, (1, 7, 12, 18), strict=True)) & _MASK


def _finish(value: int, rest: bytes, length: int) -> int:
    """Return the hash: mix in the bytes behind the last stripe and the length, then spread the bits."""
    value = (value + length) & _MASK
    whole = len(rest) // 4 * 4
    for start in range(0, whole, 4):
        word = int.from_bytes(rest[start : start + 4], "little")
        value = _rotate((value + word * _PRIME_3) & _MASK, 17) * _PRIME_4 & _MASK
    for byte in rest[whole:]:
        value = _rotate((value + byte * _PRIME_5) & _MASK, 11) * _PRIME_1 & _MASK
    value = (value ^ value >> 15) * _PRIME_2 & _MASK
    value = (value ^ value >> 13) * _PRIME_3 & _MASK
    return value ^ value >> 16


def _rotate(value: int, bits: int) -> int:
    return (value << bits | value >> (32 - bits)) & _MASK


def compress_lz4_magic_0(data: Buffer) -> bytes:
    """Compress for message format 0, whose LZ4 header checksum covers the frame's magic, too (KAFKA-3160)."""
    frame = compress(Codec.LZ4, data)
    end = _lz4_checksum_position(frame)
    return frame[:end] + bytes([xxhash32(frame[:end]) >> 8 & 0xFF]) + frame[end + 1 :]


def decompress_lz4_magic_0(data: Buffer, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> bytes:
    """Decompress the LZ4 of message format 0, whose header checksum may be right, or wrong in Kafka's way.

    Raises what `decompress` raises.
    """
    frame = bytes(data)
    end = _lz4_checksum_position(frame)
    repaired = frame[:end] + bytes([xxhash32(frame[4:end]) >> 8 & 0xFF]) + frame[end + 1 :]
    return decompress(Codec.LZ4, repaired, limit_bytes)


def _lz4_checksum_position(frame: bytes) -> int:
    """Return the position of the header's checksum byte. Raises CorruptRecord when there is no whole header.

    Before the checksum lie the magic, FLG, BD, and as FLG says, 8 bytes of content size and 4 of a dictionary id.
    """
    if len(frame) < 7 or frame[:4] != _LZ4_MAGIC:
        raise CorruptRecord("lz4: the data do not begin with a frame header")
    flags = frame[4]
    position = 6 + (8 if flags & 0x08 else 0) + (4 if flags & 0x01 else 0)
    if position >= len(frame):
        raise CorruptRecord("lz4: the frame header is cut off")
    return position
