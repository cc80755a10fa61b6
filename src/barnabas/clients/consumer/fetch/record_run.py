"""Decodes runs of records of one shape in C: records that differ only in their timestamps, offsets, keys and values.

Called by BatchRecords and `even_batches`; owned by the consumer's thread; no lock.

Most batches hold records of one program, and many of these have the same lengths: readings, events of a fixed format,
everything a load generator sends. Such records are laid out alike, byte for byte (`run_shape`). A slice whose step is
the size of a record takes one byte of each of them, so a few comparisons of slices show where the first record differs.
There the run ends, and BatchRecords goes on by itself. `struct` then takes all keys and values out with one call, and
`map` and `zip` put the ConsumerRecords together, without a bytecode for each record.

A record belongs to a run of a shape if its lengths are the same bytes, its offset is the next one, its timestamp delta
has as many bytes, and it has no headers. A record is judged here by the same bytes as in BatchRecords, so both find the
same records in every batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, repeat
from typing import Final, NamedTuple

from barnabas.clients.consumer.consumer_record import ConsumerRecord
from barnabas.clients.consumer.fetch.run_shape import OFFSET_BYTES, RunShape
from barnabas.records.compression import Buffer

LONGEST_RUN: Final = 1000
"""More records than this are taken apart at a time, at most: the fields of a run are in memory twice."""
_ONE_BYTE_ZIGZAG: Final = tuple((byte >> 1) ^ -(byte & 1) for byte in range(0x80))
_BYTES_WITH_MORE: Final = bytes(range(0x80, 0x100))
"""The bytes of a varint that are not its last."""


class BatchFields(NamedTuple):
    """What all records of a batch share. `append_time`: the time of all records, or None for their own."""

    topic: str
    partition: int
    base_offset: int
    base_timestamp: int
    timestamp_type: int
    append_time: int | None


class RunStart(NamedTuple):
    """The place of the first record of a run: its position in the batch's body, its offset above the base offset."""

    position: int
    offset_delta: int


class Run(NamedTuple):
    """Records of one shape and successive offsets: keys and values, the first one's offset, and a timestamp for each.

    `keys_and_values`: the key and the value of one record after the other, as far as the shape has them.
    """

    keys_and_values: Iterable[bytes]
    record_count: int
    first_offset: int
    timestamps: Iterable[int]


def take_run(body: bytes, start: RunStart, shape: RunShape, limit: int, batch: BatchFields) -> list[ConsumerRecord]:
    """Return the records from `start` on that have this shape and successive offsets, at most `limit`, or none."""
    position, delta = start
    size = shape.size
    most = min(limit, shape.deltas_left(delta), (len(body) - position) // size, LONGEST_RUN)
    # Most records that differ do so in the first bytes.
    if most <= 0 or not body.startswith(shape.fixed_fields[0].content, position):
        return []
    records = body[position : position + most * size]
    count = _alike(records, shape, delta)
    if not count:
        return []
    records = records[: count * size]
    keys_and_values = shape.keys_and_values(records, count)
    run = Run(keys_and_values, count, batch.base_offset + delta, _timestamps(records, shape, batch))
    return records_of([run], shape, batch)


def whole_run(body: Buffer, shape: RunShape, batch: BatchFields) -> Run | None:
    """Return the records of a batch that is one run from its first offset on; None if it is not.

    `body` holds whole records with an offset of one byte each, at least one.
    """
    # A copy, if these are no bytes yet: slices with a step take three times as long of a memoryview. The run does not
    # keep the copy: the heap would grow with each call, and shrink after it. Keys and values are taken out at once,
    # while the processor's cache has the copy.
    records = bytes(body)
    count = len(records) // shape.size
    if count > shape.deltas_left(0) or [records[each] for each in shape.columns] != shape.first_columns(count):
        return None
    if _whole_timestamps(records, shape, count) != count:
        return None
    return Run(shape.keys_and_values(records, count), count, batch.base_offset, _timestamps(records, shape, batch))


def records_of(runs: Sequence[Run], shape: RunShape, batch: BatchFields) -> list[ConsumerRecord]:
    """Return the records of all runs. `batch`: of its fields those that all the runs share, the topic among them."""
    # Key and value of one record after the other: where both are wanted, `zip` takes the key for one field and then the
    # value for the next. Taken out of each record by itself, they would cost a tuple a record.
    keys_and_values = chain.from_iterable([run.keys_and_values for run in runs])
    fields = zip(
        repeat(batch.topic),
        repeat(batch.partition),
        chain.from_iterable([range(run.first_offset, run.first_offset + run.record_count) for run in runs]),
        chain.from_iterable([run.timestamps for run in runs]),
        repeat(batch.timestamp_type),
        keys_and_values if shape.has_keys else repeat(None),
        keys_and_values if shape.has_values else repeat(None),
        repeat(()),
        strict=False,  # `repeat` has no end
    )
    # Without the NamedTuple's constructor, a Python function, a record takes half the time.
    return list(map(tuple.__new__, repeat(ConsumerRecord), fields))


def _alike(records: bytes, shape: RunShape, delta: int) -> int:
    """Return how many records from the first on have this shape, and offset deltas from `delta` on."""
    size = shape.size
    count = len(records) // size
    for place, content in shape.fixed_bytes:
        column = records[place::size]
        if others := column.lstrip(content):
            count = min(count, len(column) - len(others))
    for place, offset_bytes in zip(range(shape.offset_size), OFFSET_BYTES, strict=False):
        count = _same(records[shape.offset_place + place :: size], offset_bytes[delta : delta + count], count)
    return _whole_timestamps(records, shape, count)


def _whole_timestamps(records: bytes, shape: RunShape, count: int) -> int:
    """Return how many of the first `count` timestamp deltas end where the shape says."""
    # The last byte of a number is below 0x80, those before it are not.
    place = shape.timestamp_place + shape.timestamp_size - 1
    last_bytes = records[place :: shape.size]
    if not last_bytes.isascii():
        count = min(count, next(index for index, byte in enumerate(last_bytes) if byte >= 0x80))
    if shape.timestamp_size > 1:
        first_bytes = records[place - 1 :: shape.size]
        if others := first_bytes.lstrip(_BYTES_WITH_MORE):
            count = min(count, len(first_bytes) - len(others))
    return count


def _same(column: bytes, expected: bytes, count: int) -> int:
    """Return how many of the first `count` bytes are the expected ones."""
    if column[:count] == expected:
        return count
    return next(index for index in range(count) if column[index] != expected[index])


def _timestamps(records: bytes, shape: RunShape, batch: BatchFields) -> Iterable[int]:
    """Return a timestamp for each record, all of whose deltas have the size that the shape says."""
    if batch.append_time is not None:
        return repeat(batch.append_time, len(records) // shape.size)
    place, size, base = shape.timestamp_place, shape.size, batch.base_timestamp
    deltas = records[place::size]
    if shape.timestamp_size > 1:
        second_bytes = records[place + 1 :: size]
        numbers = [first & 0x7F | second << 7 for first, second in zip(deltas, second_bytes, strict=True)]
        return [base + ((number >> 1) ^ -(number & 1)) for number in numbers]
    zigzag = _ONE_BYTE_ZIGZAG
    if not deltas.strip(deltas[:1]):
        return repeat(base + zigzag[deltas[0]], len(deltas))
    return [base + zigzag[delta] for delta in deltas]
