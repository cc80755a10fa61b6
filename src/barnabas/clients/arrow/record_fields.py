"""Where the fields of many records lie, found record by record: for records of any layout.

Called by `decoder` for records that `even_fields` does not take. Pure functions; no state, no lock.

A Python loop walks only the lengths of records that differ in size. Every other varint, and runs of records of one
size, are read across all records at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from barnabas.clients.arrow.varints import VARLONG_BYTES, Bytes, Integers, read_varints
from barnabas.records.compression import Buffer
from barnabas.records.errors import CorruptRecord
from barnabas.records.record_framing import MIN_RECORD_SIZE

_FIRST_WALK_RECORDS = 16
"""The records that are walked one by one before a run of equal ones is looked for."""

_SKIP = tuple(1 + (low >> 1) if low < 0x80 else 2 + ((low & 0x7F) >> 1) for low in range(256))
"""The bytes to skip, by the first byte of a length: the length's own one or two, and what that byte says."""


class Extent(NamedTuple):
    """The records of one batch: `record_count` of them, from `start` to `end` of a buffer."""

    start: int
    end: int
    record_count: int


class Pieces(NamedTuple):
    """A piece of the buffer for each record. A negative length stands for NULL."""

    positions: Integers
    lengths: Integers


class HeaderPlaces(NamedTuple):
    """The number of headers of each record, the position of its first one, and the end of the record."""

    counts: Integers
    positions: Integers
    ends: Integers


class RecordFields(NamedTuple):
    """The fields of all records. `headers` is None where no record has any."""

    timestamp_deltas: Integers
    offset_deltas: Integers
    keys: Pieces
    values: Pieces
    headers: HeaderPlaces | None


def find_fields(data: Buffer, array: Bytes, extents: Sequence[Extent]) -> RecordFields:
    """Return the fields of all records. `array` is `data`.

    Raises CorruptRecord for records that do not fill their extents, and for a key, value or number of headers that does
    not fit into its record. The headers themselves are the caller's to check.
    """
    starts = np.concatenate([_record_positions(data, array, each) for each in extents])
    # `positions` cannot leave the array: the walk above has proved where each record ends. The fields inside a record
    # have not been checked yet, so a varint may be read beyond its record, but never beyond the array without a
    # CorruptRecord.
    lengths, bodies = read_varints(array, starts)
    if len(lengths) and int(lengths.min()) < MIN_RECORD_SIZE:
        raise CorruptRecord("a record has an impossible length")
    ends = bodies + lengths
    # The record's attributes come first: one byte that carries nothing.
    timestamp_deltas, position = read_varints(array, bodies + 1, VARLONG_BYTES)
    offset_deltas, position = read_varints(array, position)
    # Negative lengths stand for NULL, which takes no bytes.
    key_lengths, key_positions = read_varints(array, position)
    value_lengths, value_positions = read_varints(array, key_positions + np.maximum(key_lengths, 0))
    header_starts = value_positions + np.maximum(value_lengths, 0)
    _check_fields(key_lengths, value_lengths, header_starts, ends)
    header_counts, header_positions = read_varints(array, header_starts)
    _check_headers(header_counts, header_positions, ends)
    return RecordFields(
        timestamp_deltas,
        offset_deltas,
        Pieces(key_positions, key_lengths),
        Pieces(value_positions, value_lengths),
        HeaderPlaces(header_counts, header_positions, ends) if header_counts.any() else None,
    )


def _record_positions(data: Buffer, array: Bytes, extent: Extent) -> Integers:
    """Return the position of each record of an extent. Raises CorruptRecord unless they end exactly at its end.

    The position never goes back, so ending exactly at the end proves that every position lies inside. The signs of the
    lengths are checked later, all at once.
    """
    position, end, count = extent
    # Checked before the walk, because a hostile count would otherwise make a list of billions of positions.
    if count < 0 or count * (1 + MIN_RECORD_SIZE) > end - position:
        raise CorruptRecord(f"{end - position} bytes cannot hold {count} records")
    pieces = [np.zeros(0, np.int64)]
    left = count
    walk = _FIRST_WALK_RECORDS
    while left > 0 and position < end:
        walked: list[int] = []
        # About as many records as `walk` says: a walk up to a place is quicker than one of a number of records. At
        # least one, also where a wrong length has left fewer bytes than records.
        about = max((end - position) * min(walk, left) // left, 1)
        position = _walk_lengths(data, position, position + about, walked)
        pieces.append(np.array(walked, np.int64))
        left -= len(walked)
        size = position - walked[-1]
        # Where records differ in size, attempts to find a run would only cost: they become rare.
        if len(walked) < 2 or walked[-1] - walked[-2] != size:
            walk *= 8
            continue
        run = _equal_records(array, walked[-1], size, min(left, (end - position) // size))
        pieces.append(position + np.arange(run) * size)
        position += run * size
        left -= run
        walk = _FIRST_WALK_RECORDS if run >= walk else 8 * walk
    if position != end or left:
        raise CorruptRecord(f"{count} records do not end at the end of their batch, but {position - end} bytes behind")
    return np.concatenate(pieces)


def _equal_records(array: Bytes, position: int, size: int, most: int) -> int:
    """Return how many records behind the one at `position` have the same length, at most `most`.

    That one has `size` bytes. A record that begins with the same length ends `size` bytes later, where the next one
    begins: so whole runs are found by one comparison of every `size`-th place. Records of equal keys and values come in
    such runs, which end where the offset needs another byte: at 64, 8,192 and so on.
    """
    if most < 1:
        return 0
    equal = most
    place = position
    while True:
        # The bytes of the length, one after the other. A comparison of all bytes at once takes numpy ten times as long.
        differs = array[place + size : place + size * equal + 1 : size] != array[place]
        if differs.any():
            equal = int(np.argmax(differs))
        if not equal or array[place] < 0x80:
            return equal
        place += 1


def _walk_lengths(data: Buffer, position: int, end: int, out: list[int]) -> int:
    """Append the positions of the records that begin before `end`, and return the position behind the last of them.

    The walk goes from length to length, unrolled for lengths of one and two bytes. Raises CorruptRecord.
    """
    append = out.append
    skip = _SKIP
    try:
        while position < end:
            append(position)
            low = data[position]
            if low < 0x80:
                position += skip[low]
                continue
            high = data[position + 1]
            if high < 0x80:
                position += skip[low] + (high << 6)
                continue
            value = low & 0x7F | (high & 0x7F) << 7
            shift = 14
            position += 2
            while high >= 0x80:
                high = data[position]
                position += 1
                value |= (high & 0x7F) << shift
                shift += 7
                if shift > 35:
                    raise CorruptRecord("a record length takes more than 5 bytes")
            position += value >> 1
    except IndexError:
        raise CorruptRecord("a record runs past the end of its batch") from None
    return position


def _check_fields(key_lengths: Integers, value_lengths: Integers, behind: Integers, ends: Integers) -> None:
    """Check the lengths of keys and values. Raises CorruptRecord for one that is impossible."""
    if (np.minimum(key_lengths, value_lengths) < -1).any() or (behind >= ends).any():
        raise CorruptRecord("a key or value has an impossible length or runs past the end of its record")


def _check_headers(counts: Integers, positions: Integers, ends: Integers) -> None:
    """Check that headers fit, and that a record without headers ends where its length says. Raises CorruptRecord."""
    if (counts < 0).any() or (positions + 2 * counts > ends).any():
        raise CorruptRecord("a record claims more headers than it can hold")
    if (positions[counts == 0] != ends[counts == 0]).any():
        raise CorruptRecord("a record does not end where its length says")
