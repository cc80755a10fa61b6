"""Finds and takes apart uniform records: those of one `Shape`, with successive offsets. Pure.

Called by validation and by the consumer, on their threads; `clients.arrow` does the same with numpy.

Most batches hold records of one program, and many of these have the same lengths: readings, events of a fixed format,
everything a load generator sends. A slice whose step is the size of a record takes one byte of each of them: all first
bytes of lengths, all offset deltas and so on. C code compares each such column, without a bytecode for each record. An
example, records of 8 bytes with null keys and one byte of value, timestamps 0, 0 and 3 ms (6 in zigzag):

    0e 00 00 00 01 02 41 00 | 0e 00 00 02 01 02 42 00 | 0e 00 06 04 01 02 43 00
    ^length  ^time ^offset delta  ^key -1  ^value 1   ^no headers

The columns are 0e 0e 0e, 00 00 06, 00 02 04, 01 01 01, 02 02 02 and 00 00 00. The first record that differs ends the
run of uniform records, and is read by other means. A record is judged here by the same bytes as in `walk`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain
from struct import Struct
from typing import Final

from barnabas.records.v2.layout import OFFSET_BYTES, ONE_BYTE_NUMBERS, ONE_BYTE_OFFSETS, Shape

_COPIED_BYTES: Final = 1 << 15
"""Larger runs are not copied: the copy would leave the processor's cache."""
_LAST_BYTES: Final = bytes(range(0x80))
"""The bytes that can end a varint; the others say that more follow."""
_BYTES_WITH_MORE: Final = bytes(range(0x80, 0x100))


def uniform_count(body: bytes, position: int, shape: Shape, delta: int, most: int) -> int:
    """Return how many records from `position` on have this shape, and offset deltas from `delta` on; `most` at most."""
    size = shape.size
    most = min(most, shape.end_offset - delta, (len(body) - position) // size)
    # Most records that differ do so in the first bytes.
    if most <= 0 or delta < shape.first_offset or not body.startswith(shape.length, position):
        return 0
    end = position + most * size
    # C takes the columns, without a bytecode for each. A copy of few records costs less than a slice for each column.
    if end - position <= _COPIED_BYTES:
        columns = [*map(body[position:end].__getitem__, shape.columns)]
    else:
        columns = [body[position + each.start : end : size] for each in shape.columns]
    # The last byte of a number is below 0x80, those before it are not.
    times = columns.pop()
    if columns != (expected := _expected_columns(shape.fixed_bytes, shape.offset_size, delta, most)):
        most = min(map(_equal_bytes, columns, expected))
    if not times.isascii():
        most = min(most, len(times) - len(times.lstrip(_LAST_BYTES)))
    if shape.timestamp_size > 1:
        place = position + shape.timestamp_place
        most -= len(body[place : position + most * size : size].lstrip(_BYTES_WITH_MORE))
    return most


@lru_cache(maxsize=256)
def _expected_columns(fixed_bytes: bytes, offset_size: int, delta: int, count: int) -> list[bytes]:
    """Return the columns of `count` uniform records, those of the offsets last. The list is shared."""
    offsets = OFFSET_BYTES[:offset_size]
    return [*(bytes((byte,)) * count for byte in fixed_bytes), *(each[delta : delta + count] for each in offsets)]


def _equal_bytes(column: bytes, expected: bytes) -> int:
    """Return how many bytes are equal before the first that differs."""
    differences = int.from_bytes(column, "little") ^ int.from_bytes(expected, "little")
    return (differences & -differences).bit_length() - 1 >> 3 if differences else len(column)


def timestamps(body: bytes, position: int, shape: Shape, count: int, base_ms: int) -> Sequence[int]:
    """Return the timestamps of `count` uniform records from `position` on, in ms; `base_ms`: the batch's."""
    size = shape.size
    place, end = position + shape.timestamp_place, position + count * size
    deltas = body[place:end:size]
    if shape.timestamp_size > 1:
        numbers = [low & 0x7F | high << 7 for low, high in zip(deltas, body[place + 1 : end : size], strict=True)]
        return [base_ms + ((number >> 1) ^ -(number & 1)) for number in numbers]
    number_of = ONE_BYTE_NUMBERS
    if not deltas.strip(deltas[:1]):
        return [base_ms + number_of[deltas[0]]] * count
    return [base_ms + number_of[delta] for delta in deltas]


def keys_and_values(body: bytes, position: int, shape: Shape, count: int) -> Iterable[bytes]:
    """Return the key and the value of each of `count` uniform records from `position` on, as far as the shape has them.

    They come one after the other: first key, first value, second key and so on.
    """
    if count > ONE_BYTE_OFFSETS:
        # Runs of so many records have all kinds of lengths, and a struct of each would cost more than it saves.
        records = body[position : position + count * shape.size]
        return chain.from_iterable(_parts(shape.parts, 1).iter_unpack(records))
    return _parts(shape.parts, count).unpack_from(body, position)


@lru_cache(maxsize=256)
def _parts(parts: str, count: int) -> Struct:
    """Return the struct of the keys and values of `count` records. A producer chooses the sizes: few are kept."""
    return Struct("<" + parts * count)
