"""xxHash-32 of short inputs: the header checksum of an LZ4 frame. Pure.

Only `records.compression` calls it, to write and to repair the checksum of message format 0 (KAFKA-3160).
"""

from __future__ import annotations

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
