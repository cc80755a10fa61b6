"""The end of what is too old: transactions beyond their timeout, and transactional ids that nothing uses.

Runs on the scheduler's threads, every few seconds and every hour; without a lock but the entries' own.
Kafka: TransactionCoordinator.abortTimedOutTransactions, TransactionStateManager.enableTransactionalIdExpiration.
"""

from __future__ import annotations

import logging

from barnabas.coordinator.transaction.entry import TransactionEntry
from barnabas.coordinator.transaction.transaction_environment import TransactionEnvironment
from barnabas.coordinator.transaction.transaction_metadata import COMPLETE, TransactionMetadata, TransactionState
from barnabas.coordinator.transaction.transaction_service import TransactionService
from barnabas.protocol.errors import ErrorCode
from barnabas.runtime.scheduler import ScheduledTask, Scheduler

logger = logging.getLogger(__name__)


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
        """Look no more."""
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
