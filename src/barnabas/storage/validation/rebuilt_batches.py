"""The result of validation, and how it is made of a batch that was produced differently: other times, another codec.

Called by LogValidator on the appending thread. Pure.
Kafka: LogValidator.ValidationResult, LogValidator.buildRecordsAndAssignOffsets, DefaultRecordBatch.setMaxTimestamp,
BrokerCompressionType.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.config.log_config import LogConfig
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.records.compression import Codec, compress
from barnabas.records.crc import crc32c
from barnabas.records.record_batch import (
    ATTRIBUTES_POSITION,
    CODEC_MASK,
    CRC_POSITION,
    CREATE_TIME,
    HEADER,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    NO_LEADER_EPOCH,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_MASK,
    BatchHeader,
)
from barnabas.records.record_batch_builder import RecordBatchBuilder
from barnabas.records.v2.walk import read_records
from barnabas.runtime.clock import Clock
from barnabas.runtime.files import Buffer
from barnabas.storage.log_append_info import InvalidRecords, RecordError
from barnabas.storage.validation.record_rules import ReadBatch
from barnabas.storage.validation.rules import TopicTerms

if TYPE_CHECKING:
    from mypy_extensions import i64

_TIMES: Final = struct.Struct(">hiqq")
"""Attributes, last offset delta, base and max timestamp: bytes 21 to 43 of the header."""
_KEPT_ATTRIBUTES: Final = 0x77
"""All attributes that have a meaning, but for the type of the timestamps."""

KAFKAS_DEFAULT_LZ4_LEVEL = 9
"""Kafka takes this number for the quick compressor, and all others for the thorough one at that level."""


class StorableBatch:
    """A batch that may be stored, but for its first 21 bytes, which the log writes: base offset to checksum.

    header: as produced, or as it was rebuilt, but for the checksum `crc` and the times. head, rest: what the checksum
    covers. log_append_time_ms: -1 unless the topic stamps append time. conversion_ns: how long it took to rebuild the
    batch; 0 if that was not needed.
    """

    __slots__ = ("conversion_ns", "crc", "head", "header", "log_append_time_ms", "max_timestamp", "rest")

    def __init__(self, header: BatchHeader, rest: Buffer, crc: i64, max_timestamp: i64, head: bytes = b"") -> None:
        self.header = header
        self.head = head
        self.rest = rest
        self.crc: i64 = crc
        self.max_timestamp: i64 = max_timestamp
        self.log_append_time_ms: i64 = NO_TIMESTAMP
        self.conversion_ns: i64 = 0


class TargetCompression(NamedTuple):
    """The compression in which a topic stores its batches. level: None is the codec's default."""

    codec: Codec
    level: int | None = None

    @classmethod
    def of(cls, config: LogConfig) -> TargetCompression | None:
        """Return the target that `compression.type` and its level name; None keeps the producer's codec."""
        name = config.compression_type
        if name == "producer":
            return None
        if name == "uncompressed":
            return cls(Codec.NONE)
        codec = Codec.from_name(name)
        levels = {
            Codec.GZIP: config.compression_gzip_level,
            Codec.LZ4: config.compression_lz4_level,
            Codec.ZSTD: config.compression_zstd_level,
        }
        level = levels.get(codec)
        return cls(codec, None if codec == Codec.LZ4 and level == KAFKAS_DEFAULT_LZ4_LEVEL else level)


# `covered` is in all of these what the checksum of the batch covers.


def with_append_time(header: BatchHeader, covered: Buffer, now_ms: int) -> StorableBatch:
    """Return the batch stamped with append time; its records stay untouched."""
    stored = _with_times(header, covered, TIMESTAMP_TYPE_MASK, now_ms)
    stored.log_append_time_ms = now_ms
    return stored


def with_create_time(header: BatchHeader, covered: Buffer, max_timestamp: int) -> StorableBatch:
    """Return the batch with create time and this largest timestamp: as it was produced, if it says so already."""
    if max_timestamp == header.max_timestamp and not header.is_stamped:
        return StorableBatch(header, covered, header.crc, max_timestamp)
    return _with_times(header, covered, 0, max_timestamp)


def re_encoded(read: ReadBatch, target: TargetCompression, terms: TopicTerms, clock: Clock) -> StorableBatch:
    """Return the batch with another codec and offsets that count from 0, stamped if the topic wants that.

    Raises ApiError: MESSAGE_TOO_LARGE when the batch has become too large. Raises InvalidRecords: INVALID_TIMESTAMP for
    a timestamp before -1, which is none: Kafka comes to it when it rebuilds the batch, and answers
    UNKNOWN_SERVER_ERROR. A batch that keeps its codec keeps such a timestamp, in Kafka, too.
    """
    started_ns = clock.nanoseconds()
    if read.earliest < NO_TIMESTAMP and not terms.stamps_append_time:
        raise negative_timestamp(read.earliest)
    append_time = clock.milliseconds() if terms.stamps_append_time else NO_TIMESTAMP
    # Records whose offsets count from 0 are compressed as they are. With gaps, each is encoded anew with the next
    # offset, as Kafka does it in batches that it rebuilds.
    if read.summary.offsets_consecutive:
        data = _recompress(read, target, append_time)
    else:
        data = _rebuild(read, target, append_time)
    return stored_as_rebuilt(data, append_time, terms, clock.nanoseconds() - started_ns)


def negative_timestamp(timestamp: int) -> InvalidRecords:
    """Return INVALID_TIMESTAMP for a record whose timestamp no rebuilt batch can carry."""
    text = f"Invalid negative timestamp {timestamp}"
    return InvalidRecords(ErrorCode.INVALID_TIMESTAMP, text, [RecordError(0, text)])


def stored_as_rebuilt(data: bytes, log_append_time_ms: int, terms: TopicTerms, took_ns: int) -> StorableBatch:
    """Return a batch of the broker's own making as one to be stored.

    Raises ApiError: MESSAGE_TOO_LARGE, since it may have grown.
    """
    header = BatchHeader.parse(data)
    assert header is not None
    if header.length > terms.max_message_bytes:
        raise ApiError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"Message batch size is {header.length} bytes in append to partition {terms.topic_partition} which"
            f" exceeds the maximum configured size of {terms.max_message_bytes}.",
        )
    stored = StorableBatch(header, memoryview(data)[ATTRIBUTES_POSITION:], header.crc, header.max_timestamp)
    stored.log_append_time_ms = log_append_time_ms
    stored.conversion_ns = max(took_ns, 1)
    return stored


def _with_times(header: BatchHeader, covered: Buffer, timestamp_type: int, max_timestamp: int) -> StorableBatch:
    """Return the batch with other times, and the checksum that belongs to them."""
    # Kafka drops the attributes that have no meaning when it rewrites them.
    attributes = header.attributes & _KEPT_ATTRIBUTES | timestamp_type
    head = _TIMES.pack(attributes, header.last_offset_delta, header.base_timestamp, max_timestamp)
    # The records are neither copied nor changed: the checksum of the new head goes on over them.
    rest = covered[_TIMES.size :]
    return StorableBatch(header, rest, crc32c(rest, crc32c(head)), max_timestamp, head)


def _recompress(read: ReadBatch, target: TargetCompression, append_time_ms: int) -> bytes:
    """Compress the same records with another codec; append_time_ms -1 keeps their timestamps."""
    header = read.header
    packed = compress(target.codec, read.body, target.level)
    attributes = header.attributes & _KEPT_ATTRIBUTES & ~CODEC_MASK | target.codec
    max_timestamp = read.latest
    if append_time_ms != NO_TIMESTAMP:
        attributes |= TIMESTAMP_TYPE_MASK
        max_timestamp = append_time_ms
    head = bytearray(HEADER_SIZE)
    length = HEADER_SIZE - LOG_OVERHEAD + len(packed)
    HEADER.pack_into(
        head,
        0,
        0,
        length,
        NO_LEADER_EPOCH,
        2,
        0,
        attributes,
        header.last_offset_delta,
        header.base_timestamp,
        max_timestamp,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.count,
    )
    head[CRC_POSITION:ATTRIBUTES_POSITION] = crc32c(packed, crc32c(head[ATTRIBUTES_POSITION:])).to_bytes(4, "big")
    return b"".join((head, packed))


def _rebuild(read: ReadBatch, target: TargetCompression, append_time_ms: int) -> bytes:
    """Encode the same records with offsets that count from 0; append_time_ms -1 keeps their timestamps."""
    header = read.header
    stamped = append_time_ms != NO_TIMESTAMP
    builder = RecordBatchBuilder(
        target.codec,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        is_transactional=header.is_transactional,
        timestamp_type=LOG_APPEND_TIME if stamped else CREATE_TIME,
        log_append_time=append_time_ms,
        compression_level=target.level,
    )
    stamp = header.max_timestamp if header.is_stamped else None
    for record in read_records(read.body, header.count, 0, header.base_timestamp, stamp):
        builder.append(record.timestamp, record.key, record.value, record.headers)
    return builder.build()
