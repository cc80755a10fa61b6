"""What validation asks of single records: a key where the topic is compacted, a timestamp within the topic's limits.

Part of LogValidator, for the batches it must look into. Pure. Kafka: LogValidator.validateRecord.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.errors import CorruptRecord
from barnabas.records.record_batch import NO_TIMESTAMP, TIMESTAMP_TYPE_MASK, RecordBatch
from barnabas.records.record_reader import Record
from barnabas.storage.log_append_info import InvalidRecords, RecordError
from barnabas.storage.validation.record_scan import scan_records

UNLIMITED_MS: Final = 2**63 - 1
_MIN_LONG, _MAX_LONG = -(2**63), 2**63 - 1


class CheckedRecords(NamedTuple):
    """What the records of a batch turned out to be; `body` are they, decompressed."""

    max_timestamp: int
    offsets_consecutive: bool
    body: bytes


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
        body = batch.decompressed_records()
        summary = scan_records(body, batch.count)
        stamped = batch.attributes & TIMESTAMP_TYPE_MASK
        if stamped:
            earliest = latest = batch.max_timestamp
        else:
            earliest = batch.base_timestamp + summary.min_timestamp_delta
            latest = batch.base_timestamp + summary.max_timestamp_delta
            if earliest < _MIN_LONG or latest > _MAX_LONG:
                raise CorruptRecord(f"timestamps from {earliest} to {latest} do not fit 64 bits")
        keys_needed = self._compacted and not batch.is_control
        if (keys_needed and summary.has_null_key) or (
            strict and self._is_suspicious(earliest, latest, now_ms, stamped)
        ):
            self._refuse_records(batch, now_ms, keys_needed=keys_needed, check_time=strict)
        return CheckedRecords(latest, summary.offsets_consecutive, body)

    def allow(self, earliest: int, latest: int, now_ms: int, *, null_key: bool) -> bool:
        """Whether records from `earliest` to `latest` of a client that stamped them itself need no closer look."""
        return not (self._compacted and null_key) and not self._is_suspicious(earliest, latest, now_ms, 0)

    def _is_suspicious(self, earliest: int, latest: int, now_ms: int, stamped: int) -> bool:
        """Whether a look at the single timestamps may find one to refuse."""
        if self._append_time:
            return bool(stamped)
        if stamped and latest == NO_TIMESTAMP:
            return True
        return earliest < now_ms - self._before_max_ms or latest > now_ms + self._after_max_ms

    def _refuse_records(self, batch: RecordBatch, now_ms: int, *, keys_needed: bool, check_time: bool) -> None:
        """Raise InvalidRecords that names the records to blame; those without a timestamp are, if at all, for a key."""
        stamped = bool(batch.attributes & TIMESTAMP_TYPE_MASK)
        errors: list[RecordError] = []
        without_key = 0
        for index, record in enumerate(batch.records()):
            if keys_needed and record.key is None:
                without_key += 1
                why = f"Compacted topic cannot accept message without key in topic partition {self._topic_partition}"
                errors.append((index, why))
            elif check_time and (text := self._wrong_time(record, now_ms, stamped=stamped)) is not None:
                errors.append((index, text))
        if len(errors) > without_key:
            text = "One or more records have been rejected due to invalid timestamp"
            raise InvalidRecords(ErrorCode.INVALID_TIMESTAMP, text, errors, without_key)
        if errors:
            raise InvalidRecords(ErrorCode.INVALID_RECORD, _summary(errors), errors, without_key)

    def _wrong_time(self, record: Record, now_ms: int, *, stamped: bool) -> str | None:
        """Why a record's timestamp is refused (Kafka: validateTimestamp)."""
        timestamp = record.timestamp
        if not self._append_time and timestamp != NO_TIMESTAMP:
            earliest, latest = now_ms - self._before_max_ms, now_ms + self._after_max_ms
            if earliest <= timestamp <= latest:
                return None
            return (
                f"Timestamp {timestamp} of message with offset {record.offset} is out of range. The timestamp should"
                f" be within [{earliest}, {latest}]"
            )
        return append_time_of_client(record) if stamped else None


def append_time_of_client(record: Record) -> str:
    """The text for a record that its producer stamped with append time, which is the broker's to do."""
    shown = (
        f"DefaultRecord(offset={record.offset}, timestamp={record.timestamp}, key={len(record.key or b'')} bytes,"
        f" value={len(record.value or b'')} bytes)"
    )
    return f"Invalid timestamp type in message {shown}. Producer should not set timestamp type to LogAppendTime."


def _summary(errors: list[RecordError]) -> str:
    shown = ", ".join(f"RecordError(batchIndex={index}, message='{message}')" for index, message in errors[:3])
    return (
        f"One or more records have been rejected due to {len(errors)} record errors in total, and only showing the"
        f" first three errors at most: [{shown}]"
    )
