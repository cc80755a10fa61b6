"""What the coordinator knows of a transactional id, the table of its states, and the transitions between them.

The metadata are immutable, and held by a TransactionEntry. The transitions are pure functions from metadata to the next
metadata, called by `decisions` and the services, under the entry's lock. Each of them raises
IllegalTransactionTransition when the table does not have the transition. `docs/transaction-states.md` is drawn from
`PREVIOUS_STATES`. Kafka: TransactionState, TransactionMetadata (prepare...), TxnTransitMetadata.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from barnabas.protocol.topic_partition import TopicPartition

NO_PRODUCER_ID: Final = -1
NO_EPOCH: Final = -1
NO_TIME: Final = -1
LARGEST_EPOCH: Final = 0x7FFF
LAST_USABLE_EPOCH: Final = LARGEST_EPOCH - 1
"""No producer gets a larger epoch: the last one stays for the coordinator, which fences with it."""
RAISES_EPOCH_SINCE: Final = 2
"""The first `transaction.version` of producers whose epoch is raised with the end of each transaction (KIP-890)."""


# -- states


class TransactionState(enum.Enum):
    """The state of a transactional id. The value is its number in the log.

    - EMPTY: a producer has the id, and has begun no transaction.
    - ONGOING: a transaction that has partitions.
    - PREPARE_COMMIT, PREPARE_ABORT: the end is decided, and stored; markers are being written.
    - COMPLETE_COMMIT, COMPLETE_ABORT: every partition has its marker.
    - DEAD: the id is being removed, because nothing has used it for long.
    - PREPARE_EPOCH_FENCE: the epoch is raised to fence the producer, before its transaction is aborted. Never stored.
    """

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def shown_name(self) -> str:
        """The name that tools show: `PrepareCommit`."""
        return self.name.title().replace("_", "")


_S = TransactionState
COMPLETE: Final = frozenset({_S.EMPTY, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT})
"""The states without a transaction: a new one may begin, and the id may expire."""
DECIDED: Final = frozenset({_S.PREPARE_COMMIT, _S.PREPARE_ABORT})
"""The states in which markers are being written."""

PREVIOUS_STATES: Final[Mapping[TransactionState, frozenset[TransactionState]]] = {
    _S.EMPTY: COMPLETE,
    _S.ONGOING: COMPLETE | {_S.ONGOING},
    _S.PREPARE_COMMIT: frozenset({_S.ONGOING}),
    # A producer of transaction.version 2 cannot know whether its transaction has begun, and may abort it all the same.
    _S.PREPARE_ABORT: COMPLETE | {_S.ONGOING, _S.PREPARE_EPOCH_FENCE},
    _S.COMPLETE_COMMIT: frozenset({_S.PREPARE_COMMIT}),
    _S.COMPLETE_ABORT: frozenset({_S.PREPARE_ABORT}),
    _S.DEAD: COMPLETE,
    _S.PREPARE_EPOCH_FENCE: frozenset({_S.ONGOING}),
}
"""The states from which each state can be reached."""


class IllegalTransactionTransition(RuntimeError):
    """A transition that is not in the table: a bug of this broker."""


# -- metadata


class ProducerIdAndEpoch(NamedTuple):
    """A producer id and its epoch."""

    producer_id: int
    epoch: int


class TransactionMetadata(NamedTuple):
    """A transactional id. Times are wall clock milliseconds; `start_ms` is -1 without a transaction.

    producer_epoch: -1 before the first producer has been told it. last_epoch: the one before, when the producer that
    has the id has raised it itself (KIP-360); a repeated request names it.
    client_version: the `transaction.version` by which the producer last changed its transaction.
    next_producer_id: what the producer has been told to use once the transaction, which took the last epoch, is
    complete; -1 for the same id.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState
    updated_ms: int
    partitions: frozenset[TopicPartition] = frozenset()
    start_ms: int = NO_TIME
    previous_producer_id: int = NO_PRODUCER_ID
    last_epoch: int = NO_EPOCH
    client_version: int = 0
    next_producer_id: int = NO_PRODUCER_ID

    @property
    def is_decided(self) -> bool:
        """Whether the end is decided, and markers are being written."""
        return self.state is _S.PREPARE_COMMIT or self.state is _S.PREPARE_ABORT

    @property
    def is_epoch_exhausted(self) -> bool:
        """Whether the producer id has no epoch left for another producer."""
        return self.producer_epoch >= LAST_USABLE_EPOCH

    @property
    def raises_epoch(self) -> bool:
        """Whether the producer gets another epoch with each transaction."""
        return self.client_version >= RAISES_EPOCH_SINCE

    @property
    def next_producer(self) -> ProducerIdAndEpoch:
        """The producer id and epoch of the next transaction, also while the markers of this one are written."""
        if self.next_producer_id != NO_PRODUCER_ID:
            return ProducerIdAndEpoch(self.next_producer_id, 0)
        return ProducerIdAndEpoch(self.producer_id, self.producer_epoch)


# -- transitions


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
    return metadata._replace(state=state, **changes)
