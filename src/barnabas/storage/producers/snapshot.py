"""`.snapshot` files: a partition's producers as of the offset that the file is named by. Kafka's format, version 1.

The file has 10 bytes of header and entries of 46 bytes, big-endian:

    position  size  header                     position  size  entry
           0     2  version: 1                        0     8  producer id
           2     4  CRC-32C of what follows           8     2  producer epoch
           6     4  number of entries                10     4  last sequence
                                                     14     8  last offset
                                                     22     4  offset delta of the last batch
                                                     26     8  timestamp
                                                     34     4  coordinator epoch
                                                     38     8  first offset of the open transaction, -1: none

A file that was torn by a crash fails its checksum, and the log is read instead. Called by ProducerStateManager, the log
dump and tests, on any thread. Kafka: ProducerStateManager.readSnapshot, writeSnapshot.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable

from barnabas.records.crc import crc32c
from barnabas.runtime.files import Files
from barnabas.storage.file_names import SNAPSHOT_SUFFIX, base_offset_of
from barnabas.storage.producers.entry import NO_OFFSET, BatchMetadata, ProducerStateEntry

VERSION = 1

# Worked example, one producer: id 7 in epoch 2, last sequence 41, last offset 120, delta 3 (so the last batch was
# 117-120, with the sequence numbers 38-41), its timestamp, coordinator epoch 5, open transaction from 100. Only the
# last of the five remembered batches is in a snapshot, in Kafka too: after a start an older duplicate is
# OUT_OF_ORDER_SEQUENCE_NUMBER.
_HEADER = struct.Struct(">hIi")
_CRC_COVERS_FROM = 6
_ENTRY = struct.Struct(">qhiqiqiq")
"""Producer id, its epoch, last sequence, last offset, offset delta, timestamp, coordinator epoch, offset where the open
transaction begins (-1: none)."""


class CorruptSnapshot(Exception):
    """The file is torn, or not a snapshot of this version."""


def snapshot_offsets(names: Iterable[str]) -> list[int]:
    """Return the offsets of the snapshots among the names in a log's directory, rising."""
    snapshots = (name for name in names if name.endswith(SNAPSHOT_SUFFIX))
    return sorted(offset for offset in map(base_offset_of, snapshots) if offset is not None)


def read_snapshot(files: Files, path: str) -> list[ProducerStateEntry]:
    """Return the producers, each with its last batch. Raises CorruptSnapshot, OSError."""
    return decode_snapshot(files.read_bytes(path))


def write_snapshot(files: Files, path: str, entries: Collection[ProducerStateEntry], *, sync: bool) -> None:
    """Write the file; with `sync` its content is on stable storage when this returns. Raises OSError."""
    write_content(files, path, encode_snapshot(entries), sync=sync)


def write_content(files: Files, path: str, content: bytes, *, sync: bool) -> None:
    """Write the file with this content, as `write_snapshot` does. Raises OSError."""
    file = files.open(path, create=True, truncate=True)
    try:
        file.write((content,), 0)
        if sync:
            file.sync()
    finally:
        file.close()


def encode_snapshot(entries: Collection[ProducerStateEntry]) -> bytes:
    """Return the content of the file."""
    data = bytearray(_HEADER.size + _ENTRY.size * len(entries))
    position = _HEADER.size
    for entry in _in_order_of_kafka(entries):
        newest = entry.batches[-1] if entry.batches else None
        _ENTRY.pack_into(
            data,
            position,
            entry.producer_id,
            entry.producer_epoch,
            entry.last_sequence,
            entry.last_data_offset,
            newest.offset_delta if newest is not None else 0,
            entry.last_timestamp,
            entry.coordinator_epoch,
            entry.transaction_first_offset,
        )
        position += _ENTRY.size
    _HEADER.pack_into(data, 0, VERSION, 0, len(entries))
    crc = crc32c(bytes(data[_CRC_COVERS_FROM:]))
    _HEADER.pack_into(data, 0, VERSION, crc, len(entries))
    return bytes(data)


def _in_order_of_kafka(entries: Collection[ProducerStateEntry]) -> list[ProducerStateEntry]:
    """Return the entries in the order of Java's HashMap, so that the same producers make the same bytes as in Kafka."""
    buckets = 16
    while len(entries) > buckets * 3 // 4:
        buckets *= 2

    def bucket(entry: ProducerStateEntry) -> int:
        value = entry.producer_id
        code = (value ^ value >> 32) & 0xFFFFFFFF
        return (code ^ code >> 16) & buckets - 1

    return sorted(entries, key=bucket)


def decode_snapshot(data: bytes) -> list[ProducerStateEntry]:
    """Return the entries of a file's content.

    Raises CorruptSnapshot when version, checksum or size are wrong.
    """
    if len(data) < _HEADER.size:
        raise CorruptSnapshot(f"Snapshot failed schema validation: {len(data)} bytes")
    version, crc, count = _HEADER.unpack_from(data)
    if version != VERSION:
        raise CorruptSnapshot(f"Snapshot contained an unknown file version {version}")
    computed = crc32c(data[_CRC_COVERS_FROM:])
    if crc != computed:
        raise CorruptSnapshot(
            f"Snapshot is corrupt (CRC is no longer valid). Stored crc: {crc}. Computed crc: {computed}"
        )
    if count < 0 or len(data) < _HEADER.size + count * _ENTRY.size:
        raise CorruptSnapshot(f"Snapshot failed schema validation: {count} entries in {len(data)} bytes")
    entries = []
    for number in range(count):
        producer_id, epoch, sequence, offset, delta, timestamp, coordinator_epoch, first = _ENTRY.unpack_from(
            data, _HEADER.size + number * _ENTRY.size
        )
        batch = BatchMetadata(sequence, offset, delta, timestamp) if offset >= 0 else None
        begun = first if first >= 0 else NO_OFFSET
        entries.append(ProducerStateEntry(producer_id, epoch, coordinator_epoch, timestamp, begun, batch))
    return entries
