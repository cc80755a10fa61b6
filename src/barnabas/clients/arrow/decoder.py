"""The records of fetched batches as Arrow columns, without a Python step per field.

Called by `fetched_batches`, which scans the fetched bytes and names the columns. Pure functions; no state, no lock.

A Python loop walks only the lengths of records that differ in size. Every other varint, and runs of records of one
size, are decoded across all records at once. Keys and values become an Arrow `binary_view` array whose views point into
the fetched bytes, and one cast to `binary` gathers them in C++. The result owns its memory, so the fetch buffer may be
reused afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from barnabas.clients.arrow.headers import HeaderPositions, locate_headers
from barnabas.clients.arrow.plain_arrays import Mask, empty_array, numbers, validity
from barnabas.clients.arrow.varints import VARLONG_BYTES, Bytes, Integers, read_varints
from barnabas.records.errors import CorruptRecord
from barnabas.records.record_batch import HEADER_SIZE, LOG_APPEND_TIME, Buffer, RecordBatch
from barnabas.records.record_framing import MIN_RECORD_SIZE

HEADERS_TYPE = pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())])))
"""The type of the headers column, which is that of Spark's Kafka source."""

_INLINE_BYTES = 12
"""The longest entry that a binary_view holds itself, after its length. Longer ones are references."""
_INLINE_MASKS = np.where(np.arange(_INLINE_BYTES) < np.arange(_INLINE_BYTES + 1)[:, None], 0xFF, 0).astype(np.uint8)
"""A mask for each length: row n keeps the first n bytes."""

_FIRST_WALK_RECORDS = 16
"""The records that are walked one by one before a run of equal ones is looked for."""


class RecordArrays(NamedTuple):
    """The records of one chunk as columns of equal length. A column that was not wanted is None."""

    keys: pa.Array | None
    values: pa.Array | None
    headers: pa.Array | None
    offsets: Integers
    timestamps: Integers
    """Milliseconds since 1970."""
    timestamp_types: Integers
    """0 create time, 1 log append time, -1 none (magic 0)."""


class Wanted(NamedTuple):
    """The costly columns that the caller reads."""

    keys: bool = True
    values: bool = True
    headers: bool = True


class UnpackedBatch(NamedTuple):
    """A v2 batch and its records. `records` is None where they lie uncompressed in the batch's own buffer."""

    batch: RecordBatch
    records: bytes | None

    @classmethod
    def of(cls, batch: RecordBatch) -> UnpackedBatch:
        """Decompress the records if they are compressed. Raises CorruptRecord."""
        return cls(batch, batch.decompressed_records() if batch.codec else None)

    @property
    def size(self) -> int:
        """The bytes of the records, uncompressed."""
        return self.batch.length - HEADER_SIZE if self.records is None else len(self.records)


EVERYTHING = Wanted()


def decode_record_batches(
    unpacked: Sequence[UnpackedBatch], start_offset: int, end_offset: int, wanted: Wanted
) -> RecordArrays:
    """Decode v2 batches of one buffer, none of them a control batch, and keep the offsets in [start, end).

    Raises CorruptRecord for anything inside a batch that does not add up. Checksums are the caller's business.
    """
    data, extents = _one_buffer(unpacked)
    batches = [each.batch for each in unpacked]
    array = np.frombuffer(data, np.uint8)
    found = [
        _record_positions(data, array, start, end, batch.count)
        for batch, (start, end) in zip(batches, extents, strict=True)
    ]
    starts = np.concatenate(found)

    counts = np.array([batch.count for batch in batches], np.int64)
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

    offsets = np.repeat(_column(batches, "base_offset"), counts) + offset_deltas
    timestamps, timestamp_types = _timestamps(batches, counts, timestamp_deltas)
    keep = _inside(offsets, start_offset, end_offset)
    if not isinstance(keep, slice):
        # Rare: a fetch from the middle of a batch. Headers of records that are left out are checked like the others.
        locate_headers(array, header_counts, header_positions, ends)
    gather = _Gatherer(data, array)
    return RecordArrays(
        keys=gather.binary(key_positions[keep], key_lengths[keep]) if wanted.keys else None,
        values=gather.binary(value_positions[keep], value_lengths[keep]) if wanted.values else None,
        headers=gather.headers(locate_headers(array, header_counts[keep], header_positions[keep], ends[keep]))
        if wanted.headers
        else None,
        offsets=offsets[keep],
        timestamps=timestamps[keep],
        timestamp_types=timestamp_types[keep],
    )


def empty_headers(count: int) -> pa.Array:
    """Return `count` empty header lists, because a NULL list would cost Spark eleven times as much a row."""
    return _header_lists(np.zeros(count + 1, np.int32), empty_array(pa.string()), empty_array(pa.binary()))


def _one_buffer(unpacked: Sequence[UnpackedBatch]) -> tuple[Buffer, list[tuple[int, int]]]:
    """Return one buffer with the records of all batches, and the position of each batch's records in it.

    Without compression that is the fetched buffer itself.
    """
    if all(records is None for _, records in unpacked):
        return unpacked[0].batch.buffer, [(batch.position + HEADER_SIZE, batch.end) for batch, _ in unpacked]
    pieces = [batch.records_view() if records is None else records for batch, records in unpacked]
    bounds = np.cumsum([0, *map(len, pieces)]).tolist()
    return b"".join(pieces), list(pairwise(bounds))


def _record_positions(data: Buffer, array: Bytes, position: int, end: int, count: int) -> Integers:
    """Return the position of each of `count` records. Raises CorruptRecord unless they end exactly at `end`.

    `array` is `data`. The position never goes back, so ending exactly at `end` proves that every position lies inside.
    The signs of the lengths are checked later, all at once.
    """
    # Checked before the walk, because a hostile count would otherwise make a list of billions of positions.
    if count < 0 or count * (1 + MIN_RECORD_SIZE) > end - position:
        raise CorruptRecord(f"{end - position} bytes cannot hold {count} records")
    pieces = [np.zeros(0, np.int64)]
    left = count
    walk = _FIRST_WALK_RECORDS
    while left:
        walked: list[int] = []
        position = _walk_lengths(data, position, min(walk, left), walked)
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
    if position != end:
        raise CorruptRecord(f"{count} records end {position - end} bytes past the end of their batch")
    return np.concatenate(pieces)


def _equal_records(array: Bytes, position: int, size: int, most: int) -> int:
    """Return how many records behind the one at `position` have the same length, at most `most`.

    That one has `size` bytes. A record that begins with the same length ends `size` bytes later, where the next one
    begins: so whole runs are found by one comparison of every `size`-th place. Records of equal keys and values come in
    such runs, which end where the offset needs another byte: at 64, 8,192 and so on.
    """
    if most < 1:
        return 0
    width = 1
    while array[position + width - 1] >= 0x80:
        width += 1
    following = array[position + size : position + size * (1 + most)].reshape(most, size)[:, :width]
    differs = (following != array[position : position + width]).any(axis=1)
    return int(np.argmax(differs)) if differs.any() else most


def _walk_lengths(data: Buffer, position: int, count: int, out: list[int]) -> int:
    """Append the positions of `count` records, and return the position behind them. Raises CorruptRecord.

    The walk goes from length to length, unrolled for lengths of one and two bytes.
    """
    append = out.append
    try:
        for _ in range(count):
            append(position)
            low = data[position]
            if low < 0x80:
                position += 1 + (low >> 1)
                continue
            high = data[position + 1]
            if high < 0x80:
                position += 2 + ((low & 0x7F) >> 1 | high << 6)
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


def _column(batches: Sequence[RecordBatch], attribute: str) -> Integers:
    return np.array([getattr(batch, attribute) for batch in batches], np.int64)


def _timestamps(batches: Sequence[RecordBatch], counts: Integers, deltas: Integers) -> tuple[Integers, Integers]:
    """Return timestamps and their types. In a batch stamped by the broker, all records have its largest timestamp."""
    types = _column(batches, "timestamp_type")
    stamped = types == LOG_APPEND_TIME
    timestamps = np.repeat(_column(batches, "base_timestamp"), counts) + deltas
    if stamped.any():
        timestamps = np.where(
            np.repeat(stamped, counts), np.repeat(_column(batches, "max_timestamp"), counts), timestamps
        )
    return timestamps, np.repeat(types, counts)


def _inside(offsets: Integers, start_offset: int, end_offset: int) -> slice | Mask:
    """Return the index of the offsets in [start, end): nearly always all of them, and then without a copy."""
    if not len(offsets) or (int(offsets.min()) >= start_offset and int(offsets.max()) < end_offset):
        return slice(None)
    return (offsets >= start_offset) & (offsets < end_offset)


class _Gatherer:
    """A collector of pieces of one buffer into Arrow arrays."""

    def __init__(self, data: Buffer, array: Bytes) -> None:
        self._data = pa.py_buffer(data)
        self._array = array

    def binary(self, positions: Integers, lengths: Integers) -> pa.Array:
        """Return the pieces as a binary array; a negative length is NULL. Positions must lie inside the buffer."""
        count = len(positions)
        sizes = np.maximum(lengths, 0)
        views = np.zeros((count, 4), np.uint32)
        views[:, 0] = sizes
        # A long view holds prefix, buffer number, position. The cast reads only the last two, so the prefix stays 0.
        views[:, 3] = positions
        short = np.nonzero(sizes <= _INLINE_BYTES)[0]
        if len(short):
            views[short, 1:] = self._inlined(positions[short], sizes[short])
        buffers = [validity(lengths < 0), pa.py_buffer(views), self._data]
        pointing = pa.Array.from_buffers(pa.binary_view(), count, buffers)
        return pointing.cast(pa.binary())

    def _inlined(self, positions: Integers, sizes: Integers) -> npt.NDArray[np.uint32]:
        """Return twelve bytes a row: the short pieces, filled with zeros."""
        last = len(self._array) - _INLINE_BYTES
        if last >= 0 and int(positions.max()) <= last:
            content = np.lib.stride_tricks.sliding_window_view(self._array, _INLINE_BYTES)[positions]
        else:
            # Near the end of the buffer. The index stops at the last byte, and the mask removes the repetitions.
            content = self._array[np.minimum(positions[:, None] + np.arange(_INLINE_BYTES), len(self._array) - 1)]
        content &= _INLINE_MASKS[sizes]
        return content.view(np.uint32)

    def headers(self, located: HeaderPositions) -> pa.Array:
        """Return the header lists, of HEADERS_TYPE."""
        if not len(located.key_positions):
            return empty_headers(len(located.list_offsets) - 1)
        keys = self.binary(located.key_positions, located.key_lengths)
        values = self.binary(located.value_positions, located.value_lengths)
        return _header_lists(located.list_offsets.astype(np.int32), _as_text(keys), values)


def _as_text(keys: pa.Array) -> pa.Array:
    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid:
        # Any client may write a key that is not UTF-8. As in Java, its bad bytes become U+FFFD.
        return pa.array([key.decode("utf-8", "replace") for key in keys.to_pylist()], pa.string())


def _header_lists(list_offsets: npt.NDArray[np.int32], keys: pa.Array, values: pa.Array) -> pa.Array:
    items = pa.StructArray.from_arrays([keys, values], ["key", "value"])
    return pa.ListArray.from_arrays(numbers(list_offsets, pa.int32()), items, type=HEADERS_TYPE)
