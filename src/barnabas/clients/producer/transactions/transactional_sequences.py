"""The sequence numbers of a transactional producer: the coordinator raises its epoch, and a lost batch spoils a
transaction.

Owned by the sending thread; `begin_batch` runs on threads that send, under the accumulator's lock.
Kafka: TransactionManager (its sequence numbers, for a transactional producer).

An idempotent producer repairs a gap by a higher epoch of its own making. A transactional one may not: the coordinator
would fence it. Its transaction is aborted instead, and the coordinator raises the epoch before the next one (KIP-360).
"""

from __future__ import annotations

from barnabas.clients.producer.batches.producer_batch import ProducerBatch
from barnabas.clients.producer.sequences.sequence_numbers import PRODUCE_VERSIONS, REFUSALS, SequenceNumbers
from barnabas.clients.producer.transactions.transaction_manager import TransactionManager
from barnabas.protocol.errors import ErrorCode

_PLAIN_VERSIONS = (PRODUCE_VERSIONS[0], 11)
_ADDING_VERSIONS = (12, PRODUCE_VERSIONS[1])
"""The versions of Produce up to and from the first by which the leader adds the partition (KIP-890)."""


class TransactionalSequences(SequenceNumbers):
    """The numbering of a producer whose transactions `manager` keeps."""

    def __init__(self, manager: TransactionManager) -> None:
        super().__init__()
        self.manager = manager

    @property
    def needs_producer_id(self) -> bool:
        """Never: `init_transactions` asks for the id."""
        return False

    @property
    def produce_versions(self) -> tuple[int, int]:
        """The versions in which the leader adds a batch's partition to the transaction, or those in which it does not.

        They change between transactions only, when no batch is queued or in flight.
        """
        return _ADDING_VERSIONS if self.manager.is_version_2 else _PLAIN_VERSIONS

    @property
    def is_urgent(self) -> bool:
        """Whether every batch is due, because the transaction ends."""
        return self.manager.is_completing

    def set_producer_id(self, producer_id: int, epoch: int) -> None:
        """Take an id or a higher epoch from the coordinator, with which every partition begins at 0."""
        super().set_producer_id(producer_id, epoch)
        self.forget_partitions()

    def begin_batch(self, batch: ProducerBatch) -> None:
        """Put a new batch into the transaction. Raises as `TransactionManager.check_may_send`."""
        self.manager.register(batch.topic_partition)
        batch.is_transactional = True

    def may_send(self, batch: ProducerBatch) -> bool:
        """Return whether the batch's partition is in the transaction or adds itself, and the numbers allow it."""
        return self.manager.may_send_to(batch.topic_partition) and super().may_send(batch)

    def can_retry(self, error: ErrorCode, batch: ProducerBatch) -> bool:
        """Return whether sending the batch again, with its numbers, may help."""
        if error in REFUSALS and self.is_first_pending(batch):
            return False
        return super().can_retry(error, batch)

    def failed(self, batch: ProducerBatch, cause: Exception) -> None:
        """Note that the batch has ended without an acknowledgement, which spoils the transaction."""
        super().failed(batch, cause)
        self.manager.batch_failed(cause, was_numbered=batch.has_sequence)

    @property
    def can_settle(self) -> bool:
        """Never: only the end of the transaction settles a partition."""
        return False

    def settle(self) -> None:
        """Leave the partitions as they are until the transaction has ended."""
