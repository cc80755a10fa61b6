"""The records of fetched batches as Arrow columns, without a Python step per field.

Called by `fetched_batches`, which scans the fetched bytes and names the columns. Pure functions; no state, no lock.

First the places of all fields are found (`record_fields`). Then keys, values and headers are gathered out of the
fetched bytes (`gatherer`). The result owns its memory, so the fetch buffer may be reused afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from barnabas.clients.arrow.gatherer import Gatherer, Mask, empty_headers
from barnabas.clients.arrow.headers import locate_headers
from barnabas.clients.arrow.record_fields import Extent, HeaderPlaces, Pieces, find_fields, uniform_fields
from barnabas.clients.arrow.varints import Bytes, Integers
from barnabas.records.compression import Buffer
from barnabas.records.record_batch import HEADER_SIZE, LOG_APPEND_TIME, RecordBatch


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
    array = np.frombuffer(data, np.uint8)
    fields = uniform_fields(data, array, extents)
    if fields is None:
        fields = find_fields(data, array, extents)
    batches = [each.batch for each in unpacked]
    counts = np.array([each.record_count for each in extents], np.int64)
    offsets = np.repeat(_column(batches, "base_offset"), counts) + fields.offset_deltas
    timestamps, timestamp_types = _timestamps(batches, counts, fields.timestamp_deltas)
    keep = _inside(offsets, start_offset, end_offset)
    if fields.headers is not None and not isinstance(keep, slice):
        # Rare: a fetch from the middle of a batch. Headers of records that are left out are checked like the others.
        locate_headers(array, *fields.headers)
    offsets = offsets[keep]
    gatherer = Gatherer(data, array)
    return RecordArrays(
        keys=_gathered(gatherer, fields.keys, keep) if wanted.keys else None,
        values=_gathered(gatherer, fields.values, keep) if wanted.values else None,
        headers=_header_lists(gatherer, array, fields.headers, keep, len(offsets)) if wanted.headers else None,
        offsets=offsets,
        timestamps=timestamps[keep],
        timestamp_types=timestamp_types[keep],
    )


def _one_buffer(unpacked: Sequence[UnpackedBatch]) -> tuple[Buffer, list[Extent]]:
    """Return one buffer with the records of all batches, and where each batch's records lie in it.

    Without compression that is the fetched buffer itself.
    """
    if all(records is None for _, records in unpacked):
        extents = [Extent(batch.position + HEADER_SIZE, batch.end, batch.count) for batch, _ in unpacked]
        return unpacked[0].batch.buffer, extents
    pieces = [batch.records_view() if records is None else records for batch, records in unpacked]
    bounds = np.cumsum([0, *map(len, pieces)]).tolist()
    extents = [Extent(*ends, each.batch.count) for ends, each in zip(pairwise(bounds), unpacked, strict=True)]
    return b"".join(pieces), extents


def _gathered(gatherer: Gatherer, pieces: Pieces, keep: slice | Mask) -> pa.Array:
    return gatherer.binary(Pieces(pieces.positions[keep], pieces.lengths[keep]))


def _header_lists(
    gatherer: Gatherer, array: Bytes, places: HeaderPlaces | None, keep: slice | Mask, count: int
) -> pa.Array:
    """Return the headers of the `count` records that are kept. Raises CorruptRecord."""
    if places is None:
        return empty_headers(count)
    return gatherer.headers(locate_headers(array, places.counts[keep], places.positions[keep], places.ends[keep]))


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
