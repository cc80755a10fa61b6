"""Decodes batches whose records are all of one shape, one batch after the other in a single loop.

Called by CompletedFetch with the shape that `record_run` has found in an earlier batch of the answer; owned by the
consumer's thread; no lock.

A producer's default batch of 16 KiB holds 15 records of 1 KB. At this size the objects and calls for each batch (its
header, its checksum, its reader) take as long as the records. This loop does without them, and the records of many
batches are made together. The loop takes a batch only if everything about the batch is plain: format v2, records for
users, the producers' timestamps, a right checksum, and as many bytes as its records of this shape need, compressed or
not. In front of any other batch the loop ends, and CompletedFetch reads that one carefully: what is wrong with a batch
is said there.

Only decompression shows how many bytes the records of a compressed batch have. Where they are too few or too many, the
careful reader decompresses the batch again. `RunShapes` counts such batches: after a few in a row, the answer's other
compressed batches are left to the careful reader at once.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from barnabas.clients.consumer.consumer_record import ConsumerRecord
from barnabas.clients.consumer.fetch.record_run import BatchFields, Run, records_of, whole_run
from barnabas.clients.consumer.fetch.run_shape import ONE_BYTE_DELTAS, RunShapes
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

_NOT_PLAIN: Final = CONTROL_MASK | TIMESTAMP_TYPE_MASK
_CODECS: Final = tuple(Codec)
_MOST_UNPACKED_BYTES: Final = 1 << 20
"""Larger compressed batches are left to the careful reader: what a batch claims to hold does not allocate more."""
_RECORD_BATCH_MAGIC: Final = 2
_FIELDS: Final = Struct(">qiibIhiq22xi")
"""Base offset, length, leader epoch, magic, CRC, attributes, last offset delta, base timestamp; record count."""


class WantedRecords(NamedTuple):
    """What a caller takes: records of a partition from `start_offset` on, of whole batches, until it has `limit`."""

    topic_partition: TopicPartition
    start_offset: int
    limit: int
    check_crcs: bool


class EvenBatches(NamedTuple):
    """The records of the batches that were taken, and the place of the last batch.

    last, end: its position in the buffer, and the position behind it. next_offset, leader_epoch: the offset behind it,
    and its epoch.
    """

    records: list[ConsumerRecord]
    last: int
    end: int
    next_offset: int
    leader_epoch: int


def take_even_batches(buffer: Buffer, position: int, shapes: RunShapes, wanted: WantedRecords) -> EvenBatches | None:
    """Return the records of the batches from `position` on, as long as all have the shape that was met last.

    None without one such batch.
    """
    shape = shapes.of_one_byte
    if shape is None:
        return None
    (topic, partition), start_offset, limit, check_crcs = wanted
    unpack = _FIELDS.unpack_from
    record_size = shape.size
    runs: list[Run] = []
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
                or not 0 < count <= ONE_BYTE_DELTAS  # the offsets of more records are not of one size
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
            body: Buffer | None = view[position + HEADER_SIZE : end]
            if codec:
                body = _unpacked(codec, view[position + HEADER_SIZE : end], body_size, shapes)
            fields = BatchFields(topic, partition, base_offset, base_timestamp, CREATE_TIME, None)
            run = None if body is None else whole_run(body, shape, fields)
            if run is None:
                break
            runs.append(run)
            limit -= count
            last, position, epoch = position, end, batch_epoch
            next_offset = base_offset + last_offset_delta + 1
        if not runs:
            return None
        return EvenBatches(records_of(runs, shape, fields), last, position, next_offset, epoch)


def _unpacked(codec: int, stored: memoryview, size: int, shapes: RunShapes) -> bytes | None:
    """Return the decompressed records of a batch, or None if they do not have `size` bytes."""
    try:
        body = decompress(_CODECS[codec], stored, size) if codec < len(_CODECS) else b""
    except CorruptRecord:
        body = b""
    is_of_size = len(body) == size
    shapes.note_size(is_expected=is_of_size)
    return body if is_of_size else None
