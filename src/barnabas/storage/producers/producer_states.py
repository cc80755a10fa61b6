"""The producers of a partition: which batch each may append next, and which transactions are open. Pure.

Owned by a ProducerStateManager and guarded by the log's lock. A batch is checked before it is written and noted
afterwards, so that a write that fails changes nothing. All rules hold for clients; for coordinators those of epochs
hold; batches that a follower fetched or a recovery reads were checked by their leader.
A batch that begins a transaction needs a verification that the coordinator has confirmed (`Verification`).
Kafka: ProducerStateManager, ProducerAppendInfo, TxnMetadata, CompletedTxn.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.end_transaction_marker import EndTransactionMarker
from barnabas.records.record_batch import (
    MAX_SEQUENCE,
    NO_PRODUCER_EPOCH,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    BatchHeader,
    RecordBatch,
)
from barnabas.storage.log_append_info import AppendOrigin
from barnabas.storage.log_offset_metadata import LogOffsetMetadata
from barnabas.storage.producers.entry import (
    BATCHES_TO_RETAIN,
    NO_OFFSET,
    BatchMetadata,
    ProducerStateEntry,
    Verification,
)

logger = logging.getLogger(__name__)

_CLIENT: Final = AppendOrigin.CLIENT
_REPLICATION: Final = AppendOrigin.REPLICATION


class CompletedTransaction(NamedTuple):
    """A transaction whose marker, at `last_offset`, is being appended."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool


class LoggedTransaction(NamedTuple):
    """A transaction: its producer, where it begins, and the offset of its marker (-1: it is open)."""

    producer_id: int
    first_offset: LogOffsetMetadata
    last_offset: int = NO_OFFSET


# Worked example, the rules of sequence numbers. A producer of epoch 0 has appended batches with the sequence numbers
# 0-4 and 5-9. Then 10-14 follows and is appended. 5-9 is one of its last five batches: it was sent twice, and gets the
# first answer again. 15-19 leaves a gap, and 3-7 is no batch that was appended: both are OUT_OF_ORDER_SEQUENCE_NUMBER.
# Epoch 1 must begin at 0, and from then on epoch 0 is fenced: INVALID_PRODUCER_EPOCH. A producer without state may
# begin anywhere, as in Kafka since 2.4: its state may have expired, so UNKNOWN_PRODUCER_ID is never raised. Only at
# transaction.version 2, where each transaction has an epoch of its own, it must begin at 0.

#
# Worked example, a transaction of producer 7 that begins at offset 100, and the tables that know it after each step:
#
#     step                               _verifications   _ongoing   _unreplicated   first_unstable_offset
#     begin_verification                 7                                           none
#     end_verification: it is open       7, verified                                 none
#     add_data at 100                                     100                        100
#     add_marker, complete at 140                                    100, to 140     100
#     high watermark 141                                                             none
#
# Between the last two steps the transaction has ended, but only on this leader: a reader of committed records who got
# its records now would have read what the next leader, which may lack the marker, shows as an open transaction.
#
# Each append has three steps under the log's lock: `check_...` reads the tables and raises, the batch is written, and
# `add_...` changes the tables, which does not fail. So a write that fails has nothing to take back here.
#
# A snapshot is encoded without the lock. `freeze` hands out the entries themselves and begins a new generation; the
# next batch of a producer copies its entry first, since the entry's generation is older. A roll therefore copies a list
# of references, and not the states of ten thousand producers; those that are silent are never copied.


class ProducerStates:
    """The producers of one partition. entries: by producer id.

    verifies_transactions: whether a batch may begin a transaction only after its verification, as of now.
    """

    __slots__ = ("_generation", "_ongoing", "_partition", "_unreplicated", "_verifications", "_verifies", "entries")

    def __init__(self, topic_partition: TopicPartition, verifies_transactions: Callable[[], bool]) -> None:
        self.entries: dict[int, ProducerStateEntry] = {}
        self._generation = 0
        """The number of times that the entries were frozen."""
        self._partition = topic_partition
        self._verifies = verifies_transactions
        self._verifications: dict[int, Verification] = {}
        """By producer id, from `begin_verification` until a transaction begins or a marker comes."""
        self._ongoing: dict[int, LoggedTransaction] = {}
        """Open transactions by first offset, and in the order of these: a transaction begins at the log's end."""
        self._unreplicated: dict[int, LoggedTransaction] = {}
        """Ended transactions whose markers lie at or above the high watermark, by first offset."""

    @property
    def is_empty(self) -> bool:
        """Whether no producer and no transaction is known."""
        return not (self.entries or self._ongoing or self._unreplicated or self._verifications)

    def freeze(self) -> list[ProducerStateEntry]:
        """Return the entries as they are now. From here on they are constant: an entry is copied before it changes."""
        self._generation += 1
        return list(self.entries.values())

    def _entry_to_change(self, producer_id: int, entry: ProducerStateEntry | None) -> ProducerStateEntry:
        """Return an entry of this generation: a new one, or a copy of the frozen `entry`."""
        changed = ProducerStateEntry(producer_id) if entry is None else entry.copy(self._generation)
        changed.generation = self._generation
        self.entries[producer_id] = changed
        return changed

    # -- data

    def check_data(self, batch: BatchHeader, offset: int, origin: AppendOrigin) -> BatchMetadata | None:
        """Check whether a batch of data may be appended at `offset`; return the batch it repeats, if that is known.

        Raises ApiError: INVALID_PRODUCER_EPOCH when a newer epoch has been seen, OUT_OF_ORDER_SEQUENCE_NUMBER when
        the batch neither follows nor repeats one of the last five, INVALID_TXN_STATE when it is outside of the
        producer's open transaction.
        """
        producer_id, producer_epoch, base_sequence = batch.producer_id, batch.producer_epoch, batch.base_sequence
        entry = self.entries.get(producer_id)
        if entry is None:
            # As with Kafka's empty entry, whose epoch is -1: a producer without state may have any epoch from there on.
            if producer_epoch < NO_PRODUCER_EPOCH and origin is not _REPLICATION:
                raise ApiError(
                    ErrorCode.INVALID_PRODUCER_EPOCH,
                    f"Epoch of producer {producer_id} at offset {offset} in {self._partition} is {producer_epoch},"
                    f" which is smaller than the last seen epoch {NO_PRODUCER_EPOCH}",
                )
            return None
        if origin is _CLIENT:
            if producer_epoch == entry.producer_epoch:
                # The next batch in order passes by one comparison; all else is looked at only when that fails.
                batches = entry.batches
                if base_sequence != ((batches[-1].last_sequence if batches else NO_SEQUENCE) + 1 & MAX_SEQUENCE):
                    last_sequence = base_sequence + batch.last_offset_delta & MAX_SEQUENCE
                    duplicate = entry.find_duplicate(base_sequence, last_sequence)
                    if duplicate is not None:
                        return duplicate
                    if producer_epoch != NO_PRODUCER_EPOCH:
                        raise self._out_of_order(entry, base_sequence, offset)
            else:
                self._check_epoch(entry, producer_epoch, offset, origin)
                if base_sequence != 0 and entry.producer_epoch != NO_PRODUCER_EPOCH:
                    raise self._wrong_start(entry, producer_epoch, base_sequence, offset)
        else:
            self._check_epoch(entry, producer_epoch, offset, origin)
        if entry.transaction_first_offset >= 0 and not batch.is_transactional:
            raise ApiError(
                ErrorCode.INVALID_TXN_STATE,
                f"Expected transactional write from producer {producer_id} at offset {offset} in partition"
                f" {self._partition}",
            )
        return None

    def check_transactional_data(self, batch: BatchHeader, offset: int, origin: AppendOrigin) -> BatchMetadata | None:
        """Check a transactional batch as `check_data` does; one that begins a transaction needs its verification.

        Raises ApiError: INVALID_TXN_STATE when the coordinator has not confirmed the transaction, or a marker came
        after it had; and the errors of `check_data`.
        """
        producer_id = batch.producer_id
        entry = self.entries.get(producer_id)
        if origin is _REPLICATION or (entry is not None and entry.is_open_for(batch.producer_epoch)):
            return self.check_data(batch, offset, origin)
        # A batch that was stored before is answered again, also after its transaction has ended.
        if origin is _CLIENT and entry is not None and batch.producer_epoch == entry.producer_epoch:
            last_sequence = batch.base_sequence + batch.last_offset_delta & MAX_SEQUENCE
            duplicate = entry.find_duplicate(batch.base_sequence, last_sequence)
            if duplicate is not None:
                return duplicate
        verification = self._verifications.get(producer_id)
        if self._verifies() and (verification is None or verification.verified_epoch != batch.producer_epoch):
            raise ApiError(ErrorCode.INVALID_TXN_STATE, "Record was not part of an ongoing transaction")
        known = self.check_data(batch, offset, origin)
        if origin is _CLIENT and verification is not None:
            is_unknown = entry is None or not entry.batches
            if verification.is_version_2 and is_unknown and batch.base_sequence != 0:
                raise self._unexpected_sequence(batch, offset, "sequence 0 is expected of a producer without state")
            if batch.base_sequence > verification.lowest_sequence:
                expected = f"{verification.lowest_sequence} (earliest seen sequence)"
                raise self._unexpected_sequence(batch, offset, expected)
        return known

    def begin_verification(
        self, producer_id: int, producer_epoch: int, base_sequence: int, now_ms: int, *, is_required: bool = False
    ) -> Verification | None:
        """Return the verification that a transactional batch needs; None when it needs none.

        It needs none while the producer's transaction is open here, and while verification is switched off unless
        `is_required`: the verification adds the partition to the transaction, as of transaction.version 2.
        """
        entry = self.entries.get(producer_id)
        if (entry is not None and entry.is_open_for(producer_epoch)) or not (is_required or self._verifies()):
            return None
        known = self._verifications.get(producer_id)
        if known is None:
            known = self._verifications[producer_id] = Verification(producer_epoch, base_sequence, now_ms)
        elif producer_epoch > known.producer_epoch:
            known.producer_epoch, known.lowest_sequence = producer_epoch, base_sequence
        elif producer_epoch == known.producer_epoch and base_sequence < known.lowest_sequence:
            known.lowest_sequence = base_sequence
        if is_required:
            known.is_version_2 = True
        return known

    def end_verification(self, producer_id: int, producer_epoch: int, verification: Verification) -> bool:
        """Note that the coordinator has confirmed the transaction; return False when a marker came before the answer.

        The answer has no effect then: it may be about the transaction that the marker has ended.
        """
        if self._verifications.get(producer_id) is not verification:
            # Another batch of the transaction may have opened it here, with the same verification.
            entry = self.entries.get(producer_id)
            return entry is not None and entry.is_open_for(producer_epoch)
        # A late answer about an older epoch has no effect.
        verification.verified_epoch = max(verification.verified_epoch, producer_epoch)
        return True

    def add_data(self, batch: BatchHeader, first_offset: LogOffsetMetadata, last_offset: int, timestamp: int) -> bool:
        """Note a batch that was appended; `timestamp` is its largest. True when it begins a transaction."""
        producer_id, producer_epoch, base_sequence = batch.producer_id, batch.producer_epoch, batch.base_sequence
        entry = self.entries.get(producer_id)
        if entry is None or entry.generation != self._generation:
            entry = self._entry_to_change(producer_id, entry)
        if producer_epoch != entry.producer_epoch:
            entry.begin_epoch(producer_epoch)
        first = first_offset.message_offset
        delta = last_offset - first
        last_sequence = NO_SEQUENCE if base_sequence == NO_SEQUENCE else base_sequence + delta & MAX_SEQUENCE
        batches = entry.batches
        batches.append(BatchMetadata(last_sequence, last_offset, delta, timestamp))
        if len(batches) > BATCHES_TO_RETAIN:
            del batches[0]
        entry.last_timestamp = timestamp
        if entry.transaction_first_offset < 0 and batch.is_transactional:
            entry.transaction_first_offset = first
            self._ongoing[first] = LoggedTransaction(producer_id, first_offset)
            self._verifications.pop(producer_id, None)
            return True
        return False

    # -- markers

    def check_marker(
        self, producer_id: int, producer_epoch: int, marker: EndTransactionMarker, offset: int, origin: AppendOrigin
    ) -> CompletedTransaction | None:
        """Check whether a marker may be appended at `offset`; return the transaction it ends.

        None when that transaction wrote nothing to this partition. Raises ApiError: INVALID_PRODUCER_EPOCH when the
        producer's epoch is older than the last one, TRANSACTION_COORDINATOR_FENCED when the coordinator's is.
        """
        entry = self.entries.get(producer_id)
        if entry is None:
            return None
        self._check_epoch(entry, producer_epoch, offset, origin)
        if entry.coordinator_epoch > marker.coordinator_epoch:
            message = (
                f"Invalid coordinator epoch for producerId {producer_id} at offset {offset} in partition"
                f" {self._partition}: {marker.coordinator_epoch} (zombie), {entry.coordinator_epoch} (current)"
            )
            if origin is not _REPLICATION:
                raise ApiError(ErrorCode.TRANSACTION_COORDINATOR_FENCED, message)
            logger.info("%s", message)
        if entry.transaction_first_offset < 0:
            return None
        return CompletedTransaction(producer_id, entry.transaction_first_offset, offset, marker.is_abort)

    def add_marker(self, producer_id: int, producer_epoch: int, marker: EndTransactionMarker) -> None:
        """Note a marker that was appended. The caller calls `complete` next, if the marker ended a transaction."""
        entry = self.entries.get(producer_id)
        if entry is None or entry.generation != self._generation:
            entry = self._entry_to_change(producer_id, entry)
        # A coordinator that fences a producer writes the abort marker with a raised epoch: batches of the old one fail.
        entry.begin_epoch(producer_epoch)
        entry.coordinator_epoch = marker.coordinator_epoch
        entry.transaction_first_offset = NO_OFFSET
        entry.last_timestamp = marker.timestamp
        self._verifications.pop(producer_id, None)

    def last_stable_offset(self, completed: CompletedTransaction) -> int:
        """Return the last stable offset as of the completion of this transaction, replication aside."""
        for transaction in self._ongoing.values():
            if transaction.producer_id != completed.producer_id:
                return transaction.first_offset.message_offset
        return completed.last_offset + 1

    def complete(self, completed: CompletedTransaction) -> None:
        """Note that a transaction is decided; it stays unstable until the high watermark has passed its marker.

        Raises ValueError when the transaction is not open.
        """
        transaction = self._ongoing.pop(completed.first_offset, None)
        if transaction is None:
            raise ValueError(
                f"Attempted to complete transaction {completed} on partition {self._partition} which was not started"
            )
        # Not stable yet: were the marker lost with this leader, the next leader would still have the transaction open.
        self._unreplicated[completed.first_offset] = transaction._replace(last_offset=completed.last_offset)

    # -- stored batches

    def check_stored(self, batch: RecordBatch) -> tuple[EndTransactionMarker | None, CompletedTransaction | None]:
        """Check a batch that its leader has accepted; return its marker, and the transaction that the marker ends.

        Raises ApiError: INVALID_TXN_STATE; CorruptRecord.
        """
        if not batch.is_control:
            self.check_data(batch, batch.base_offset, _REPLICATION)
            return None, None
        marker = EndTransactionMarker.of(batch)
        if marker is None:
            return None, None
        completed = self.check_marker(batch.producer_id, batch.producer_epoch, marker, batch.base_offset, _REPLICATION)
        return marker, completed

    def add_stored(self, batch: RecordBatch, place: LogOffsetMetadata, marker: EndTransactionMarker | None) -> bool:
        """Note a batch that is in the log, at `place`; True when it begins a transaction."""
        if batch.is_control:
            if marker is not None:
                self.add_marker(batch.producer_id, batch.producer_epoch, marker)
            return False
        return self.add_data(batch, place, batch.last_offset, batch.max_timestamp)

    def load(self, entries: Iterable[ProducerStateEntry]) -> None:
        """Take the entries of a snapshot."""
        for entry in entries:
            self.entries[entry.producer_id] = entry
        begun = [(entry.transaction_first_offset, entry.producer_id) for entry in self.entries.values()]
        for offset, producer_id in sorted(begun):
            if offset >= 0:
                self._ongoing[offset] = LoggedTransaction(producer_id, LogOffsetMetadata(offset))

    # -- the end of what is stable, expiry

    @property
    def first_unstable_offset(self) -> LogOffsetMetadata | None:
        """The start of the oldest transaction that is open, or whose marker lies at or above the high watermark."""
        # Open transactions are in the order of their offsets, ended ones in the order of their markers.
        ongoing, unreplicated = self._ongoing, self._unreplicated
        first = ongoing[next(iter(ongoing))].first_offset if ongoing else None
        if unreplicated:
            ended = unreplicated[min(unreplicated)].first_offset
            if first is None or ended.message_offset < first.message_offset:
                return ended
        return first

    @property
    def oldest_open_timestamp(self) -> int:
        """The time of the last batch of the producer whose transaction is open for longest; -1: none is open."""
        if not self._ongoing:
            return NO_TIMESTAMP
        entry = self.entries.get(self._ongoing[next(iter(self._ongoing))].producer_id)
        return NO_TIMESTAMP if entry is None else entry.last_timestamp

    def remove_replicated(self, offset: int) -> None:
        """Forget the ended transactions below `offset`: they are replicated, or deleted, and so stable."""
        if self._unreplicated:
            ended = [first for first, transaction in self._unreplicated.items() if transaction.last_offset < offset]
            for first in ended:
                del self._unreplicated[first]

    def remove_expired(self, now_ms: int, expiration_ms: int) -> int:
        """Forget producers that have written nothing for so long and have no open transaction; return their number.

        Verifications that never ended are forgotten as well.
        """
        for producer_id, verification in list(self._verifications.items()):
            if now_ms - verification.started_ms >= expiration_ms:
                del self._verifications[producer_id]
        expired = [entry.producer_id for entry in self.entries.values() if is_expired(entry, now_ms, expiration_ms)]
        for producer_id in expired:
            del self.entries[producer_id]
        return len(expired)

    # -- errors

    def _check_epoch(self, entry: ProducerStateEntry, epoch: int, offset: int, origin: AppendOrigin) -> None:
        """Fence an old epoch. Raises ApiError: INVALID_PRODUCER_EPOCH, except for batches that a leader accepted."""
        if epoch >= entry.producer_epoch:
            return
        message = (
            f"Epoch of producer {entry.producer_id} at offset {offset} in {self._partition} is {epoch}, which is"
            f" smaller than the last seen epoch {entry.producer_epoch}"
        )
        if origin is not _REPLICATION:
            raise ApiError(ErrorCode.INVALID_PRODUCER_EPOCH, message)
        logger.warning("%s", message)

    def _out_of_order(self, entry: ProducerStateEntry, base_sequence: int, offset: int) -> ApiError:
        return ApiError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"Out of order sequence number for producer {entry.producer_id} at offset {offset} in partition"
            f" {self._partition}: {base_sequence} (incoming seq. number), {entry.last_sequence} (current end sequence"
            " number)",
        )

    def _unexpected_sequence(self, batch: BatchHeader, offset: int, expected: str) -> ApiError:
        return ApiError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"Out of order sequence number for producer {batch.producer_id} at offset {offset} in partition"
            f" {self._partition}: {batch.base_sequence} (incoming seq. number), {expected}",
        )

    def _wrong_start(self, entry: ProducerStateEntry, epoch: int, base_sequence: int, offset: int) -> ApiError:
        return ApiError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"Invalid sequence number for new epoch of producer {entry.producer_id} at offset {offset} in partition"
            f" {self._partition}: {epoch} (request epoch), {base_sequence} (seq. number), {entry.producer_epoch}"
            " (current producer epoch)",
        )


def is_expired(entry: ProducerStateEntry, now_ms: int, expiration_ms: int) -> bool:
    """Return whether a producer without open transaction has been idle for `expiration_ms`."""
    return entry.transaction_first_offset < 0 and now_ms - entry.last_timestamp >= expiration_ms
