"""The refusal of a partition that its leader adds to a transaction, held back while the one before is being ended.

Made by `TransactionCoordinator` for a leader's question (KIP-890), and by `patient_addition` for a producer's own, on
any thread. `_lock` guards all fields; it is held for moments, and never while anything is called.
Kafka: AddPartitionsToTxnConfig, by which a leader asks every 20 ms.

A producer of `transaction.version` 2 goes on as soon as its EndTxn is answered, and the markers are written afterwards.
So the first batch of nearly every transaction comes a few milliseconds too early. Told CONCURRENT_TRANSACTIONS, the
producer would wait for its `retry.backoff.ms`: a hundred. Therefore the coordinator holds this answer back until the
id's next transition, or for `WAIT_MS`. The leader then asks again (`api.transaction_verification`).

    refused: CONCURRENT_TRANSACTIONS     the entry keeps this as a waiter; the expiry is scheduled
    the end is stored: `again`           the leader is told, and asks again; the expiry is cancelled
    or the expiry comes first            the leader is told, and tells the producer

The leader asks again instead of being answered late: a verification that its log began before the marker is no longer
valid behind the marker. A transition may come between a refusal and its report: then `again` is called first.

A producer's own addition of partitions, held back while its transaction before is being ended.

Made by `TransactionsApi` for AddPartitionsToTxn and AddOffsetsToTxn of clients, on any thread. It is called by one
thread after the other: each attempt begins when the one before was refused. No lock of its own.

A producer below `transaction.version` 2 goes on as soon as its EndTxn is answered, and asks for the partitions of its
next transaction while the markers are being written. Told CONCURRENT_TRANSACTIONS, it asks again after its back-off: 20
ms with most clients, longer than the markers take. So the question waits here for the id's next transition
(`delayed_refusal`), and is decided anew. After `WAIT_MS` in all the producer is told what Kafka tells it at once.

Kafka: TransactionCoordinator.handleAddPartitionsToTransaction, which does not wait.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Final

from barnabas.coordinator.transaction.service import TransactionService
from barnabas.coordinator.transaction.transaction_metadata import ProducerIdAndEpoch
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.runtime.clock import NANOSECONDS_PER_MILLISECOND, Clock
from barnabas.runtime.scheduler import ScheduledTask, Scheduler

WAIT_MS: Final = 100
"""The longest wait, as in Kafka 4 (add.partitions.to.txn.retry.backoff.max.ms)."""


class DelayedRefusal:
    """The answer to one question. on_done: called once, on any thread, without locks."""

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
