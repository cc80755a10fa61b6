"""Checks message sets of magic 0 and 1, which old clients produce, and makes one batch of magic 2 of each.

Called by LogValidator on the appending thread; a slow path by nature, since every message is rebuilt. Immutable.
Late: imported with the first message set, on a handler thread.
Kafka: LogValidator.convertAndAssignOffsetsNonCompressed, LogValidator.validateMessagesAndAssignOffsetsCompressed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from barnabas.records.errors import CorruptRecord, InvalidMessageSet
from barnabas.records.legacy_records import MIN_MESSAGE_SIZE, LegacyBatch, legacy_batches
from barnabas.records.record_batch import (
    CODEC_MASK,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC_POSITION,
    NO_TIMESTAMP,
    is_whole_batch,
)
from barnabas.records.record_conversion import up_convert
from barnabas.records.v2.walk import Record
from barnabas.runtime.clock import Clock
from barnabas.runtime.files import Buffer
from barnabas.storage.validation.rebuilt_batches import (
    StorableBatch,
    TargetCompression,
    negative_timestamp,
    stored_as_rebuilt,
)
from barnabas.storage.validation.record_rules import RecordRules
from barnabas.storage.validation.rules import (
    LARGE_BATCHES,
    MOST_PIECES,
    RecordCase,
    TopicTerms,
    corrupt,
    invalid,
    too_large,
)

_SMALL_WRAPPER_BYTES: Final = 1024
_MANY_MESSAGES_BYTES: Final = 128 * 1024
"""Up to 5,000 messages, of which each is checked and written anew: 0.1 s. Several threads at that work would only keep
the interpreter from the network threads."""


class LegacyValidator:
    """The part of LogValidator that knows the old formats. target: None keeps the producer's codec."""

    __slots__ = ("_clock", "_record_rules", "_target", "_terms")

    def __init__(
        self, terms: TopicTerms, target: TargetCompression | None, record_rules: RecordRules, clock: Clock
    ) -> None:
        self._terms = terms
        self._target = target
        self._record_rules = record_rules
        self._clock = clock

    def validate(self, records: Buffer) -> StorableBatch | None:
        """Check a message set and convert it, or return None when there is not even one whole message.

        Raises ApiError: CORRUPT_MESSAGE for what is no message set, INVALID_RECORD, MESSAGE_TOO_LARGE; InvalidRecords
        when single records are to blame.
        """
        if not is_whole_batch(records, 0):
            return None
        if records[MAGIC_POSITION] >= 2:
            raise corrupt(
                f"{len(records)} bytes of magic {records[MAGIC_POSITION]} are not a record batch", self._terms
            )
        if may_be_large(records):
            with LARGE_BATCHES:
                return self._convert(records)
        return self._convert(records)

    def _convert(self, records: Buffer) -> StorableBatch:
        """Check a message set and convert it. Raises what `validate` raises."""
        now_ms = self._clock.milliseconds()
        started_ns = self._clock.nanoseconds()
        append_time = now_ms if self._terms.stamps_append_time else None
        try:
            end = self._check_messages(records, now_ms)
            data = up_convert(
                records[:end],
                codec=None if self._target is None else self._target.codec,
                compression_level=None if self._target is None else self._target.level,
                log_append_time=append_time,
            )
        except InvalidMessageSet as error:
            raise invalid(str(error), self._terms, "invalid_magic_number_records") from None
        except CorruptRecord as error:
            raise corrupt(str(error), self._terms) from None
        stamp = NO_TIMESTAMP if append_time is None else append_time
        return stored_as_rebuilt(data, stamp, self._terms, self._clock.nanoseconds() - started_ns)

    def _check_messages(self, records: Buffer, now_ms: int) -> int:
        """Check the outer messages and their records; return where the last whole message ends.

        Raises CorruptRecord and what `validate` raises.
        """
        # Read again below: a list of 80,000 messages would take 30 MB, and the interpreter for 30 ms to free it.
        first = message = LegacyBatch(records)
        suspect: LegacyBatch | None = None
        for message in legacy_batches(records):
            if message.length > self._terms.max_message_bytes:
                raise too_large(message.length, self._terms)
            message.check()
            if suspect is None and message.position and _is_suspect(message, first):
                suspect = message
        end = message.end
        _check_trailing_bytes(records, end)
        if suspect is not None:
            self._check_unity(first, suspect)
        for message in legacy_batches(records):
            is_stamped = message.timestamp_type == LOG_APPEND_TIME
            case = RecordCase(now_ms, checks_time=True, is_stamped=is_stamped, is_control=False)
            self._record_rules.check_records(self._with_possible_times(message), case)
        return end

    def _check_unity(self, first: LegacyBatch, message: LegacyBatch) -> None:
        """Check that both may stand in one set. Raises what `validate` raises."""
        if message.magic != first.magic:
            text = f"Batch magic {message.magic} is not the same as the first batch's magic byte {first.magic}"
            raise invalid(text, self._terms, "invalid_magic_number_records")
        # Kafka takes many plain messages in one set, but only one wrapper.
        if first.codec or message.codec:
            raise invalid("Compressed outer record has more than one batch", self._terms)

    def _with_possible_times(self, message: LegacyBatch) -> Iterator[Record]:
        """Yield the records of a message. Raises InvalidRecords: INVALID_TIMESTAMP for one before -1, which is none.

        Kafka comes to such a timestamp when it rebuilds the message, and answers UNKNOWN_SERVER_ERROR.
        """
        for record in message.records(limit_pieces=MOST_PIECES):
            if record.timestamp < NO_TIMESTAMP and not self._terms.stamps_append_time:
                raise negative_timestamp(record.timestamp)
            yield record


def _is_suspect(message: LegacyBatch, first: LegacyBatch) -> bool:
    """Return whether a message may not stand behind the first one: it has another format, or one of them a codec."""
    return message.magic != first.magic or bool((message.attributes | first.attributes) & CODEC_MASK)


def _check_trailing_bytes(records: Buffer, position: int) -> None:
    """Check the bytes behind the last whole message. Raises CorruptRecord when they begin no message.

    A message that is cut off is dropped, as in Kafka.
    """
    rest = len(records) - position
    if rest < LOG_OVERHEAD:
        return
    size = int.from_bytes(records[position + 8 : position + LOG_OVERHEAD], "big", signed=True)
    if size < MIN_MESSAGE_SIZE[0]:
        raise CorruptRecord(f"a message claims a size of {size} bytes, less than its header")
    if rest > MAGIC_POSITION and records[position + MAGIC_POSITION] > 2:
        raise CorruptRecord(f"Invalid magic found in record: {records[position + MAGIC_POSITION]}")


def may_be_large(records: Buffer) -> bool:
    """Return whether a message set may hold more than 1 MB once it is decompressed, or very many messages."""
    if len(records) <= max(_SMALL_WRAPPER_BYTES, MAGIC_POSITION + 1):
        return False
    # The first message suffices: a compressed one must be the only one. Gzip, the strongest codec of these formats,
    # makes 1 MB of 1 KB.
    return len(records) > _MANY_MESSAGES_BYTES or bool(records[MAGIC_POSITION + 1] & CODEC_MASK)
