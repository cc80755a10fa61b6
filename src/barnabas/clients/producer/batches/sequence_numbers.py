"""The producer id, the epoch and the sequence numbers of an idempotent producer (KIP-98, KIP-360).

Owned by the sending thread, which calls some methods under the accumulator's lock. No lock of its own.
Kafka: TransactionManager, without its transactions; TxnPartitionEntry.

The broker stores the batches of a producer in a partition only in sequence, and answers a repetition of one of the last
five with the offset that it has already. So a batch whose answer was lost is sent again *with its numbers* for as long
as its fate is unknown. A batch that ends without an acknowledgement may leave a gap that no later batch can cross.
Then the producer raises its epoch, which it may do without asking a broker, and numbers the later batches again from 0:

    sent     epoch 0: A = numbers 0-2, B = 3-4, C = 5
    answers  A stored; B rejected for good (INVALID_RECORD); C OUT_OF_ORDER_SEQUENCE_NUMBER, since B is missing
    then     epoch 1: C = number 0, D (new) = 1

Three rules make that safe. No record is lost, because only a batch whose future has failed is left out. No record is
stored twice, because C gets new numbers only after the broker has *refused* the old ones, while C was the first of the
pending batches and none of them was in flight: the broker cannot have C, nor anything behind C. (Kafka's producer
renumbers batches in flight as well. One that was stored, and whose answer is then lost, is stored twice.) The order is
kept, because a batch that waits for a retry holds up all later ones.

What no client can exclude: a copy of C that sits unread in a connection that was closed, and is stored between the
refusal and the first batch of the new epoch; and a broker that has forgotten the producer (`producer.id.expiration.ms`,
deleted records), which takes C twice.

Only the partition with the gap is numbered again. The others take the new epoch with their next batch, once they have
none pending.

After epoch 32767 comes a new producer id, from InitProducerId. A higher epoch fences the requests of the lower ones; a
new id fences nothing. A batch that expired while its request was in flight could still be stored, behind records that
were sent after it. So a partition with a gap takes a new id only when none of its requests waits for an answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from barnabas.clients.producer.batches.producer_batch import ProducerBatch
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.record_batch import MAX_SEQUENCE, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE

# A broker remembers the last five batches of a producer in a partition. It answers a repetition of an older one as it
# answers a gap.
_REMEMBERED_BATCHES = 5


class ProducerIdentity(NamedTuple):
    """A producer id and its epoch. A higher epoch makes the broker reject what an older one has sent (KIP-360)."""

    producer_id: int
    epoch: int


NO_IDENTITY = ProducerIdentity(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)


def is_before(sequence: int, other: int) -> bool:
    """Return whether a sequence number comes before another one. The numbers wrap to 0 after 2^31 - 1."""
    return 0 < (other - sequence) & MAX_SEQUENCE < 0x40000000


class PartitionSequences:
    """The numbering of one partition under one `identity`: whether the broker still accepts the next numbers.

    `pending`: the numbered batches that have not ended, in sequence.
    """

    __slots__ = ("_last_acknowledged", "_next", "_window", "has_gap", "identity", "is_refused", "pending")

    def __init__(self, identity: ProducerIdentity) -> None:
        self.identity = identity
        self.pending: list[ProducerBatch] = []
        self.has_gap = False
        """Whether a numbered batch has ended without an acknowledgement: its numbers may be missing in the log."""
        self.is_refused = False
        """Whether the broker has refused the first pending batch for its number. No repetition of it can succeed."""
        self._next = 0
        self._last_acknowledged = NO_SEQUENCE
        self._window: list[ProducerBatch] = []
        """The batches from the first pending one on, with those that have ended since."""

    def takes_new(self, identity: ProducerIdentity) -> bool:
        """Return whether another batch may be numbered and sent now, behind those that are pending."""
        if self.has_gap or self.is_refused:
            return False
        if not self._window:
            return True
        # The first batch of an epoch goes alone. A broker without any state of the producer accepts whatever number
        # comes first, so the second batch could be stored while the first one is rejected for a passing reason, and
        # the first one would never be accepted again. Kafka's producer takes that risk.
        if self._last_acknowledged == NO_SEQUENCE or identity != self.identity:
            return False
        # A new batch must not overtake one that waits for a retry, and must not make the broker forget one whose
        # answer was lost.
        return len(self._window) < _REMEMBERED_BATCHES and all(batch.in_flight for batch in self.pending)

    def number(self, batch: ProducerBatch) -> None:
        """Give a new batch the next numbers."""
        self._write(batch)
        self.pending.append(batch)
        self._window.append(batch)

    def replace(self, batch: ProducerBatch, pieces: Sequence[ProducerBatch]) -> None:
        """Give the numbers of a pending batch to the pieces into which it was split."""
        sequence = batch.base_sequence
        for piece in pieces:
            piece.set_producer_state(*self.identity, sequence)
            sequence = sequence + piece.record_count & MAX_SEQUENCE
        for batches in (self.pending, self._window):
            index = batches.index(batch)
            batches[index : index + 1] = pieces

    def acknowledged(self, batch: ProducerBatch) -> None:
        """Note that the broker has stored a pending batch."""
        last = batch.base_sequence + batch.record_count - 1 & MAX_SEQUENCE
        if self._last_acknowledged == NO_SEQUENCE or is_before(self._last_acknowledged, last):
            self._last_acknowledged = last
        # The broker's last number is now behind the batch that it refused, which thus can no longer be stored in order.
        self.is_refused = False
        self._forget(batch)
        # If the last number that was used is in the log, the numbers before it that may be missing no longer matter.
        if self.has_gap and self._is_whole:
            self.has_gap = False

    def given_up(self, batch: ProducerBatch) -> None:
        """Note that a pending batch has ended without an acknowledgement."""
        self.has_gap = self.has_gap or not self.is_overtaken(batch)
        self._forget(batch)

    def is_overtaken(self, batch: ProducerBatch) -> bool:
        """Return whether a later batch is in the log, so that this one can no longer be stored in order."""
        return self._last_acknowledged != NO_SEQUENCE and is_before(batch.base_sequence, self._last_acknowledged + 1)

    @property
    def first_pending(self) -> ProducerBatch | None:
        """The pending batch with the lowest number."""
        return self.pending[0] if self.pending else None

    @property
    def must_restart(self) -> bool:
        """Whether to number the pending batches again now, because the broker will not accept the present numbers."""
        # Only a refusal says that the pending batches are not in the log. Without one they are sent again with their
        # numbers, the first one first, and a restart waits for those that are in flight.
        if self.is_refused:
            return not any(batch.in_flight for batch in self.pending)
        return self.has_gap and not self.pending and not self._is_whole

    @property
    def is_intact(self) -> bool:
        """Whether the broker accepts the next numbers, as far as the producer can know."""
        return not self.is_refused and not self.has_gap

    @property
    def _is_whole(self) -> bool:
        return self._next == self._last_acknowledged + 1 & MAX_SEQUENCE

    def restart(self, identity: ProducerIdentity) -> None:
        """Number the pending batches again, in order, from 0, under another identity."""
        self.identity = identity
        self.has_gap = self.is_refused = False
        self._next = 0
        self._last_acknowledged = NO_SEQUENCE
        for batch in self.pending:
            # The broker has refused the first pending batch for its number, so it has none of them.
            batch.may_be_stored = False
            self._write(batch)
        self._window = list(self.pending)

    def _write(self, batch: ProducerBatch) -> None:
        batch.set_producer_state(*self.identity, self._next)
        self._next = self._next + batch.record_count & MAX_SEQUENCE

    def _forget(self, batch: ProducerBatch) -> None:
        self.pending.remove(batch)
        while self._window and self._window[0] not in self.pending:
            del self._window[0]


_MAX_EPOCH = 2**15 - 1
REFUSALS = frozenset({ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID})
"""The answers by which a broker says that it has not stored a batch, because of the batch's numbers."""
PRODUCE_VERSIONS = (3, 12)
"""Batches of format v2 need version 3; from 13 on, requests name topics by id."""


class SequenceNumbers:
    """The identity of one producer, and the numbering of each partition."""

    def __init__(self) -> None:
        self.identity = NO_IDENTITY
        self._partitions: dict[TopicPartition, PartitionSequences] = {}
        self._broken: set[TopicPartition] = set()
        """The partitions with a gap, or with a batch that was refused."""
        self._unanswered: dict[TopicPartition, int] = {}
        """The number of requests that wait for an answer, also of those whose batch has expired."""

    @property
    def needs_producer_id(self) -> bool:
        """Whether to send InitProducerId: there is no id yet, or the epochs of the last one are used up."""
        return self.identity == NO_IDENTITY

    def set_producer_id(self, producer_id: int, epoch: int) -> None:
        """Take a producer id from a broker."""
        self.identity = ProducerIdentity(producer_id, epoch)

    @property
    def produce_versions(self) -> tuple[int, int]:
        """The oldest and the latest version of Produce for batches with these numbers."""
        return PRODUCE_VERSIONS

    # -- threads that send, under the accumulator's lock

    @property
    def is_urgent(self) -> bool:
        """Whether every batch is due, full or not. Only transactions make it so, when they end."""
        return False

    def begin_batch(self, batch: ProducerBatch) -> None:
        """Take note of a batch that is being begun. Only transactions have anything to note."""

    # -- sending

    def may_send(self, batch: ProducerBatch) -> bool:
        """Return whether the batch may be sent now."""
        partition = self._partitions.get(batch.topic_partition)
        if batch.has_sequence:
            # Retries go one at a time, the first one first: the broker would refuse the others.
            return partition is not None and not partition.is_refused and batch is partition.first_pending
        if self.identity == NO_IDENTITY:
            return False
        return partition is None or partition.takes_new(self.identity)

    def number(self, batch: ProducerBatch) -> None:
        """Number a new batch, which `may_send` has let pass."""
        partition = self._partitions.get(batch.topic_partition)
        if partition is None:
            partition = self._partitions[batch.topic_partition] = PartitionSequences(self.identity)
        elif partition.identity != self.identity:
            partition.restart(self.identity)
        partition.number(batch)

    def replace(self, batch: ProducerBatch, pieces: list[ProducerBatch]) -> None:
        """Give the numbers of a batch that was split to its pieces."""
        partition = self._partition_of(batch)
        if partition is not None:
            partition.replace(batch, pieces)

    def is_first_pending(self, batch: ProducerBatch) -> bool:
        """Return whether no earlier batch of the partition is pending."""
        partition = self._partition_of(batch)
        return partition is not None and partition.first_pending is batch

    def forget_partitions(self) -> None:
        """Begin to number every partition at 0. No batch may be pending."""
        self._partitions.clear()
        self._broken.clear()

    def sent(self, batch: ProducerBatch) -> None:
        """Note that a request with the batch is under way. `answered` follows, also when the connection is lost."""
        self._unanswered[batch.topic_partition] = self._unanswered.get(batch.topic_partition, 0) + 1

    # -- answers

    def answered(self, batch: ProducerBatch, error: ErrorCode) -> None:
        """Note the error of an answer, before it is decided whether the batch is sent again."""
        self._unanswered[batch.topic_partition] -= 1
        if error in REFUSALS:
            partition = self._partition_of(batch)
            # While an earlier batch is pending, that one is what the broker misses.
            if partition is not None and partition.first_pending is batch and not partition.is_overtaken(batch):
                partition.is_refused = True
                self._broken.add(batch.topic_partition)

    def can_retry(self, error: ErrorCode, batch: ProducerBatch) -> bool:
        """Return whether sending the batch again may help, with its numbers or with new ones."""
        if error in REFUSALS:
            partition = self._partition_of(batch)
            return partition is not None and not partition.is_overtaken(batch)
        return error.retriable

    def succeeded(self, batch: ProducerBatch) -> None:
        """Note that the broker has stored the batch."""
        partition = self._partition_of(batch)
        if partition is not None:
            partition.acknowledged(batch)

    def failed(self, batch: ProducerBatch, cause: Exception) -> None:
        """Note that the batch has ended without an acknowledgement. Its numbers may be missing in the log."""
        partition = self._partition_of(batch)
        if partition is not None:
            partition.given_up(batch)
            if partition.has_gap:
                self._broken.add(batch.topic_partition)

    @property
    def can_restart(self) -> bool:
        """Whether `restart_partitions` would restart a partition now."""
        return self.identity != NO_IDENTITY and any(self._can_restart(each) for each in self._broken)

    def restart_partitions(self) -> None:
        """Restart the numbering of the partitions that cannot go on with theirs. Called in each turn of the sender."""
        for topic_partition in list(self._broken):
            partition = self._partitions[topic_partition]
            if partition.must_restart:
                if partition.identity == self.identity:
                    self._raise_epoch()
                # Without an identity, the partition waits for the answer of InitProducerId.
                if self.identity != NO_IDENTITY and self._can_restart(topic_partition):
                    partition.restart(self.identity)
            if partition.is_intact:
                self._broken.discard(topic_partition)

    def _can_restart(self, topic_partition: TopicPartition) -> bool:
        partition = self._partitions[topic_partition]
        # Only a higher epoch of the same id makes the broker reject the requests that are still under way.
        is_fenced = partition.identity.producer_id == self.identity.producer_id
        return partition.must_restart and (is_fenced or not self._unanswered.get(topic_partition))

    def _raise_epoch(self) -> None:
        producer_id, epoch = self.identity
        self.identity = NO_IDENTITY if epoch == _MAX_EPOCH else ProducerIdentity(producer_id, epoch + 1)

    def _partition_of(self, batch: ProducerBatch) -> PartitionSequences | None:
        """Return the partition of a pending batch; None for one that was not numbered, or that has ended before."""
        partition = self._partitions.get(batch.topic_partition)
        return partition if partition is not None and batch in partition.pending else None
