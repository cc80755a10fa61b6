"""The transaction coordinator of a broker: its services, and how they start and stop together.

Made by `broker.stages.transaction_coordinator_builder` when it is first needed; started and stopped by LateCoordinator.
TransactionAdmin answers administrators on any thread, and reads immutable metadata without a lock; TransactionExpiry
runs on the scheduler's threads, without a lock but the entries' own.
Kafka: TransactionCoordinator (startup, shutdown, onElection, onResignation, handleListTransactions,
handleDescribeTransactions, abortTimedOutTransactions), TransactionStateManager.enableTransactionalIdExpiration.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Final, NamedTuple

from barnabas.coordinator.runtime.coordinator_loader import CoordinatorLoader, LoadTimes
from barnabas.coordinator.runtime.partitions import CoordinatorPartitions
from barnabas.coordinator.transaction.held_back_answers import DelayedRefusal
from barnabas.coordinator.transaction.marker_sender import MarkerSender
from barnabas.coordinator.transaction.transaction_entry import TransactionEntry
from barnabas.coordinator.transaction.transaction_environment import TransactionEnvironment
from barnabas.coordinator.transaction.transaction_metadata import (
    COMPLETE,
    RAISES_EPOCH_SINCE,
    ProducerIdAndEpoch,
    TransactionMetadata,
    TransactionState,
)
from barnabas.coordinator.transaction.transaction_service import TransactionService, VerificationErrors
from barnabas.coordinator.transaction.verification_sender import Question, VerificationSender
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.runtime.scheduler import ScheduledTask, Scheduler

_BY_NAME = {state.shown_name: state for state in TransactionState}


logger = logging.getLogger(__name__)

ASK_AGAIN_MS: Final = 20
"""The pause before another broker is asked again (Kafka: add.partitions.to.txn.retry.backoff.ms)."""


class TransactionFilter(NamedTuple):
    """Which transactions to list; an empty collection is all. `open_for_ms`: at least; negative is all."""

    states: Collection[str] = ()
    producer_ids: Collection[int] = ()
    open_for_ms: int = -1


class ListedTransactions(NamedTuple):
    """The transactions, and the names of states that do not exist."""

    transactions: Sequence[TransactionMetadata]
    unknown_states: Sequence[str]


class TransactionAdmin:
    """The questions of administrators."""

    def __init__(self, environment: TransactionEnvironment) -> None:
        self._environment = environment

    def list_transactions(self, wanted: TransactionFilter) -> ListedTransactions:
        """Return the transactions that this broker coordinates.

        Raises ApiError: COORDINATOR_LOAD_IN_PROGRESS while some are being loaded, COORDINATOR_NOT_AVAILABLE.
        """
        partitions = self._environment.partitions
        if not partitions.is_started:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if partitions.is_loading:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        unknown = [name for name in wanted.states if name not in _BY_NAME]
        states = {_BY_NAME[name] for name in wanted.states if name in _BY_NAME}
        # Unknown states alone match nothing.
        if wanted.states and not states:
            return ListedTransactions([], unknown)
        now_ms = self._environment.clock.milliseconds()
        found = [
            metadata
            for metadata in (entry.metadata for entry in self._environment.table.entries())
            if metadata.state is not TransactionState.DEAD
            and (not states or metadata.state in states)
            and (not wanted.producer_ids or metadata.producer_id in wanted.producer_ids)
            and (wanted.open_for_ms < 0 or now_ms - metadata.start_ms > wanted.open_for_ms)
        ]
        return ListedTransactions(found, unknown)

    def describe(self, transactional_id: str) -> TransactionMetadata:
        """Return the metadata of an id.

        Raises ApiError: INVALID_REQUEST, TRANSACTIONAL_ID_NOT_FOUND, and the errors of a coordinator.
        """
        if not transactional_id:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        entry = self._environment.table.get(transactional_id)
        if entry is None:
            raise ApiError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
        return entry.metadata


class TransactionExpiry:
    """The two periodic tasks."""

    def __init__(self, environment: TransactionEnvironment, service: TransactionService, scheduler: Scheduler) -> None:
        self._environment = environment
        self._service = service
        self._scheduler = scheduler
        self._tasks: list[ScheduledTask] = []

    def start(self) -> None:
        """Begin to look for what is too old."""
        config = self._environment.config
        for name, task, period_ms in (
            ("transaction-abort", self.abort_overdue, config.abort_interval_ms),
            ("transactionalId-expiration", self.remove_expired, config.removal_interval_ms),
        ):
            self._tasks.append(self._scheduler.schedule(name, task, delay_ms=period_ms, period_ms=period_ms))

    def stop(self) -> None:
        """Stop looking."""
        for task in self._tasks:
            task.cancel()

    def abort_overdue(self) -> None:
        """Abort each transaction that is open for longer than its producer asked for; the producer is fenced."""
        now_ms = self._environment.clock.milliseconds()
        for entry in self._environment.table.entries():
            metadata = entry.metadata
            if metadata.state is TransactionState.ONGOING and metadata.start_ms + metadata.timeout_ms < now_ms:
                self._abort(entry)
        self._environment.actions.run_all()

    def _abort(self, entry: TransactionEntry) -> None:
        def ended(error: ErrorCode) -> None:
            if error is ErrorCode.NONE:
                logger.info("Aborting the transaction of %s, which has timed out", entry.transactional_id)
            else:
                logger.debug("Not aborting the overdue transaction of %s: %s", entry.transactional_id, error.name)

        self._service.abort_fenced(entry, ended)

    def remove_expired(self) -> None:
        """Remove each transactional id that nothing has used for `transactional.id.expiration.ms`."""
        oldest_ms = self._environment.clock.milliseconds() - self._environment.config.id_expiration_ms
        for entry in self._environment.table.entries():
            if _is_idle(entry.metadata, oldest_ms):
                self._remove(entry, oldest_ms)
        self._environment.actions.run_all()

    def _remove(self, entry: TransactionEntry, oldest_ms: int) -> None:
        with entry.lock:
            # Looked at again under the lock: a producer may have come back.
            if entry.is_removed or entry.pending is not None or not _is_idle(entry.metadata, oldest_ms):
                return
            entry.pending = TransactionState.DEAD
            wait = self._environment.log.append_tombstone(entry)

        def stored(error: ErrorCode) -> None:
            with entry.lock:
                entry.pending = None
                if error is ErrorCode.NONE and not entry.is_removed:
                    self._environment.table.remove(entry)
                    logger.info("Removed the transactional id %s, which has expired", entry.transactional_id)

        wait(stored)


def _is_idle(metadata: TransactionMetadata, oldest_ms: int) -> bool:
    return metadata.state in COMPLETE and metadata.updated_ms <= oldest_ms


class TransactionCounts(NamedTuple):
    """What metrics tell of transactions.

    unknown_destinations: the number of markers that wait for a leader. append_retries: that of complete transactions
    that their log has not taken. load_times: of the partitions that were loaded last.
    """

    unknown_destinations: Callable[[], int]
    append_retries: Callable[[], int]
    load_times: deque[LoadTimes]


class TransactionCoordinator(NamedTuple):
    """The services for the transactional ids of this broker."""

    partitions: CoordinatorPartitions
    loader: CoordinatorLoader
    transactions: TransactionService
    markers: MarkerSender
    verifications: VerificationSender
    expiry: TransactionExpiry
    admin: TransactionAdmin
    counts: TransactionCounts
    scheduler: Scheduler

    def startup(self) -> None:
        """Serve the ids whose partitions this broker leads. Until then clients get COORDINATOR_NOT_AVAILABLE."""
        self.markers.start()
        self.partitions.start()
        self.expiry.start()

    def shutdown(self) -> None:
        """Stop serving transactional ids."""
        self.partitions.stop()
        self.expiry.stop()
        self.loader.shutdown()
        self.markers.shutdown()
        self.verifications.shutdown()

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        callback: Callable[[VerificationErrors], None],
        *,
        adds: bool,
    ) -> None:
        """Answer a partition's leader before a producer's first append there (`api.transaction_verification`).

        The coordinator of another broker is asked over the network. While the producer's transaction before is being
        ended, the refusal of an addition is held back: by the coordinator's own broker until the end
        (`DelayedRefusal`), by another for a moment.
        """
        producer = ProducerIdAndEpoch(producer_id, producer_epoch)
        if self.partitions.check(transactional_id) is ErrorCode.NOT_COORDINATOR:

            def answered(refused: VerificationErrors) -> None:
                if adds and ErrorCode.CONCURRENT_TRANSACTIONS in refused.values():
                    # The leader asks again at once.
                    self.scheduler.schedule("verification-retry", partial(callback, refused), delay_ms=ASK_AGAIN_MS)
                else:
                    callback(refused)

            self.verifications.ask(Question(transactional_id, producer, partitions, adds, answered))
            return
        if not adds:
            callback(self.transactions.verify(transactional_id, producer, partitions))
            return

        def added(error: ErrorCode) -> None:
            callback({} if error is ErrorCode.NONE else dict.fromkeys(partitions, error))

        refusal = DelayedRefusal(added, self.scheduler)
        self.transactions.add_partitions(
            transactional_id, producer, partitions, refusal.answer, client_version=RAISES_EPOCH_SINCE, waiter=refusal
        )
