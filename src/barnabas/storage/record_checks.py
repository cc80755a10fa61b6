"""What validation asks of single records: a key where the topic is compacted, a timestamp within the topic's limits.

Part of LogValidator, for the batches it must look into. Pure. Kafka: LogValidator.validateRecord.
"""

from __future__ import annotations

from typing import NamedTuple

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.compression import Codec
from barnabas.records.errors import CorruptRecord
from barnabas.records.record_batch import (
    CREATE_TIME,
    LOG_APPEND_TIME,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_MASK,
    RecordBatch,
)
from barnabas.records.record_batch_builder import RecordBatchBuilder
from barnabas.storage.log_append_info import InvalidRecords, RecordError
from barnabas.storage.record_scan import scan_records

UNLIMITED_MS = 2**63 - 1


class CheckedRecords(NamedTuple):
    """What the records of a batch turned out to be."""

    max_timestamp: int
    offsets_consecutive: bool


class RecordChecks:
    """The checks of one topic. append_time: the broker stamps; limits are differences to its clock, in milliseconds."""

    __slots__ = ("_after_max_ms", "_append_time", "_before_max_ms", "_compacted", "_topic_partition", "any_limits")

    def __init__(
        self,
        topic_partition: TopicPartition,
        *,
        compacted: bool,
        append_time: bool,
        before_max_ms: int,
        after_max_ms: int,
    ) -> None:
        self._topic_partition = topic_partition
        self._compacted = compacted
        self._append_time = append_time
        self._before_max_ms = before_max_ms
        self._after_max_ms = after_max_ms
        self.any_limits = compacted or (not append_time and min(before_max_ms, after_max_ms) < UNLIMITED_MS)

    def check(self, batch: RecordBatch, now_ms: int, *, strict: bool) -> CheckedRecords:
        """Check every field of every record. Raises CorruptRecord, InvalidRecords with an entry per record refused.

        strict: a client's batch; brokers may write control records, which have no timestamps to check.
        """
        if batch.count <= 0:
            raise CorruptRecord(f"a batch claims {batch.count} records")
        summary = scan_records(batch.decompressed_records(), batch.count)
        keys_needed = self._compacted and not batch.is_control
        check_time = strict and not self._append_time
        base = batch.base_timestamp
        earliest, latest = now_ms - self._before_max_ms, now_ms + self._after_max_ms
        if (keys_needed and summary.has_null_key) or (
            check_time
            and (base + summary.min_timestamp_delta < earliest or base + summary.max_timestamp_delta > latest)
        ):
            self._refuse_records(batch, keys_needed=keys_needed, limits=(earliest, latest) if check_time else None)
        if self._append_time and batch.attributes & TIMESTAMP_TYPE_MASK:
            self.refuse_append_time_of_client(batch)
        stamped = batch.attributes & TIMESTAMP_TYPE_MASK
        max_timestamp = batch.max_timestamp if stamped else base + summary.max_timestamp_delta
        return CheckedRecords(max_timestamp, summary.offsets_consecutive)

    def _refuse_records(self, batch: RecordBatch, *, keys_needed: bool, limits: tuple[int, int] | None) -> None:
        """Raise InvalidRecords that names the records to blame; records without a timestamp never are."""
        errors: list[RecordError] = []
        code = ErrorCode.INVALID_RECORD
        for index, record in enumerate(batch.records()):
            if keys_needed and record.key is None:
                why = f"Compacted topic cannot accept message without key in topic partition {self._topic_partition}."
                errors.append((index, why))
            elif limits and record.timestamp != NO_TIMESTAMP and not limits[0] <= record.timestamp <= limits[1]:
                code = ErrorCode.INVALID_TIMESTAMP
                why = (
                    f"Timestamp {record.timestamp} of message with offset {record.offset} is out of range. The"
                    f" timestamp should be within [{limits[0]}, {limits[1]}]"
                )
                errors.append((index, why))
        if errors:
            raise InvalidRecords(code, _summary(code, errors), errors)

    def refuse_append_time_of_client(self, batch: RecordBatch) -> None:
        """Raise InvalidRecords: the broker stamps append times, producers don't."""
        code = ErrorCode.INVALID_TIMESTAMP
        why = (
            f"Invalid timestamp type in message at offset {batch.base_offset}. Producer should not set timestamp type"
            " to LogAppendTime."
        )
        errors: list[RecordError] = [(0, why)]
        raise InvalidRecords(code, _summary(code, errors), errors)


def _summary(code: ErrorCode, errors: list[RecordError]) -> str:
    if code is ErrorCode.INVALID_TIMESTAMP:
        return "One or more records have been rejected due to invalid timestamp"
    shown = ", ".join(f"RecordError(batchIndex={index}, message='{message}')" for index, message in errors[:3])
    return (
        f"One or more records have been rejected due to {len(errors)} record errors in total, and only showing the"
        f" first three errors at most: [{shown}]"
    )


def rebuild_batch(batch: RecordBatch, codec: Codec, append_time_ms: int) -> bytes:
    """The same records in another codec, with offsets counted anew from 0; append_time_ms -1 keeps their timestamps."""
    stamped = append_time_ms != NO_TIMESTAMP
    builder = RecordBatchBuilder(
        codec,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        is_transactional=batch.is_transactional,
        timestamp_type=LOG_APPEND_TIME if stamped else CREATE_TIME,
        log_append_time=append_time_ms,
    )
    for record in batch.records():
        builder.append(record.timestamp, record.key, record.value, record.headers)
    return builder.build()
