"""Decodes a run of records of one shape in C: records that differ only in their timestamps, offsets, keys and values.

Called by BatchRecords behind a record that it has decoded itself; owned by the consumer's thread; no lock.

Most batches hold records of one program, and many of these have the same lengths: readings, events of a fixed format,
everything a load generator sends. Two such records, without headers, are laid out alike, byte for byte: `struct` can
take a whole run of them apart with one call, and `map` and `zip` can put the ConsumerRecords together, without a
bytecode for each record.

The record in front of the run gives the shape. For example 0e 00 00 00 02 61 01 00 (see `batch_records`) has one byte
each for its length, timestamp and offset, a key of one byte, and no value: `<1sxBB1s1s1s1s`. A following record belongs
to the run if its lengths are the same bytes, its offset is the next one, its timestamp delta has as many bytes, and it
has no headers. Where the first record differs, the run ends, and BatchRecords goes on by itself. A record is judged
here by the same bytes as there, so both find the same records in every batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import repeat
from struct import Struct
from typing import Final, NamedTuple

from barnabas.clients.consumer.consumer_record import ConsumerRecord
from barnabas.records.varint import encode_zigzag

LONGEST_RUN: Final = 1000
"""More records than this are taken apart at a time, at most: each run has its bytes in memory twice."""
_SHAPES: Final = 256
"""Shapes whose `struct` is kept. A producer chooses the lengths, so their number has a limit."""
_ONE_BYTE_DELTAS: Final = 1 << 6
_TWO_BYTE_DELTAS: Final = 1 << 13
_NO_HEADERS: Final = b"\x00"

_ONE_BYTE_ZIGZAG: Final = tuple((byte >> 1) ^ -(byte & 1) for byte in range(0x80))
_OFFSETS: Final = tuple(2 * delta for delta in range(_ONE_BYTE_DELTAS)) + tuple(
    int.from_bytes(encode_zigzag(delta), "little") for delta in range(_ONE_BYTE_DELTAS, _TWO_BYTE_DELTAS)
)
"""Offset delta -> its one or two bytes as `struct` reads them, little endian."""


class DecodedRecord(NamedTuple):
    """A record without headers that was decoded: its first and last position in the batch's body, and its fields.

    `end` is the position behind the record. `offset_delta`: its offset above the base offset.
    """

    start: int
    end: int
    offset_delta: int
    key: bytes | None
    value: bytes | None


class BatchFields(NamedTuple):
    """What all records of a batch share. `append_time`: the time of all records, or None for their own."""

    topic: str
    partition: int
    base_offset: int
    base_timestamp: int
    timestamp_type: int
    append_time: int | None


class _Columns(NamedTuple):
    """The fields of a run, a column each. The three lengths are bytes; keys and values are empty for null."""

    lengths: Sequence[bytes]
    timestamps: Sequence[int]
    offsets: Sequence[int]
    key_lengths: Sequence[bytes]
    keys: Sequence[bytes]
    value_lengths: Sequence[bytes]
    values: Sequence[bytes]
    header_counts: Sequence[bytes]


class _Shape(NamedTuple):
    """The sizes of a record's fields in bytes, and the bytes that are the same in each record of a run."""

    timestamp_size: int
    offset_size: int
    length: bytes
    key_length: bytes
    value_length: bytes


def take_run(body: bytes, first: DecodedRecord, limit: int, batch: BatchFields) -> list[ConsumerRecord]:
    """Return the records behind `first` that have its shape and the next offsets, at most `limit`, or none."""
    shape = _shape_of(body, first)
    if not body.startswith(shape.length, first.end) or shape.timestamp_size > 2 or shape.offset_size > 2:
        return []
    size = first.end - first.start
    # The next offset may need another byte: the shape changes there.
    most = (_ONE_BYTE_DELTAS if shape.offset_size == 1 else _TWO_BYTE_DELTAS) - 1 - first.offset_delta
    count = min(limit, most, (len(body) - first.end) // size, LONGEST_RUN)
    if count <= 0:
        return []
    layout = _layout(_sizes_of(shape, first))
    columns = _Columns(*zip(*layout.iter_unpack(memoryview(body)[first.end : first.end + count * size]), strict=True))
    next_delta = first.offset_delta + 1
    count = _alike(columns, shape, next_delta)
    if not count:
        return []
    next_offset = batch.base_offset + next_delta
    fields = zip(
        repeat(batch.topic),
        repeat(batch.partition),
        range(next_offset, next_offset + count),
        _times(columns.timestamps, shape.timestamp_size, batch),
        repeat(batch.timestamp_type),
        repeat(None) if first.key is None else columns.keys,
        repeat(None) if first.value is None else columns.values,
        repeat(()),
        strict=False,  # `repeat` has no end
    )
    # Without the NamedTuple's constructor, a Python function, a record takes half the time.
    return list(map(tuple.__new__, repeat(ConsumerRecord), fields))


def _shape_of(body: bytes, first: DecodedRecord) -> _Shape:
    """Return the shape of a record that is known to be well formed."""
    attributes = _behind_number(body, first.start)
    timestamp = attributes + 1
    offset = _behind_number(body, timestamp)
    key = _behind_number(body, offset)
    key_field = _behind_number(body, key)
    value = key_field + len(first.key or b"")
    value_field = _behind_number(body, value)
    return _Shape(
        offset - timestamp, key - offset, body[first.start : attributes], body[key:key_field], body[value:value_field]
    )


def _behind_number(body: bytes, position: int) -> int:
    """Return the position behind the varint at `position`."""
    while body[position] & 0x80:
        position += 1
    return position + 1


class _Sizes(NamedTuple):
    """The sizes of all fields of a record that are not always one byte."""

    length: int
    timestamp: int
    offset: int
    key_length: int
    key: int
    value_length: int
    value: int


def _sizes_of(shape: _Shape, first: DecodedRecord) -> _Sizes:
    return _Sizes(
        len(shape.length),
        shape.timestamp_size,
        shape.offset_size,
        len(shape.key_length),
        len(first.key or b""),
        len(shape.value_length),
        len(first.value or b""),
    )


@lru_cache(maxsize=_SHAPES)
def _layout(sizes: _Sizes) -> Struct:
    """Return the layout of a record: the fields of `_Columns`."""
    numbers = "_BH"
    return Struct(
        f"<{sizes.length}sx{numbers[sizes.timestamp]}{numbers[sizes.offset]}"
        f"{sizes.key_length}s{sizes.key}s{sizes.value_length}s{sizes.value}s1s"
    )


def _alike(columns: _Columns, shape: _Shape, next_delta: int) -> int:
    """Return how many records from the first on have this shape, and offset deltas from `next_delta` on."""
    count = len(columns.lengths)
    for column, expected in (
        (columns.lengths, shape.length),
        (columns.key_lengths, shape.key_length),
        (columns.value_lengths, shape.value_length),
        (columns.header_counts, _NO_HEADERS),
    ):
        if column.count(expected) != len(column):
            count = min(count, next(index for index, each in enumerate(column) if each != expected))
    offsets = _OFFSETS[next_delta : next_delta + len(columns.offsets)]
    if columns.offsets != offsets:
        pairs = enumerate(zip(columns.offsets, offsets, strict=True))
        count = min(count, next(index for index, (offset, expected) in pairs if offset != expected))
    return min(count, _whole_timestamps(columns.timestamps, shape.timestamp_size))


def _whole_timestamps(deltas: Sequence[int], size: int) -> int:
    """Return how many deltas from the first on end where the shape says: the last byte's high bit is 0."""
    if deltas.count(deltas[0]) == len(deltas) and _is_whole(deltas[0], size):
        return len(deltas)
    return next((index for index, delta in enumerate(deltas) if not _is_whole(delta, size)), len(deltas))


def _is_whole(delta: int, size: int) -> bool:
    return delta < 0x80 if size == 1 else delta & 0x8080 == 0x0080


def _times(deltas: Sequence[int], size: int, batch: BatchFields) -> Iterable[int]:
    """Return the timestamps of records with these deltas, as far as the deltas are whole."""
    base = batch.base_timestamp
    if batch.append_time is not None:
        return repeat(batch.append_time)
    if size == 1:
        zigzag = _ONE_BYTE_ZIGZAG
        if deltas.count(deltas[0]) == len(deltas):
            return repeat(base + zigzag[deltas[0]])
        return (base + zigzag[delta] for delta in deltas)
    numbers = ((delta & 0x7F) | (delta >> 8) << 7 for delta in deltas)
    return (base + ((number >> 1) ^ -(number & 1)) for number in numbers)
