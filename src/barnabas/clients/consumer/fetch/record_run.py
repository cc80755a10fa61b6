"""Decodes a run of records of one shape in C: records that differ only in their timestamps, offsets, keys and values.

Called by BatchRecords; owned by the consumer's thread; no lock.

Most batches hold records of one program, and many of these have the same lengths: readings, events of a fixed format,
everything a load generator sends. Two such records, without headers, are laid out alike, byte for byte: `struct` can
take a whole run of them apart with one call, and `map` and `zip` can put the ConsumerRecords together, without a
bytecode for each record.

A decoded record gives the shape. For example 0e 00 00 00 02 61 01 00 (see `batch_records`) has one byte each for its
length, timestamp and offset, a key of one byte, and no value: `<1sxBB1s0s1s0s1s`. A record belongs to a run of this
shape if its lengths are the same bytes, its offset is the next one, its timestamp delta has as many bytes, and it has
no headers. Where the first record differs, the run ends, and BatchRecords goes on by itself. A record is judged here by
the same bytes as there, so both find the same records in every batch.

`RunShapes` keeps the shapes for the next batches of the answer. A batch of 16 KiB holds 15 records of 1 KB: finding the
shape again in each batch would take as long as decoding the records one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache, reduce
from itertools import repeat
from operator import and_
from struct import Struct
from typing import Final, NamedTuple

from barnabas.clients.consumer.consumer_record import ConsumerRecord
from barnabas.records.compression import Buffer
from barnabas.records.varint import encode_zigzag

LONGEST_RUN: Final = 1000
"""More records than this are taken apart at a time, at most: each run has its bytes in memory twice."""
_SHAPES: Final = 256
"""Shapes whose `struct` is kept. A producer chooses the lengths, so their number has a limit."""
_ONE_BYTE_DELTAS: Final = 1 << 6
_TWO_BYTE_DELTAS: Final = 1 << 13
_LONGEST_DELTA: Final = 2
"""Timestamps and offsets of more bytes are left to BatchRecords."""
_FIRST_LARGER_DELTA: Final = (0, _ONE_BYTE_DELTAS, _TWO_BYTE_DELTAS)
"""Size of an offset in bytes -> the first offset delta that does not fit."""
_NO_HEADERS: Final = b"\x00"
_NULL: Final = b"\x01"
"""The length -1 in zigzag."""
_LESSONS: Final = 8
_MOST_OTHER_SIZES: Final = 4

_ONE_BYTE_ZIGZAG: Final = tuple((byte >> 1) ^ -(byte & 1) for byte in range(0x80))
_OFFSETS: Final = tuple(2 * delta for delta in range(_ONE_BYTE_DELTAS)) + tuple(
    int.from_bytes(encode_zigzag(delta), "little") for delta in range(_ONE_BYTE_DELTAS, _TWO_BYTE_DELTAS)
)
"""Offset delta -> its one or two bytes as `struct` reads them, little endian."""


class DecodedRecord(NamedTuple):
    """A record without headers that was decoded: where it begins in the batch's body, its key and its value."""

    start: int
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


class RunShape(NamedTuple):
    """The layout of the records of a run, and the bytes that are the same in each of them.

    `timestamp_size`, `offset_size`: one or two bytes. The other sizes are in bytes, too.
    """

    layout: Struct
    timestamp_size: int
    offset_size: int
    length: bytes
    key_length: bytes
    key_size: int
    value_length: bytes

    def begins_at(self, body: bytes, position: int, offset_delta: int) -> bool:
        """Return whether a record at `position` has this shape and this offset, as far as one look can tell.

        The size of its timestamp and its headers are left to `take_run`.
        """
        if not body.startswith(self.length, position):
            return False
        offset = position + len(self.length) + 1 + self.timestamp_size
        key = offset + self.offset_size
        value = key + len(self.key_length) + self.key_size
        return (
            0 <= offset_delta < _FIRST_LARGER_DELTA[self.offset_size]
            and int.from_bytes(body[offset:key], "little") == _OFFSETS[offset_delta]
            and body.startswith(self.key_length, key)
            and body.startswith(self.value_length, value)
        )


class RunShapes:
    """The shapes of the last runs of one answer: one for offset deltas of one byte, one for those of two.

    `of_one_byte`: the shape of a batch's first records, or None before the first run.
    `lessons`: how many more batches with few records may teach a shape. The shape of a few records pays only if the
    next batches have it, too.
    """

    __slots__ = ("_of_two_bytes", "_other_sizes", "lessons", "of_one_byte")

    def __init__(self) -> None:
        self.of_one_byte: RunShape | None = None
        self._of_two_bytes: RunShape | None = None
        self._other_sizes = 0
        self.lessons = _LESSONS

    def add(self, shape: RunShape) -> None:
        """Keep a shape, in place of an earlier one."""
        if shape.offset_size == 1:
            self.of_one_byte = shape
        else:
            self._of_two_bytes = shape

    @property
    def has_other_sizes(self) -> bool:
        """Whether the last few compressed batches held records of other sizes than `of_one_byte` says."""
        return self._other_sizes >= _MOST_OTHER_SIZES

    def note_size(self, *, is_expected: bool) -> None:
        """Note whether the records of a compressed batch had the size that `of_one_byte` says."""
        self._other_sizes = 0 if is_expected else self._other_sizes + 1

    def find(self, body: bytes, position: int, offset_delta: int) -> RunShape | None:
        """Return the shape of the record at `position`, if it is one of these, and its offset is the expected one."""
        shape = self.of_one_byte if offset_delta < _ONE_BYTE_DELTAS else self._of_two_bytes
        return shape if shape is not None and shape.begins_at(body, position, offset_delta) else None


class RunStart(NamedTuple):
    """The place of the first record of a run: its position in the batch's body, its offset above the base offset."""

    position: int
    offset_delta: int


def take_run(body: bytes, start: RunStart, shape: RunShape, limit: int, batch: BatchFields) -> list[ConsumerRecord]:
    """Return the records from `start` on that have this shape and successive offsets, at most `limit`, or none."""
    position, delta = start
    # Damage that no checksum shows may leave an offset below the batch's first one.
    if delta < 0 or not body.startswith(shape.length, position):
        return []
    size = shape.layout.size
    # The next offset may need another byte: the shape changes there.
    most = _FIRST_LARGER_DELTA[shape.offset_size] - delta
    count = min(limit, most, (len(body) - position) // size, LONGEST_RUN)
    if count <= 0:
        return []
    columns = _columns(memoryview(body)[position : position + count * size], shape)
    count = _alike(columns, shape, delta)
    return _made(columns, shape, delta, count, batch) if count else []


def whole_run(body: Buffer, shape: RunShape, batch: BatchFields) -> Iterable[ConsumerRecord] | None:
    """Return the records of a batch that is one run from its first offset on; None if it is not.

    `body` holds whole records of this shape, at least one.
    """
    if shape.offset_size > 1:
        return None
    columns = _columns(body, shape)
    count = len(columns.lengths)
    # The same tests as in `_alike`, without a look for the record that differs.
    if (
        columns.offsets != _OFFSETS[:count]
        or columns.lengths.count(shape.length) != count
        or columns.key_lengths.count(shape.key_length) != count
        or columns.value_lengths.count(shape.value_length) != count
        or columns.header_counts.count(_NO_HEADERS) != count
        or _whole_timestamps(columns.timestamps, shape.timestamp_size) != count
    ):
        return None
    return _made(columns, shape, 0, count, batch)


def _columns(run: Buffer, shape: RunShape) -> _Columns:
    return _Columns._make(zip(*shape.layout.iter_unpack(run), strict=True))


def _made(columns: _Columns, shape: RunShape, delta: int, count: int, batch: BatchFields) -> list[ConsumerRecord]:
    """Return the first `count` records of the columns. delta: the first one's offset above the base offset."""
    first_offset = batch.base_offset + delta
    fields = zip(
        repeat(batch.topic),
        repeat(batch.partition),
        range(first_offset, first_offset + count),
        _times(columns.timestamps[:count], shape.timestamp_size, batch),
        repeat(batch.timestamp_type),
        repeat(None) if shape.key_length == _NULL else columns.keys,
        repeat(None) if shape.value_length == _NULL else columns.values,
        repeat(()),
        strict=False,  # `repeat` has no end
    )
    # Without the NamedTuple's constructor, a Python function, a record takes half the time.
    return list(map(tuple.__new__, repeat(ConsumerRecord), fields))


def shape_of(body: bytes, record: DecodedRecord) -> RunShape | None:
    """Return the shape of a record that is known to be well formed; None where its deltas are too long for a run."""
    attributes = _behind_number(body, record.start)
    timestamp = attributes + 1
    offset = _behind_number(body, timestamp)
    key = _behind_number(body, offset)
    if offset - timestamp > _LONGEST_DELTA or key - offset > _LONGEST_DELTA:
        return None
    key_field = _behind_number(body, key)
    key_size = len(record.key or b"")
    value = key_field + key_size
    value_field = _behind_number(body, value)
    sizes = _Sizes(
        attributes - record.start,
        offset - timestamp,
        key - offset,
        key_field - key,
        key_size,
        value_field - value,
        len(record.value or b""),
    )
    return RunShape(
        _layout(sizes),
        sizes.timestamp,
        sizes.offset,
        body[record.start : attributes],
        body[key:key_field],
        key_size,
        body[value:value_field],
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


@lru_cache(maxsize=_SHAPES)
def _layout(sizes: _Sizes) -> Struct:
    """Return the layout of a record: the fields of `_Columns`."""
    numbers = "_BH"
    return Struct(
        f"<{sizes.length}sx{numbers[sizes.timestamp]}{numbers[sizes.offset]}"
        f"{sizes.key_length}s{sizes.key}s{sizes.value_length}s{sizes.value}s1s"
    )


def _alike(columns: _Columns, shape: RunShape, next_delta: int) -> int:
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
    # All at once, without a bytecode for each: nearly always all of them are whole.
    highest = max(deltas)
    if highest < 0x80 if size == 1 else highest < 0x8000 and reduce(and_, deltas) & 0x80:
        return len(deltas)
    return next(index for index, delta in enumerate(deltas) if not _is_whole(delta, size))


def _is_whole(delta: int, size: int) -> bool:
    return delta < 0x80 if size == 1 else delta & 0x8080 == 0x0080


def _times(deltas: Sequence[int], size: int, batch: BatchFields) -> Iterable[int]:
    """Return the timestamps of records with these deltas, all of which are whole."""
    base = batch.base_timestamp
    if batch.append_time is not None:
        return repeat(batch.append_time)
    if size == 1:
        zigzag = _ONE_BYTE_ZIGZAG
        if deltas.count(deltas[0]) == len(deltas):
            return repeat(base + zigzag[deltas[0]])
        return [base + zigzag[delta] for delta in deltas]
    numbers = [(delta & 0x7F) | (delta >> 8) << 7 for delta in deltas]
    return [base + ((number >> 1) ^ -(number & 1)) for number in numbers]
