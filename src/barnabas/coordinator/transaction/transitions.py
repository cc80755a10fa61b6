"""The transitions of a transactional id: pure functions from metadata to the next metadata.

Called by `decisions` and the services, under the entry's lock. Every function raises IllegalTransactionTransition when
the table of `states` does not have the transition. Kafka: TransactionMetadata.prepare... .
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from barnabas.coordinator.transaction.metadata import (
    LARGEST_EPOCH,
    NO_EPOCH,
    NO_PRODUCER_ID,
    NO_TIME,
    RAISES_EPOCH_SINCE,
    TransactionMetadata,
)
from barnabas.coordinator.transaction.states import (
    COMPLETE,
    PREVIOUS_STATES,
    IllegalTransactionTransition,
    TransactionState,
)
from barnabas.protocol.topic_partition import TopicPartition


def with_next_epoch(
    metadata: TransactionMetadata, *, timeout_ms: int, last_epoch: int, now_ms: int
) -> TransactionMetadata:
    """Give the id's next producer the next epoch. Raises IllegalTransactionTransition when there is none."""
    if metadata.is_epoch_exhausted:
        raise IllegalTransactionTransition(f"{metadata.transactional_id}: no epoch follows {metadata.producer_epoch}")
    return _to_empty(
        metadata,
        producer_epoch=metadata.producer_epoch + 1,
        last_epoch=last_epoch,
        timeout_ms=timeout_ms,
        updated_ms=now_ms,
    )


def with_same_epoch(metadata: TransactionMetadata, *, timeout_ms: int, now_ms: int) -> TransactionMetadata:
    """Answer a repeated request: the epoch was raised before."""
    return _to_empty(metadata, timeout_ms=timeout_ms, updated_ms=now_ms)


def with_new_producer_id(
    metadata: TransactionMetadata, producer_id: int, *, timeout_ms: int, last_epoch: int, now_ms: int
) -> TransactionMetadata:
    """Give the id's next producer a new producer id, because the present one has no epochs left."""
    return _to_empty(
        metadata,
        producer_id=producer_id,
        producer_epoch=0,
        last_epoch=last_epoch,
        timeout_ms=timeout_ms,
        updated_ms=now_ms,
    )


def fenced(metadata: TransactionMetadata, *, is_raised_already: bool) -> TransactionMetadata:
    """Raise the epoch above the present producer's, in order to abort its transaction. No producer is told this epoch.

    is_raised_already: an earlier attempt raised it, and could not store the abort. Raises IllegalTransactionTransition
    when no epoch is left.
    """
    epoch = metadata.producer_epoch + (0 if is_raised_already else 1)
    if epoch > LARGEST_EPOCH:
        raise IllegalTransactionTransition(f"{metadata.transactional_id}: no epoch is left to fence with")
    return _moved(metadata, TransactionState.PREPARE_EPOCH_FENCE, producer_epoch=epoch, last_epoch=NO_EPOCH)


def with_partitions(
    metadata: TransactionMetadata, partitions: Iterable[TopicPartition], now_ms: int, client_version: int = 0
) -> TransactionMetadata:
    """Add partitions to the transaction; the first ones begin it."""
    return _moved(
        metadata,
        TransactionState.ONGOING,
        partitions=metadata.partitions | frozenset(partitions),
        start_ms=now_ms if metadata.state in COMPLETE else metadata.start_ms,
        updated_ms=now_ms,
        client_version=client_version,
    )


def decided(metadata: TransactionMetadata, *, is_commit: bool, now_ms: int) -> TransactionMetadata:
    """Decide the end of the transaction, whose producer keeps its epoch.

    Raises IllegalTransactionTransition when no transaction is open.
    """
    if metadata.state in COMPLETE:
        raise IllegalTransactionTransition(f"{metadata.transactional_id}: there is no transaction to end")
    return _moved(metadata, _decided_state(is_commit), updated_ms=now_ms, client_version=0)


def decided_with_next_epoch(
    metadata: TransactionMetadata, *, is_commit: bool, now_ms: int, next_producer_id: int = NO_PRODUCER_ID
) -> TransactionMetadata:
    """Decide the end of the transaction and raise the producer's epoch: a late batch of it has an older one (KIP-890).

    next_producer_id: for the producer that has used its last epoch. Raises IllegalTransactionTransition when such a
    producer gets no id, when another gets one, and when a commit finds no open transaction.
    """
    if metadata.is_epoch_exhausted != (next_producer_id != NO_PRODUCER_ID) or metadata.producer_epoch >= LARGEST_EPOCH:
        raise IllegalTransactionTransition(f"{metadata.transactional_id}: no epoch follows {metadata.producer_epoch}")
    return _moved(
        metadata,
        _decided_state(is_commit),
        producer_epoch=metadata.producer_epoch + 1,
        last_epoch=metadata.producer_epoch,
        previous_producer_id=metadata.producer_id,
        next_producer_id=next_producer_id,
        # An abort without a transaction is one that begins now.
        start_ms=now_ms if metadata.state in COMPLETE else metadata.start_ms,
        updated_ms=now_ms,
        client_version=RAISES_EPOCH_SINCE,
    )


def completed(metadata: TransactionMetadata, now_ms: int) -> TransactionMetadata:
    """End the transaction: every partition has its marker. The producer may have got another id with the end."""
    is_commit = metadata.state is TransactionState.PREPARE_COMMIT
    state = TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT
    producer_id, producer_epoch = metadata.next_producer
    return _moved(
        metadata,
        state,
        partitions=frozenset(),
        updated_ms=now_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        next_producer_id=NO_PRODUCER_ID,
    )


def dead(metadata: TransactionMetadata) -> TransactionMetadata:
    """Begin to remove the id."""
    return _moved(metadata, TransactionState.DEAD, partitions=frozenset())


def _decided_state(is_commit: bool) -> TransactionState:
    return TransactionState.PREPARE_COMMIT if is_commit else TransactionState.PREPARE_ABORT


def _to_empty(metadata: TransactionMetadata, **changes: Any) -> TransactionMetadata:
    changes["previous_producer_id"] = metadata.producer_id
    return _moved(metadata, TransactionState.EMPTY, partitions=frozenset(), start_ms=NO_TIME, **changes)


def _moved(metadata: TransactionMetadata, state: TransactionState, **changes: Any) -> TransactionMetadata:
    """Return the metadata in another state. Raises IllegalTransactionTransition."""
    if metadata.state not in PREVIOUS_STATES[state]:
        raise IllegalTransactionTransition(
            f"{metadata.transactional_id}: {metadata.state.shown_name} cannot become {state.shown_name}"
        )
    return replace(metadata, state=state, **changes)
