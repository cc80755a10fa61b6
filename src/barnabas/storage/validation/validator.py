"""Checks what a leader is asked to append and brings it into the form in which it is stored.

One per log and configuration, immutable, called by `UnifiedLog.append_as_leader` on the appending thread, before the
log's lock is taken.

How a batch goes through, with the settings that make it stop on the way:

    message set of magic 0 or 1 ------------------------------------> legacy: one batch of magic 2
    the rules for headers: all batches
    record.validation=full (the default), compaction, time limits --> every record is read
    another codec than the topic's ---------------------------------> read, then compressed anew
    record.validation=framing --------------------------------------> records of uncompressed batches are counted
    message.timestamp.type=LogAppendTime ---------------------------> the header is stamped
    none of these --------------------------------------------------> stored as it is

A worked example. A topic of default settings gets three records in gzip, whose header says that the largest timestamp
is 900. The header's rules hold. The records are decompressed and read: timestamps 700, 850 and 800, offset deltas 0, 1
and 2, no bytes left over. So the stored batch keeps its compressed records, and gets a header with the timestamp 850
and the checksum that belongs to it. With offset deltas 0, 5 and 2 it would be refused: Kafka, too, stores no compressed
batch with gaps, while an uncompressed one keeps them.
Kafka: UnifiedLog.analyzeAndValidateRecords, LogValidator.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from barnabas.config.log_config import LogConfig
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.batch_header import CODEC_MASK, HEADER_SIZE, LOG_OVERHEAD, TIMESTAMP_TYPE_MASK, BatchHeader
from barnabas.records.compression import Codec, decompress
from barnabas.records.errors import CorruptRecord, DecompressedTooLarge
from barnabas.records.record_batch import NO_TIMESTAMP
from barnabas.records.record_framing import count_records
from barnabas.runtime.clock import Clock
from barnabas.runtime.files import Buffer
from barnabas.storage.log_append_info import AppendOrigin
from barnabas.storage.validation.legacy import LegacyValidator
from barnabas.storage.validation.rebuild import TargetCompression, re_encoded, with_append_time, with_create_time
from barnabas.storage.validation.record_rules import ReadBatch, RecordRules, TimeSpan
from barnabas.storage.validation.record_scan import scan_records
from barnabas.storage.validation.rules import (
    COVERED_HEADER_RULES,
    HEADER_RULES,
    UNLIMITED_MS,
    ProducedBatch,
    TopicTerms,
    invalid,
    is_ordinary,
)
from barnabas.storage.validation.storable_batch import StorableBatch, stored_as_produced

MANY_RECORDS: Final = 2000
"""Reading this number takes about a millisecond; two or three with headers, a fifth if all have the same shape."""
AT_ONCE_BYTES: Final = 1 << 20
"""Decompressing and reading this size takes a millisecond or two."""

_COORDINATOR: Final = AppendOrigin.COORDINATOR


class LookAhead(NamedTuple):
    """The cost of validating a batch; if it is small and the batch had to be decompressed, `body` are its records."""

    takes_long: bool
    body: bytes | None = None


class LogValidator:
    """The validation of one topic's batches, planned once from the settings."""

    __slots__ = (
        "_clock",
        "_counts",
        "_keeps_bytes",
        "_keeps_form",
        "_legacy",
        "_max_message_bytes",
        "_reads",
        "_record_rules",
        "_rules_without_shortcut",
        "_target",
        "_terms",
    )

    def __init__(self, config: LogConfig, topic_partition: TopicPartition, clock: Clock) -> None:
        append_time = config.message_timestamp_type == "LogAppendTime"
        before_ms, after_ms = config.message_timestamp_before_max_ms, config.message_timestamp_after_max_ms
        compacted = "compact" in config.cleanup_policy
        terms = TopicTerms(topic_partition, config.max_message_bytes, compacted, append_time, before_ms, after_ms)
        self._clock = clock
        self._terms = terms
        self._max_message_bytes = config.max_message_bytes
        self._target = TargetCompression.of(config)
        self._record_rules = RecordRules(terms)
        self._legacy = LegacyValidator(terms, self._target, self._record_rules, clock)
        self._rules_without_shortcut = not COVERED_HEADER_RULES.issuperset(HEADER_RULES)
        self._reads = config.record_validation == "full" or compacted or self._record_rules.run_always
        """Whether every record is read."""
        # The header tells the latest timestamp and not the earliest: a limit to the past needs a look at every record.
        if not append_time and before_ms < UNLIMITED_MS:
            self._reads = True
        self._counts = config.record_validation == "framing"
        self._keeps_form = not append_time and self._target is None
        """Whether a batch keeps its codec and its timestamps."""
        self._keeps_bytes = self._keeps_form and not (terms.limits_records or self._record_rules.run_always)
        """Whether `_keeps_form` holds and no setting limits single records: most batches are stored as they are."""

    def validate(
        self,
        records: Buffer | None,
        origin: AppendOrigin,
        header: BatchHeader | None = None,
        body: bytes | None = None,
    ) -> StorableBatch | None:
        """Check `records`, which must hold one batch (or a message set of an old client).

        header: what the caller has read of the batch already; body: its records, if the caller has decompressed them.
        None is returned when there is not even one whole batch. Bytes behind the batch that are no whole batch are
        dropped, as Kafka does. Raises ApiError with the codes of `rules`: InvalidRecords when records are to blame.
        """
        if records is None:
            return None
        if header is None:
            header = BatchHeader.parse(records)
            if header is None:
                return self._legacy.validate(records)
        size = header.length + LOG_OVERHEAD
        if size > len(records):
            return None
        view = records if type(records) is memoryview else memoryview(records)
        # A coordinator's batch was made by this broker a moment ago: it breaks no rule.
        if origin is _COORDINATOR and self._keeps_form:
            return stored_as_produced(header, view, size)
        if self._rules_without_shortcut or not is_ordinary(header, view, size, self._max_message_bytes):
            self._check_header(ProducedBatch(header, view, origin))
        if self._reads:
            return self._read(header, view, origin, body)
        if self._counts and not header.attributes & CODEC_MASK:
            self._count(header, view, size)
        if self._keeps_bytes and not header.attributes & TIMESTAMP_TYPE_MASK:
            return stored_as_produced(header, view, size)
        return self._apply_settings(header, view, origin, body)

    def look_ahead(self, records: memoryview, header: BatchHeader) -> LookAhead:
        """Find out whether validating a batch takes milliseconds, which a network thread does not have.

        That is another codec, or a look at many records, or into compressed ones that are large: 9 KB of zstd can be
        200 MB. Compressed records that are small are decompressed here, since nothing else tells how many they are.
        """
        codec = header.codec_id
        if self._target is not None and self._target.codec != codec:
            return LookAhead(takes_long=True)
        if not self._reads:
            return LookAhead(takes_long=False)
        # The count is not checked yet. A batch that holds more than it claims costs no more: reading ends there.
        if header.record_count > MANY_RECORDS:
            return LookAhead(takes_long=True)
        if not codec or codec > Codec.ZSTD or not HEADER_SIZE <= header.size <= len(records):
            return LookAhead(takes_long=False)
        try:
            return LookAhead(False, decompress(Codec(codec), records[HEADER_SIZE : header.size], AT_ONCE_BYTES))
        except DecompressedTooLarge:
            return LookAhead(takes_long=True)
        except CorruptRecord:
            # `validate` comes to the same end, and answers with the reason.
            return LookAhead(takes_long=False)

    # -- steps

    def _check_header(self, batch: ProducedBatch) -> None:
        """Run the rules for headers in their order. Raises ApiError of the first that is broken."""
        for rule in HEADER_RULES:
            rule(batch, self._terms)

    def _count(self, header: BatchHeader, view: memoryview, size: int) -> None:
        """Count the records of an uncompressed batch. Raises RefusedBatch: INVALID_RECORD when the header lies."""
        try:
            counted = count_records(view, HEADER_SIZE, size)
        except CorruptRecord as error:
            raise invalid(str(error), self._terms) from None
        if counted != header.record_count:
            raise invalid(f"The batch holds {counted} records, its header says {header.record_count}", self._terms)

    def _apply_settings(
        self, header: BatchHeader, view: memoryview, origin: AppendOrigin, body: bytes | None
    ) -> StorableBatch:
        """Bring a batch whose records need not be read into the form that the topic's settings want.

        Raises ApiError when the settings make a look at the records necessary, and these are wrong.
        """
        target = self._target
        if header.is_stamped or (target is not None and target.codec != header.codec_id):
            return self._read(header, view, origin, body)
        if self._terms.stamps_append_time:
            return with_append_time(header, view, self._clock.milliseconds())
        # The max timestamp in the header may be wrong, so a batch that seems too new is read: only a record that is too
        # new is to blame.
        after_ms = self._terms.after_max_ms
        if after_ms != UNLIMITED_MS and header.max_timestamp - self._clock.milliseconds() > after_ms:
            return self._read(header, view, origin, body)
        return stored_as_produced(header, view, header.size)

    def _read(self, header: BatchHeader, view: memoryview, origin: AppendOrigin, body: bytes | None) -> StorableBatch:
        """Read every record, and bring the batch into the form in which it is stored.

        Raises RefusedBatch: INVALID_RECORD when the records cannot be read; InvalidRecords when some are to blame.
        """
        codec = header.attributes & CODEC_MASK
        size = header.length + LOG_OVERHEAD
        try:
            if body is None:
                body = bytes(view[HEADER_SIZE:size]) if not codec else decompress(Codec(codec), view[HEADER_SIZE:size])
            summary = scan_records(body, header.record_count)
            # What nearly all batches are: nothing is to be looked up in the settings, nothing to be changed.
            if (
                self._keeps_bytes
                and header.base_timestamp + summary.max_timestamp_delta == header.max_timestamp
                and not header.attributes & TIMESTAMP_TYPE_MASK
                and header.base_timestamp + summary.min_timestamp_delta >= NO_TIMESTAMP
                and (summary.offsets_consecutive or not codec)
            ):
                return stored_as_produced(header, view, size)
            read = ReadBatch(header, body, summary, TimeSpan.of(header, summary))
            now_ms = self._clock.milliseconds()
            self._record_rules.check(read, now_ms, origin)
        except CorruptRecord as error:
            raise invalid(str(error), self._terms) from None
        return self._to_stored_form(read, view, now_ms)

    def _to_stored_form(self, read: ReadBatch, view: memoryview, now_ms: int) -> StorableBatch:
        """Bring a batch whose records are right into the form in which it is stored.

        Raises RefusedBatch: INVALID_RECORD when a compressed batch that is to keep its bytes has gaps in its offsets;
        ApiError: MESSAGE_TOO_LARGE when the batch has become too large.
        """
        header = read.header
        target = TargetCompression(Codec(header.codec_id)) if self._target is None else self._target
        if not header.is_control:
            if target.codec != header.codec_id:
                return re_encoded(read, target, self._terms, self._clock)
            if header.codec_id and not read.summary.offsets_consecutive:
                # Kafka wants to rebuild such a batch, fails, and answers UNKNOWN_SERVER_ERROR.
                raise invalid("Offset deltas of a compressed batch do not count from 0", self._terms)
        if self._terms.stamps_append_time:
            return with_append_time(header, view, now_ms)
        return with_create_time(header, view, max(read.span.latest, NO_TIMESTAMP))
