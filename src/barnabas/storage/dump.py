"""Dump of one file of a log directory, as `barnabas log dump FILE` prints it: content, line by line, and damage.

Called by the command line on one thread; reads only, and needs no broker. For the files that Apache Kafka's tool reads,
the lines are those of that tool, so that the two outputs can be compared; checkpoints, identities and marks are text,
which Kafka has no tool for. Kafka: kafka.tools.DumpLogSegments, DumpLogSegments.MessageParser, the checks of
OffsetIndex.sanityCheck and TimeIndex.sanityCheck.
"""

from __future__ import annotations

import enum
import os
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, TypeAlias

from barnabas.protocol.errors import DecodeError
from barnabas.protocol.uuid import uuid_to_string
from barnabas.records.end_transaction_marker import EndTransactionMarker
from barnabas.records.errors import CorruptRecord
from barnabas.records.legacy_records import LegacyBatch
from barnabas.records.record_batch import MAX_SEQUENCE, NO_SEQUENCE, ControlRecord, RecordBatch
from barnabas.records.v2.walk import Record
from barnabas.runtime.files import File, Files
from barnabas.storage.checkpoints import (
    CLEANER_OFFSET_FILE,
    HIGH_WATERMARK_FILE,
    LEADER_EPOCH_FILE,
    LOG_START_OFFSET_FILE,
    RECOVERY_POINT_FILE,
    LeaderEpochCheckpointFile,
    MalformedCheckpoint,
    OffsetCheckpointFile,
)
from barnabas.storage.directories.log_dir import CLEAN_SHUTDOWN_FILE
from barnabas.storage.directories.meta_properties import FILE_NAME as META_PROPERTIES_FILE
from barnabas.storage.directories.meta_properties import read_meta_properties
from barnabas.storage.errors import InconsistentMetaProperties
from barnabas.storage.file_names import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    base_offset_of,
)
from barnabas.storage.log.topic_identity import PARTITION_METADATA_FILE, read_partition_metadata
from barnabas.storage.producers.snapshot import CorruptSnapshot, read_snapshot
from barnabas.storage.segment.batch_scan import find_batch, scan_batches
from barnabas.storage.segment.offset_index import ENTRY_FORMAT as OFFSET_ENTRY
from barnabas.storage.segment.time_index import ENTRY_FORMAT as TIME_ENTRY

_ABORTED_TRANSACTION = struct.Struct(">hqqqq")


class Complaint(str):
    """A line that reports damage, as opposed to content: it is printed on stderr and changes the exit status."""

    __slots__ = ()


class IndexCheck(enum.Enum):
    """The ways to look at an index."""

    PRINT = "print"
    """Print the entries and compare them with the log."""
    VERIFY = "verify"
    """Only compare the entries with the log."""
    SANITY = "sanity"
    """Only make the checks that a broker makes when it starts."""


# -- indexes


def dump_index(path: str, files: Files, base_offset: int, check: IndexCheck) -> Iterator[str]:
    """Yield the lines about an `.index` file. Raises OSError, also when there is no log beside it."""
    entries, torn = _read_entries(path, files, OFFSET_ENTRY)
    if not entries and not torn:
        yield f"{path} is empty."
        return
    problems = [torn] if torn else []
    if check is IndexCheck.SANITY:
        if entries and entries[-1][0] < 0:
            problems.append(f"the last offset, {base_offset + entries[-1][0]}, is less than the base offset")
        yield from _verdict(path, problems)
        return
    log = _open_log(path, files)
    try:
        size = log.size()
        for relative, position in entries:
            offset = base_offset + relative
            found = _last_offset_at(log, position, size)
            if found != offset:
                problems.append(f"Index offset: {offset}, log offset: {found}")
            if check is IndexCheck.PRINT:
                yield f"offset: {offset} position: {position}"
    finally:
        log.close()
    yield from _problem_lines(f"Mismatches in :{path}", problems)


def dump_time_index(path: str, files: Files, base_offset: int, check: IndexCheck) -> Iterator[str]:
    """Yield the lines about a `.timeindex` file. Raises OSError, also when there is no log beside it."""
    entries, torn = _read_entries(path, files, TIME_ENTRY)
    problems = [torn] if torn else []
    if check is IndexCheck.SANITY:
        if entries and entries[-1][0] < entries[0][0]:
            problems.append(f"the last timestamp, {entries[-1][0]}, is less than the first, {entries[0][0]}")
        if entries and entries[-1][1] < 0:
            problems.append(f"the last offset, {base_offset + entries[-1][1]}, is less than the base offset")
        yield from _verdict(path, problems)
        return
    log = _open_log(path, files)
    try:
        timestamps = {batch.last_offset: batch.max_timestamp for batch in scan_batches(log, 0, log.size())}
    except CorruptRecord as error:
        yield Complaint(f"Cannot check {path}: {error}")
        return
    finally:
        log.close()
    before = -1
    for timestamp, relative in entries:
        offset = base_offset + relative
        found = timestamps.get(offset)
        if found is None:
            problems.append(f"Indexed offset: {offset}, found no batch that ends there")
        elif found != timestamp:
            problems.append(f"Index timestamp: {timestamp}, log timestamp: {found}")
        if timestamp <= before:
            problems.append(f"Index timestamp: {timestamp}, Previously indexed timestamp: {before}")
        before = timestamp
        if check is IndexCheck.PRINT:
            yield f"timestamp: {timestamp} offset: {offset}"
    yield from _problem_lines(f"Found timestamp mismatch in :{path}", problems)


def dump_transaction_index(path: str, files: Files) -> Iterator[str]:
    """Yield the lines about a `.txnindex` file. Raises OSError."""
    data = files.read_bytes(path)
    whole = len(data) // _ABORTED_TRANSACTION.size * _ABORTED_TRANSACTION.size
    before = -1
    for version, producer_id, first, last, stable in _ABORTED_TRANSACTION.iter_unpack(data[:whole]):
        yield (
            f"version: {version} producerId: {producer_id} firstOffset: {first} lastOffset: {last}"
            f" lastStableOffset: {stable}"
        )
        if version != 0 or last <= before:
            yield Complaint(f"{path}: an entry of version {version} and offset {last} follows one of offset {before}")
        before = last
    if whole < len(data):
        yield Complaint(f"{path} ends in {len(data) - whole} bytes of an entry")


def _read_entries(path: str, files: Files, entry_format: str) -> tuple[list[tuple[int, int]], str]:
    """Return the entries up to the zeros that a crash of Kafka leaves at the end, and a text if the size is wrong."""
    entry = struct.Struct(entry_format)
    data = files.read_bytes(path)
    whole = len(data) // entry.size * entry.size
    entries: list[tuple[int, int]] = []
    for key, value in entry.iter_unpack(data[:whole]):
        if entries and not key and not value:
            break
        entries.append((key, value))
    return entries, f"it ends in {len(data) - whole} bytes of an entry" if whole < len(data) else ""


def _open_log(path: str, files: Files) -> File:
    return files.open(os.path.splitext(path)[0] + LOG_SUFFIX)


def _last_offset_at(log: File, position: int, size: int) -> int:
    """Return the last offset of the batch that begins at `position`; -1 when none does."""
    try:
        place = find_batch(log, -1, position, size)
    except CorruptRecord:
        return -1
    return -1 if place is None or place.position != position else place.last_offset


def _verdict(path: str, problems: list[str]) -> Iterator[str]:
    if problems:
        yield from _problem_lines(f"{path} is corrupt:", problems)
    else:
        yield f"{path} passed sanity check."


def _problem_lines(heading: str, problems: list[str]) -> Iterator[str]:
    if problems:
        yield Complaint(heading)
        yield from (Complaint(f"  {problem}") for problem in problems)


# -- files of producers and state


def dump_snapshot(path: str, files: Files) -> Iterator[str]:
    """Yield a line per producer of a `.snapshot` file. Raises OSError."""
    try:
        entries = read_snapshot(files, path)
    except CorruptSnapshot as error:
        yield Complaint(f"{path}: {error}")
        return
    for entry in entries:
        first = entry.transaction_first_offset
        line = (
            f"producerId: {entry.producer_id} producerEpoch: {entry.producer_epoch} coordinatorEpoch:"
            f" {entry.coordinator_epoch} currentTxnFirstOffset:"
            f" {'OptionalLong.empty' if first < 0 else f'OptionalLong[{first}]'} lastTimestamp: {entry.last_timestamp} "
        )
        if entry.batches:
            # A snapshot holds no more than the last batch of a producer.
            batch = entry.batches[0]
            line += (
                f"firstSequence: {batch.first_sequence} lastSequence: {batch.last_sequence} lastOffset:"
                f" {batch.last_offset} offsetDelta: {batch.offset_delta} timestamp: {batch.timestamp}"
            )
        yield line


def _dump_offsets(path: str, files: Files) -> Iterator[str]:
    directory, name = os.path.split(path)
    for key, offset in sorted(OffsetCheckpointFile(directory, name, files).read().items()):
        yield f"topic: {key.topic} partition: {key.partition} offset: {offset}"


def _dump_leader_epochs(path: str, files: Files) -> Iterator[str]:
    before = (-1, -1)
    for epoch, start_offset in LeaderEpochCheckpointFile(os.path.dirname(path), files).read():
        yield f"leaderEpoch: {epoch} startOffset: {start_offset}"
        if epoch <= before[0] or start_offset < before[1]:
            yield Complaint(f"{path}: epoch {epoch} from offset {start_offset} follows {before[0]} from {before[1]}")
        before = (epoch, start_offset)


def _dump_partition_metadata(path: str, files: Files) -> Iterator[str]:
    topic_id = read_partition_metadata(files, os.path.dirname(path))
    if topic_id is not None:
        yield f"topicId: {uuid_to_string(topic_id)}"


def _dump_meta_properties(path: str, files: Files) -> Iterator[str]:
    """Yield the one line of `meta.properties`. Raises MalformedCheckpoint, OSError."""
    try:
        found = read_meta_properties(files, os.path.dirname(path))
    except InconsistentMetaProperties as error:
        raise MalformedCheckpoint(str(error)) from None
    if found is not None:
        yield (
            f"version: {found.version} clusterId: {found.cluster_id} brokerId: {found.broker_id}"
            f" directoryId: {found.directory_id}"
        )


def _dump_text(path: str, files: Files) -> Iterator[str]:
    yield from files.read_bytes(path).decode("utf-8", "replace").splitlines()


STATE_FILES: Mapping[str, Callable[[str, Files], Iterator[str]]] = {
    RECOVERY_POINT_FILE: _dump_offsets,
    LOG_START_OFFSET_FILE: _dump_offsets,
    HIGH_WATERMARK_FILE: _dump_offsets,
    CLEANER_OFFSET_FILE: _dump_offsets,
    LEADER_EPOCH_FILE: _dump_leader_epochs,
    PARTITION_METADATA_FILE: _dump_partition_metadata,
    META_PROPERTIES_FILE: _dump_meta_properties,
    CLEAN_SHUTDOWN_FILE: _dump_text,
}
"""The function that dumps a file, by name."""


TIMESTAMP_TYPES = ("CreateTime", "LogAppendTime")
TRANSACTION_CONTROL_TYPES = {0: "ABORT", 1: "COMMIT"}
RAFT_CONTROL_TYPES = {
    2: "LEADER_CHANGE",
    3: "SNAPSHOT_HEADER",
    4: "SNAPSHOT_FOOTER",
    5: "KRAFT_VERSION",
    6: "KRAFT_VOTERS",
}


class RecordText(NamedTuple):
    """The text of a record's key and payload; None is not printed."""

    key: str | None
    payload: str | None


RecordDecoder: TypeAlias = Callable[[bytes | None, bytes | None], RecordText]
"""Returns the text of a key and a value of an internal topic's record; made by a layer above, which knows the format.

Raises DecodeError, UnicodeDecodeError for what its topic cannot hold.
"""


class DumpTerms(NamedTuple):
    """The extent of a dump. deep: every record, not only batches. contents: keys and values too. check: of indexes.

    decoder: makes the text of keys and values, for the records of an internal topic; None shows them as they are.
    """

    deep: bool = False
    contents: bool = False
    check: IndexCheck = IndexCheck.PRINT
    decoder: RecordDecoder | None = None


def dump_file(path: str, files: Files, terms: DumpTerms = DumpTerms()) -> Iterator[str]:  # noqa: B008 - immutable
    """Yield the lines about a file of a log directory; lines that report damage are Complaints.

    Raises MalformedCheckpoint for a file that is none of them or makes no sense, OSError.
    """
    name = os.path.basename(path)
    suffix = os.path.splitext(name)[1]
    base_offset = base_offset_of(name)
    if name in STATE_FILES:
        yield f"Dumping {path}"
        yield from STATE_FILES[name](path, files)
    elif base_offset is not None and suffix in _SEGMENT_FILES:
        yield f"Dumping {path}"
        yield from _SEGMENT_FILES[suffix](path, files, base_offset, terms)
    else:
        known = ", ".join([*_SEGMENT_FILES, *STATE_FILES])
        raise MalformedCheckpoint(f"{path} is not a file of a log directory that this command can show: {known}")


def _dump_log(path: str, files: Files, base_offset: int, terms: DumpTerms) -> Iterator[str]:
    """Yield the lines about a `.log` file, up to the first damage. Raises OSError."""
    yield f"Log starting offset: {base_offset}"
    file = files.open(path)
    position = 0
    size = file.size()
    try:
        for batch in scan_batches(file, 0, size):
            line = describe_batch(batch, position)
            # A wrong checksum does not end the dump: the lengths are right so far, and the next batch may be good.
            yield line if batch.is_valid_crc() else Complaint(line)
            if terms.deep or terms.contents or terms.decoder is not None:
                for record in batch.records():
                    yield _describe_record(batch, record, terms)
            position += batch.length
    except CorruptRecord as error:
        yield Complaint(
            f"Found {size - position} invalid bytes at the end of {os.path.basename(path)}, from position {position}:"
            f" {error}"
        )
    finally:
        file.close()


def describe_batch(batch: RecordBatch | LegacyBatch, position: int) -> str:
    """Return the line of one batch."""
    valid = str(batch.is_valid_crc()).lower()
    try:
        codec = batch.codec.name.lower()
    except CorruptRecord:
        codec = "unknown"
    stamp = f"{TIMESTAMP_TYPES[batch.timestamp_type]}: {batch.max_timestamp}"
    tail = f"size: {batch.length} magic: {batch.magic} compresscodec: {codec} crc: {batch.crc} isvalid: {valid}"
    if isinstance(batch, LegacyBatch):
        return f"offset: {batch.last_offset} position: {position} {stamp} {tail}"
    horizon = batch.delete_horizon_ms
    return (
        f"baseOffset: {batch.base_offset} lastOffset: {batch.last_offset} count: {batch.count}"
        f" baseSequence: {batch.base_sequence} lastSequence: {batch.last_sequence} producerId: {batch.producer_id}"
        f" producerEpoch: {batch.producer_epoch} partitionLeaderEpoch: {batch.partition_leader_epoch}"
        f" isTransactional: {str(batch.is_transactional).lower()} isControl: {str(batch.is_control).lower()}"
        f" deleteHorizonMs: {'OptionalLong.empty' if horizon is None else f'OptionalLong[{horizon}]'}"
        f" position: {position} {stamp} {tail}"
    )


def _describe_record(batch: RecordBatch | LegacyBatch, record: Record, terms: DumpTerms) -> str:
    """Return the line of one record; a Complaint when the decoder does not know what it is.

    Raises CorruptRecord when a control record cannot be decoded.
    """
    parts = [
        f"| offset: {record.offset} {TIMESTAMP_TYPES[batch.timestamp_type]}: {record.timestamp}",
        f"keySize: {-1 if record.key is None else len(record.key)}",
        f"valueSize: {-1 if record.value is None else len(record.value)}",
    ]
    if isinstance(batch, RecordBatch):
        sequence = batch.base_sequence
        if sequence != NO_SEQUENCE:
            sequence = sequence + record.offset - batch.base_offset & MAX_SEQUENCE
        parts.append(f"sequence: {sequence} headerKeys: [{','.join(name for name, _ in record.headers)}]")
        if batch.is_control:
            return " ".join((*parts, _describe_control(batch, record)))
    try:
        text = terms.decoder(record.key, record.value) if terms.decoder is not None else _plain_text(record, terms)
    except (DecodeError, UnicodeDecodeError) as error:
        return Complaint(" ".join((*parts, f"cannot be decoded: {error}")))
    if text.key is not None:
        parts.append(f"key: {text.key}")
    if text.payload is not None:
        parts.append(f"payload: {text.payload}")
    return " ".join(parts)


def _plain_text(record: Record, terms: DumpTerms) -> RecordText:
    if not terms.contents:
        return RecordText(None, None)
    return RecordText(
        *(None if each is None else each.decode("utf-8", "replace") for each in (record.key, record.value))
    )


def _describe_control(batch: RecordBatch, record: Record) -> str:
    control_type = ControlRecord.parse(record.key).type
    if control_type not in TRANSACTION_CONTROL_TYPES:
        return f"controlType: {RAFT_CONTROL_TYPES.get(control_type, 'UNKNOWN')}({control_type})"
    marker = EndTransactionMarker.of(batch)
    coordinator_epoch = -1 if marker is None else marker.coordinator_epoch
    return f"endTxnMarker: {TRANSACTION_CONTROL_TYPES[control_type]} coordinatorEpoch: {coordinator_epoch}"


_SEGMENT_FILES: dict[str, Callable[[str, Files, int, DumpTerms], Iterator[str]]] = {
    LOG_SUFFIX: _dump_log,
    INDEX_SUFFIX: lambda path, files, base, terms: dump_index(path, files, base, terms.check),
    TIME_INDEX_SUFFIX: lambda path, files, base, terms: dump_time_index(path, files, base, terms.check),
    TRANSACTION_INDEX_SUFFIX: lambda path, files, _base, _terms: dump_transaction_index(path, files),
    SNAPSHOT_SUFFIX: lambda path, files, _base, _terms: dump_snapshot(path, files),
}
"""The function that dumps a file, by suffix."""
