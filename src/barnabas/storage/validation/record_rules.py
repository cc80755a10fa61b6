"""Applies the rules for records to a batch: by its summary if that suffices, else record by record. Pure.

Called by LogValidator on the appending thread. Kafka: LogValidator.validateRecord, LogValidator.processRecordErrors.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from barnabas.protocol.errors import ErrorCode
from barnabas.records.errors import CorruptRecord
from barnabas.records.record_batch import NO_TIMESTAMP, BatchHeader
from barnabas.records.v2.walk import CheckedRecords, Record, read_records
from barnabas.storage.log_append_info import AppendOrigin, InvalidRecords, RecordError
from barnabas.storage.validation.rules import (
    COVERED_RECORD_RULES,
    RECORD_RULES,
    UNLIMITED_MS,
    RecordCase,
    TopicTerms,
    has_key,
)

_MIN_LONG: Final = -(2**63)
_MAX_LONG: Final = 2**63 - 1


class ReadBatch:
    """A batch whose records have been read. body: the records, decompressed. earliest, latest: their timestamps.

    The constructor raises CorruptRecord when a timestamp does not fit 64 bits.
    """

    __slots__ = ("body", "earliest", "header", "latest", "summary")

    def __init__(self, header: BatchHeader, body: bytes, summary: CheckedRecords) -> None:
        self.header = header
        self.body = body
        self.summary = summary
        # `int` and not machine integers, whose sums would wrap.
        base: int = header.base_timestamp
        first: int = summary.min_timestamp_delta
        last: int = summary.max_timestamp_delta
        self.earliest: int = base + first
        self.latest: int = base + last
        if header.is_stamped:
            self.earliest = self.latest = header.max_timestamp
        elif self.earliest < _MIN_LONG or self.latest > _MAX_LONG:
            raise CorruptRecord(f"timestamps from {self.earliest} to {self.latest} do not fit 64 bits")


class RecordRules:
    """The rules for records of one topic. Immutable. run_always: there are rules that no summary answers for."""

    __slots__ = ("_terms", "run_always")

    def __init__(self, terms: TopicTerms) -> None:
        self._terms = terms
        self.run_always = not COVERED_RECORD_RULES.issuperset(RECORD_RULES)

    def check(self, read: ReadBatch, now_ms: int, origin: AppendOrigin) -> None:
        """Check the records of a batch of magic 2.

        Raises InvalidRecords: INVALID_RECORD or INVALID_TIMESTAMP with an entry for each record to blame, and
        CorruptRecord when the records cannot be decoded.
        """
        header = read.header
        case = _case(read, now_ms, origin)
        if self.run_always or self._may_break_a_rule(read, case):
            append_time = header.max_timestamp if case.is_stamped else None
            records = read_records(read.body, header.count, header.base_offset, header.base_timestamp, append_time)
            self.check_records(records, case)

    def may_blame(self, read: ReadBatch, now_ms: int, origin: AppendOrigin) -> bool:
        """Return whether `check` looks at the records of a batch one by one; until then, `read.body` may be empty."""
        return self.run_always or self._may_break_a_rule(read, _case(read, now_ms, origin))

    def check_records(self, records: Iterable[Record], case: RecordCase) -> None:
        """Check each record. Raises InvalidRecords when one is to blame, CorruptRecord when one cannot be decoded."""
        errors: list[RecordError] = []
        worst = ErrorCode.INVALID_RECORD
        without_key = 0
        for index, record in enumerate(records):
            for rule in RECORD_RULES:
                blamed = rule(record, case, self._terms)
                if blamed is not None:
                    errors.append(RecordError(index, blamed.message))
                    without_key += rule is has_key
                    # Kafka answers INVALID_TIMESTAMP for the whole batch as soon as one record has that fault.
                    if blamed.code is ErrorCode.INVALID_TIMESTAMP:
                        worst = blamed.code
                    break
        if errors:
            raise InvalidRecords(worst, _text(worst, errors), errors, without_key)

    def _may_break_a_rule(self, read: ReadBatch, case: RecordCase) -> bool:
        """Return whether one of `COVERED_RECORD_RULES` may blame a record of the batch, by the batch's extremes."""
        terms = self._terms
        if terms.is_compacted and read.summary.has_null_key and not case.is_control:
            return True
        if not case.checks_time:
            return False
        if terms.stamps_append_time:
            return case.is_stamped
        # Records without a timestamp are within any limit, but may not claim append time.
        if case.is_stamped and read.latest == NO_TIMESTAMP:
            return True
        if read.latest > case.now_ms + terms.after_max_ms:
            return True
        return terms.before_max_ms != UNLIMITED_MS and read.earliest < case.now_ms - terms.before_max_ms


def _case(read: ReadBatch, now_ms: int, origin: AppendOrigin) -> RecordCase:
    header = read.header
    return RecordCase(now_ms, origin is AppendOrigin.CLIENT, header.is_stamped, header.is_control)


def _text(code: ErrorCode, errors: list[RecordError]) -> str:
    if code is ErrorCode.INVALID_TIMESTAMP:
        return "One or more records have been rejected due to invalid timestamp"
    shown = ", ".join(f"RecordError(batchIndex={error.batch_index}, message='{error.message}')" for error in errors[:3])
    return (
        f"One or more records have been rejected due to {len(errors)} record errors in total, and only showing the"
        f" first three errors at most: [{shown}]"
    )
