"""A producer's own addition of partitions, held back while its transaction before is being ended.

Made by `TransactionsApi` for AddPartitionsToTxn and AddOffsetsToTxn of clients, on any thread. It is called by one
thread after the other: each attempt begins when the one before was refused. No lock of its own.

A producer below `transaction.version` 2 goes on as soon as its EndTxn is answered, and asks for the partitions of its
next transaction while the markers are being written. Told CONCURRENT_TRANSACTIONS, it asks again after its back-off: 20
ms with most clients, longer than the markers take. So the question waits here for the id's next transition
(`delayed_refusal`), and is decided anew. After `WAIT_MS` in all the producer is told what Kafka tells it at once.

Kafka: TransactionCoordinator.handleAddPartitionsToTransaction, which does not wait.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from barnabas.coordinator.transaction.delayed_refusal import WAIT_MS, DelayedRefusal
from barnabas.coordinator.transaction.metadata import ProducerIdAndEpoch
from barnabas.coordinator.transaction.service import TransactionService
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.runtime.clock import NANOSECONDS_PER_MILLISECOND, Clock
from barnabas.runtime.scheduler import Scheduler


class PatientAdditions:
    """Adds partitions for producers that do not wait for the end of their last transaction. Immutable."""

    def __init__(self, transactions: TransactionService, scheduler: Scheduler, clock: Clock) -> None:
        self._transactions: Final = transactions
        self._scheduler: Final = scheduler
        self._clock: Final = clock

    def add(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: Sequence[TopicPartition],
        on_done: Callable[[ErrorCode], None],
    ) -> None:
        """Add partitions to the producer's transaction, if need be when the one before has ended.

        on_done: called once, on any thread, without locks. CONCURRENT_TRANSACTIONS comes after about `WAIT_MS`.
        """
        deadline_ns = self._clock.nanoseconds() + WAIT_MS * NANOSECONDS_PER_MILLISECOND

        def attempt(wait_ms: int) -> None:
            refusal = DelayedRefusal(lambda error: answered(error, refusal), self._scheduler, wait_ms=wait_ms)
            self._transactions.add_partitions(transactional_id, producer, partitions, refusal.answer, waiter=refusal)

        def answered(error: ErrorCode, refusal: DelayedRefusal) -> None:
            left_ms = (deadline_ns - self._clock.nanoseconds()) // NANOSECONDS_PER_MILLISECOND
            # Only a transition is a reason to ask again, and its thread takes care of what is appended.
            if error is ErrorCode.CONCURRENT_TRANSACTIONS and not refusal.is_expired and left_ms > 0:
                attempt(left_ms)
            else:
                on_done(error)

        attempt(WAIT_MS)
