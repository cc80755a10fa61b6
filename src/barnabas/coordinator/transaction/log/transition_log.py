"""The storing of transitions: metadata go into the log under the entry's lock, and into the entry when they are stored.

Called by the services of this package on any thread; keeps nothing. Between the two steps `TransactionEntry.pending`
keeps other transitions out. Kafka: TransactionStateManager.appendTransactionToLog.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from barnabas.coordinator.runtime.log import CoordinatorLog, ErrorTranslation
from barnabas.coordinator.transaction.entry import TransactionEntry
from barnabas.coordinator.transaction.log.schemas import FLEXIBLE_VALUE_VERSION, VALUE_VERSION, encode_key, encode_value
from barnabas.coordinator.transaction.metadata import TransactionMetadata
from barnabas.protocol.errors import ErrorCode

logger = logging.getLogger(__name__)

OnStored = Callable[[ErrorCode], None]

LOG_ERRORS: Final[ErrorTranslation] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""The log's errors, as producers know them: both coordinator errors make them look for the coordinator again."""


class TransitionLog:
    """The writer of transitions."""

    def __init__(self, log: CoordinatorLog) -> None:
        self._log = log

    def append(self, entry: TransactionEntry, following: TransactionMetadata) -> Callable[[OnStored], None]:
        """Append `following` to the log, under the entry's lock.

        Returns a function to be called once the lock is released. It calls `on_stored` when the metadata are stored
        and in the entry, or with the error; then the entry is as it was before.
        """
        entry.pending = following.state
        # By what has to be said, and not by the cluster's level as in Kafka: a level that is lowered leaves no producer
        # with a record that has lost its next producer id.
        version = FLEXIBLE_VALUE_VERSION if following.raises_epoch else VALUE_VERSION
        record = (encode_key(entry.transactional_id), encode_value(following, version))
        stored = self._log.append(entry.partition, [record], LOG_ERRORS)

        def wait(on_stored: OnStored) -> None:
            def finished(error: ErrorCode) -> None:
                on_stored(_finish(entry, following, error))
                entry.wake_waiters()

            stored.when_replicated(finished)

        return wait

    def append_tombstone(self, entry: TransactionEntry) -> Callable[[OnStored], None]:
        """Append the removal of an id, under the entry's lock. Returns what `append` returns; the entry stays."""
        return self._log.append(
            entry.partition, [(encode_key(entry.transactional_id), None)], LOG_ERRORS
        ).when_replicated


def _finish(entry: TransactionEntry, following: TransactionMetadata, error: ErrorCode) -> ErrorCode:
    """Put stored metadata into the entry, or give the transition up. Returns the error for the client."""
    with entry.lock:
        # The partition has been given up: another broker reads the record, and decides what it means.
        if entry.is_removed:
            return ErrorCode.NOT_COORDINATOR
        entry.pending = None
        if error is ErrorCode.NONE:
            entry.metadata = following
        else:
            logger.info(
                "%s: the transition to %s could not be stored: %s",
                entry.transactional_id,
                following.state.shown_name,
                error.name,
            )
        return error
