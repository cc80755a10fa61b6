"""Where the fields of many records lie: computed where all are uniform, found record by record otherwise.

Called by `decoder`. Pure functions; no state, no lock.

`uniform_fields`: if the records are uniform (`records.v2.layout`), the shape of the first one and the number of records
say where every byte of a batch lies; the offset takes one byte more from number 64 of a batch on, and another one from
8,192 on. For example, records with 8 bytes of key and 100 of value begin so:

    number  at       length   attributes, time  offset  key's length
    0       0        e0 01    00 00             00      10
    1       114      e0 01    00 00             02      10
    63      7,182    e0 01    00 00             7e      10
    64      7,296    e2 01    00 00             80 01   10
    65      7,411    e2 01    00 00             82 01   10

That is a guess until every byte around keys and values is what it says: lengths, offsets, a time of one byte, no
headers. A few comparisons, each across all records of all batches, prove it, at a fifth of what it costs to read these
fields.

`find_fields`: anything else (compacted batches, times that need more bytes, headers, damage). A Python loop walks only
the lengths of records that differ in size. Every other varint, and runs of records of one size, are read across all
records at once. Only this one says what is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple, TypeVar

import numpy as np

from barnabas.clients.arrow.varints import VARLONG_BYTES, Bytes, Integers, read_varints
from barnabas.records.compression import Buffer
from barnabas.records.errors import CorruptRecord
from barnabas.records.v2.layout import (
    MIN_RECORD_SIZE,
    ONE_BYTE_OFFSETS,
    TWO_BYTE_OFFSETS,
    shape_at,
    shape_of,
    zigzag,
)

_MOST_RECORDS = 1 << 17
"""More uniform records of a batch than fit into Kafka's 1 MB, and few enough for offsets of three bytes."""
_LONGEST_HEAD = 1 << 16
"""The bytes that are searched for the sizes of key and value; a longer key is read by other means."""

Column = TypeVar("Column", Bytes, Integers)

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


class _UniformBatch(NamedTuple):
    """What follows from a shape for the records of one batch, by their number. Places are counted from its start.

    behind_offsets: the place of each key's length. length_columns: each byte of the records' lengths. The offsets'
    first and last bytes; the ones in the middle count where an offset has three.
    """

    numbers: Integers
    starts: Integers
    ends: Integers
    behind_offsets: Integers
    length_columns: Sequence[Bytes]
    first_bytes: Bytes
    middle_bytes: Bytes
    last_bytes: Bytes


def uniform_fields(data: Buffer, array: Bytes, extents: Sequence[Extent]) -> RecordFields | None:
    """Return the fields of all records if all are uniform, and None otherwise. `array` is `data`."""
    counts = [each.record_count for each in extents]
    most = max(counts)
    if min(counts) < 1 or most > _MOST_RECORDS:
        return None
    shape = shape_at(bytes(data[extents[0].start : min(extents[0].start + _LONGEST_HEAD, extents[0].end)]), 0)
    if shape is None or shape.timestamp_size != 1:
        return None
    key_size, value_size = shape.key_size, shape.value_size
    # A power of two, so that chunks whose batches differ by a few records share what is computed.
    batch = _uniform_batch(key_size, value_size, 1 << (most - 1).bit_length())
    # From here on every place lies inside its extent.
    if batch is None or any(each.start + batch.ends[each.record_count - 1] != each.end for each in extents):
        return None
    starts = np.repeat(np.array([each.start for each in extents], np.int64), counts)
    behind_offsets = starts + _by_number(batch.behind_offsets, extents)
    starts += _by_number(batch.starts, extents)
    for place, column in enumerate(batch.length_columns):
        if (array[place:][starts] != _by_number(column, extents)).any():
            return None
    times = array[shape.timestamp_place :][starts]
    first_bytes = array[shape.offset_place :][starts]
    if (times >= 0x80).any() or not _has_offsets(first_bytes, array, behind_offsets, batch, extents):
        return None
    keys = _uniform_pieces(array, behind_offsets, key_size)
    values = None if keys is None else _uniform_pieces(array, keys.positions + max(key_size, 0), value_size)
    if keys is None or values is None or array[max(value_size, 0) :][values.positions].any():
        return None  # or there are headers
    # A zigzag code of one byte, as a signed number.
    deltas = ((times >> 1) ^ -(times & 1)).view(np.int8).astype(np.int64)
    return RecordFields(deltas, _by_number(batch.numbers, extents), keys, values, None)


@lru_cache(maxsize=4)
def _uniform_batch(key_size: int, value_size: int, count: int) -> _UniformBatch | None:
    """Return the places in a batch of `count` records, or None if their lengths take different numbers of bytes."""
    numbers = np.arange(count)
    numbers.flags.writeable = False
    is_long, is_longer = numbers >= ONE_BYTE_OFFSETS, numbers >= TWO_BYTE_OFFSETS
    more = is_long.astype(np.int64) + is_longer
    shapes = [shape_of(1, 1 + extra, key_size, value_size) for extra in range(int(more[-1]) + 1)]
    lengths = [shape.length for shape in shapes]
    width = len(lengths[0])
    if any(len(length) != width for length in lengths):
        return None
    sizes = np.array([shape.size for shape in shapes])[more]
    ends = np.cumsum(sizes)
    starts = ends - sizes
    codes = numbers << 1
    first_bytes = codes & 0x7F | is_long << 7
    return _UniformBatch(
        numbers,
        starts,
        ends,
        starts + shapes[0].offset_place + 1 + more,
        [np.array([length[place] for length in lengths], np.uint8)[more] for place in range(width)],
        first_bytes.astype(np.uint8),
        (codes >> 7 & 0x7F | 0x80).astype(np.uint8),
        np.where(is_longer, codes >> 14, np.where(is_long, codes >> 7, codes)).astype(np.uint8),
    )


def _has_offsets(
    first_bytes: Bytes, array: Bytes, behind_offsets: Integers, batch: _UniformBatch, extents: Sequence[Extent]
) -> bool:
    """Return whether the offsets, which begin with these bytes, are 0, 1, 2 and so on in each batch."""
    if (first_bytes != _by_number(batch.first_bytes, extents)).any():
        return False
    most = len(batch.numbers)
    if most > ONE_BYTE_OFFSETS and (array[behind_offsets - 1] != _by_number(batch.last_bytes, extents)).any():
        return False
    if most <= TWO_BYTE_OFFSETS:
        return True
    # The place before the last one of an offset of one byte is not the offset's.
    longer = _by_number(batch.numbers, extents) >= TWO_BYTE_OFFSETS
    return not (array[behind_offsets[longer] - 2] != _by_number(batch.middle_bytes, extents)[longer]).any()


def _uniform_pieces(array: Bytes, positions: Integers, size: int) -> Pieces | None:
    """Return the keys or values whose lengths lie at these positions, if all lengths are `size`."""
    length = zigzag(size)
    for place, byte in enumerate(length):
        if (array[place:][positions] != byte).any():
            return None
    return Pieces(positions + len(length), np.full(len(positions), size, np.int64))


def _by_number(column: Column, extents: Sequence[Extent]) -> Column:
    """Return a column by number of record in a batch as a column for the records of all batches."""
    return np.concatenate([column[: each.record_count] for each in extents])


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
