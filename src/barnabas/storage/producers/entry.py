"""The state of one producer in one partition: epoch, last five batches, open transaction, verification. Pure.

Held by `ProducerStates` under the log's lock.
Kafka: ProducerStateEntry, BatchMetadata, VerificationStateEntry, VerificationGuard.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.records.record_batch import MAX_SEQUENCE, NO_PRODUCER_EPOCH, NO_SEQUENCE, NO_TIMESTAMP

if TYPE_CHECKING:
    from mypy_extensions import i64

# An idempotent producer has at most five requests in flight, so no older batch is sent again (KAFKA-5494).
BATCHES_TO_RETAIN: Final = 5
NO_COORDINATOR_EPOCH: Final = -1
NO_OFFSET: Final = -1


class BatchMetadata:
    """A batch that was appended. offset_delta: last offset minus first; timestamp: its largest, in milliseconds."""

    __slots__ = ("last_offset", "last_sequence", "offset_delta", "timestamp")

    def __init__(self, last_sequence: i64, last_offset: i64, offset_delta: i64, timestamp: i64) -> None:
        self.last_sequence: i64 = last_sequence
        self.last_offset: i64 = last_offset
        self.offset_delta: i64 = offset_delta
        self.timestamp: i64 = timestamp

    @property
    def first_sequence(self) -> int:
        """The sequence number of the first record; sequence numbers wrap to 0 after 2^31 - 1."""
        return self.last_sequence - self.offset_delta & MAX_SEQUENCE

    @property
    def first_offset(self) -> int:
        """The offset of the first record."""
        return self.last_offset - self.offset_delta

    def __repr__(self) -> str:
        return f"BatchMetadata({self.last_sequence}, {self.last_offset}, {self.offset_delta}, {self.timestamp})"


class ActiveProducer(NamedTuple):
    """A producer as DescribeProducers shows it; -1 stands for a missing number."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    current_transaction_start_offset: int


class LastRecord(NamedTuple):
    """The offset of a producer's newest record of data (-1: none of this epoch is known), and its epoch."""

    last_data_offset: int
    producer_epoch: int


class ProducerStateEntry:
    """One producer. Numbers are -1 where nothing is known.

    batches: oldest first, all of `producer_epoch`. last_timestamp: of the newest batch or marker.
    transaction_first_offset: where the producer's open transaction begins. generation: of the states that may change
    this object; those of a later generation change a copy, since a snapshot of this one is being encoded.
    """

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "generation",
        "last_timestamp",
        "producer_epoch",
        "producer_id",
        "transaction_first_offset",
    )

    def __init__(
        self,
        producer_id: int,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        coordinator_epoch: int = NO_COORDINATOR_EPOCH,
        last_timestamp: int = NO_TIMESTAMP,
        transaction_first_offset: int = NO_OFFSET,
        batch: BatchMetadata | None = None,
    ) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.coordinator_epoch = coordinator_epoch
        self.last_timestamp = last_timestamp
        self.transaction_first_offset = transaction_first_offset
        self.batches: list[BatchMetadata] = [] if batch is None else [batch]
        self.generation = 0

    @property
    def last_sequence(self) -> int:
        """The sequence number of the newest record; -1 when no batch of this epoch is known."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_data_offset(self) -> int:
        """The offset of the newest record; -1 when no batch of this epoch is known."""
        return self.batches[-1].last_offset if self.batches else NO_OFFSET

    def is_open_for(self, producer_epoch: int) -> bool:
        """Return whether the open transaction here is that of a batch with this epoch, or of a newer one.

        A higher epoch is of the next transaction, while the marker of this one is on its way (KIP-890).
        """
        return self.transaction_first_offset >= 0 and producer_epoch <= self.producer_epoch

    def find_duplicate(self, base_sequence: int, last_sequence: int) -> BatchMetadata | None:
        """Return the remembered batch with exactly these sequence numbers; None when there is none."""
        for batch in self.batches:
            if batch.last_sequence == last_sequence and batch.first_sequence == base_sequence:
                return batch
        return None

    def copy(self, generation: int) -> ProducerStateEntry:
        """Return a copy for the states of a later generation."""
        copied = ProducerStateEntry(
            self.producer_id,
            self.producer_epoch,
            self.coordinator_epoch,
            self.last_timestamp,
            self.transaction_first_offset,
        )
        copied.batches = self.batches.copy()
        copied.generation = generation
        return copied

    def begin_epoch(self, producer_epoch: int) -> None:
        """Take a new epoch and forget the batches of the old one, whose sequence numbers are void now."""
        if producer_epoch != self.producer_epoch:
            self.producer_epoch = producer_epoch
            self.batches.clear()

    def describe(self) -> ActiveProducer:
        """Return the state as DescribeProducers shows it."""
        return ActiveProducer(
            self.producer_id,
            self.producer_epoch,
            self.last_sequence,
            self.last_timestamp,
            self.coordinator_epoch,
            self.transaction_first_offset,
        )

    def __repr__(self) -> str:
        return (
            f"ProducerStateEntry(producerId={self.producer_id}, producerEpoch={self.producer_epoch},"
            f" currentTxnFirstOffset={self.transaction_first_offset}, coordinatorEpoch={self.coordinator_epoch},"
            f" lastTimestamp={self.last_timestamp}, batchMetadata={self.batches})"
        )


class Verification:
    """The verification that a producer's first batch of a transaction is part of an open transaction (KIP-890).

    One per producer in a partition, until that batch is appended. The coordinator is asked without any lock, so the
    transaction may end before its answer comes. The marker of that end removes the verification, and the late answer
    has no effect:

        handler thread                      handler thread of the coordinator's marker
        begin: a verification is held
        asks the coordinator: it is open
                                            abort marker: the verification is removed
        end: it is gone
        append: INVALID_TXN_STATE, since the records would belong to no transaction

    producer_epoch: the highest that was named. lowest_sequence: of the batches of that epoch that wait. No later one
    may be appended before it, or its retry would be out of order for good. verified_epoch: the coordinator says that a
    transaction of this epoch is open; -1 until then. A batch of any other epoch needs a verification of its own, so one
    with an epoch that the producer does not have yet cannot stand in the producer's way. is_version_2: the producer
    follows transaction.version 2, so its first batch in a partition that knows nothing of it has sequence 0.
    """

    __slots__ = ("is_version_2", "lowest_sequence", "producer_epoch", "started_ms", "verified_epoch")

    def __init__(self, producer_epoch: int, lowest_sequence: int, started_ms: int) -> None:
        self.producer_epoch = producer_epoch
        self.lowest_sequence = lowest_sequence
        self.started_ms = started_ms
        self.verified_epoch = NO_PRODUCER_EPOCH
        self.is_version_2 = False
