"""Zigzag varints by the column: each numpy call reads or writes the varints of all records at once.

Called by `decoder` and `encoder` only. Pure functions over arrays; no state, hence no lock.

Layout: org.apache.kafka.common.utils.ByteUtils (writeVarint, writeVarlong). Arrays of unsigned 64-bit integers
are used throughout, because the shifts of a zigzag code must not drag a sign along.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from barnabas.records.errors import CorruptRecord

Bytes = npt.NDArray[np.uint8]
Integers = npt.NDArray[np.int64]
Codes = npt.NDArray[np.uint64]

VARINT_BYTES = 5
"""The longest varint of a 32-bit value."""
VARLONG_BYTES = 10
"""The longest varint of a 64-bit value."""

_SEVEN_BITS = np.uint64(0x7F)
_SEVEN = np.uint64(7)
_ONE = np.uint64(1)


def read_varints(data: Bytes, positions: Integers, longest_bytes: int = VARINT_BYTES) -> tuple[Integers, Integers]:
    """Return the signed varints that start at `positions`, and the positions behind them.

    Raises CorruptRecord for one that is longer than `longest_bytes` or runs past the end of `data`.
    """
    try:
        first = data[positions]
        behind = positions + 1
        unfinished = np.flatnonzero(first >= 0x80)
        if not len(unfinished):
            # Bytes are negated modulo 256, and read as signed afterwards.
            return ((first >> 1) ^ -(first & 1)).view(np.int8).astype(np.int64), behind
        codes = first.astype(np.uint64)
        if len(unfinished) == len(first):
            # Lengths of values: nearly always two bytes, so that picking out rows would only cost.
            following = data[behind]
            codes &= _SEVEN_BITS
            codes |= (following & 0x7F).astype(np.uint64) << _SEVEN
            behind += 1
            unfinished = np.flatnonzero(following >= 0x80)
            length_bytes = 2
        else:
            codes[unfinished] &= _SEVEN_BITS
            length_bytes = 1
        while len(unfinished):
            if length_bytes == longest_bytes:
                raise CorruptRecord(f"a varint is longer than {longest_bytes} bytes")
            places = behind[unfinished]
            following = data[places]
            codes[unfinished] |= (following & 0x7F).astype(np.uint64) << np.uint64(7 * length_bytes)
            behind[unfinished] = places + 1
            length_bytes += 1
            unfinished = unfinished[following >= 0x80]
    except IndexError:
        raise CorruptRecord("a varint runs past the end of its batch") from None
    return unzigzag(codes), behind


def unzigzag(codes: Codes) -> Integers:
    """Return zigzag codes as signed numbers."""
    # 0 - 1 wraps to all ones, which is the sign mask an odd (negative) code needs.
    return ((codes >> _ONE) ^ (np.uint64(0) - (codes & _ONE))).view(np.int64)


def zigzag(values: Integers) -> Codes:
    """Return signed numbers as zigzag codes."""
    return ((values << 1) ^ (values >> 63)).view(np.uint64)


def code_sizes(codes: Codes) -> Integers:
    """Return how many bytes each code takes as a varint (1 to 10)."""
    sizes = np.ones(len(codes), np.int64)
    largest = int(codes.max()) if len(codes) else 0
    threshold = 0x80
    while threshold <= largest:
        sizes += codes >= np.uint64(threshold)
        threshold <<= 7
    return sizes


def write_varints(out: Bytes, positions: Integers, codes: Codes, sizes: Integers) -> Integers:
    """Write each code at its position of `out`, which must be long enough. Returns the positions behind the codes."""
    longest = int(sizes.max()) if len(sizes) else 0
    if longest == 1:
        out[positions] = codes
        return positions + 1
    rest = codes
    for index in range(longest):
        here = np.nonzero(sizes > index)[0]
        more = np.where(sizes[here] > index + 1, np.uint64(0x80), np.uint64(0))
        out[positions[here] + index] = (rest[here] & _SEVEN_BITS) | more
        rest = rest >> np.uint64(7)
    return positions + sizes
