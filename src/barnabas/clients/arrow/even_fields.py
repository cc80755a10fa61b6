"""Where the fields of many records lie, computed from the layout of the first one: for records that are laid out alike.

Called by `decoder` before `record_fields`. Pure functions; no state, no lock.

Records with keys of one size and values of one size are laid out alike, but for their offset: its varint takes one
byte more from number 64 of a batch on, and another one from 8,192 on. So the layout of one record and the number of
records say where every byte of a batch lies. For example, records with 8 bytes of key and 100 of value begin so:

    number  at       length   attributes, time  offset  key's length
    0       0        e0 01    00 00             00      10
    1       114      e0 01    00 00             02      10
    63      7,182    e0 01    00 00             7e      10
    64      7,296    e2 01    00 00             80 01   10
    65      7,411    e2 01    00 00             82 01   10

That is a guess until every byte around keys and values is what it says: lengths, offsets, a time of one byte, no
headers. A few comparisons, each across all records of all batches, prove it, at a fifth of what it costs to read these
fields. Anything else (compacted batches, times that need more bytes, headers, damage) is left to `record_fields`, and
only that module says what is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple, TypeVar

import numpy as np

from barnabas.clients.arrow.record_fields import Extent, Pieces, RecordFields
from barnabas.clients.arrow.varints import Bytes, Integers
from barnabas.records.compression import Buffer
from barnabas.records.errors import CorruptRecord
from barnabas.records.varint import MAX_VARINT_BYTES, decode_zigzag, encode_zigzag

_NUMBERS_OF_ONE_BYTE = 64
_NUMBERS_OF_TWO_BYTES = 8_192
_MOST_RECORDS = 1 << 17
"""More records of a batch than fit into Kafka's 1 MB, and few enough for offsets of three bytes."""
_TIME_AND_ATTRIBUTES = 2
"""Bytes between the length and the offset: the attributes and a time of one byte."""
_NO_HEADERS = 0
_CACHED = 4

Column = TypeVar("Column", Bytes, Integers)


class _Layout(NamedTuple):
    """The layout of a batch's first record, whose offset takes one byte.

    The lengths of key and value lie in front of them, and one byte, the number of headers, behind. A size of -1 stands
    for NULL.
    """

    content_size: int
    """The bytes behind the record's length."""
    key_size: int
    value_size: int


class _Batch(NamedTuple):
    """What follows from a layout for the records of one batch, by their number. Places are counted from its start."""

    starts: Integers
    ends: Integers
    behind_offsets: Integers
    """The place of each key's length."""
    length_columns: Sequence[Bytes]
    """Each byte of the records' lengths."""


def even_fields(data: Buffer, array: Bytes, extents: Sequence[Extent]) -> RecordFields | None:
    """Return the fields of all records if all are laid out alike, and None otherwise. `array` is `data`."""
    counts = [each.record_count for each in extents]
    most = max(counts)
    if min(counts) < 1 or most > _MOST_RECORDS:
        return None
    # A power of two, so that chunks whose batches differ by a few records share what is computed.
    most = 1 << (most - 1).bit_length()
    layout = _layout_of_first(data, extents[0])
    batch = None if layout is None else _batch_of(layout.content_size, most)
    if layout is None or batch is None:
        return None
    # From here on every place lies inside its extent.
    if any(each.start + batch.ends[each.record_count - 1] != each.end for each in extents):
        return None
    starts = np.repeat(np.array([each.start for each in extents], np.int64), counts)
    behind_offsets = starts + _by_number(batch.behind_offsets, extents)
    starts += _by_number(batch.starts, extents)
    for place, column in enumerate(batch.length_columns):
        if (array[place:][starts] != _by_number(column, extents)).any():
            return None
    times = array[len(batch.length_columns) + 1 :][starts]
    if (times >= 0x80).any() or not _has_offsets(
        array, starts, behind_offsets, len(batch.length_columns), most, extents
    ):
        return None
    keys = _pieces(array, behind_offsets, layout.key_size)
    values = None if keys is None else _pieces(array, keys.positions + max(layout.key_size, 0), layout.value_size)
    if keys is None or values is None:
        return None
    if (array[max(layout.value_size, 0) :][values.positions] != _NO_HEADERS).any():
        return None
    # A zigzag code of one byte, as a signed number.
    deltas = ((times >> 1) ^ -(times & 1)).view(np.int8).astype(np.int64)
    return RecordFields(deltas, _by_number(_numbers(most), extents), keys, values, None)


def _layout_of_first(data: Buffer, extent: Extent) -> _Layout | None:
    """Return the layout of an extent's first record, or None if that cannot be one of records laid out alike."""
    # A key may be long, so the two parts that are read are cut out one by one.
    longest = 3 * MAX_VARINT_BYTES + _TIME_AND_ATTRIBUTES + 1
    head = bytes(data[extent.start : min(extent.start + longest, extent.end)])
    try:
        content_size, content = decode_zigzag(head, 0, MAX_VARINT_BYTES)
        offset = content + _TIME_AND_ATTRIBUTES
        key_size, key = decode_zigzag(head, offset + 1, MAX_VARINT_BYTES)
        key_end = extent.start + key + max(key_size, 0)
        value_size, _ = decode_zigzag(bytes(data[key_end : min(key_end + MAX_VARINT_BYTES, extent.end)]), 0)
    except CorruptRecord:
        return None
    layout = _Layout(content_size, key_size, value_size)
    parts = _TIME_AND_ATTRIBUTES + 1 + _part_size(key_size) + _part_size(value_size) + 1
    return layout if min(key_size, value_size) >= -1 and parts == content_size else None


def _part_size(size: int) -> int:
    """Return how many bytes a key or value takes, with its length."""
    return len(encode_zigzag(size)) + max(size, 0)


@lru_cache(maxsize=_CACHED)
def _numbers(count: int) -> Integers:
    numbers = np.arange(count)
    numbers.flags.writeable = False
    return numbers


@lru_cache(maxsize=_CACHED)
def _batch_of(content_size: int, count: int) -> _Batch | None:
    """Return the places in a batch of `count` records, or None if their lengths take different numbers of bytes."""
    numbers = _numbers(count)
    more = (numbers >= _NUMBERS_OF_ONE_BYTE).astype(np.int64) + (numbers >= _NUMBERS_OF_TWO_BYTES)
    lengths = [encode_zigzag(content_size + extra) for extra in range(int(more[-1]) + 1)]
    width = len(lengths[0])
    if any(len(length) != width for length in lengths):
        return None
    ends = np.cumsum(width + content_size + more)
    starts = ends - (width + content_size + more)
    columns = [np.array([length[place] for length in lengths], np.uint8)[more] for place in range(width)]
    return _Batch(starts, ends, starts + width + _TIME_AND_ATTRIBUTES + 1 + more, columns)


@lru_cache(maxsize=_CACHED)
def _offset_columns(count: int) -> tuple[Bytes, Bytes, Bytes]:
    """Return the first, the last and the next to last byte of the varints of 0 to `count` - 1."""
    codes = _numbers(count) << 1
    is_long = codes >= 0x80
    is_longer = codes >= 0x4000
    first = codes & 0x7F | is_long << 7
    last = np.where(is_longer, codes >> 14, np.where(is_long, codes >> 7, codes))
    middle = np.where(is_longer, codes >> 7 & 0x7F | 0x80, first)
    return first.astype(np.uint8), last.astype(np.uint8), middle.astype(np.uint8)


def _has_offsets(
    array: Bytes,
    starts: Integers,
    behind_offsets: Integers,
    length_size: int,
    most: int,
    extents: Sequence[Extent],
) -> bool:
    """Return whether the offsets are 0, 1, 2 and so on in each batch."""
    first, last, middle = _offset_columns(most)
    if (array[length_size + _TIME_AND_ATTRIBUTES :][starts] != _by_number(first, extents)).any():
        return False
    if most > _NUMBERS_OF_ONE_BYTE and (array[behind_offsets - 1] != _by_number(last, extents)).any():
        return False
    if most <= _NUMBERS_OF_TWO_BYTES:
        return True
    # The place before the last one of an offset of one byte is not the offset's.
    numbers = _by_number(_numbers(most), extents)
    longer = numbers >= _NUMBERS_OF_TWO_BYTES
    return not (array[behind_offsets[longer] - 2] != _by_number(middle, extents)[longer]).any()


def _pieces(array: Bytes, positions: Integers, size: int) -> Pieces | None:
    """Return the keys or values whose lengths lie at these positions, if all lengths are `size`."""
    length = encode_zigzag(size)
    for place, byte in enumerate(length):
        if (array[place:][positions] != byte).any():
            return None
    return Pieces(positions + len(length), np.full(len(positions), size, np.int64))


def _by_number(column: Column, extents: Sequence[Extent]) -> Column:
    """Return a column by number of record in a batch as a column for the records of all batches."""
    return np.concatenate([column[: each.record_count] for each in extents])
