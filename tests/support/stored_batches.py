"""Reads and changes record batches with nothing but `struct`: an eye on the disk that shares no code with the broker.

Called by client, broker and crash tests. Magic 2 only: our broker stores nothing else.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import crc32c

HEADER = struct.Struct(">qiibIhiqqqhii")
FIELDS = (
    "base_offset",
    "length",
    "epoch",
    "magic",
    "crc",
    "attributes",
    "last_delta",
    "base_timestamp",
    "max_timestamp",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "count",
)
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """The header of one batch as it lies on the disk."""

    base_offset: int
    last_offset: int
    leader_epoch: int
    codec: str
    count: int
    producer_id: int
    base_sequence: int
    base_timestamp: int
    max_timestamp: int
    attributes: int
    size: int


class BadSegment(Exception):
    """A .log file that is not a whole row of sound batches."""


def read_segment(path: Path) -> Iterator[StoredBatch]:
    """Every batch of one segment file; BadSegment for a torn tail, a wrong magic, CRC or order."""
    data = path.read_bytes()
    position, next_offset = 0, -1
    while position < len(data):
        if position + HEADER.size > len(data):
            raise BadSegment(f"{path}: torn header at {position} of {len(data)}")
        base, length, epoch, magic, crc, attributes, delta, first, last, pid, _, sequence, count = HEADER.unpack_from(
            data, position
        )
        end = position + 12 + length
        if end > len(data):
            raise BadSegment(f"{path}: batch of {length} bytes at {position} goes beyond the end, {len(data)}")
        if magic != 2 or crc32c.crc32c(data[position + 21 : end]) != crc:
            raise BadSegment(f"{path}: magic {magic} or CRC wrong at {position}")
        if base < next_offset or count != delta + 1:
            raise BadSegment(f"{path}: offset {base} after {next_offset}, {count} records, last delta {delta}")
        codec = CODECS[attributes & 7]
        yield StoredBatch(
            base, base + delta, epoch, codec, count, pid, sequence, first, last, attributes, end - position
        )
        position, next_offset = end, base + delta + 1


def stored_batches(data_dir: Path, topic: str, partition: int) -> list[StoredBatch]:
    """The batches of a partition, all segments in order."""
    segments = sorted((data_dir / f"{topic}-{partition}").glob("*.log"))
    return [batch for segment in segments for batch in read_segment(segment)]


def changed(produced: bytes, *, fix_crc: bool = True, **fields: int) -> bytes:
    """The batch with other header fields, and the checksum that belongs to them."""
    values = dict(zip(FIELDS, HEADER.unpack_from(produced), strict=True)) | fields
    data = bytearray(HEADER.pack(*values.values()) + produced[HEADER.size :])
    if fix_crc:
        data[17:21] = struct.pack(">I", crc32c.crc32c(data[21 : 12 + values["length"]]))
    return bytes(data)
