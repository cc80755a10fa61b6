"""The cleaning of one batch: all of it stays, or some of its records, or its header alone, or nothing.

Pure except for the offset map it reads; owned by one cleaning, in the cleaner's process. A batch that keeps all its
records is copied as the bytes it was. A batch that is built again equals the one that Kafka makes, as far as the codecs
compress alike. The transactions that are open at a batch decide when markers can be dropped, and so also which aborted
transactions the cleaned segment's `.txnindex` lists. Kafka: Cleaner.cleanInto, MemoryRecords.filterTo,
CleanedTransactionMetadata.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import ge
from typing import NamedTuple, cast

from barnabas.records.compression import Buffer, compress
from barnabas.records.legacy_records import LegacyBatch, encode_message_set
from barnabas.records.record_batch import (
    CODEC_MASK,
    DELETE_HORIZON_MASK,
    HEADER,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    NO_TIMESTAMP,
    ControlRecord,
    RecordBatch,
    sealed,
)
from barnabas.records.v2.layout import MAX_VARINT_BYTES, decode_zigzag, zigzag
from barnabas.records.v2.walk import RecordKeys, scan_keys
from barnabas.storage.cleaner.offset_map import OffsetMap
from barnabas.storage.cleaner.stats import CopyStats
from barnabas.storage.producers.entry import LastRecord
from barnabas.storage.segment.transaction_index import AbortedTransactionEntry

ABORT = 0
COMMIT = 1


# Worked example: producer 7 writes a batch at 10, aborts at 20 (a marker), writes a batch at 30 and commits at 40. The
# `.txnindex` lists (7, 10 to 20). At batch 10 the transaction counts as open and aborted, so the batch's records go;
# the marker at 20 stays, because a batch of it was there, and its entry goes into the new index. Batch 30 and the
# marker at 40 stay. In the next cleaning nothing is left between 10 and 20: the marker at 20 gets a delete horizon, and
# later goes.


class CleanedTransactions:
    """The open transactions, updated batch by batch in the order of offsets.

    on_kept_abort: called with each aborted transaction whose marker stays, because it still has batches.
    """

    __slots__ = ("_aborted", "_ongoing_aborted", "_ongoing_committed", "_with_batches", "on_kept_abort")

    def __init__(self, on_kept_abort: Callable[[AbortedTransactionEntry], None] = lambda _aborted: None) -> None:
        self.on_kept_abort = on_kept_abort
        self._aborted: list[tuple[int, AbortedTransactionEntry]] = []  # a heap by first offset
        self._ongoing_aborted: dict[int, AbortedTransactionEntry] = {}
        self._ongoing_committed: set[int] = set()
        self._with_batches: set[int] = set()

    def add_aborted(self, transactions: Iterable[AbortedTransactionEntry]) -> None:
        """Add aborted transactions that overlap the next segment; some may have been added before."""
        for transaction in transactions:
            heapq.heappush(self._aborted, (transaction.first_offset, transaction))

    def on_control_batch(self, batch: RecordBatch) -> bool:
        """Take in a control batch; True if it may go.

        A marker goes when its transaction has no batch left. Markers of unknown kinds stay. Raises CorruptRecord.
        """
        self._begin_aborted(batch.last_offset)
        record = next(batch.records(), None)
        if record is None:
            # An earlier cleaning has emptied the batch.
            return True
        kind = ControlRecord.parse(record.key).type
        producer_id = batch.producer_id
        if kind == ABORT:
            aborted = self._ongoing_aborted.pop(producer_id, None)
            if aborted is None or producer_id not in self._with_batches:
                return True
            self._with_batches.discard(producer_id)
            self.on_kept_abort(aborted)
            return False
        if kind == COMMIT:
            had_batches = producer_id in self._ongoing_committed
            self._ongoing_committed.discard(producer_id)
            return not had_batches
        return False

    def on_batch(self, batch: RecordBatch) -> bool:
        """Take in a batch of records; True if its transaction was aborted, so that its records go."""
        if self._aborted:
            self._begin_aborted(batch.last_offset)
        if not batch.is_transactional:
            return False
        if batch.producer_id in self._ongoing_aborted:
            self._with_batches.add(batch.producer_id)
            return True
        self._ongoing_committed.add(batch.producer_id)
        return False

    def _begin_aborted(self, offset: int) -> None:
        while self._aborted and self._aborted[0][0] <= offset:
            transaction = heapq.heappop(self._aborted)[1]
            self._ongoing_aborted.setdefault(transaction.producer_id, transaction)


Batch = RecordBatch | LegacyBatch


class CleanedBatch(NamedTuple):
    """A batch that will be written."""

    data: Buffer
    size: int
    first_offset: int
    last_offset: int
    max_timestamp: int


class CleaningTerms(NamedTuple):
    """now_ms: when the cleaning began; a tombstone that is seen for the first time stays `delete_retention_ms` more."""

    now_ms: int
    delete_retention_ms: int
    last_records: Mapping[int, LastRecord]
    """The newest record of each producer, by producer id."""


# What happens to a batch, in the order of the questions (Kafka: Cleaner.checkBatchRetention, MemoryRecords.filterTo):
#
#     | a batch or record                                | what happens                                          |
#     | a batch of an aborted transaction                | all its records go                                    |
#     | a marker, no batch of its transaction is left    | it gets a delete horizon, and goes once that has come |
#     | a record whose key has a newer offset in the map | it goes                                               |
#     | a tombstone, the newest record of its key        | as a marker: first a delete horizon, then it goes     |
#     | anything else                                    | it stays                                              |
#
# The delete horizon (KIP-534) is the time of the cleaning plus delete.retention.ms: a reader that saw the records has
# so long to see the marker or the tombstone.
#
# If no record stays, the batch goes, unless it holds the last sequence number of a producer that is still known: then
# its header stays, without records, because a recovery reads the sequence numbers from batches.
#
# Worked example: offsets 10 (a=1), 11 (b=1), 12 (a=2), 13 (b=null), all in one batch. The map says a: 12, b: 13.
# Records 12 and 13 stay, and the batch is built again with a delete horizon; its base offset stays 10 and its last
# offset 13, so that offsets 10 and 11 are gaps. A cleaning a day later finds the horizon passed and drops 13, too.


class BatchCleaner:
    """Cleans batch by batch, in the order of the log. keeps_legacy_tombstones: of the segment that is being read."""

    __slots__ = ("_map", "_stats", "_terms", "_transactions", "keeps_legacy_tombstones")

    def __init__(
        self, offsets: OffsetMap, transactions: CleanedTransactions, terms: CleaningTerms, stats: CopyStats
    ) -> None:
        self._map = offsets
        self._transactions = transactions
        self._terms = terms
        self._stats = stats
        self.keeps_legacy_tombstones = True

    def clean(self, batch: Batch) -> CleanedBatch | None:
        """Return what is written of the batch; None when nothing is. Raises CorruptRecord."""
        stats = self._stats
        stats.bytes_read += batch.length
        cleaned = self._clean_legacy(batch) if isinstance(batch, LegacyBatch) else self._clean(batch)
        if cleaned is not None:
            stats.bytes_written += cleaned.size
        return cleaned

    def _clean(self, batch: RecordBatch) -> CleanedBatch | None:
        """Apply the rules of Kafka's Cleaner.checkBatchRetention, in their order."""
        horizon_ms = batch.delete_horizon_ms
        is_control = batch.is_control
        if is_control:
            can_discard = self._transactions.on_control_batch(batch)
            discards = can_discard and horizon_ms is not None and horizon_ms <= self._terms.now_ms
        else:
            discards = can_discard = self._transactions.on_batch(batch)
        keeps_header = batch.producer_id >= 0 and self._is_last_of_producer(batch)
        if discards and not keeps_header:
            return None
        self._stats.messages_read += batch.count
        if discards or batch.count == 0:
            return _emptied(batch) if keeps_header else None
        if is_control:
            return self._keep_all(batch, needs_horizon=can_discard and horizon_ms is None)
        return self._clean_records(batch, keeps_header=keeps_header)

    def _is_last_of_producer(self, batch: RecordBatch) -> bool:
        """Return whether this batch holds the last sequence number, or the epoch, of a producer that is still known."""
        last = self._terms.last_records.get(batch.producer_id)
        if last is None:
            return False
        if last.last_data_offset >= 0:
            return batch.last_offset == last.last_data_offset
        return batch.is_control and batch.producer_epoch == last.producer_epoch

    def _clean_records(self, batch: RecordBatch, *, keeps_header: bool) -> CleanedBatch | None:
        """Return the batch with the records that stay; None when nothing is written. Raises CorruptRecord."""
        horizon_ms = batch.delete_horizon_ms
        drops_tombstones = horizon_ms is not None and horizon_ms <= self._terms.now_ms
        offsets = self._map
        needs_keys = (
            offsets.superseded is None
            or batch.base_offset < offsets.start_offset
            or batch.last_offset > offsets.latest_offset
        )
        body, found = batch_keys(batch, with_keys=needs_keys)
        flags = None if needs_keys else self._superseded(found)
        if flags is not None:
            kept = _not_superseded(flags, found.tombstones if drops_tombstones else ())
        else:
            if not needs_keys:
                body, found = batch_keys(batch)
            kept = self._kept(found, drops_tombstones=drops_tombstones)
        if kept is None:
            return self._keep_all(batch, needs_horizon=bool(found.tombstones) and horizon_ms is None)
        if not kept:
            return _emptied(batch) if keeps_header else None
        self._stats.messages_written += len(kept)
        if horizon_ms is None and not set(found.tombstones).isdisjoint(kept):
            horizon_ms = self._new_horizon_ms()
        return _rebuilt(batch, body, found.starts, kept, horizon_ms)

    def _kept(self, found: RecordKeys, *, drops_tombstones: bool) -> list[int] | None:
        """Return the places of the records that stay; None when all do."""
        offsets, keys = found.offsets, found.keys
        latest = self._map.latest_offset
        if offsets[0] > latest:
            # Behind what the map knows all records stay, tombstones and records without key too.
            return None
        if not found.keyless:
            newest = self._map.newest(cast("Sequence[bytes]", keys))
        else:
            newest = self._newest_with_keys(keys, offsets, latest)
        if not drops_tombstones and offsets[-1] <= latest and all(map(ge, offsets, newest)):
            return None
        kept = list(map(ge, offsets, newest))
        if drops_tombstones:
            for place in found.tombstones:
                kept[place] = kept[place] and offsets[place] > latest
        if offsets[-1] > latest:
            kept = [keep or offset > latest for keep, offset in zip(kept, offsets, strict=True)]
        return None if all(kept) else [place for place, keep in enumerate(kept) if keep]

    def _superseded(self, found: RecordKeys) -> bytes | None:
        """Return a byte for each record, not 0 if its key has a newer offset; None where only the keys can tell."""
        superseded = self._map.superseded
        if superseded is None or found.keyless or not found.in_order:
            return None
        count = len(found.offsets)
        at = found.offsets[0] - self._map.start_offset
        if at < 0:
            return None
        flags = superseded[at : at + count]
        return flags if len(flags) == count else None

    def _newest_with_keys(self, keys: Sequence[bytes | None], offsets: Sequence[int], latest: int) -> list[int]:
        """Return newest offsets as `OffsetMap.newest` does; records without a key are invalid here and are dropped."""
        newest = self._map.newest([key for key in keys if key is not None])
        following = iter(newest)
        beyond = max(offsets[-1], latest) + 1
        invalid = sum(key is None and offset <= latest for key, offset in zip(keys, offsets, strict=True))
        self._stats.invalid_messages_read += invalid
        return [beyond if key is None else next(following) for key in keys]

    def _keep_all(self, batch: RecordBatch, *, needs_horizon: bool) -> CleanedBatch:
        """Return the batch with all its records: untouched, unless a delete horizon must be set."""
        self._stats.messages_written += batch.count
        if not needs_horizon:
            data = memoryview(batch.buffer)[batch.position : batch.end]
            return CleanedBatch(data, batch.length, batch.base_offset, batch.last_offset, batch.max_timestamp)
        body, found = batch_keys(batch)
        return _rebuilt(batch, body, found.starts, list(range(batch.count)), self._new_horizon_ms())

    def _new_horizon_ms(self) -> int:
        return self._terms.now_ms + self._terms.delete_retention_ms

    def _clean_legacy(self, batch: LegacyBatch) -> CleanedBatch | None:
        """Clean a message of magic 0 or 1, or a wrapper of several, which is built again when some of them go."""
        records = list(batch.records())
        latest = self._map.latest_offset
        kept = []
        for record in records:
            if record.offset <= latest:
                if record.key is None:
                    self._stats.invalid_messages_read += 1
                    continue
                if record.offset < self._map.newest([record.key])[0]:
                    continue
                if record.value is None and not self.keeps_legacy_tombstones:
                    continue
            kept.append(record)
        self._stats.messages_read += len(records)
        self._stats.messages_written += len(kept)
        if not kept:
            return None
        data: Buffer = memoryview(batch.buffer)[batch.position : batch.end]
        max_timestamp = batch.max_timestamp
        if len(kept) < len(records):
            data = encode_message_set(batch.magic, kept, batch.codec, batch.timestamp_type)
            max_timestamp = max(record.timestamp for record in kept)
        return CleanedBatch(data, len(data), kept[0].offset, kept[-1].offset, max_timestamp)


def _not_superseded(flags: bytes, dropped: Sequence[int]) -> list[int] | None:
    """Return the places of the records that stay, but for the dropped ones; None when all do."""
    kept = [place for place in range(len(flags)) if flags[place] == 0]
    if dropped:
        kept = [place for place in kept if place not in dropped]
    return None if len(kept) == len(flags) else kept


def batch_keys(batch: RecordBatch, *, with_keys: bool = True) -> tuple[bytes, RecordKeys]:
    """Return the bytes that hold the batch's records, decompressed if need be, and their keys. Raises CorruptRecord.

    The batch's buffer must be bytes, as a read of a file returns them.
    """
    if batch.attributes & CODEC_MASK:
        body = batch.decompressed_records()
        return body, scan_keys(body, 0, len(body), batch.count, batch.base_offset, with_keys)
    body = cast("bytes", batch.buffer)
    return body, scan_keys(body, batch.position + HEADER_SIZE, batch.end, batch.count, batch.base_offset, with_keys)


def timestamp_delta(body: bytes, start: int) -> tuple[int, int]:
    """Return the timestamp delta of the record at `start`, and the position behind it. Raises CorruptRecord."""
    _length, position = decode_zigzag(body, start, MAX_VARINT_BYTES)
    return decode_zigzag(body, position + 1)


def with_timestamp_delta(body: bytes, start: int, stop: int, delta: int) -> bytes:
    """Return the record between `start` and `stop` with another timestamp delta."""
    _old, position = timestamp_delta(body, start)
    fields = b"".join((b"\x00", zigzag(delta), body[position:stop]))
    return zigzag(len(fields)) + fields


def _emptied(batch: RecordBatch) -> CleanedBatch:
    """Return the header alone, which keeps the producer's epoch and last sequence (Kafka: writeEmptyHeader)."""
    attributes = batch.attributes & ~(CODEC_MASK | DELETE_HORIZON_MASK)
    data = _assembled(batch, attributes, NO_TIMESTAMP, batch.max_timestamp, 0, b"")
    return CleanedBatch(data, len(data), batch.base_offset, batch.last_offset, batch.max_timestamp)


def _rebuilt(
    batch: RecordBatch, body: bytes, starts: list[int], kept: list[int], horizon_ms: int | None
) -> CleanedBatch:
    """Return the batch with only the records at the places `kept`; offsets, sequence and last offset stay.

    Base timestamp is the delete horizon, else the first record's timestamp: then all others' deltas change.
    The checksum is checked first: a new one would make damaged content look right. Raises CorruptRecord.
    """
    batch.check()
    base_ms = batch.base_timestamp
    attributes = batch.attributes
    if batch.timestamp_type == LOG_APPEND_TIME:
        timestamps = [batch.max_timestamp] * len(kept)
    else:
        timestamps = [base_ms + timestamp_delta(body, starts[place])[0] for place in kept]
    new_base_ms = timestamps[0]
    if horizon_ms is not None:
        new_base_ms = horizon_ms
        attributes |= DELETE_HORIZON_MASK
    if new_base_ms == base_ms and batch.timestamp_type != LOG_APPEND_TIME:
        pieces = [body[starts[place] : starts[place + 1]] for place in kept]
    else:
        pieces = [
            with_timestamp_delta(body, starts[place], starts[place + 1], timestamp - new_base_ms)
            for place, timestamp in zip(kept, timestamps, strict=True)
        ]
    max_timestamp = max(timestamps)
    records = compress(batch.codec, b"".join(pieces))
    data = _assembled(batch, attributes, new_base_ms, max_timestamp, len(kept), records)
    return CleanedBatch(data, len(data), batch.base_offset, batch.last_offset, max_timestamp)


def _assembled(
    batch: RecordBatch, attributes: int, base_timestamp: int, max_timestamp: int, count: int, records: bytes
) -> bytes:
    """Return a batch of these records; offsets, epoch, producer and sequence are those of `batch`."""
    header = bytearray(HEADER_SIZE)
    HEADER.pack_into(
        header,
        0,
        batch.base_offset,
        HEADER_SIZE - LOG_OVERHEAD + len(records),
        batch.partition_leader_epoch,
        2,
        0,
        attributes,
        batch.last_offset_delta,
        base_timestamp,
        max_timestamp,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        count,
    )
    return sealed(header, records)
