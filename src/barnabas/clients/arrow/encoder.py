"""Encodes Arrow columns as record batches of format v2, without a Python step per record.

Called by the Spark sink and by users that produce tables. Pure functions; no state, no lock.

Numpy writes the varints between the payloads (lengths, deltas) into small arrays, and Arrow's
`binary_join_element_wise` interleaves them with keys, values and headers in C++. The offsets of the result say where
each record ends, which is all that cutting into batches needs.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from barnabas.clients.arrow.varints import Bytes, Codes, Integers, code_sizes, write_varints, zigzag
from barnabas.records.compression import Codec, compress
from barnabas.records.record_batch import (
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    EncodedBatch,
)

BATCH_BYTES = 256 << 10
"""The uncompressed size at which a batch is cut, well below Kafka's `max.message.bytes` of 1,048,588."""

RECORD_OVERHEAD_BYTES = 36
"""The most bytes that a record needs besides its key, value and headers.

Length 5, attributes 1, timestamp 10, offset 5, lengths of key, value and headers 15.
"""
_JOINED_BYTES = 1 << 30
"""The most bytes that are encoded at once: Arrow's binary type counts with 31 bits."""


class RecordColumns(NamedTuple):
    """Columns of `row_count` rows. None is a column of NULLs, or of the present time for timestamps."""

    row_count: int
    keys: pa.Array | None
    """binary or string"""
    values: pa.Array | None
    """binary or string"""
    headers: pa.Array | None = None
    """list of struct<key: string, value: binary>; a NULL list is an empty one"""
    timestamps: Integers | None = None
    """milliseconds since 1970"""

    def rows(self, start: int, stop: int) -> RecordColumns:
        """Return the rows from `start` to `stop`, without a copy."""
        return RecordColumns(stop - start, *(None if column is None else column[start:stop] for column in self[1:]))


class BatchFormat(NamedTuple):
    """The form of encoded batches. `level` None is the codec's default; `batch_bytes` counts uncompressed bytes."""

    codec: Codec = Codec.NONE
    level: int | None = None
    batch_bytes: int = BATCH_BYTES


PLAIN = BatchFormat()


def encode_batches(
    columns: RecordColumns,
    batch_format: BatchFormat = PLAIN,
    *,
    now_ms: int | None = None,
    cuts: Sequence[int] = (),
) -> Iterator[EncodedBatch]:
    """Encode all rows, in order.

    A batch is cut before it exceeds `batch_bytes` uncompressed, but has at least one record. A batch also begins at
    each row of `cuts`, which ascend. Rows without a timestamp get `now_ms` (milliseconds since 1970; None: the system's
    clock). Raises ValueError for a header without a key.
    """
    columns = _as_binary(columns)
    if columns.timestamps is None:
        now_ms = time.time_ns() // 1_000_000 if now_ms is None else now_ms
        columns = columns._replace(timestamps=np.full(columns.row_count, now_ms, np.int64))
    if not columns.row_count:
        return
    headers = None if columns.headers is None else _encoded_headers(columns.headers)
    sizes = RECORD_OVERHEAD_BYTES + _byte_lengths(columns.keys) + _byte_lengths(columns.values)
    sizes = np.broadcast_to(sizes if headers is None else sizes + _byte_lengths(headers), columns.row_count)
    batch_starts = _cut(sizes, batch_format.batch_bytes, cuts)
    for start, stop in _groups(batch_starts, sizes):
        rows = columns.rows(start, stop)._replace(headers=None if headers is None else headers[start:stop])
        firsts = batch_starts[(batch_starts >= start) & (batch_starts < stop)] - start
        yield from _encode_group(rows, firsts, batch_format)


def _cut(sizes: Integers, batch_bytes: int, cuts: Sequence[int]) -> Integers:
    """Return the row numbers at which batches start."""
    ends = np.cumsum(sizes)
    starts = []
    for first, stop in pairwise([0, *cuts, len(ends)]):
        row = first
        while row < stop:
            starts.append(row)
            behind = int(ends[row - 1]) if row else 0
            following = int(np.searchsorted(ends, behind + batch_bytes, "right"))
            row = max(min(following, stop), row + 1)
    return np.array(starts, np.int64)


def _groups(batch_starts: Integers, sizes: Integers) -> Iterator[tuple[int, int]]:
    """Yield runs of whole batches that are small enough to be encoded at once."""
    ends = np.cumsum(sizes)
    start = 0
    while start < len(sizes):
        limit = (int(ends[start - 1]) if start else 0) + _JOINED_BYTES
        stop = int(np.searchsorted(ends, limit, "right"))
        if stop < len(sizes):
            earlier = batch_starts[(batch_starts > start) & (batch_starts <= stop)]
            later = batch_starts[batch_starts > start]
            stop = int(earlier[-1]) if len(earlier) else (int(later[0]) if len(later) else len(sizes))
        yield start, stop
        start = stop


def _encode_group(rows: RecordColumns, firsts: Integers, batch_format: BatchFormat) -> Iterator[EncodedBatch]:
    """Encode rows whose batches start at `firsts`; `headers` are encoded already."""
    assert rows.timestamps is not None
    count = rows.row_count
    bounds = np.append(firsts, count)
    counts = np.diff(bounds)
    first_of = np.repeat(firsts, counts)
    offset_deltas = np.arange(count) - first_of
    records_of_all, ends = _record_bodies(rows, rows.timestamps - rows.timestamps[first_of], offset_deltas)
    largest_timestamps = np.maximum.reduceat(rows.timestamps, firsts)
    for start, stop, largest in zip(
        bounds[:-1].tolist(), bounds[1:].tolist(), largest_timestamps.tolist(), strict=True
    ):
        records = records_of_all[int(ends[start]) : int(ends[stop])]
        timestamp = int(rows.timestamps[start])
        body = compress(batch_format.codec, records, batch_format.level) if batch_format.codec else records
        yield EncodedBatch(_unsealed(body, batch_format.codec, stop - start, timestamp, largest), stop - start)


def _record_bodies(
    rows: RecordColumns, timestamp_deltas: Integers, offset_deltas: Integers
) -> tuple[memoryview, Integers]:
    """Return the bytes of all records in order, and the position of each, with the end of the last one."""
    key_codes, value_codes = _length_codes(rows.keys, rows.row_count), _length_codes(rows.values, rows.row_count)
    timestamps, offsets = zigzag(timestamp_deltas), zigzag(offset_deltas)
    front_sizes = [code_sizes(codes) for codes in (timestamps, offsets, key_codes)]
    value_sizes = code_sizes(value_codes)
    lengths = 1 + sum(front_sizes, value_sizes) + _byte_lengths(rows.keys) + _byte_lengths(rows.values)
    lengths = lengths + (1 if rows.headers is None else _byte_lengths(rows.headers))
    length_codes = zigzag(lengths)

    front = _Writer([code_sizes(length_codes), np.ones(rows.row_count, np.int64), *front_sizes])
    front.varints(length_codes)
    front.skip()  # the record's attributes: a zero byte
    for codes in (timestamps, offsets, key_codes):
        front.varints(codes)
    middle = _Writer([value_sizes])
    middle.varints(value_codes)

    pieces = [front.array(), rows.keys, middle.array(), rows.values]
    pieces.append(pa.scalar(b"\x00") if rows.headers is None else rows.headers)
    joined = pc.binary_join_element_wise(
        *(piece for piece in pieces if piece is not None), b"", null_handling="replace", null_replacement=b""
    )
    return memoryview(joined.buffers()[2]), _offsets(joined)


def _unsealed(body: bytes | memoryview, codec: Codec, count: int, base_timestamp: int, max_timestamp: int) -> bytes:
    """Return a batch with 0 for its checksum."""
    header = HEADER.pack(
        0, HEADER_SIZE - LOG_OVERHEAD + len(body), NO_LEADER_EPOCH, 2, 0, codec, count - 1,
        base_timestamp, max_timestamp, NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE, count,
    )  # fmt: skip
    return b"".join((header, body))


def _encoded_headers(headers: pa.Array) -> pa.Array:
    """Return each row's headers, after their count, as a binary array. Raises ValueError for one without a key."""
    counts = pc.fill_null(pc.list_value_length(headers), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    items = headers.flatten()
    count_codes = zigzag(counts)
    fronts = _Writer([code_sizes(count_codes)])
    fronts.varints(count_codes)
    if not len(items):
        return fronts.array()
    names = items.field("key") if items.null_count == 0 else None
    if names is None or names.null_count:
        raise ValueError("a header without a key cannot be written: Kafka's headers need one")
    names = names.cast(pa.binary())
    values = _binary(items.field("value"))
    name_codes, value_codes = _length_codes(names, len(items)), _length_codes(values, len(items))
    joined = pc.binary_join_element_wise(
        _varint_array(name_codes), names, _varint_array(value_codes), values, b"",
        null_handling="replace", null_replacement=b"",
    )  # fmt: skip
    # The headers of a row lie side by side, so the row's bytes are a slice of all headers' bytes, without a copy.
    first_items = np.concatenate(([0], np.cumsum(counts)))
    row_offsets = _offsets(joined)[first_items].astype(np.int32)
    rows = pa.Array.from_buffers(pa.binary(), len(counts), [None, pa.py_buffer(row_offsets), joined.buffers()[2]])
    return pc.binary_join_element_wise(fronts.array(), rows, b"")


def _varint_array(codes: Codes) -> pa.Array:
    writer = _Writer([code_sizes(codes)])
    writer.varints(codes)
    return writer.array()


class _Writer:
    """A writer of a few varints for each row into one binary array. `sizes`: the length of each varint, in order."""

    def __init__(self, sizes: list[Integers]) -> None:
        self._sizes = iter(sizes)
        ends = np.cumsum(sum(sizes[1:], sizes[0]))
        self._offsets = np.zeros(len(ends) + 1, np.int32)
        self._offsets[1:] = ends
        self._positions: Integers = self._offsets[:-1].astype(np.int64)
        self._out: Bytes = np.zeros(int(self._offsets[-1]), np.uint8)

    def varints(self, codes: Codes) -> None:
        """Write the next varint of each row."""
        self._positions = write_varints(self._out, self._positions, codes, next(self._sizes))

    def skip(self) -> None:
        """Leave the next piece of each row zero."""
        self._positions = self._positions + next(self._sizes)

    def array(self) -> pa.Array:
        """Return the rows written."""
        buffers = [None, pa.py_buffer(self._offsets), pa.py_buffer(self._out)]
        return pa.Array.from_buffers(pa.binary(), len(self._offsets) - 1, buffers)


def _as_binary(columns: RecordColumns) -> RecordColumns:
    return columns._replace(keys=_binary(columns.keys), values=_binary(columns.values))


def _binary(column: pa.Array | None) -> pa.Array | None:
    """Return the column as plain binary: text by its UTF-8 bytes, a column of type null as no column."""
    if column is None or pa.types.is_null(column.type):
        return None
    return column if column.type == pa.binary() else column.cast(pa.binary())


def _offsets(array: pa.Array) -> Integers:
    start = array.offset
    return np.frombuffer(array.buffers()[1], np.int32)[start : start + len(array) + 1].astype(np.int64)


def _byte_lengths(array: pa.Array | None) -> Integers:
    """Return the number of bytes of each entry; a NULL has 0."""
    if array is None:
        return np.zeros(1, np.int64)
    lengths = np.diff(_offsets(array))
    if array.null_count:
        # Arrow allows a NULL to have offsets that cover bytes of the data buffer.
        lengths[pc.is_null(array).to_numpy(zero_copy_only=False)] = 0
    return lengths


def _length_codes(array: pa.Array | None, count: int) -> Codes:
    """Return the zigzag codes of the lengths, with -1 for NULL."""
    if array is None:
        return np.ones(count, np.uint64)
    lengths = np.diff(_offsets(array))
    if array.null_count:
        lengths[pc.is_null(array).to_numpy(zero_copy_only=False)] = -1
    return zigzag(lengths)
