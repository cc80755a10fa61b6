"""The storing of the fact that a transaction is complete, repeated while the log does not take the record.

Made by `broker.transaction_stage`. `markers_written` is called on the marker sender's thread, the repetitions run on
the scheduler's, and the results come on any thread; `_lock` guards the number of waiting ones.
Kafka: TransactionMarkerChannelManager (tryAppendToLog, txnLogAppendRetryQueue).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, TypeAlias

from barnabas.coordinator.transaction.markers.ended_transaction import EndedTransaction
from barnabas.protocol.errors import ErrorCode
from barnabas.purgatory.action_queue import ActionQueue
from barnabas.runtime.scheduler import Scheduler

RETRY_MS: Final = 100
"""The pause before the end of a transaction is stored again, when its log did not take it."""

StoreCompletion: TypeAlias = Callable[[EndedTransaction, Callable[[ErrorCode], None]], None]


class TransactionCompletion:
    """The completions of transactions. store: TransactionService.complete."""

    def __init__(self, store: StoreCompletion, scheduler: Scheduler, actions: ActionQueue) -> None:
        self._store = store
        self._scheduler = scheduler
        self._actions = actions
        self._lock = threading.Lock()
        self._waiting = 0

    @property
    def waiting(self) -> int:
        """The number of completions that wait to be stored again."""
        return self._waiting

    def markers_written(self, ended: EndedTransaction) -> None:
        """Store that a transaction is complete."""
        self._store(ended, lambda error: self._retry(ended, error))

    def _retry(self, ended: EndedTransaction, error: ErrorCode) -> None:
        # The log may take the record later, whatever the error: a full disk is NOT_COORDINATOR, too, and the broker may
        # lead on. Kafka takes any other error for the end of its leadership, which a full disk is there.
        if error is not ErrorCode.NONE and ended.is_open():
            with self._lock:
                self._waiting += 1
            self._scheduler.schedule("transaction-completion", lambda: self._again(ended), delay_ms=RETRY_MS)

    def _again(self, ended: EndedTransaction) -> None:
        with self._lock:
            self._waiting -= 1
        self.markers_written(ended)
        self._actions.run_all()
