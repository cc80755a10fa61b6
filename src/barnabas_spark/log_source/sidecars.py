"""Parquet sidecars: the records of a sealed segment once more, by columns, beside its log file.

Built by a job (`barnabas log sidecars`), read by `log_batch_reader` on each task's thread, and by Spark itself
(`sidecar_table`). A file is written under another name and moved into place whole; no lock. Needs no Spark.

The sidecar of `00000000000000000042.log` is `00000000000000000042.3ff1c2-9a01e7c4.parquet` in the same directory, which
brokers pass over: it goes with the partition's directory, and the next build drops it once its segment is gone. The
name and the metadata have the `SegmentIdentity` of the log file that it was made from. A sidecar of any other file is
not used, so retention, cleaning and truncation need to know nothing of sidecars. No path ever gets other rows: a query
of Spark that has planned to read a path finds those rows or no file. A sidecar has all data records of the segment,
those of aborted transactions too, and therefore does not serve splits that must leave some out.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from barnabas.clients.arrow import COLUMNS, RECORD_SCHEMA, Wanted, record_batch_of
from barnabas.clients.arrow.fetched_batches import decoded_chunks
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.crc import crc32c
from barnabas.runtime.files import File, Files
from barnabas.storage.file_names import LOG_SUFFIX
from barnabas.storage.readonly.log_split import LogSplit, SplitBatches

SIDECAR_SUFFIX = ".parquet"
_METADATA_KEY = b"barnabas.segment"
_FORMAT = 2
_PLACE = ("topic", "partition")
"""The same in all rows: stored for Spark's own reader, and not read by `read_sidecar`."""
_OFFSET = COLUMNS.index("offset")
"""The number of the column in the file."""
_ROW_GROUP_ROWS = 1 << 17
_BATCH_ROWS = 1 << 14
_IDENTITY_BLOCKS = 16
_IDENTITY_BLOCK_BYTES = 4096
_CRC_CHUNK_BYTES = 4 << 20


class SegmentIdentity(NamedTuple):
    """The size of a log file, and the CRC-32C of 16 blocks of it: the first, the last, and others evenly between.

    Tells whether a log file is the one that a sidecar was made from, without reading all of it.
    A cleaning that removes records changes the size, or at least shifts all batches behind. The time of the last change
    is no part of it: the cleaner gives a new file the time of the old one, and a copy has another time.
    """

    size: int
    blocks_crc: int

    @classmethod
    def of(cls, file: File) -> SegmentIdentity:
        """Read the blocks. Raises OSError."""
        size = file.size()
        last = max(size - _IDENTITY_BLOCK_BYTES, 0)
        crc = 0
        for number in range(_IDENTITY_BLOCKS):
            crc = crc32c(file.read(last * number // (_IDENTITY_BLOCKS - 1), _IDENTITY_BLOCK_BYTES), crc)
        return cls(size, crc)


def identity_of(log_path: str, files: Files) -> SegmentIdentity:
    """Return the identity of a log file. Raises OSError."""
    file = files.open(log_path)
    try:
        return SegmentIdentity.of(file)
    finally:
        file.close()


def whole_crc(file: File) -> int:
    """Return the CRC-32C of the whole file. Raises OSError."""
    crc, position = 0, 0
    while True:
        data = file.read(position, _CRC_CHUNK_BYTES)
        if not data:
            return crc
        crc = crc32c(data, crc)
        position += len(data)


class SidecarSource(NamedTuple):
    """The log file that a sidecar was made from, as the sidecar's metadata have it."""

    identity: SegmentIdentity
    crc: int
    """Of the whole log file."""
    rows: int


def sidecar_path(log_path: str, identity: SegmentIdentity) -> str:
    """Return the path of the sidecar of a log file that has this identity."""
    return f"{log_path.removesuffix(LOG_SUFFIX)}.{identity.size:x}-{identity.blocks_crc:08x}{SIDECAR_SUFFIX}"


# -- writing


class WrittenSidecar(NamedTuple):
    """A sidecar that was written, and how many rows it has."""

    path: str
    rows: int


def write_sidecar(split: LogSplit, files: Files) -> WrittenSidecar:
    """Write the sidecar of a segment, of which `split` has all offsets.

    Raises LogUnreadable for a damaged segment; OSError.
    """
    temporary = f"{split.path.removesuffix(LOG_SUFFIX)}{SIDECAR_SUFFIX}.tmp"
    file = files.open(split.path)
    # Should the file be replaced from here on, the sidecar has the identity of one that is gone, and is not used.
    rows = 0
    try:
        identity, crc = SegmentIdentity.of(file), whole_crc(file)
        path = sidecar_path(split.path, identity)
        with pq.ParquetWriter(temporary, RECORD_SCHEMA, compression="zstd", write_page_checksum=True) as writer:
            for batch in _all_records(split, files):
                writer.write_batch(batch, row_group_size=_ROW_GROUP_ROWS)
                rows += batch.num_rows
            source = {"format": _FORMAT, "size": identity.size, "blocks": identity.blocks_crc, "crc": crc, "rows": rows}
            writer.add_key_value_metadata({_METADATA_KEY: json.dumps(source)})
        os.replace(temporary, path)
    finally:
        file.close()
        with suppress(FileNotFoundError):
            os.unlink(temporary)
    return WrittenSidecar(path, rows)


def _all_records(split: LogSplit, files: Files) -> Iterator[pa.RecordBatch]:
    for batches in SplitBatches(split, files):
        for records in decoded_chunks(batches, split.start_offset, split.end_offset, Wanted()):
            yield record_batch_of(records, *split.topic_partition)


# -- reading


def read_source(path: str) -> SidecarSource | None:
    """Return what the sidecar was made from; None for a file that is no sidecar of this format. Raises OSError."""
    try:
        metadata = pq.read_metadata(path).metadata or {}
    except pa.ArrowInvalid:
        return None
    source = json.loads(metadata.get(_METADATA_KEY, b"{}"))
    if source.get("format") != _FORMAT:
        return None
    return SidecarSource(SegmentIdentity(source["size"], source["blocks"]), source["crc"], source["rows"])


def current_sidecar(log_path: str, files: Files) -> str | None:
    """Return the path of the sidecar that was made from a log file as it is now, or None.

    Raises OSError, except for missing files.
    """
    try:
        identity = identity_of(log_path, files)
        path = sidecar_path(log_path, identity)
        source = read_source(path)
    except FileNotFoundError:
        return None
    return path if source is not None and source.identity == identity else None


class SidecarOffsets(NamedTuple):
    """The offsets of the first and the last record of a sidecar. For one without records, `last` is smaller."""

    first: int
    last: int


def offsets_of(path: str) -> SidecarOffsets:
    """Return the offsets of a sidecar, by its statistics. Raises OSError."""
    metadata = pq.read_metadata(path)
    if not metadata.num_row_groups:
        return SidecarOffsets(0, -1)
    statistics = [metadata.row_group(number).column(_OFFSET).statistics for number in (0, metadata.num_row_groups - 1)]
    return SidecarOffsets(statistics[0].min, statistics[1].max)


def read_sidecar(path: str, split: LogSplit, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the records of a split from its segment's sidecar, as Arrow batches of `columns`. Raises OSError."""
    with pq.ParquetFile(path, page_checksum_verification=True) as file:
        stored = [name for name in COLUMNS if name == "offset" or (name in columns and name not in _PLACE)]
        for batch in file.iter_batches(_BATCH_ROWS, _row_groups(file, split), stored):
            offsets = batch.column("offset")
            inside = pc.and_(
                pc.greater_equal(offsets, split.start_offset), pc.less(offsets, pa.scalar(split.end_offset, pa.int64()))
            )
            chosen = batch.filter(inside)
            if chosen.num_rows:
                yield _with_place(chosen, split.topic_partition, columns)


def _row_groups(file: pq.ParquetFile, split: LogSplit) -> list[int]:
    """Return the row groups that may hold offsets of the split, by the statistics."""
    found = []
    for number in range(file.metadata.num_row_groups):
        statistics = file.metadata.row_group(number).column(_OFFSET).statistics
        if statistics is None or (statistics.min < split.end_offset and statistics.max >= split.start_offset):
            found.append(number)
    return found


def _with_place(batch: pa.RecordBatch, key: TopicPartition, columns: Sequence[str]) -> pa.RecordBatch:
    """Return the batch with `columns`, in this order."""
    place = dict(zip(_PLACE, key, strict=True))
    arrays = [
        pa.repeat(pa.scalar(place[name], RECORD_SCHEMA.field(name).type), batch.num_rows)
        if name in place
        else batch.column(name)
        for name in columns
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema([RECORD_SCHEMA.field(name) for name in columns]))


# -- the files of a directory


def sidecars_in(directory: str, files: Files) -> list[str]:
    """Return the paths of the sidecars in a partition's directory. Raises OSError."""
    return [os.path.join(directory, name) for name in files.list_dir(directory) if name.endswith(SIDECAR_SUFFIX)]


def log_path_of(path: str) -> str:
    """Return the path of the log file that a sidecar belongs to by its name, which begins with the base offset."""
    directory, name = os.path.split(path)
    return os.path.join(directory, name.partition(".")[0] + LOG_SUFFIX)
