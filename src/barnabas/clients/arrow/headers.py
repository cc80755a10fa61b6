"""Finds the positions of the headers of many records: for all records at once, header by header.

Called by `decoder` only. Pure functions over arrays; no state, no lock.

Each round reads the next header of every record that has one more. Records usually have the same few headers, so
there are few rounds. The few records with many more headers are read one by one, because a hostile record may hold a
hundred thousand.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from barnabas.clients.arrow.varints import Bytes, Integers, read_varints
from barnabas.records.errors import CorruptRecord
from barnabas.records.v2.layout import MAX_VARINT_BYTES, decode_zigzag

_ONE_BY_ONE_RECORDS = 8
"""The number of records left at which a numpy round costs more than reading their headers in Python."""


class HeaderPositions(NamedTuple):
    """The headers of all records, record after record. A negative value length is NULL."""

    list_offsets: Integers
    """The index of each record's first header in the other arrays, and at the end the number of all headers."""
    key_positions: Integers
    key_lengths: Integers
    value_positions: Integers
    value_lengths: Integers


def locate_headers(data: Bytes, counts: Integers, positions: Integers, ends: Integers) -> HeaderPositions:
    """Find the headers of records whose first header starts at `positions` and whose last one ends at `ends`.

    Raises CorruptRecord when a header has no key, runs past its record, or the last one ends before it.
    """
    list_offsets = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=list_offsets[1:])
    total = int(list_offsets[-1])
    found = HeaderPositions(list_offsets, *(np.zeros(total, np.int64) for _ in range(4)))
    position = positions.copy()
    active = np.nonzero(counts)[0]
    turn = 0
    while len(active) > _ONE_BY_ONE_RECORDS:
        slots = list_offsets[active] + turn
        key_lengths, key_positions = read_varints(data, position[active])
        value_lengths, value_positions = read_varints(data, key_positions + np.maximum(key_lengths, 0))
        behind = value_positions + np.maximum(value_lengths, 0)
        if (key_lengths < 0).any() or (value_lengths < -1).any() or (behind > ends[active]).any():
            raise CorruptRecord("a header has no key or runs past the end of its record")
        found.key_positions[slots] = key_positions
        found.key_lengths[slots] = key_lengths
        found.value_positions[slots] = value_positions
        found.value_lengths[slots] = value_lengths
        position[active] = behind
        turn += 1
        active = active[counts[active] > turn]
    for record in active.tolist():
        position[record] = _locate_one_by_one(data, found, record, turn, int(position[record]), int(ends[record]))
    if (position != ends)[counts > 0].any():
        raise CorruptRecord("the headers of a record do not end where its length says")
    return found


def _locate_one_by_one(data: Bytes, found: HeaderPositions, record: int, turn: int, position: int, end: int) -> int:
    """Find the headers of one record from number `turn` on. Returns the position behind the last.

    Raises CorruptRecord.
    """
    base = position
    content = data[position:end].tobytes()
    position = 0
    for slot in range(int(found.list_offsets[record]) + turn, int(found.list_offsets[record + 1])):
        length, position = decode_zigzag(content, position, MAX_VARINT_BYTES)
        if length < 0:
            raise CorruptRecord("a header has no key")
        found.key_positions[slot] = base + position
        found.key_lengths[slot] = length
        position += length
        length, position = decode_zigzag(content, position, MAX_VARINT_BYTES)
        if length < -1:
            raise CorruptRecord(f"a header value of {length} bytes")
        found.value_positions[slot] = base + position
        found.value_lengths[slot] = length
        position += max(length, 0)
    return base + position
