"""The refusals of additions to a transaction, held back while the transaction before is being ended.

A producer goes on as soon as its EndTxn is answered, and the markers are written afterwards. So the first addition of
partitions to nearly every transaction comes a few milliseconds too early. Told CONCURRENT_TRANSACTIONS, the producer
would wait for its back-off, which is longer than the markers take. Therefore the coordinator holds this answer back
until the id's next transition, or for `WAIT_MS`; then the question is asked again. For a producer of
`transaction.version` 2 a partition's leader asks (KIP-890: `DelayedRefusal`), a producer below it asks itself
(`DelayedAdditions`). Used on any thread.
Kafka: AddPartitionsToTxnConfig, TransactionCoordinator.handleAddPartitionsToTransaction, which does not wait.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Final

from barnabas.coordinator.transaction.transaction_metadata import ProducerIdAndEpoch
from barnabas.coordinator.transaction.transaction_service import TransactionService
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.runtime.clock import NANOSECONDS_PER_MILLISECOND, Clock
from barnabas.runtime.scheduler import ScheduledTask, Scheduler

WAIT_MS: Final = 100
"""The longest wait, as in Kafka 4 (add.partitions.to.txn.retry.backoff.max.ms)."""


class DelayedRefusal:
    """The answer to one question: a leader's (`TransactionCoordinator` makes it), or an attempt of `DelayedAdditions`.

    A leader's question, refused and held back:

        refused: CONCURRENT_TRANSACTIONS     the entry keeps this as a waiter; the expiry is scheduled
        the end is stored: `again`           the leader is told, and asks again; the expiry is cancelled
        or the expiry comes first            the leader is told, and tells the producer

    The leader asks again (`api.transaction_verification`) instead of being answered late: a verification that its log
    began before the marker is no longer valid behind the marker. In Kafka the leader asks every 20 ms; otherwise the
    producer would wait for its `retry.backoff.ms`, a hundred. A transition may come between a refusal and its report:
    then `again` is called first.

    `_lock` guards all fields; it is held for moments, and never while anything is called. on_done: called once, on any
    thread, without locks.
    """

    __slots__ = ("_expiry", "_is_ended", "_lock", "_on_done", "_scheduler", "_wait_ms", "is_expired")

    def __init__(self, on_done: Callable[[ErrorCode], None], scheduler: Scheduler, *, wait_ms: int = WAIT_MS) -> None:
        self._on_done = on_done
        self._scheduler = scheduler
        self._wait_ms = wait_ms
        self._lock = threading.Lock()
        self._expiry: ScheduledTask | None = None
        self._is_ended = False
        self.is_expired = False
        """Whether the answer came because the time was over. Written before `on_done` is called."""

    @property
    def is_ended(self) -> bool:
        """Whether `on_done` has been called, or is being called."""
        return self._is_ended

    def answer(self, error: ErrorCode) -> None:
        """Pass the coordinator's answer on, now; CONCURRENT_TRANSACTIONS later."""
        if error is not ErrorCode.CONCURRENT_TRANSACTIONS:
            self._end(error)
            return
        with self._lock:
            if not self._is_ended:
                self._expiry = self._scheduler.schedule("delayed-refusal", self._expire, delay_ms=self._wait_ms)

    def _expire(self) -> None:
        self.is_expired = True
        self.again()

    def again(self) -> None:
        """Say that the question may be asked again: after a transition, or when the time is over."""
        self._end(ErrorCode.CONCURRENT_TRANSACTIONS)

    def _end(self, error: ErrorCode) -> None:
        with self._lock:
            if self._is_ended:
                return
            self._is_ended = True
            expiry = self._expiry
        if expiry is not None:
            expiry.cancel()
        self._on_done(error)


class DelayedAdditions:
    """Adds partitions for producers that do not wait for the end of their last transaction. Immutable.

    Called by `TransactionsApi` for AddPartitionsToTxn and AddOffsetsToTxn of clients, most of which ask again 20 ms
    after a CONCURRENT_TRANSACTIONS. So the question waits here for the id's next transition, and is decided again.
    After `WAIT_MS` in all the producer is told what Kafka tells it at once. One addition is worked on by one thread
    after the other, without a lock: each attempt begins when the one before was refused.
    """

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
