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

Sizes. Records of up to 1 MB are decompressed as a whole and read at once, on any thread. Larger ones are read in a
stream, a window of 1 MB at a time. They are in memory as a whole only where they must be encoded anew, or where single
records are to blame. Large batches are validated one after the other in the whole process (`LARGE_BATCHES`), so that
their sum is bounded as one is: eight requests of 7 KB may claim 256 MB each. A small batch never waits for the lock.
Kafka: UnifiedLog.analyzeAndValidateRecords, LogValidator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.config.config_key import LONG_MAX
from barnabas.config.log_config import LogConfig
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.compression import Codec, decompress, decompressed_pieces
from barnabas.records.crc import crc32c
from barnabas.records.errors import CorruptRecord, DecompressedTooLarge, TooManyPieces
from barnabas.records.record_batch import (
    ATTRIBUTES_POSITION,
    CODEC_MASK,
    HEADER_SIZE,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_MASK,
    BatchHeader,
)
from barnabas.records.v2.walk import count_records
from barnabas.runtime.clock import Clock
from barnabas.runtime.files import Buffer
from barnabas.storage.log_append_info import AppendOrigin
from barnabas.storage.validation.rebuilt_batches import (
    StorableBatch,
    TargetCompression,
    re_encoded,
    with_append_time,
    with_create_time,
)
from barnabas.storage.validation.record_rules import ReadBatch, RecordRules
from barnabas.storage.validation.record_scan import scan_pieces, scan_records
from barnabas.storage.validation.rules import (
    COVERED_HEADER_RULES,
    HEADER_RULES,
    LARGE_BATCHES,
    MOST_PIECES,
    UNLIMITED_MS,
    ProducedBatch,
    TopicTerms,
    invalid,
    is_ordinary,
    too_large,
)

if TYPE_CHECKING:
    from mypy_extensions import i64

MANY_RECORDS: Final = 2000
"""Reading this number takes about a millisecond; two or three with headers, a fifth if all have the same shape."""
AT_ONCE_BYTES: Final = 1 << 20
"""Decompressing and reading this size takes a millisecond or two."""
AT_ONCE_COMPRESSED_BYTES: Final = 16 * 1024
"""The largest compressed batch that a network thread decompresses."""
AT_ONCE_PIECES: Final = 64
"""The most members or blocks of one batch that a network thread decompresses."""
_COORDINATOR: Final = AppendOrigin.COORDINATOR
_view: Final = memoryview


class LookAhead:
    """The cost of validating a batch; if it is small and the batch had to be decompressed, `body` are its records."""

    __slots__ = ("body", "takes_long")

    def __init__(self, takes_long: bool, body: bytes | None = None) -> None:
        self.takes_long = takes_long
        self.body = body


_LONG: Final = LookAhead(takes_long=True)
_SHORT: Final = LookAhead(takes_long=False)


class LogValidator:
    """The validation of one topic's batches, planned once from the settings."""

    __slots__ = (
        "_clock",
        "_counts",
        "_flushes",
        "_keeps_bytes",
        "_kept_codecs",
        "_max_message_bytes",
        "_reads",
        "_record_rules",
        "_rules_without_shortcut",
        "_target",
        "_terms",
        "has_slow_settings",
    )

    def __init__(self, config: LogConfig, topic_partition: TopicPartition, clock: Clock) -> None:
        append_time = config.message_timestamp_type == "LogAppendTime"
        before_ms, after_ms = config.message_timestamp_before_max_ms, config.message_timestamp_after_max_ms
        compacted = "compact" in config.cleanup_policy
        terms = TopicTerms(topic_partition, config.max_message_bytes, compacted, append_time, before_ms, after_ms)
        self._clock = clock
        self._terms = terms
        self._max_message_bytes: i64 = config.max_message_bytes
        self._target = TargetCompression.of(config)
        self._record_rules = RecordRules(terms)
        self._rules_without_shortcut = not COVERED_HEADER_RULES.issuperset(HEADER_RULES)
        self._reads = config.record_validation == "full" or compacted or self._record_rules.run_always
        """Whether every record is read."""
        # The header tells the latest timestamp and not the earliest: a limit to the past needs a look at every record.
        if not append_time and before_ms < UNLIMITED_MS:
            self._reads = True
        self._flushes = config.flush_messages < LONG_MAX
        """Whether an append may end with an fsync."""
        self.has_slow_settings = self._flushes or self._target is not None
        """Whether `look_ahead` must be asked about every batch, even a small one."""
        self._counts = config.record_validation == "framing"
        self._kept_codecs: i64 = 0
        """The codecs in which a batch keeps its bytes, if its records are right: a bit for each."""
        if not append_time:
            self._kept_codecs = (1 << len(Codec)) - 1 if self._target is None else 1 << self._target.codec
        limits_records = terms.limits_records or self._record_rules.run_always
        self._keeps_bytes = not (append_time or self._target or limits_records)
        """Whether all codecs are kept and no setting limits single records: most batches are stored as they are."""

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
                # Imported with the first message set of an old client, which no network thread handles.
                from barnabas.storage.validation.legacy import LegacyValidator  # noqa: PLC0415

                return LegacyValidator(self._terms, self._target, self._record_rules, self._clock).validate(records)
        size = header.length
        # Bytes are not copied by a slice of a view. Other buffers are views already.
        covered = (_view(records) if isinstance(records, bytes) else records)[ATTRIBUTES_POSITION:size]
        # A coordinator's batch was made by this broker a moment ago. It breaks no rule but one: keys and values are
        # those of clients, and may be of any size.
        if origin is _COORDINATOR and self._kept_codecs >> (header.attributes & CODEC_MASK) & 1:
            if size > self._max_message_bytes:
                raise too_large(size, self._terms)
            return StorableBatch(header, covered, header.crc, header.max_timestamp)
        available: i64 = len(records)
        if size > available:
            return None
        if self._rules_without_shortcut or not is_ordinary(header, available, covered, self._max_message_bytes):
            self._check_header(ProducedBatch(header, records, origin))
            records = records[:size]
        if self._reads:
            return self._read(header, records, covered, origin, body)
        if self._counts and not header.attributes & CODEC_MASK:
            self._count(header, records)
        if self._keeps_bytes and not header.attributes & TIMESTAMP_TYPE_MASK:
            return StorableBatch(header, covered, header.crc, header.max_timestamp)
        return self._apply_settings(header, records, covered, origin, body)

    def look_ahead(self, records: Buffer, header: BatchHeader, limit_bytes: int = AT_ONCE_BYTES) -> LookAhead:
        """Find out whether validating a batch takes milliseconds, which a network thread does not have.

        That is an fsync, another codec, or a look at many records, or into compressed ones that are large: 9 KB of zstd
        can be 200 MB. Compressed records that are small are decompressed here, into `limit_bytes`, since nothing else
        tells how many they are. Before that come the checks that cost little: a batch that is too large, or whose
        checksum is wrong, is refused by `validate` and never decompressed.
        """
        codec, size = header.codec_id, header.length
        if self._flushes:
            return _LONG
        # Compressing takes as long as reading; a batch of another codec has to be decompressed before.
        if self._target is not None and self._target.codec != codec and (codec or size > AT_ONCE_COMPRESSED_BYTES):
            return _LONG
        if not self._may_read(header):
            return _SHORT
        # The count is not checked yet. A batch that holds more than it claims costs no more: reading ends there.
        if header.count > MANY_RECORDS:
            return _LONG
        if not codec or codec > Codec.ZSTD or not HEADER_SIZE <= size <= len(records) or size > self._max_message_bytes:
            return _SHORT
        if size > AT_ONCE_COMPRESSED_BYTES:
            return _LONG
        if crc32c(records[ATTRIBUTES_POSITION:size]) != header.crc:
            return _SHORT
        try:
            return LookAhead(False, decompress(Codec(codec), records[HEADER_SIZE:size], limit_bytes, AT_ONCE_PIECES))
        except (DecompressedTooLarge, TooManyPieces):
            return _LONG
        except CorruptRecord:
            # `validate` comes to the same end, and answers with the reason.
            return _SHORT

    def small_body(self, records: Buffer, header: BatchHeader) -> LookAhead:
        """Decompress the records of a batch that is read, if they have at most `AT_ONCE_BYTES`; else it takes long.

        For a request handler's thread, which may validate one large batch at a time. What `validate` refuses anyway is
        left to it.
        """
        size = header.length
        if (
            header.codec_id > Codec.ZSTD
            or not HEADER_SIZE <= size <= len(records)
            or size > self._max_message_bytes
            or not (self._target is not None or (header.codec_id and self._may_read(header)))
            or crc32c(records[ATTRIBUTES_POSITION:size]) != header.crc
        ):
            return _SHORT
        if not header.codec_id:
            # A large one is compressed as a whole; one that stays as it is needs no more memory than its frame.
            return _LONG if size > AT_ONCE_BYTES and self._target and self._target.codec else _SHORT
        try:
            body = self._small_body(Codec(header.codec_id), records[HEADER_SIZE:size])
        except CorruptRecord:
            return _SHORT
        return _LONG if body is None else LookAhead(False, body)

    # -- steps

    def _may_read(self, header: BatchHeader) -> bool:
        """Return whether `validate` looks at the records of a batch with this header."""
        return self._reads or header.is_stamped or self._seems_too_new(header)

    def _seems_too_new(self, header: BatchHeader) -> bool:
        """Return whether a record may be too new. The header may lie: only a look at the records tells."""
        after_ms = self._terms.after_max_ms
        latest: int = header.max_timestamp  # no machine integer, whose difference could wrap
        return after_ms != UNLIMITED_MS and latest - self._clock.milliseconds() > after_ms

    def _check_header(self, batch: ProducedBatch) -> None:
        """Run the rules for headers in their order. Raises ApiError of the first that is broken."""
        for rule in HEADER_RULES:
            rule(batch, self._terms)

    def _count(self, header: BatchHeader, records: Buffer) -> None:
        """Count the records of an uncompressed batch. Raises RefusedBatch: INVALID_RECORD when the header lies."""
        try:
            counted = count_records(records, HEADER_SIZE, header.length)
        except CorruptRecord as error:
            raise invalid(str(error), self._terms) from None
        if counted != header.count:
            raise invalid(f"The batch holds {counted} records, its header says {header.count}", self._terms)

    def _apply_settings(
        self, header: BatchHeader, records: Buffer, covered: Buffer, origin: AppendOrigin, body: bytes | None
    ) -> StorableBatch:
        """Bring a batch whose records need not be read into the form that the topic's settings want.

        Raises ApiError when the settings make a look at the records necessary, and these are wrong.
        """
        target = self._target
        if header.is_stamped or (target is not None and target.codec != header.codec_id):
            return self._read(header, records, covered, origin, body)
        if self._terms.stamps_append_time:
            return with_append_time(header, covered, self._clock.milliseconds())
        if self._seems_too_new(header):
            return self._read(header, records, covered, origin, body)
        return StorableBatch(header, covered, header.crc, header.max_timestamp)

    def _read(
        self, header: BatchHeader, records: Buffer, covered: Buffer, origin: AppendOrigin, body: bytes | None
    ) -> StorableBatch:
        """Read every record, and bring the batch into the form in which it is stored.

        Raises RefusedBatch: INVALID_RECORD when the records cannot be read; InvalidRecords when some are to blame.
        """
        codec = header.attributes & CODEC_MASK
        start: i64 = 0
        try:
            if body is None:
                if not codec and header.length <= AT_ONCE_BYTES:
                    if isinstance(records, bytes):
                        # Walked where they lie.
                        body, start = records, HEADER_SIZE
                    else:
                        body = bytes(records[HEADER_SIZE:])
                else:
                    body = self._small_body(Codec(codec), records[HEADER_SIZE:])
                    if body is None and not codec and (self._target is None or not self._target.codec):
                        # Read where it lies: many such batches take no more memory than their frames.
                        return self._read_large(header, records, covered, origin)
                    if body is None:
                        with LARGE_BATCHES:
                            return self._read_large(header, records, covered, origin)
            summary = scan_records(body, start, header.count)
            # What nearly all batches are: nothing is to be looked up in the settings, nothing to be changed. With the
            # first and the third comparison, no difference that passes is one of machine integers that wraps.
            if (
                header.max_timestamp >= NO_TIMESTAMP
                and summary.max_timestamp_delta == header.max_timestamp - header.base_timestamp
                and summary.min_timestamp_delta >= NO_TIMESTAMP - header.base_timestamp
                and self._keeps_bytes
                and not header.attributes & TIMESTAMP_TYPE_MASK
                and (not codec or summary.offsets_consecutive)
            ):
                return StorableBatch(header, covered, header.crc, header.max_timestamp)
            read = ReadBatch(header, body[start:], summary)
            return self._after_reading(read, covered, self._clock.milliseconds(), origin)
        except CorruptRecord as error:
            raise invalid(str(error), self._terms) from None

    @staticmethod
    def _small_body(codec: Codec, stored: Buffer) -> bytes | None:
        """Return the records of a batch, or None when they have more than `AT_ONCE_BYTES`. Raises CorruptRecord."""
        if len(stored) > AT_ONCE_BYTES:
            return None
        try:
            return decompress(codec, stored, AT_ONCE_BYTES, MOST_PIECES)
        except DecompressedTooLarge:
            return None

    def _read_large(self, header: BatchHeader, records: Buffer, covered: Buffer, origin: AppendOrigin) -> StorableBatch:
        """Do what `_read` does for records of more than `AT_ONCE_BYTES`. The caller holds `LARGE_BATCHES`.

        Raises CorruptRecord, and what `_read` raises.
        """
        codec = Codec(header.codec_id)
        now_ms = self._clock.milliseconds()
        with memoryview(records)[HEADER_SIZE:] as stored:
            summary = scan_pieces(decompressed_pieces(codec, stored, limit_pieces=MOST_PIECES), header.count)
            read = ReadBatch(header, b"", summary)
            # The records are needed as a whole only to be encoded anew, or to name those that are to blame.
            if (self._target is not None and self._target.codec != codec) or self._record_rules.may_blame(
                read, now_ms, origin
            ):
                read.body = decompress(codec, stored)
        return self._after_reading(read, covered, now_ms, origin)

    def _after_reading(self, read: ReadBatch, covered: Buffer, now_ms: int, origin: AppendOrigin) -> StorableBatch:
        """Apply the rules for records, and bring the batch into the form in which it is stored.

        Raises CorruptRecord, and what `_read` raises.
        """
        self._record_rules.check(read, now_ms, origin)
        return self._to_stored_form(read, covered, now_ms)

    def _to_stored_form(self, read: ReadBatch, covered: Buffer, now_ms: int) -> StorableBatch:
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
            return with_append_time(header, covered, now_ms)
        return with_create_time(header, covered, max(read.latest, NO_TIMESTAMP))
