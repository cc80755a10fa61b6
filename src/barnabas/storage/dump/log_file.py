"""Dump of one file of a log directory, as `barnabas log dump FILE` prints it: content, line by line, and damage.

Called by the command line on one thread; reads only, and needs no broker. For the files that Apache Kafka's tool reads,
the lines are those of that tool, so that the two outputs can be compared. This module picks the reader and reads `.log`
files; `side_files` reads the others. Kafka: kafka.tools.DumpLogSegments, DumpLogSegments.MessageParser.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

from barnabas.protocol.errors import DecodeError
from barnabas.records.end_transaction_marker import EndTransactionMarker
from barnabas.records.errors import CorruptRecord
from barnabas.records.legacy_records import LegacyBatch
from barnabas.records.record_batch import MAX_SEQUENCE, NO_SEQUENCE, ControlRecord, RecordBatch
from barnabas.records.v2.walk import Record
from barnabas.runtime.files import Files
from barnabas.storage.checkpoints import MalformedCheckpoint
from barnabas.storage.dump.side_files import (
    STATE_FILES,
    Complaint,
    IndexCheck,
    dump_index,
    dump_snapshot,
    dump_time_index,
    dump_transaction_index,
)
from barnabas.storage.file_names import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    base_offset_of,
)
from barnabas.storage.segment.batch_scan import scan_batches

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
