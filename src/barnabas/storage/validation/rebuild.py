"""Makes the batch that a topic stores of one that was produced differently: another codec, offsets counted anew. Pure.

Used by LogValidator on the appending thread. Kafka: LogValidator.buildRecordsAndAssignOffsets, BrokerCompressionType.
"""

from __future__ import annotations

from typing import NamedTuple

from barnabas.config.log_config import LogConfig
from barnabas.records.compression import Codec, compress
from barnabas.records.crc import crc32c
from barnabas.records.record_batch import (
    ATTRIBUTES_POSITION,
    CODEC_MASK,
    CREATE_TIME,
    HEADER,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_MASK,
    RecordBatch,
)
from barnabas.records.record_batch_builder import RecordBatchBuilder

KAFKAS_DEFAULT_LZ4_LEVEL = 9
"""Kafka takes this number for the quick compressor, and all others for the thorough one at that level."""


class TargetCompression(NamedTuple):
    """How a topic stores its batches. level: None is the codec's default."""

    codec: Codec
    level: int | None = None

    @classmethod
    def of(cls, config: LogConfig) -> TargetCompression | None:
        """What `compression.type` and its level say; None keeps the producer's codec."""
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


def recompress(
    batch: RecordBatch, body: bytes, target: TargetCompression, max_timestamp: int, append_time_ms: int
) -> bytes:
    """The same records, which decompressed are `body`, in another codec. append_time_ms -1 keeps their timestamps."""
    packed = compress(target.codec, body, target.level)
    attributes = batch.attributes & ~(CODEC_MASK | TIMESTAMP_TYPE_MASK) | target.codec
    if append_time_ms != NO_TIMESTAMP:
        attributes |= TIMESTAMP_TYPE_MASK
        max_timestamp = append_time_ms
    header = bytearray(HEADER_SIZE)
    fields = (
        attributes,
        batch.last_offset_delta,
        batch.base_timestamp,
        max_timestamp,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        batch.count,
    )
    HEADER.pack_into(header, 0, 0, HEADER_SIZE - LOG_OVERHEAD + len(packed), -1, 2, 0, *fields)
    header[17:ATTRIBUTES_POSITION] = crc32c(packed, crc32c(header[ATTRIBUTES_POSITION:])).to_bytes(4, "big")
    return b"".join((header, packed))


def rebuild_batch(batch: RecordBatch, target: TargetCompression, append_time_ms: int) -> bytes:
    """The same records with offsets counted anew from 0; append_time_ms -1 keeps their timestamps."""
    stamped = append_time_ms != NO_TIMESTAMP
    builder = RecordBatchBuilder(
        target.codec,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        is_transactional=batch.is_transactional,
        timestamp_type=LOG_APPEND_TIME if stamped else CREATE_TIME,
        log_append_time=append_time_ms,
        compression_level=target.level,
    )
    for record in batch.records():
        builder.append(record.timestamp, record.key, record.value, record.headers)
    return builder.build()
