"""Decodes uniform records (`records.v2.uniform`): runs of them in one batch, and many batches in one loop.

Called by BatchRecords and AnswerBatches; owned by the consumer's thread; no lock. `struct` takes all keys and values of
a run out with one call, and `map` and `zip` put the ConsumerRecords together, without a bytecode for each record.

A producer's default batch of 16 KiB holds 15 records of 1 KB. At this size, finding the shape again in each batch would
take as long as decoding the records one by one, and so would the objects and calls for each batch (its header, its
checksum, its reader). So `KnownShapes` keeps the shapes for the next batches of the answer, and `take_uniform_batches`
does without the rest: the records of many batches are made together. The loop takes a batch only if everything about
the batch is plain: format v2, records for users, the producers' timestamps, a right checksum, and as many bytes as its
records of this shape need, compressed or not. In front of any other batch the loop ends, and CompletedFetch reads that
one carefully: what is wrong with a batch is said there.

Only decompression shows how many bytes the records of a compressed batch have. Where they are too few or too many, the
careful reader decompresses the batch again. `KnownShapes` counts such batches: after a few in a row, the answer's other
compressed batches are left to the careful reader at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, repeat
from struct import Struct
from typing import Final, NamedTuple

from barnabas.clients.consumer.consumer_record import ConsumerRecord
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.compression import Buffer, Codec, decompress
from barnabas.records.crc import crc32c
from barnabas.records.errors import CorruptRecord
from barnabas.records.record_batch import (
    ATTRIBUTES_POSITION,
    CODEC_MASK,
    CONTROL_MASK,
    CREATE_TIME,
    HEADER_SIZE,
    LOG_OVERHEAD,
    TIMESTAMP_TYPE_MASK,
)
from barnabas.records.v2.layout import ONE_BYTE_OFFSETS, Shape
from barnabas.records.v2.uniform import keys_and_values, timestamps, uniform_count

_LONGEST_RUN: Final = 1000
"""More records than this are taken apart at a time, at most: the fields of a run are in memory twice."""
_LESSONS: Final = 8
_MOST_OTHER_SIZES: Final = 4
_NOT_PLAIN: Final = CONTROL_MASK | TIMESTAMP_TYPE_MASK
_CODECS: Final = tuple(Codec)
_MOST_UNPACKED_BYTES: Final = 1 << 20
"""Larger compressed batches are left to the careful reader: what a batch claims to hold does not allocate more."""
_RECORD_BATCH_MAGIC: Final = 2
_FIELDS: Final = Struct(">qiibIhiq22xi")
"""Base offset, length, leader epoch, magic, CRC, attributes, last offset delta, base timestamp; record count."""


class KnownShapes:
    """The shapes of the last uniform records of one answer: one for offset deltas of one byte, one for those of two.

    `of_one_byte`: the shape of a batch's first records, or None before the first uniform ones.
    `lessons`: how many more batches with few records may teach a shape. The shape of a few records pays only if the
    next batches have it, too.
    """

    __slots__ = ("_of_two_bytes", "_other_sizes", "lessons", "of_one_byte")

    def __init__(self) -> None:
        self.of_one_byte: Shape | None = None
        self._of_two_bytes: Shape | None = None
        self._other_sizes = 0
        self.lessons = _LESSONS

    def add(self, shape: Shape) -> None:
        """Keep a shape, in place of an earlier one."""
        if shape.offset_size == 1:
            self.of_one_byte = shape
        else:
            self._of_two_bytes = shape

    def expected(self, offset_delta: int) -> Shape | None:
        """Return the shape that a record with this offset delta has, if it is like earlier ones."""
        return self.of_one_byte if offset_delta < ONE_BYTE_OFFSETS else self._of_two_bytes

    @property
    def has_other_sizes(self) -> bool:
        """Whether the last few compressed batches held records of other sizes than `of_one_byte` says."""
        return self._other_sizes >= _MOST_OTHER_SIZES

    def note_size(self, *, is_expected: bool) -> None:
        """Note whether the records of a compressed batch had the size that `of_one_byte` says."""
        self._other_sizes = 0 if is_expected else self._other_sizes + 1


class BatchFields(NamedTuple):
    """What all records of a batch share. `append_time`: the time of all records, or None for their own."""

    topic: str
    partition: int
    base_offset: int
    base_timestamp: int
    timestamp_type: int
    append_time: int | None


class _Run(NamedTuple):
    """Uniform records: their keys and values (as `keys_and_values` has them), first offset, a timestamp for each."""

    keys_and_values: Iterable[bytes]
    record_count: int
    first_offset: int
    timestamps: Iterable[int]


class WantedRecords(NamedTuple):
    """What a caller takes: records of a partition from `start_offset` on, of whole batches, until it has `limit`."""

    topic_partition: TopicPartition
    start_offset: int
    limit: int
    check_crcs: bool


class UniformBatches(NamedTuple):
    """The records of the batches that were taken, and the place of the last batch.

    last, end: its position in the buffer, and the position behind it. next_offset, leader_epoch: the offset behind it,
    and its epoch.
    """

    records: list[ConsumerRecord]
    last: int
    end: int
    next_offset: int
    leader_epoch: int


class RunStart(NamedTuple):
    """The place of the first record of a run: its position in the batch's body, its offset above the base offset."""

    position: int
    offset_delta: int


def take_uniform_run(
    body: bytes, start: RunStart, shape: Shape, limit: int, batch: BatchFields
) -> list[ConsumerRecord]:
    """Return the uniform records of this shape from `start` on, at most `limit`, or none."""
    position, delta = start
    count = uniform_count(body, position, shape, delta, min(limit, _LONGEST_RUN))
    return _records_of([_run_of(body, start, shape, count, batch)], shape, batch) if count else []


def take_uniform_batches(
    buffer: Buffer, position: int, shapes: KnownShapes, wanted: WantedRecords
) -> UniformBatches | None:
    """Return the records of the batches from `position` on, as long as all have the shape that was met last.

    None without one such batch.
    """
    shape = shapes.of_one_byte
    if shape is None:
        return None
    (topic, partition), start_offset, limit, check_crcs = wanted
    unpack = _FIELDS.unpack_from
    record_size = shape.size
    runs: list[_Run] = []
    fields = BatchFields(topic, partition, start_offset, -1, CREATE_TIME, None)
    next_offset, epoch, size, last = 0, -1, len(buffer), position
    # No view outlives the call: the frame of the answer goes back to its pool.
    with memoryview(buffer) as view:
        while limit > 0 and position + HEADER_SIZE <= size:
            base_offset, length, batch_epoch, magic, crc, attributes, last_offset_delta, base_timestamp, count = unpack(
                view, position
            )
            codec = attributes & CODEC_MASK
            body_size = count * record_size
            end = position + LOG_OVERHEAD + length
            if (
                magic != _RECORD_BATCH_MAGIC
                or attributes & _NOT_PLAIN
                or not 0 < count <= ONE_BYTE_OFFSETS  # the offsets of more records are not of one size
                or end > size
                or base_offset < start_offset
                or (
                    shapes.has_other_sizes or body_size > _MOST_UNPACKED_BYTES
                    if codec
                    else end - position != HEADER_SIZE + body_size
                )
            ):
                break
            if check_crcs and crc32c(view[position + ATTRIBUTES_POSITION : end]) != crc:
                break
            # A copy, if it is not compressed: slices with a step take three times as long of a memoryview. The run does
            # not keep the copy: the heap would grow with each call, and shrink after it. Keys and values are taken out
            # at once, while the processor's cache has the copy.
            stored = view[position + HEADER_SIZE : end]
            records = _unpacked(codec, stored, body_size, shapes) if codec else bytes(stored)
            if records is None or uniform_count(records, 0, shape, 0, count) != count:
                break
            fields = BatchFields(topic, partition, base_offset, base_timestamp, CREATE_TIME, None)
            runs.append(_run_of(records, RunStart(0, 0), shape, count, fields))
            limit -= count
            last, position, epoch = position, end, batch_epoch
            next_offset = base_offset + last_offset_delta + 1
        if not runs:
            return None
        return UniformBatches(_records_of(runs, shape, fields), last, position, next_offset, epoch)


def _unpacked(codec: int, stored: memoryview, size: int, shapes: KnownShapes) -> bytes | None:
    """Return the decompressed records of a batch, or None if they do not have `size` bytes."""
    try:
        body = decompress(_CODECS[codec], stored, size) if codec < len(_CODECS) else b""
    except CorruptRecord:
        body = b""
    is_of_size = len(body) == size
    shapes.note_size(is_expected=is_of_size)
    return body if is_of_size else None


def _run_of(body: bytes, start: RunStart, shape: Shape, count: int, batch: BatchFields) -> _Run:
    """Return `count` records that are uniform."""
    position, delta = start
    times: Iterable[int]
    if batch.append_time is None:
        times = timestamps(body, position, shape, count, batch.base_timestamp)
    else:
        times = repeat(batch.append_time, count)
    return _Run(keys_and_values(body, position, shape, count), count, batch.base_offset + delta, times)


def _records_of(runs: Sequence[_Run], shape: Shape, batch: BatchFields) -> list[ConsumerRecord]:
    """Return the records of all runs. `batch`: of its fields those that all the runs share, the topic among them."""
    # Key and value of one record after the other: where both are wanted, `zip` takes the key for one field and then the
    # value for the next. Taken out of each record by itself, they would cost a tuple a record.
    contents = chain.from_iterable([run.keys_and_values for run in runs])
    fields = zip(
        repeat(batch.topic),
        repeat(batch.partition),
        chain.from_iterable([range(run.first_offset, run.first_offset + run.record_count) for run in runs]),
        chain.from_iterable([run.timestamps for run in runs]),
        repeat(batch.timestamp_type),
        contents if shape.key_size >= 0 else repeat(None),
        contents if shape.value_size >= 0 else repeat(None),
        repeat(()),
        strict=False,  # `repeat` has no end
    )
    # Without the NamedTuple's constructor, a Python function, a record takes half the time.
    return list(map(tuple.__new__, repeat(ConsumerRecord), fields))
