"""The requests of producers with transactional ids: begin, add partitions, verify, end.

Called by the request handlers on any thread, without a lock, and by TransactionExpiry on the scheduler's. A request
takes the entry's lock to decide and to append, never while it waits for the replicas. `on_done` is called once, now or
later, on any thread, without a lock. Kafka: TransactionCoordinator.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from barnabas.coordinator.transaction.decisions import (
    Decision,
    EndTerms,
    InitTerms,
    Refused,
    decide_add,
    decide_end,
    decide_end_with_next_epoch,
    decide_init,
    verify,
)
from barnabas.coordinator.transaction.marker_dispatch import EndedTransaction
from barnabas.coordinator.transaction.transaction_entry import TransactionEntry, TransitionWaiter
from barnabas.coordinator.transaction.transaction_environment import TransactionEnvironment
from barnabas.coordinator.transaction.transaction_metadata import (
    NO_EPOCH,
    NO_PRODUCER_ID,
    ProducerIdAndEpoch,
    TransactionMetadata,
    TransactionState,
    completed,
    decided,
    fenced,
)
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.topic_partition import TopicPartition

logger = logging.getLogger(__name__)

NO_PRODUCER = ProducerIdAndEpoch(NO_PRODUCER_ID, NO_EPOCH)


class InitResult(NamedTuple):
    """The producer id and epoch, or the error."""

    error: ErrorCode
    producer: ProducerIdAndEpoch = NO_PRODUCER


class EndResult(NamedTuple):
    """The producer id and epoch for the next transaction, or the error."""

    error: ErrorCode
    producer: ProducerIdAndEpoch = NO_PRODUCER


OnInitialized = Callable[[InitResult], None]
OnEnded = Callable[[EndResult], None]
OnDone = Callable[[ErrorCode], None]
VerificationErrors = Mapping[TopicPartition, ErrorCode]


class TransactionService:
    """The transactions of this broker. send_markers: has the markers of an ended transaction written."""

    def __init__(self, environment: TransactionEnvironment, send_markers: Callable[[EndedTransaction], None]) -> None:
        self._environment = environment
        self._table = environment.table
        self._log = environment.log
        self._now_ms = environment.clock.milliseconds
        self._send_markers = send_markers

    # -- InitProducerId

    def init_producer_id(
        self, transactional_id: str, timeout_ms: int, expected: ProducerIdAndEpoch | None, on_done: OnInitialized
    ) -> None:
        """Give a producer the id and the epoch to use; a transaction of the producer before it is aborted.

        expected: what the producer has, None for one that starts. Raises ApiError: INVALID_REQUEST,
        INVALID_TRANSACTION_TIMEOUT, NOT_COORDINATOR and the other errors of a coordinator.
        """
        if not transactional_id:
            raise ApiError(ErrorCode.INVALID_REQUEST, "The transactional id must not be empty")
        longest_ms = self._environment.config.max_timeout_ms
        if not 0 < timeout_ms <= longest_ms:
            raise ApiError(
                ErrorCode.INVALID_TRANSACTION_TIMEOUT,
                f"The transaction timeout must be from 1 to {longest_ms} ms (transaction.max.timeout.ms),"
                f" not {timeout_ms}",
            )
        terms = InitTerms(timeout_ms, expected, self._now_ms())
        entry = self._table.get(transactional_id) or self._new_entry(transactional_id, terms)
        is_fence = False
        wait = None
        with entry.lock:
            decision = self._decision(entry, lambda: decide_init(entry.known, terms, self._environment.new_producer_id))
            if not isinstance(decision, Refused):
                following = decision.metadata
                is_fence = following.state is TransactionState.PREPARE_EPOCH_FENCE
                if not is_fence:
                    wait = self._log.append(entry, following)
        if isinstance(decision, Refused):
            on_done(InitResult(decision.error))
            return
        if wait is None:
            # The producer tries again until the transaction of the one before has ended.
            self.abort_fenced(
                entry,
                lambda error: on_done(
                    InitResult(ErrorCode.CONCURRENT_TRANSACTIONS if error is ErrorCode.NONE else error)
                ),
            )
            return

        def stored(error: ErrorCode) -> None:
            if error is not ErrorCode.NONE:
                on_done(InitResult(error))
                return
            logger.info(
                "Initialized transactional id %s with producer id %d and epoch %d",
                transactional_id,
                following.producer_id,
                following.producer_epoch,
            )
            on_done(InitResult(ErrorCode.NONE, ProducerIdAndEpoch(following.producer_id, following.producer_epoch)))

        wait(stored)

    def _new_entry(self, transactional_id: str, terms: InitTerms) -> TransactionEntry:
        return self._table.get_or_add(
            TransactionMetadata(
                transactional_id=transactional_id,
                producer_id=self._environment.new_producer_id(),
                producer_epoch=NO_EPOCH,
                timeout_ms=terms.timeout_ms,
                state=TransactionState.EMPTY,
                updated_ms=terms.now_ms,
            )
        )

    # -- partitions

    def add_partitions(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: Sequence[TopicPartition],
        on_done: OnDone,
        *,
        client_version: int = 0,
        waiter: TransitionWaiter | None = None,
    ) -> None:
        """Add partitions to the producer's transaction; the first ones begin it.

        client_version: the `transaction.version` that the producer's requests are of. waiter: called after the next
        transition, if the answer is CONCURRENT_TRANSACTIONS.
        """
        try:
            entry = self._existing(transactional_id)
        except ApiError as error:
            on_done(error.code)
            return
        self._decide_and_store(
            entry,
            lambda: decide_add(entry.known, producer, partitions, self._now_ms(), client_version=client_version),
            on_stored=on_done,
            on_refused=on_done,
            waiter=waiter,
        )

    def verify(
        self, transactional_id: str, producer: ProducerIdAndEpoch, partitions: Sequence[TopicPartition]
    ) -> VerificationErrors:
        """Return the error of each partition that is no part of the producer's open transaction (KIP-890)."""
        try:
            entry = self._existing(transactional_id)
        except ApiError as error:
            return dict.fromkeys(partitions, error.code)
        # One read of an immutable value: no lock.
        return verify(entry.metadata, producer, partitions)

    # -- the end

    def end(self, transactional_id: str, producer: ProducerIdAndEpoch, *, is_commit: bool, on_done: OnDone) -> None:
        """Commit or abort the producer's transaction. `on_done` is called when the decision is stored."""
        try:
            entry = self._existing(transactional_id)
        except ApiError as error:
            on_done(error.code)
            return
        terms = EndTerms(producer, is_commit, True, self._now_ms())
        self._decide_and_store(
            entry,
            lambda: decide_end(entry.known, terms),
            on_stored=lambda error: self._decided(entry, error, on_done),
            on_refused=on_done,
        )

    def end_with_next_epoch(
        self, transactional_id: str, producer: ProducerIdAndEpoch, *, is_commit: bool, on_done: OnEnded
    ) -> None:
        """Commit or abort as `end` does, and give the producer the epoch of its next transaction (KIP-890).

        An abort is possible without a transaction. Raises ApiError when a new producer id is needed and cannot be
        reserved.
        """
        try:
            entry = self._existing(transactional_id)
        except ApiError as error:
            on_done(EndResult(error.code))
            return
        terms = EndTerms(producer, is_commit, True, self._now_ms())
        following = NO_PRODUCER

        def decide() -> Decision:
            nonlocal following
            decision = decide_end_with_next_epoch(entry.known, terms, self._environment.new_producer_id)
            # Read here, under the entry's lock: a repeated end is answered from the metadata that it was compared with.
            following = (entry.metadata if isinstance(decision, Refused) else decision.metadata).next_producer
            return decision

        def answer(error: ErrorCode) -> None:
            on_done(EndResult(error, following) if error is ErrorCode.NONE else EndResult(error))

        self._decide_and_store(
            entry, decide, on_stored=lambda error: self._decided(entry, error, answer), on_refused=answer
        )

    def abort_fenced(self, entry: TransactionEntry, on_done: OnDone) -> None:
        """Abort the ongoing transaction of an entry with a raised epoch: its producer can write no more.

        CONCURRENT_TRANSACTIONS when the transaction is being ended already.
        """
        wait = None
        with entry.lock:
            before = entry.metadata
            if not entry.is_removed and entry.pending is None and before.state is TransactionState.ONGOING:
                raised = fenced(before, is_raised_already=entry.has_failed_fence)
                wait = self._log.append(entry, decided(raised, is_commit=False, now_ms=self._now_ms()))
        if wait is None:
            on_done(ErrorCode.NOT_COORDINATOR if entry.is_removed else ErrorCode.CONCURRENT_TRANSACTIONS)
            return

        def stored(error: ErrorCode) -> None:
            if error is not ErrorCode.NONE:
                with entry.lock:
                    # The record may be in the log of another leader. The epoch stays raised, and is not raised again.
                    if not entry.is_removed and entry.metadata is before:
                        entry.metadata = before._replace(producer_epoch=raised.producer_epoch, last_epoch=NO_EPOCH)
                        entry.has_failed_fence = True
            self._decided(entry, error, on_done)

        wait(stored)

    def _decided(self, entry: TransactionEntry, error: ErrorCode, on_done: OnDone) -> None:
        """Answer the client; then its transaction goes on without it."""
        on_done(error)
        if error is ErrorCode.NONE:
            with entry.lock:
                ended = EndedTransaction.of(entry)
            self._send_markers(ended)

    def complete(self, ended: EndedTransaction, on_done: OnDone) -> None:
        """Store that every partition has its marker. Called by the marker sender's thread."""
        entry = ended.entry
        wait = None
        with entry.lock:
            if not entry.is_removed and entry.pending is None and entry.metadata is ended.decided:
                entry.has_failed_fence = False
                wait = self._log.append(entry, completed(entry.metadata, self._now_ms()))
        if wait is None:
            on_done(ErrorCode.NOT_COORDINATOR)
        else:
            wait(on_done)

    # -- steps

    def _existing(self, transactional_id: str) -> TransactionEntry:
        """Return the entry of an id that a producer has begun to use.

        Raises ApiError: INVALID_REQUEST for an empty id, INVALID_PRODUCER_ID_MAPPING for an unknown one, and the errors
        of a coordinator.
        """
        if not transactional_id:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        entry = self._table.get(transactional_id)
        if entry is None:
            raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        return entry

    def _decide_and_store(
        self,
        entry: TransactionEntry,
        decide: Callable[[], Decision],
        *,
        on_stored: OnDone,
        on_refused: OnDone,
        waiter: TransitionWaiter | None = None,
    ) -> None:
        """Decide and append under the entry's lock; wait for the replicas, or tell a refusal, without it."""
        wait = None
        with entry.lock:
            decision = self._decision(entry, decide)
            if not isinstance(decision, Refused):
                wait = self._log.append(entry, decision.metadata)
            elif waiter is not None and decision.error is ErrorCode.CONCURRENT_TRANSACTIONS:
                entry.add_waiter(waiter)
        if wait is not None:
            wait(on_stored)
        elif isinstance(decision, Refused):
            on_refused(decision.error)

    @staticmethod
    def _decision(entry: TransactionEntry, decide: Callable[[], Decision]) -> Decision:
        """Decide under the entry's lock, unless the entry has been given up."""
        return Refused(ErrorCode.NOT_COORDINATOR) if entry.is_removed else decide()
