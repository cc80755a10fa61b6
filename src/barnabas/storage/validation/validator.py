"""Checks what a leader is asked to append and brings it into the form in which it is stored.

One per log and configuration, immutable, called by `UnifiedLog.append_as_leader` on the appending thread. How deep
it looks is `record.validation`: `header` (always: size, magic, checksum, offsets, count), `framing` (also the record
lengths of uncompressed batches) or `full` (every field of every record, decompressed). Settings of the topic may need
more: compaction's null keys, timestamp limits, another codec or format.
Kafka: UnifiedLog.analyzeAndValidateRecords, LogValidator.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from barnabas.config.log_config import LogConfig
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.compression import Codec
from barnabas.records.crc import crc32c
from barnabas.records.errors import CorruptRecord
from barnabas.records.legacy_records import LegacyBatch, legacy_batches
from barnabas.records.record_batch import (
    ATTRIBUTES_POSITION,
    CODEC_MASK,
    CONTROL_MASK,
    CREATE_TIME,
    HEADER,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC_POSITION,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_MASK,
    TRANSACTIONAL_MASK,
    RecordBatch,
    is_whole_batch,
)
from barnabas.records.record_conversion import up_convert
from barnabas.records.record_framing import count_records
from barnabas.records.record_reader import Record
from barnabas.runtime.clock import Clock
from barnabas.runtime.files import Buffer
from barnabas.storage.log_append_info import AppendOrigin, InvalidRecords, RefusedBatch
from barnabas.storage.validation.rebuild import TargetCompression, rebuild_batch, recompress
from barnabas.storage.validation.record_scan import scan_records
from barnabas.storage.validation.rules import RecordChecks, append_time_of_client

UNLIMITED_MS: Final = 2**63 - 1
MANY_RECORDS: Final = 1000
"""A look at each takes about a millisecond."""

StorableBatch = tuple[Sequence[Buffer], int, int, int, int, int, int]
"""A batch ready to be stored: what follows its first 16 bytes (base offset, length, leader epoch), its whole size,
last offset delta, record count, max timestamp, log append time (-1: create time), and the nanoseconds it took to
rebuild it (0: it did not have to be)."""
ValidatedBatch = tuple[Sequence[Buffer], int, int, int, int, int, int, tuple[int, ...] | None]
"""The same, with the fields of its header (as in `record_batch.HEADER`) if it has a producer id, else None."""

_UNPACK: Final = HEADER.unpack_from
_MIN_SIZE: Final = HEADER_SIZE
_CLIENT: Final = AppendOrigin.CLIENT
_COORDINATOR: Final = AppendOrigin.COORDINATOR
_REWRITTEN: Final = struct.Struct(">bIhiqq")
"""Magic, CRC, attributes, last offset delta, base and max timestamp: bytes 16 to 43 of the header."""
_REWRITTEN_CRC_START: Final = 5


class LogValidator:
    """What a topic's settings demand of its batches."""

    __slots__ = (
        "_append_time",
        "_checks",
        "_clock",
        "_framing",
        "_look_closer",
        "_max_after_ms",
        "_max_message_bytes",
        "_plain",
        "_scans",
        "_target",
        "_topic_partition",
        "_trusts_coordinators",
    )

    def __init__(self, config: LogConfig, topic_partition: TopicPartition, clock: Clock) -> None:
        self._topic_partition = topic_partition
        self._clock = clock
        self._max_message_bytes = config.max_message_bytes
        self._framing = config.record_validation != "header"
        self._append_time = config.message_timestamp_type == "LogAppendTime"
        self._target = TargetCompression.of(config)
        self._max_after_ms = config.message_timestamp_after_max_ms
        before_ms = config.message_timestamp_before_max_ms
        compacted = "compact" in config.cleanup_policy
        self._look_closer = config.record_validation == "full" or compacted
        if not self._append_time and before_ms < UNLIMITED_MS:
            self._look_closer = True
        self._plain = not (
            self._look_closer or self._append_time or self._target is not None or self._max_after_ms != UNLIMITED_MS
        )
        """Whether a batch that passed the checks of its header is stored as it is: by default so."""
        self._scans = self._look_closer and not self._append_time and self._target is None
        """Whether an uncompressed batch may be stored as it is when all its records have been looked at."""
        self._trusts_coordinators = not self._append_time and self._target is None
        """Whether a batch is stored as it is when a coordinator of this broker has made it, a moment ago."""
        self._checks = RecordChecks(
            topic_partition,
            compacted=compacted,
            append_time=self._append_time,
            before_max_ms=before_ms,
            after_max_ms=self._max_after_ms,
        )

    def validate(  # noqa: C901 - one function, because every produced batch goes through it
        self, records: Buffer | None, origin: AppendOrigin
    ) -> ValidatedBatch | None:
        """Check `records`, which must hold one batch (or a message set of an old client).

        None when there is not even one whole batch. Bytes behind the batch that are no whole batch are dropped, as
        Kafka does. Raises ApiError with Kafka's codes; the order of the checks is Kafka's.
        """
        if records is None:
            return None
        try:
            header = _UNPACK(records, 0)
        except struct.error:
            return self._validate_short(records, origin)
        base_offset, length, _, magic, crc, attributes, last_delta, _, max_timestamp, _, _, _, count = header
        if magic != 2:
            return self._validate_legacy(records, origin)
        size = length + LOG_OVERHEAD
        if size > len(records):
            return None
        view = records if type(records) is memoryview else memoryview(records)
        if origin is _CLIENT and base_offset:
            raise ApiError(
                ErrorCode.INVALID_RECORD,
                f"The baseOffset of the record batch in the append to {self._topic_partition} should be 0,"
                f" but it is {base_offset}",
            )
        if size > self._max_message_bytes:
            raise self._too_large(size)
        if origin is _COORDINATOR and self._trusts_coordinators and size == len(records):
            producer = header if header[9] >= 0 else None
            return (view[MAGIC_POSITION:size],), size, last_delta, count, max_timestamp, NO_TIMESTAMP, 0, producer
        if size < _MIN_SIZE or crc32c(view[ATTRIBUTES_POSITION:size]) != crc:
            raise self._corrupt(f"stored crc = {crc}")
        if size != len(records) and is_whole_batch(records, size):
            raise ApiError(ErrorCode.INVALID_RECORD, "Compressed outer record has more than one batch")
        if count != last_delta + 1 or count <= 0 or attributes & CONTROL_MASK or header[9] >= 0 > header[11]:
            self._check_claims(RecordBatch(view), origin)
        producer = header if header[9] >= 0 else None
        if self._scans and not attributes & ~TRANSACTIONAL_MASK and origin is _CLIENT and self._scan(view, header):
            return (view[MAGIC_POSITION:size],), size, last_delta, count, max_timestamp, NO_TIMESTAMP, 0, producer
        codec = attributes & CODEC_MASK
        if codec > Codec.ZSTD:
            raise ApiError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"Unknown compression type id: {codec}")
        if not codec and self._framing:
            try:
                counted = count_records(view, HEADER_SIZE, size)
            except CorruptRecord as error:
                raise self._invalid(str(error)) from None
            if counted != count:
                raise self._invalid(f"The batch holds {counted} records, its header says {count}")
        if self._plain and not attributes & TIMESTAMP_TYPE_MASK:
            return (view[MAGIC_POSITION:size],), size, last_delta, count, max_timestamp, NO_TIMESTAMP, 0, producer
        return (*self._apply_settings(RecordBatch(view[:size]), origin), producer)

    def _scan(self, view: memoryview, header: tuple[int, ...]) -> bool:
        """Whether every record of an uncompressed batch is as the topic wants it, so that it is stored as it is.

        False says nothing yet: whoever looks more closely finds out what is wrong, and raises it.
        """
        try:
            summary = scan_records(bytes(view[HEADER_SIZE : header[1] + LOG_OVERHEAD]), header[12])
        except CorruptRecord:
            return False
        earliest, latest = header[7] + summary.min_timestamp_delta, header[7] + summary.max_timestamp_delta
        if not summary.offsets_consecutive or earliest < NO_TIMESTAMP or latest != header[8] or latest < 0:
            return False
        return not self._checks.any_limits or self._checks.allow(
            earliest, latest, self._clock.milliseconds(), null_key=summary.has_null_key
        )

    def takes_long(self, records: Buffer) -> bool:
        """Whether a batch that is large or compressed means work of milliseconds or more.

        That is another codec, or a look at many records, or into compressed ones: 9 KB of zstd can be 200 MB.
        """
        if self._plain or len(records) < HEADER_SIZE:
            return False
        header = _UNPACK(records, 0)
        codec = header[5] & CODEC_MASK
        if self._target is not None and self._target.codec != codec:
            return True
        return self._look_closer and bool(codec or header[12] > MANY_RECORDS)

    def _apply_settings(self, batch: RecordBatch, origin: AppendOrigin) -> StorableBatch:
        """The batch as the topic's settings want it, where they are not the default ones."""
        target = self._target
        if self._look_closer or (target is not None and target.codec != batch.codec):
            return self._validate_closely(batch, origin)
        if batch.attributes & TIMESTAMP_TYPE_MASK:
            return self._validate_closely(batch, origin)  # a producer that stamps append time is refused, or corrected
        if self._append_time:
            return self._stamp(batch)
        max_timestamp, size = batch.max_timestamp, batch.length
        if self._max_after_ms != UNLIMITED_MS and max_timestamp - self._clock.milliseconds() > self._max_after_ms:
            return self._validate_closely(batch, origin)
        whole = (memoryview(batch.buffer)[MAGIC_POSITION:size],)
        return whole, size, batch.last_offset_delta, batch.count, max_timestamp, NO_TIMESTAMP, 0

    def _validate_short(self, records: Buffer, origin: AppendOrigin) -> ValidatedBatch | None:
        """Fewer bytes than a v2 header: a small old message, or nothing whole."""
        if not is_whole_batch(records, 0):
            return None
        if records[MAGIC_POSITION] >= 2:
            raise self._corrupt(f"{len(records)} bytes are no record batch")
        return self._validate_legacy(records, origin)

    def _check_claims(self, batch: RecordBatch, origin: AppendOrigin) -> None:
        """Refuse what only brokers may write, and counts that contradict the offsets (Kafka: validateBatch)."""
        if origin is not _CLIENT:
            return
        span = f"[{batch.base_offset}, {batch.last_offset}]"
        if batch.last_offset_delta < 0:
            raise self._invalid(f"Batch has an invalid offset range: {span}")
        if batch.count <= 0:
            raise self._invalid(f"Invalid reported count for record batch: {batch.count}")
        if batch.last_offset_delta + 1 != batch.count:
            raise self._invalid(f"Inconsistent batch offset range {span} and count of records {batch.count}")
        if batch.is_control:
            raise self._invalid("Clients are not allowed to write control records")
        if batch.producer_id >= 0 > batch.base_sequence:
            raise self._invalid(
                f"Invalid sequence number {batch.base_sequence} in record batch with producerId {batch.producer_id}"
            )

    def _stamp(self, batch: RecordBatch) -> StorableBatch:
        """Set the append time; the records stay untouched."""
        now = self._clock.milliseconds()
        stamped = self._rewrite(batch, batch.attributes | TIMESTAMP_TYPE_MASK, now)
        return stamped, batch.length, batch.last_offset_delta, batch.count, now, now, 0

    @staticmethod
    def _rewrite(batch: RecordBatch, attributes: int, max_timestamp: int) -> Sequence[Buffer]:
        """The batch from its magic on, with another header and the checksum that belongs to it."""
        view = memoryview(batch.buffer)
        rest = view[MAGIC_POSITION + _REWRITTEN.size : batch.length]
        head = bytearray(_REWRITTEN.size)
        fields = (attributes, batch.last_offset_delta, batch.base_timestamp, max_timestamp)
        _REWRITTEN.pack_into(head, 0, 2, 0, *fields)
        crc = crc32c(rest, crc32c(head[_REWRITTEN_CRC_START:]))
        head[1:5] = crc.to_bytes(4, "big")
        return head, rest

    def _validate_closely(self, batch: RecordBatch, origin: AppendOrigin) -> StorableBatch:
        """Look at every record; rebuild the batch where its codec or its offsets are not to be kept."""
        now = self._clock.milliseconds()
        append_time = now if self._append_time else NO_TIMESTAMP
        codec = batch.codec
        target = self._target or TargetCompression(codec)
        try:
            checked = self._checks.check(batch, now, strict=origin is _CLIENT)
        except CorruptRecord as error:
            raise self._invalid(str(error)) from None
        if not batch.is_control:
            if not checked.offsets_consecutive:
                started_ns = self._clock.nanoseconds()
                return self._rebuilt(rebuild_batch(batch, target, append_time), append_time, started_ns)
            if target.codec != codec:
                started_ns = self._clock.nanoseconds()
                data = recompress(batch, checked.body, target, checked.max_timestamp, append_time)
                return self._rebuilt(data, append_time, started_ns)
        if self._append_time:
            return self._stamp(batch)
        max_timestamp = checked.max_timestamp
        size, delta, count = batch.length, batch.last_offset_delta, batch.count
        if max_timestamp == batch.max_timestamp and not batch.attributes & TIMESTAMP_TYPE_MASK:
            whole = (memoryview(batch.buffer)[MAGIC_POSITION:size],)
            return whole, size, delta, count, max_timestamp, NO_TIMESTAMP, 0
        corrected = self._rewrite(batch, batch.attributes & ~TIMESTAMP_TYPE_MASK, max_timestamp)
        return corrected, size, delta, count, max_timestamp, NO_TIMESTAMP, 0

    def _validate_legacy(self, records: Buffer, origin: AppendOrigin) -> ValidatedBatch | None:
        """A message set of magic 0 or 1 becomes one batch of magic 2."""
        now = self._clock.milliseconds()
        started_ns = self._clock.nanoseconds()
        try:
            end = self._check_messages(records)
            if end == 0:
                return None
            append_time = now if self._append_time else NO_TIMESTAMP
            data = up_convert(
                records[:end],
                codec=None if self._target is None else self._target.codec,
                compression_level=None if self._target is None else self._target.level,
                timestamp_type=LOG_APPEND_TIME if self._append_time else CREATE_TIME,
                log_append_time=append_time,
            )
            if self._checks.any_limits:
                self._checks.check(RecordBatch(data), now, strict=origin is _CLIENT)
        except CorruptRecord as error:
            raise self._corrupt(str(error)) from None
        return (*self._rebuilt(data, append_time, started_ns), None)

    def _check_messages(self, records: Buffer) -> int:
        """Sizes, magic and checksums of the outer messages; returns where the last whole one ends."""
        end = 0
        compressed = False
        magic = None
        if is_whole_batch(records, 0) and records[MAGIC_POSITION] > 1:
            raise CorruptRecord(f"Invalid magic found in record: {records[MAGIC_POSITION]}")
        for message in legacy_batches(records):
            if message.length > self._max_message_bytes:
                raise self._too_large(message.length)
            message.check()
            if message.magic != (message.magic if magic is None else magic):
                text = f"Batch magic {message.magic} is not the same as the first batch's magic byte {magic}"
                raise self._invalid(text, "invalid_magic_number_records")
            if message.timestamp_type == LOG_APPEND_TIME and (self._append_time or message.timestamp == NO_TIMESTAMP):
                self._refuse_append_time(message)
            magic = message.magic
            if compressed or (end and message.codec):
                raise self._invalid("Compressed outer record has more than one batch")
            compressed = bool(message.codec)
            end = message.end
        return end

    def _rebuilt(self, data: bytes, append_time: int, started_ns: int) -> StorableBatch:
        """The sizes are checked again: they may have grown."""
        batch = RecordBatch(data)
        if batch.length > self._max_message_bytes:
            raise ApiError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"Message batch size is {batch.length} bytes in append to partition {self._topic_partition} which"
                f" exceeds the maximum configured size of {self._max_message_bytes}.",
            )
        whole = (memoryview(data)[MAGIC_POSITION:],)
        took_ns = max(self._clock.nanoseconds() - started_ns, 1)
        return whole, batch.length, batch.last_offset_delta, batch.count, batch.max_timestamp, append_time, took_ns

    def _too_large(self, size: int) -> ApiError:
        return ApiError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"The record batch size in the append to {self._topic_partition} is {size} bytes which exceeds the maximum"
            f" configured value of {self._max_message_bytes}.",
        )

    def _refuse_append_time(self, message: LegacyBatch) -> None:
        text = append_time_of_client(Record(message.last_offset, message.timestamp, *message.key_and_value()))
        summary = "One or more records have been rejected due to invalid timestamp"
        raise InvalidRecords(ErrorCode.INVALID_TIMESTAMP, summary, [(0, text)])

    def _corrupt(self, why: str) -> ApiError:
        text = f"Record is corrupt ({why}) in topic partition {self._topic_partition}."
        return RefusedBatch(ErrorCode.CORRUPT_MESSAGE, text, "invalid_message_crc_records")

    def _invalid(self, why: str, counter: str = "invalid_offset_or_sequence_records") -> ApiError:
        text = f"{why} in topic partition {self._topic_partition}"
        return RefusedBatch(ErrorCode.INVALID_RECORD, text, counter)
