"""The transactions of a log that is read without its broker: which were aborted, and which are still open.

Used by the planner on its thread. Pure but for the reads of the files; no lock. Kafka: TransactionIndex,
ProducerStateManager.firstUnstableOffset.
"""

from __future__ import annotations

import os
import struct
from typing import NamedTuple

from barnabas.records.errors import CorruptRecord
from barnabas.records.memory_records import magic_at
from barnabas.records.record_batch import HEADER_SIZE, LOG_OVERHEAD, RecordBatch
from barnabas.storage.file_names import SNAPSHOT_SUFFIX, segment_file_name
from barnabas.storage.producers.snapshot import CorruptSnapshot, read_snapshot, snapshot_offsets
from barnabas.storage.readonly.log_directories import ReadableLog
from barnabas.storage.readonly.partition_log import ListedSegment, PartitionLog, unreadable
from barnabas.storage.segment.batch_scan import MIN_BATCH_SIZE

_ENTRY = struct.Struct(">hqqqq")
_LENGTH = struct.Struct(">8xi")


class AbortedRange(NamedTuple):
    """An aborted transaction: the producer's batches from the first to the last offset, which is the marker's."""

    producer_id: int
    first_offset: int
    last_offset: int


def aborted_ranges(log: PartitionLog, segments: list[ListedSegment]) -> list[AbortedRange]:
    """Return the aborted transactions whose markers lie in the segments.

    An entry that is cut off at a file's end is left out: its marker was not written. Raises LogUnreadable, OSError.
    """
    found = []
    for segment in segments:
        path = log.aborted_index_path(segment)
        try:
            data = log.files.read_bytes(path)
        except FileNotFoundError:
            # Nothing was aborted.
            continue
        whole = len(data) // _ENTRY.size * _ENTRY.size
        for version, producer_id, first_offset, last_offset, _ in _ENTRY.iter_unpack(data[:whole]):
            if version != 0:
                raise unreadable(log.topic_partition, segment.base_offset, path, f"unknown entry version {version}")
            found.append(AbortedRange(producer_id, first_offset, last_offset))
    return found


def last_stable_offset(readable: ReadableLog) -> int:
    """Return the offset up to which every transaction has ended: where a read of committed records ends.

    Producers with an open transaction are taken from the newest usable snapshot, and from the headers of the batches
    behind it. Raises LogUnreadable, OSError.
    """
    snapshot = _newest_snapshot(readable)
    begun = snapshot.begun
    for segment, following in _with_next(readable.segments):
        if snapshot.offset < readable.end and (following is None or following > snapshot.offset):
            _follow_transactions(readable, segment, snapshot.offset, begun)
    return min([readable.end, *begun.values()])


class _Snapshot(NamedTuple):
    """The producers' open transactions as of an offset: the first offset of each, by producer id."""

    offset: int
    begun: dict[int, int]


def _newest_snapshot(readable: ReadableLog) -> _Snapshot:
    log = readable.log
    for offset in reversed(snapshot_offsets(log.files.list_dir(log.directory))):
        # A snapshot behind the end says more than can be read.
        if offset > readable.end:
            continue
        try:
            entries = read_snapshot(log.files, os.path.join(log.directory, segment_file_name(offset, SNAPSHOT_SUFFIX)))
        except (CorruptSnapshot, FileNotFoundError):
            continue
        begun = {
            entry.producer_id: entry.transaction_first_offset
            for entry in entries
            if entry.transaction_first_offset >= 0
        }
        return _Snapshot(offset, begun)
    return _Snapshot(readable.start, {})


def _with_next(segments: list[ListedSegment]) -> list[tuple[ListedSegment, int | None]]:
    following: list[int | None] = [segment.base_offset for segment in segments[1:]]
    return list(zip(segments, [*following, None], strict=True))


def _follow_transactions(readable: ReadableLog, segment: ListedSegment, offset: int, begun: dict[int, int]) -> None:
    """Read the headers of a segment's batches from `offset` on, and note begun and ended transactions.

    Raises LogUnreadable: a batch is damaged.
    """
    log = readable.log
    file = log.open(segment)
    try:
        position = log.cut_in(file, segment, offset).position if offset > segment.base_offset else 0
        while position + MIN_BATCH_SIZE <= segment.size:
            header = file.read(position, HEADER_SIZE)
            if magic_at(header) == 2:
                batch = RecordBatch(header)
                if batch.base_offset >= readable.end:
                    return
                if batch.base_offset >= offset and batch.is_transactional:
                    if batch.is_control:
                        begun.pop(batch.producer_id, None)
                    else:
                        begun.setdefault(batch.producer_id, batch.base_offset)
                offset = max(offset, batch.next_offset)
            size = _LENGTH.unpack_from(header)[0] + LOG_OVERHEAD
            if size < MIN_BATCH_SIZE:
                raise CorruptRecord(f"a batch at position {position} claims {size} bytes")
            if offset >= readable.end:
                return
            position += size
    except CorruptRecord as error:
        raise unreadable(log.topic_partition, offset, segment.path, error) from None
    finally:
        file.close()
