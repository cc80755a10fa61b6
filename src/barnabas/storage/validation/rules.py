"""The rules that a batch must fulfil to be stored: one pure function a rule, in the order in which Kafka checks.

`HEADER_RULES` look at a batch's header and bytes, `RECORD_RULES` at each record. A new rule is a function here and its
line in one of the two lists; nothing else has to know it.

Nearly all batches break no rule, so two shortcuts stand before the lists. `is_ordinary` answers for all header rules at
once, and the extremes of a batch's timestamps and keys (`CheckedRecords`) for all record rules. Only a batch that a
shortcut does not let pass goes through the list, which finds what is wrong, or that nothing is. A rule that a shortcut
does not cover switches the shortcut off, so that every batch runs through the whole list: that is right from the first
day, and slow; cover it there once it is worth it, and name it in `COVERED_HEADER_RULES` or `COVERED_RECORD_RULES`.

An example: a client sends a batch with base offset 5 and a wrong checksum. `is_ordinary` sees the 5 and returns False
without computing a checksum. The list begins with `base_offset_is_zero`, which raises INVALID_RECORD: the answer is
Kafka's, which looks at the offset before the checksum.
Kafka: UnifiedLog.analyzeAndValidateRecords, LogValidator.validateBatch, LogValidator.validateRecord.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.compression import Codec
from barnabas.records.crc import crc32c
from barnabas.records.record_batch import (
    ATTRIBUTES_POSITION,
    CODEC_MASK,
    HEADER_SIZE,
    NO_TIMESTAMP,
    BatchHeader,
    is_whole_batch,
)
from barnabas.records.v2.walk import Record
from barnabas.runtime.files import Buffer
from barnabas.storage.log_append_info import AppendOrigin, RefusedBatch

if TYPE_CHECKING:
    from mypy_extensions import i64

UNLIMITED_MS: Final = 2**63 - 1
MOST_PIECES: Final = 16 * 1024
"""The most members or blocks of a batch. A writer that ends one with each record of a batch makes fewer."""
LARGE_BATCHES: Final = threading.Lock()
"""Held while more than 1 MB of records are validated, or a compressed message set that may hold so much.

It is taken before the lock of a log, and never on a network thread, which leaves such batches to a handler. No other
lock is taken under it.
"""
_ORDINARY_ATTRIBUTES: Final = 0x17
"""Those of a codec and of a transaction."""
_LAST_CODEC: Final = 4
"""`Codec.ZSTD`."""

_CLIENT: Final = AppendOrigin.CLIENT


class TopicTerms(NamedTuple):
    """The demands of a topic's settings. before and after_max_ms: how far a timestamp may be from the clock."""

    topic_partition: TopicPartition
    max_message_bytes: int
    is_compacted: bool
    stamps_append_time: bool
    before_max_ms: int
    after_max_ms: int

    @property
    def limits_records(self) -> bool:
        """Whether single records may break a rule."""
        limits_times = not self.stamps_append_time and min(self.before_max_ms, self.after_max_ms) < UNLIMITED_MS
        return self.is_compacted or limits_times


class ProducedBatch(NamedTuple):
    """A batch that asks to be appended. view: its bytes, and those behind it in the request, if there are any."""

    header: BatchHeader
    view: Buffer
    origin: AppendOrigin


class RecordCase(NamedTuple):
    """The facts that a record rule knows beside the record.

    checks_time: False for batches of brokers. is_stamped: the batch's producer claims append time. is_control: the
    record is a marker.
    """

    now_ms: int
    checks_time: bool
    is_stamped: bool
    is_control: bool


class BlamedRecord(NamedTuple):
    """The reason to reject a record. code: INVALID_TIMESTAMP outweighs INVALID_RECORD when records differ."""

    code: ErrorCode
    message: str


HeaderRule = Callable[[ProducedBatch, TopicTerms], None]
RecordRule = Callable[[Record, RecordCase, TopicTerms], BlamedRecord | None]


def is_ordinary(header: BatchHeader, available: i64, covered: Buffer, max_message_bytes: i64) -> bool:
    """Return whether a batch, one of `available` bytes, breaks none of `COVERED_HEADER_RULES`.

    covered: what its checksum covers.
    """
    # One expression, ordered by cost: every produced batch comes through here.
    return (
        header.length == available
        and header.attributes & _ORDINARY_ATTRIBUTES == header.attributes
        and header.attributes & CODEC_MASK <= _LAST_CODEC
        and header.count == header.last_offset_delta + 1
        and header.count > 0
        and header.base_offset == 0
        and (header.producer_id < 0 or header.base_sequence >= 0)
        and available <= max_message_bytes
        and crc32c(covered) == header.crc
    )


# -- rules for headers


def base_offset_is_zero(batch: ProducedBatch, terms: TopicTerms) -> None:
    """Check that a client's batch begins at offset 0. Raises ApiError: INVALID_RECORD when not."""
    if batch.origin is _CLIENT and batch.header.base_offset:
        raise ApiError(
            ErrorCode.INVALID_RECORD,
            f"The baseOffset of the record batch in the append to {terms.topic_partition} should be 0,"
            f" but it is {batch.header.base_offset}",
        )


def is_small_enough(batch: ProducedBatch, terms: TopicTerms) -> None:
    """Check the size. Raises ApiError: MESSAGE_TOO_LARGE when the batch is larger than `max.message.bytes`."""
    if batch.header.length > terms.max_message_bytes:
        raise too_large(batch.header.length, terms)


def checksum_is_right(batch: ProducedBatch, terms: TopicTerms) -> None:
    """Check the checksum.

    Raises RefusedBatch: CORRUPT_MESSAGE when the checksum is wrong, or the batch smaller than its header.
    """
    size = batch.header.length
    if size < HEADER_SIZE or crc32c(batch.view[ATTRIBUTES_POSITION:size]) != batch.header.crc:
        raise corrupt(f"stored crc = {batch.header.crc}", terms)


def codec_exists(batch: ProducedBatch, terms: TopicTerms) -> None:
    """Check the codec. Raises ApiError: UNSUPPORTED_COMPRESSION_TYPE when there is none of this number.

    Kafka lets an exception through here and answers UNKNOWN_SERVER_ERROR.
    """
    if batch.header.codec_id > Codec.ZSTD:
        text = f"Unknown compression type id: {batch.header.codec_id}"
        raise ApiError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, text)


def is_alone(batch: ProducedBatch, terms: TopicTerms) -> None:
    """Check that no second whole batch follows. Raises ApiError: INVALID_RECORD when one does.

    Bytes behind the batch that are no whole batch are cut off later.
    """
    size = batch.header.length
    if size != len(batch.view) and is_whole_batch(batch.view, size):
        raise ApiError(ErrorCode.INVALID_RECORD, "Compressed outer record has more than one batch")


def offsets_go_forward(batch: ProducedBatch, terms: TopicTerms) -> None:
    """Check the range of offsets. Raises RefusedBatch: INVALID_RECORD when a client's batch ends before it begins."""
    if batch.origin is _CLIENT and batch.header.last_offset_delta < 0:
        raise invalid(f"Batch has an invalid offset range: {_span(batch.header)}", terms)


def count_is_positive(batch: ProducedBatch, terms: TopicTerms) -> None:
    """Check the count. Raises RefusedBatch: INVALID_RECORD when a client's batch claims no record, or fewer."""
    if batch.origin is _CLIENT and batch.header.count <= 0:
        raise invalid(f"Invalid reported count for record batch: {batch.header.count}", terms)


def count_matches_offsets(batch: ProducedBatch, terms: TopicTerms) -> None:
    """Check that a client's batch has one offset for each record. Raises RefusedBatch: INVALID_RECORD when not."""
    header = batch.header
    if batch.origin is _CLIENT and header.last_offset_delta + 1 != header.count:
        text = f"Inconsistent batch offset range {_span(header)} and count of records {header.count}"
        raise invalid(text, terms)


def is_data(batch: ProducedBatch, terms: TopicTerms) -> None:
    """Check that a client sends no control batch. Raises RefusedBatch: INVALID_RECORD when it does."""
    if batch.origin is _CLIENT and batch.header.is_control:
        raise invalid("Clients are not allowed to write control records", terms)


def producer_has_sequence(batch: ProducedBatch, terms: TopicTerms) -> None:
    """Check that a client's batch with a producer id has a sequence number.

    Raises RefusedBatch: INVALID_RECORD when it has none.
    """
    header = batch.header
    if batch.origin is _CLIENT and header.producer_id >= 0 > header.base_sequence:
        sequence, producer = header.base_sequence, header.producer_id
        raise invalid(f"Invalid sequence number {sequence} in record batch with producerId {producer}", terms)


HEADER_RULES: Final[tuple[HeaderRule, ...]] = (
    base_offset_is_zero,
    is_small_enough,
    checksum_is_right,
    codec_exists,
    is_alone,
    offsets_go_forward,
    count_is_positive,
    count_matches_offsets,
    is_data,
    producer_has_sequence,
)
"""In Kafka's order, which decides what a batch with several faults is answered."""

COVERED_HEADER_RULES: Final = frozenset(
    {
        base_offset_is_zero,
        is_small_enough,
        checksum_is_right,
        codec_exists,
        is_alone,
        offsets_go_forward,
        count_is_positive,
        count_matches_offsets,
        is_data,
        producer_has_sequence,
    }
)
"""The rules that `is_ordinary` answers for, named one by one: a rule that nothing covers must run for every batch."""


# -- rules for records


def has_key(record: Record, case: RecordCase, terms: TopicTerms) -> BlamedRecord | None:
    """Blame a record without a key in a compacted topic."""
    if not terms.is_compacted or case.is_control or record.key is not None:
        return None
    text = f"Compacted topic cannot accept message without key in topic partition {terms.topic_partition}"
    return BlamedRecord(ErrorCode.INVALID_RECORD, text)


def has_permitted_time(record: Record, case: RecordCase, terms: TopicTerms) -> BlamedRecord | None:
    """Blame a record whose timestamp is too far from the clock, or whose producer set append time."""
    if not case.checks_time:
        return None
    timestamp = record.timestamp
    if terms.stamps_append_time or timestamp == NO_TIMESTAMP:
        if not case.is_stamped:
            return None
        return BlamedRecord(ErrorCode.INVALID_TIMESTAMP, append_time_of_client(record))
    earliest, latest = case.now_ms - terms.before_max_ms, case.now_ms + terms.after_max_ms
    # No limit is no limit for timestamps before 0 either, whose difference to the clock does not fit 64 bits.
    if (earliest <= timestamp or terms.before_max_ms == UNLIMITED_MS) and timestamp <= latest:
        return None
    text = (
        f"Timestamp {timestamp} of message with offset {record.offset} is out of range. The timestamp should"
        f" be within [{earliest}, {latest}]"
    )
    return BlamedRecord(ErrorCode.INVALID_TIMESTAMP, text)


RECORD_RULES: Final[tuple[RecordRule, ...]] = (has_key, has_permitted_time)
"""In Kafka's order: the first that blames a record gives the reason."""

COVERED_RECORD_RULES: Final = frozenset({has_key, has_permitted_time})
"""The rules for which the summary of a batch tells whether any of its records can break them. Named one by one."""


# -- texts of Kafka's


def too_large(size: int, terms: TopicTerms) -> ApiError:
    """Return MESSAGE_TOO_LARGE for a batch as it was produced."""
    return ApiError(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"The record batch size in the append to {terms.topic_partition} is {size} bytes which exceeds the maximum"
        f" configured value of {terms.max_message_bytes}.",
    )


def corrupt(why: str, terms: TopicTerms) -> ApiError:
    """Return CORRUPT_MESSAGE with its reason."""
    text = f"Record is corrupt ({why}) in topic partition {terms.topic_partition}."
    return RefusedBatch(ErrorCode.CORRUPT_MESSAGE, text, "invalid_message_crc_records")


def invalid(why: str, terms: TopicTerms, counter: str = "invalid_offset_or_sequence_records") -> ApiError:
    """Return INVALID_RECORD with its reason. counter: the one of BrokerTopicStats that counts this refusal."""
    return RefusedBatch(ErrorCode.INVALID_RECORD, f"{why} in topic partition {terms.topic_partition}", counter)


def append_time_of_client(record: Record) -> str:
    """Return the text for a record that its producer stamped with append time, which only the broker may do."""
    shown = (
        f"DefaultRecord(offset={record.offset}, timestamp={record.timestamp}, key={len(record.key or b'')} bytes,"
        f" value={len(record.value or b'')} bytes)"
    )
    return f"Invalid timestamp type in message {shown}. Producer should not set timestamp type to LogAppendTime."


def _span(header: BatchHeader) -> str:
    return f"[{header.base_offset}, {header.base_offset + header.last_offset_delta}]"
