"""Converts between the formats: old produce requests up to v2, v2 logs down for old fetch requests. Pure.

Log validation converts up; `lazy_down_conversion` converts down while it sends. Both are slow paths by nature.
Kafka: LogValidator.convertAndAssignOffsetsNonCompressed, RecordsUtil.downConvert.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from barnabas.records.compression import DEFAULT_LIMIT_BYTES, Buffer, Codec
from barnabas.records.errors import CorruptRecord, UnsupportedCodec
from barnabas.records.legacy_records import LegacyBatch, MessageWrapper, encode_message_set, legacy_batches
from barnabas.records.record_batch import CREATE_TIME, LOG_APPEND_TIME, NO_TIMESTAMP, RecordBatch
from barnabas.records.record_batch_builder import RecordBatchBuilder

_RECORDS_JOINED: Final = 4096
"""Their pieces are joined at once (`RecordBatchBuilder.join_pieces`)."""
RECORDS_PER_STEP = 256
"""Converted between two looks at other work: about half a millisecond."""


def up_convert(
    buffer: Buffer,
    *,
    codec: Codec | None = None,
    compression_level: int | None = None,
    base_offset: int = 0,
    log_append_time: int | None = None,
) -> bytes:
    """Turn a whole message set of magic 0 and 1 into one v2 batch, with new offsets from `base_offset`.

    codec: None keeps the producer's. log_append_time: stamps the batch; without it, messages of magic 0 get no
    timestamp (-1). Checksums are checked, outer and inner. Raises CorruptRecord, also for an empty or cut off set, and
    InvalidMessageSet when the set breaks a rule.
    """
    # Read twice: a list of 80,000 messages would take 30 MB, and the interpreter for 30 ms to free it.
    end = 0
    source_codec = Codec.NONE
    for message in legacy_batches(buffer):
        message.check()
        source_codec = source_codec or message.codec
        end = message.end
    if not end or end != len(buffer):
        raise CorruptRecord("the message set is empty or cut off")
    builder = RecordBatchBuilder(
        source_codec if codec is None else codec,
        base_offset=base_offset,
        timestamp_type=CREATE_TIME if log_append_time is None else LOG_APPEND_TIME,
        log_append_time=NO_TIMESTAMP if log_append_time is None else log_append_time,
        compression_level=compression_level,
    )
    joined = 0
    for message in legacy_batches(buffer):
        for record in message.records():
            timestamp = record.timestamp if log_append_time is None else log_append_time
            builder.append(timestamp, record.key, record.value)
            if not builder.count % _RECORDS_JOINED:
                joined = builder.join_pieces(joined)
    return builder.build()


def down_conversion_steps(
    batch: RecordBatch | LegacyBatch, magic: int, first_offset: int = 0, *, limit_bytes: int = DEFAULT_LIMIT_BYTES
) -> Iterator[Buffer]:
    """Turn a batch into messages of at most `magic` (0 or 1), in steps of RECORDS_PER_STEP records.

    Each step yields the bytes that are ready, perhaps none, so that a network thread can serve others in between. A
    control batch becomes nothing, headers are dropped, offsets stay. Records below `first_offset` are left out unless
    the batch is compressed, as an old client expects. Raises UnsupportedCodec for zstd, and CorruptRecord.
    """
    if batch.is_control:
        return
    codec = batch.codec
    if codec == Codec.ZSTD:
        raise UnsupportedCodec("zstd-compressed batches cannot be converted for clients without zstd")
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
        # A wrapper is compressed as a whole, at the end; the empty step only gives the network thread its turn.
        yield b""
    yield wrapper.build()
