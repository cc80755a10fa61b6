"""The records of `__transaction_state` (keys: version 0, values: 0 and 1), and the storing of transitions in them.

Key and value begin with two bytes of version. Version 1 is written for producers of `transaction.version` 2, version 0
for others; both are read. The records are read while a coordinator loads, and by `barnabas log dump`. TransitionLog is
called by the services of this package on any thread; it keeps nothing, all else is pure.
Kafka: TransactionLog, TransactionLogKey, TransactionLogValue, TransactionStateManager.appendTransactionToLog.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Final

from barnabas.coordinator.runtime.coordinator_log import CoordinatorLog, ErrorTranslation
from barnabas.coordinator.runtime.record import decode_record, encode_record
from barnabas.coordinator.transaction.transaction_entry import TransactionEntry
from barnabas.coordinator.transaction.transaction_metadata import NO_PRODUCER_ID, TransactionMetadata, TransactionState
from barnabas.protocol.errors import DecodeError, ErrorCode
from barnabas.protocol.messages.message_spec import CoordinatorMessage, StructSpec
from barnabas.protocol.schema import Int8, Int16, Int32, Int64, field
from barnabas.protocol.topic_partition import TopicPartition, by_topic

logger = logging.getLogger(__name__)

VALUE_VERSION: Final = 0
FLEXIBLE_VALUE_VERSION: Final = 1
"""The version of values that say what producers of `transaction.version` 2 need."""


class TransactionLogKey(CoordinatorMessage, versions="0"):
    """The key: a transactional id."""

    transactional_id: str = field("0+")


class TransactionLogValue(CoordinatorMessage, versions="0-1", flexible="1+"):
    """The metadata of a transactional id."""

    producer_id: Int64 = field("0+")
    previous_producer_id: Int64 = field("1+", tag=0, tagged="1+", default=NO_PRODUCER_ID, ignorable=True)
    next_producer_id: Int64 = field("1+", tag=1, tagged="1+", default=NO_PRODUCER_ID, ignorable=True)
    producer_epoch: Int16 = field("0+")
    transaction_timeout_ms: Int32 = field("0+")
    transaction_status: Int8 = field("0+")
    transaction_partitions: list[TransactionLogValue.PartitionsSchema] | None = field("0+", nullable="0+")
    transaction_last_update_timestamp_ms: Int64 = field("0+")
    transaction_start_timestamp_ms: Int64 = field("0+")
    client_transaction_version: Int16 = field("1+", tag=2, tagged="1+", default=0, ignorable=True)

    class PartitionsSchema(StructSpec):
        topic: str = field("0+")
        partition_ids: list[Int32] = field("0+")


def encode_key(transactional_id: str) -> bytes:
    """Encode the key of an id."""
    return encode_record(TransactionLogKey(transactional_id=transactional_id), 0)


def encode_value(metadata: TransactionMetadata, version: int = VALUE_VERSION) -> bytes:
    """Encode metadata. Version 0 leaves out the previous and the next producer id, and the client's version."""
    value = TransactionLogValue(
        producer_id=metadata.producer_id,
        previous_producer_id=metadata.previous_producer_id,
        next_producer_id=metadata.next_producer_id,
        producer_epoch=metadata.producer_epoch,
        transaction_timeout_ms=metadata.timeout_ms,
        transaction_status=metadata.state.value,
        transaction_partitions=None
        if metadata.state is TransactionState.EMPTY
        else [
            TransactionLogValue.PartitionsSchema(topic, numbers)
            for topic, numbers in by_topic(sorted(metadata.partitions)).items()
        ],
        transaction_last_update_timestamp_ms=metadata.updated_ms,
        transaction_start_timestamp_ms=metadata.start_ms,
        client_transaction_version=metadata.client_version,
    )
    return encode_record(value, version)


def decode_key(key: bytes) -> str:
    """Return the transactional id of a key. Raises DecodeError."""
    return decode_record(TransactionLogKey, key).transactional_id


def decode_value(transactional_id: str, data: bytes) -> TransactionMetadata:
    """Return the metadata of a value. Raises DecodeError when it is malformed, or of an unknown version or state."""
    value = decode_record(TransactionLogValue, data)
    try:
        state = TransactionState(value.transaction_status)
    except ValueError:
        raise DecodeError(f"transaction state {value.transaction_status} is unknown; 0 to 7 are states") from None
    return TransactionMetadata(
        transactional_id=transactional_id,
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        timeout_ms=value.transaction_timeout_ms,
        state=state,
        updated_ms=value.transaction_last_update_timestamp_ms,
        partitions=frozenset(_partitions_of(value.transaction_partitions or ())),
        start_ms=value.transaction_start_timestamp_ms,
        previous_producer_id=value.previous_producer_id,
        client_version=value.client_transaction_version,
        next_producer_id=value.next_producer_id,
    )


def _partitions_of(topics: Iterable[TransactionLogValue.PartitionsSchema]) -> Iterable[TopicPartition]:
    return (TopicPartition(topic.topic, number) for topic in topics for number in topic.partition_ids)


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
    """The writer of transitions: metadata go into the log under the entry's lock, and into the entry when stored.

    Between the two steps `TransactionEntry.pending` keeps other transitions out.
    """

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
