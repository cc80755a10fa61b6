"""What `barnabas log dump FILE` prints: the content of a segment's file, line by line, and what is wrong with it.

Read-only and apart from a running broker; one thread. Its lines are those of Apache Kafka's tool, so that either
output can be compared with the other. Kafka: kafka.tools.DumpLogSegments.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator

from barnabas.records.compression import Codec
from barnabas.records.errors import CorruptRecord
from barnabas.records.legacy_records import LegacyBatch
from barnabas.records.record_batch import NO_SEQUENCE, RecordBatch
from barnabas.records.record_reader import Record
from barnabas.runtime.files import File, Files
from barnabas.storage.batch_scan import find_batch, scan_batches
from barnabas.storage.checkpoints import MalformedCheckpoint
from barnabas.storage.file_names import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, base_offset_of
from barnabas.storage.offset_index import ENTRY_FORMAT as OFFSET_ENTRY
from barnabas.storage.time_index import ENTRY_FORMAT as TIME_ENTRY

TIMESTAMP_TYPES = ("CreateTime", "LogAppendTime")


def dump_file(path: str, files: Files, *, print_records: bool = False) -> Iterator[str]:
    """Lines about a `.log`, `.index` or `.timeindex` file; `print_records` adds every record's key and value.

    Damage is a line of its own. Raises MalformedCheckpoint for a file that is none of these, OSError.
    """
    suffix = os.path.splitext(path)[1]
    base_offset = base_offset_of(os.path.basename(path))
    if base_offset is None or suffix not in (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX):
        raise MalformedCheckpoint(f"{path} is no {LOG_SUFFIX}, {INDEX_SUFFIX} or {TIME_INDEX_SUFFIX} file of a segment")
    yield f"Dumping {path}"
    file = files.open(path)
    try:
        if suffix == LOG_SUFFIX:
            yield from _dump_log(file, base_offset, print_records=print_records)
        else:
            log = files.open(path.removesuffix(suffix) + LOG_SUFFIX)
            try:
                if suffix == INDEX_SUFFIX:
                    yield from _dump_index(path, file, log, base_offset)
                else:
                    yield from _dump_time_index(path, file, log, base_offset)
            finally:
                log.close()
    finally:
        file.close()


def _dump_log(file: File, base_offset: int, *, print_records: bool) -> Iterator[str]:
    yield f"Log starting offset: {base_offset}"
    position = 0
    size = file.size()
    try:
        for batch in scan_batches(file, 0, size):
            yield describe_batch(batch, position)
            if print_records:
                for record in batch.records():
                    yield _describe_record(batch, record)
            position += batch.length
    except CorruptRecord as error:
        yield f"Found {size - position} invalid bytes at the end of the file, from position {position}: {error}"


def describe_batch(batch: RecordBatch | LegacyBatch, position: int) -> str:
    """The line of one batch."""
    valid = str(batch.is_valid_crc()).lower()
    try:
        codec = batch.codec.name.lower()
    except CorruptRecord:
        codec = "unknown"
    stamp = f"{TIMESTAMP_TYPES[batch.timestamp_type]}: {batch.max_timestamp}"
    tail = f"size: {batch.length} magic: {batch.magic} compresscodec: {codec} crc: {batch.crc} isvalid: {valid}"
    if isinstance(batch, LegacyBatch):
        first = batch.last_offset if batch.codec == Codec.NONE else batch.base_offset
        return f"baseOffset: {first} lastOffset: {batch.last_offset} position: {position} {stamp} {tail}"
    horizon = batch.delete_horizon_ms
    return (
        f"baseOffset: {batch.base_offset} lastOffset: {batch.last_offset} count: {batch.count}"
        f" baseSequence: {batch.base_sequence} lastSequence: {batch.last_sequence} producerId: {batch.producer_id}"
        f" producerEpoch: {batch.producer_epoch} partitionLeaderEpoch: {batch.partition_leader_epoch}"
        f" isTransactional: {str(batch.is_transactional).lower()} isControl: {str(batch.is_control).lower()}"
        f" deleteHorizonMs: {'OptionalLong.empty' if horizon is None else f'OptionalLong[{horizon}]'}"
        f" position: {position} {stamp} {tail}"
    )


def _describe_record(batch: RecordBatch | LegacyBatch, record: Record) -> str:
    parts = [
        f"| offset: {record.offset} {TIMESTAMP_TYPES[batch.timestamp_type]}: {record.timestamp}",
        f"keySize: {-1 if record.key is None else len(record.key)}",
        f"valueSize: {-1 if record.value is None else len(record.value)}",
    ]
    if isinstance(batch, RecordBatch):
        sequence = batch.base_sequence
        if sequence != NO_SEQUENCE:
            sequence += record.offset - batch.base_offset
        parts.append(f"sequence: {sequence} headerKeys: [{','.join(name for name, _ in record.headers)}]")
    if record.key is not None:
        parts.append(f"key: {record.key.decode('utf-8', 'replace')}")
    if record.value is not None:
        parts.append(f"payload: {record.value.decode('utf-8', 'replace')}")
    return " ".join(parts)


def _entries(path: str, file: File, entry_format: str) -> Iterator[tuple[int, int]]:
    """The entries of an index, up to the zeros that a crash of Kafka leaves at the end."""
    entry = struct.Struct(entry_format)
    data = file.read(0, file.size())
    whole = len(data) // entry.size * entry.size
    for number, (key, value) in enumerate(entry.iter_unpack(data[:whole])):
        if number and not value:
            return
        yield key, value
    if whole < len(data):
        raise CorruptRecord(f"{path} ends in {len(data) - whole} bytes of an entry")


def _dump_index(path: str, file: File, log: File, base_offset: int) -> Iterator[str]:
    if file.size() == 0:
        yield f"{path} is empty."
    mismatches = []
    try:
        for relative, position in _entries(path, file, OFFSET_ENTRY):
            offset = base_offset + relative
            place = find_batch(log, base_offset, position, log.size())
            found = place.last_offset if place is not None and place.position == position else -1
            if found != offset:
                mismatches.append(f"  Index offset: {offset}, log offset: {found}")
            yield f"offset: {offset} position: {position}"
    except CorruptRecord as error:
        mismatches.append(f"  {error}")
    if mismatches:
        yield f"Mismatches in :{path}"
        yield from mismatches


def _dump_time_index(path: str, file: File, log: File, base_offset: int) -> Iterator[str]:
    if file.size() == 0:
        yield f"{path} is empty."
    problems = []
    try:
        timestamps = {batch.last_offset: batch.max_timestamp for batch in scan_batches(log, 0, log.size())}
    except CorruptRecord as error:
        yield f"Cannot check {path}: {error}"
        return
    before = -1
    try:
        for timestamp, relative in _entries(path, file, TIME_ENTRY):
            offset = base_offset + relative
            found = timestamps.get(offset)
            if found is None:
                problems.append(f"  Indexed offset: {offset}, found no batch that ends there")
            elif found != timestamp:
                problems.append(f"  Index timestamp: {timestamp}, log timestamp: {found}")
            if timestamp <= before:
                problems.append(f"  Index timestamp: {timestamp}, previously indexed timestamp: {before}")
            before = timestamp
            yield f"timestamp: {timestamp} offset: {offset}"
    except CorruptRecord as error:
        problems.append(f"  {error}")
    if problems:
        yield f"Found timestamp mismatch in :{path}"
        yield from problems
