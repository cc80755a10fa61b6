"""Converts between the formats: old produce requests up to v2, v2 logs down for old fetch requests. Pure.

Log validation converts up, `lazy_down_conversion` down while it sends; both are slow paths by nature.
Kafka: LogValidator.convertAndAssignOffsetsNonCompressed, RecordsUtil.downConvert.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from barnabas.records.compression import DEFAULT_LIMIT_BYTES, Buffer, Codec
from barnabas.records.errors import CorruptRecord, UnsupportedCodec
from barnabas.records.legacy_records import LegacyBatch, MessageWrapper, encode_message_set, legacy_batches
from barnabas.records.memory_records import any_batches
from barnabas.records.record_batch import CREATE_TIME, LOG_APPEND_TIME, NO_TIMESTAMP, RecordBatch
from barnabas.records.record_batch_builder import RecordBatchBuilder

RECORDS_PER_STEP = 256
"""Converted between two looks at other work: about half a millisecond."""


def up_convert(
    buffer: Buffer,
    *,
    codec: Codec | None = None,
    compression_level: int | None = None,
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
        compression_level=compression_level,
    )
    for message in messages:
        for record in message.records(limit_bytes):
            timestamp = log_append_time if timestamp_type == LOG_APPEND_TIME else record.timestamp
            builder.append(timestamp, record.key, record.value)
    return builder.build()


def down_convert(buffer: Buffer, magic: int, first_offset: int = 0, *, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> bytes:
    """Turn the whole batches of `buffer` into messages of at most `magic` (0 or 1), all at once.

    Control batches and headers disappear, offsets stay. Records below `first_offset` are left out where batches are
    not compressed, as an old client expects. Raises UnsupportedCodec for zstd, CorruptRecord.
    """
    return b"".join(
        piece
        for batch in any_batches(buffer)
        for piece in down_conversion_steps(batch, magic, first_offset, limit_bytes=limit_bytes)
    )


def down_conversion_steps(
    batch: RecordBatch | LegacyBatch, magic: int, first_offset: int = 0, *, limit_bytes: int = DEFAULT_LIMIT_BYTES
) -> Iterator[Buffer]:
    """The same for one batch, in steps of RECORDS_PER_STEP records: each yields the bytes that are ready, perhaps none.

    So that whoever converts for a client can do something else in between.
    """
    if batch.is_control:
        return
    codec = batch.codec
    if codec == Codec.ZSTD:
        raise UnsupportedCodec("zstd-compressed batches cannot be converted for clients that know no zstd")
    if batch.magic <= magic:
        yield bytes(batch.buffer[batch.position : batch.end])
        return
    timestamp_type = batch.timestamp_type
    records = batch.records(limit_bytes)
    if not codec:
        while step := list(islice(records, RECORDS_PER_STEP)):
            wanted = [record for record in step if record.offset >= first_offset]
            yield encode_message_set(magic, wanted, Codec.NONE, timestamp_type) if wanted else b""
        return
    wrapper = MessageWrapper(magic, codec, timestamp_type)
    while step := list(islice(records, RECORDS_PER_STEP)):
        wrapper.add(step)
        yield b""
    yield wrapper.build()
