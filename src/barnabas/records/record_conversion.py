"""Converts between the formats: old produce requests up to v2, v2 logs down for old fetch requests. Pure.

Log validation converts up, the fetch handler down, each on its own thread; both are slow paths by nature.
Kafka: LogValidator.convertAndAssignOffsetsNonCompressed, RecordsUtil.downConvert.
"""

from __future__ import annotations

from barnabas.records.compression import DEFAULT_LIMIT_BYTES, Buffer, Codec
from barnabas.records.errors import CorruptRecord, UnsupportedCodec
from barnabas.records.legacy_records import LegacyBatch, encode_message_set, legacy_batches
from barnabas.records.memory_records import any_batches
from barnabas.records.record_batch import CREATE_TIME, LOG_APPEND_TIME, NO_TIMESTAMP, RecordBatch
from barnabas.records.record_batch_builder import RecordBatchBuilder


def up_convert(
    buffer: Buffer,
    *,
    codec: Codec | None = None,
    base_offset: int = 0,
    timestamp_type: int = CREATE_TIME,
    log_append_time: int = NO_TIMESTAMP,
    partition_leader_epoch: int = -1,
    limit_bytes: int = DEFAULT_LIMIT_BYTES,
) -> bytes:
    """Turn a whole message set of magic 0 and 1 into one v2 batch, with new offsets from `base_offset`.

    `codec` None keeps the producer's. Checksums are checked, outer and inner. Messages of magic 0 get no timestamp
    (-1), unless the batch is stamped with `log_append_time`. Raises CorruptRecord, also for an empty or cut set.
    """
    messages = list(legacy_batches(buffer))
    if not messages or messages[-1].end != len(buffer):
        raise CorruptRecord("the message set is empty or cut off")
    source_codec = Codec.NONE
    for message in messages:
        message.check()
        source_codec = source_codec or message.codec
    builder = RecordBatchBuilder(
        source_codec if codec is None else codec,
        base_offset=base_offset,
        timestamp_type=timestamp_type,
        log_append_time=log_append_time,
        partition_leader_epoch=partition_leader_epoch,
    )
    for message in messages:
        for record in message.records(limit_bytes):
            timestamp = log_append_time if timestamp_type == LOG_APPEND_TIME else record.timestamp
            builder.append(timestamp, record.key, record.value)
    return builder.build()


def down_convert(buffer: Buffer, magic: int, first_offset: int = 0, *, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> bytes:
    """Turn the whole batches of `buffer` into messages of at most `magic` (0 or 1).

    Control batches and headers disappear, offsets stay. Records below `first_offset` are left out where batches are
    not compressed, as an old client expects. Raises UnsupportedCodec for zstd, CorruptRecord.
    """
    pieces: list[Buffer] = []
    for batch in any_batches(buffer):
        if batch.is_control:
            continue
        if batch.magic <= magic:
            pieces.append(buffer[batch.position : batch.end])
        else:
            pieces.append(_down_convert_batch(batch, magic, first_offset, limit_bytes))
    return b"".join(pieces)


def _down_convert_batch(batch: RecordBatch | LegacyBatch, magic: int, first_offset: int, limit_bytes: int) -> bytes:
    codec = batch.codec
    if codec == Codec.ZSTD:
        raise UnsupportedCodec("zstd-compressed batches cannot be converted for clients that know no zstd")
    records = [record for record in batch.records(limit_bytes) if codec or record.offset >= first_offset]
    return encode_message_set(magic, records, codec, batch.timestamp_type) if records else b""
