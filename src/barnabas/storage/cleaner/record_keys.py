"""The places, keys and offsets of the records of a v2 batch, and nothing else of them. Pure.

The cleaner's walk over every record that it looks at: it makes no objects except key and offset. `record_reader`
decodes whole records; this module accepts the same ones, except that it does not look behind a record's key. `i64`
makes machine integers of numbers in a compiled build (decisions/0009-compiled-build.md), and means nothing otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

from barnabas.records.errors import CorruptRecord
from barnabas.records.record_batch import CODEC_MASK, HEADER_SIZE, RecordBatch
from barnabas.records.varint import MAX_VARINT_BYTES, decode_zigzag, zigzag

if TYPE_CHECKING:
    from mypy_extensions import i64


class RecordKeys(NamedTuple):
    """One entry per record, in order. `starts` has one more: the end of the last record.

    tombstones: the places, in these lists, of records without a value. keyless: how many keys are None.
    """

    starts: list[int]
    offsets: list[int]
    keys: list[bytes | None]
    tombstones: list[int]
    keyless: int


def batch_keys(batch: RecordBatch) -> tuple[bytes, RecordKeys]:
    """Return the bytes that hold the batch's records, decompressed if need be, and their keys. Raises CorruptRecord.

    The batch's buffer must be bytes, as a read of a file returns them.
    """
    if batch.attributes & CODEC_MASK:
        body = batch.decompressed_records()
        return body, scan_keys(body, 0, len(body), batch.count, batch.base_offset)
    body = cast("bytes", batch.buffer)
    return body, scan_keys(body, batch.position + HEADER_SIZE, batch.end, batch.count, batch.base_offset)


def scan_keys(body: bytes, position: i64, end: i64, count: i64, base_offset: i64) -> RecordKeys:
    """Walk the `count` records that fill `body` from `position` to `end`. Raises CorruptRecord."""
    # Varints of one and two bytes are decoded in place, which is most of them: a call would double the time.
    starts: list[int] = []
    offsets: list[int] = []
    keys: list[bytes | None] = []
    tombstones: list[int] = []
    low: i64
    high: i64
    start: i64
    stop: i64
    length: i64
    index: i64
    keyless: i64 = 0
    try:
        for index in range(count):
            starts.append(position)
            low = body[position]
            if low >= 0x80 and (high := body[position + 1]) < 0x80:
                start = position + 2
                stop = start + ((low & 0x7F) >> 1) + (high << 6) if not low & 1 else -1
            else:
                length, start = decode_zigzag(body, position, MAX_VARINT_BYTES)
                stop = start + length if length >= 0 else -1
            if not start < stop <= end:
                raise CorruptRecord(f"record {index} claims an impossible length, {end - start} bytes are there")
            position = start + 2
            while body[position - 1] > 0x7F:  # the timestamp, which is of no interest
                position += 1
            low = body[position]
            if low < 0x80:
                offsets.append(base_offset + ((low >> 1) ^ -(low & 1)))
                position += 1
            elif (high := body[position + 1]) < 0x80:
                low = low & 0x7F | high << 7
                offsets.append(base_offset + ((low >> 1) ^ -(low & 1)))
                position += 2
            else:
                length, position = decode_zigzag(body, position, MAX_VARINT_BYTES)
                offsets.append(base_offset + length)
            low = body[position]
            if low < 0x80:
                length, position = (-1 if low & 1 else low >> 1), position + 1
            else:
                length, position = decode_zigzag(body, position, MAX_VARINT_BYTES)
            if length < 0:
                keys.append(None)
                keyless += 1
            else:
                keys.append(body[position : position + length])
                position += length
            if position >= stop:
                raise CorruptRecord(f"the key of record {index} reaches beyond the record")
            # 1 is -1 in zigzag: a null value.
            if body[position] == 1:
                tombstones.append(index)
            position = stop
    except IndexError:
        raise CorruptRecord("the last record is cut off") from None
    if position != end:
        raise CorruptRecord(f"{end - position} bytes after the last of {count} records")
    starts.append(end)
    return RecordKeys(starts, offsets, keys, tombstones, keyless)


def timestamp_delta(body: bytes, start: int) -> tuple[int, int]:
    """Return the timestamp delta of the record at `start`, and the position behind it. Raises CorruptRecord."""
    _length, position = decode_zigzag(body, start, MAX_VARINT_BYTES)
    return decode_zigzag(body, position + 1)


def with_timestamp_delta(body: bytes, start: int, stop: int, delta: int) -> bytes:
    """Return the record between `start` and `stop` with another timestamp delta."""
    _old, position = timestamp_delta(body, start)
    fields = b"".join((b"\x00", zigzag(delta), body[position:stop]))
    return zigzag(len(fields)) + fields
