"""What to do with a request of a producer, from the metadata of its transactional id alone.

Called by TransactionService under the entry's lock. Pure: a new producer id is asked for by a callable. The rules are
Kafka's, in Kafka's order. Kafka: TransactionCoordinator.prepareInitProducerIdTransit, handleAddPartitionsToTransaction,
handleVerifyPartitionsInTransaction, endTransaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from barnabas.coordinator.transaction.transaction_metadata import (
    COMPLETE,
    DECIDED,
    LAST_USABLE_EPOCH,
    NO_EPOCH,
    NO_PRODUCER_ID,
    ProducerIdAndEpoch,
    TransactionMetadata,
    TransactionState,
    decided,
    decided_with_next_epoch,
    fenced,
    with_new_producer_id,
    with_next_epoch,
    with_partitions,
    with_same_epoch,
)
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.topic_partition import TopicPartition

_S = TransactionState


class Known(NamedTuple):
    """What is known of a transactional id: its metadata, the state it is being moved to, and a failed attempt to fence.

    `pending` is None while nothing is being stored.
    """

    metadata: TransactionMetadata
    pending: TransactionState | None
    has_failed_fence: bool


class Refused(NamedTuple):
    """The request is answered with this error; NONE: what it asks for has been done before."""

    error: ErrorCode


class Next(NamedTuple):
    """The metadata to store. In the state PREPARE_EPOCH_FENCE they are not stored: the transaction is aborted first."""

    metadata: TransactionMetadata


Decision = Refused | Next

_CONCURRENT: Final = Refused(ErrorCode.CONCURRENT_TRANSACTIONS)
_FENCED: Final = Refused(ErrorCode.PRODUCER_FENCED)
_OTHER_PRODUCER: Final = Refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
_DONE: Final = Refused(ErrorCode.NONE)
_INVALID_STATE: Final = Refused(ErrorCode.INVALID_TXN_STATE)


class InitTerms(NamedTuple):
    """The terms of an InitProducerId. `expected`: what the producer has, to go on after an error (KIP-360), or None."""

    timeout_ms: int
    expected: ProducerIdAndEpoch | None
    now_ms: int


def decide_init(known: Known, terms: InitTerms, new_producer_id: Callable[[], int]) -> Decision:
    """Decide on a producer that begins to use its transactional id, or goes on after an error.

    A transaction of the producer before it is aborted first: until then the producer is told to try again.
    """
    metadata = known.metadata
    if known.pending is not None or (metadata.raises_epoch and metadata.state in DECIDED):
        return _CONCURRENT
    if terms.expected is not None and not _may_go_on(metadata, terms.expected):
        return _FENCED
    if metadata.state in DECIDED:
        return _CONCURRENT
    if metadata.state is _S.ONGOING:
        return Next(fenced(metadata, is_raised_already=known.has_failed_fence))
    if metadata.state not in COMPLETE:
        return _CONCURRENT
    if metadata.is_epoch_exhausted and terms.expected is None:
        return Next(_rotated(metadata, terms, new_producer_id(), NO_EPOCH))
    if metadata.is_epoch_exhausted and terms.expected is not None and terms.expected.epoch == metadata.producer_epoch:
        return Next(_rotated(metadata, terms, new_producer_id(), metadata.producer_epoch))
    return _decide_epoch(metadata, terms)


def _may_go_on(metadata: TransactionMetadata, expected: ProducerIdAndEpoch) -> bool:
    """Return whether a producer that names its id may be the present one, or repeats a request of the one before."""
    return (
        # The id is new here: the producer has it from before a loss of the coordinator's state.
        metadata.producer_epoch == NO_EPOCH
        or expected.producer_id == metadata.producer_id
        # The answer with the new producer id may have been lost.
        or (expected.producer_id == metadata.previous_producer_id and expected.epoch >= LAST_USABLE_EPOCH)
    )


def _rotated(metadata: TransactionMetadata, terms: InitTerms, producer_id: int, last_epoch: int) -> TransactionMetadata:
    return with_new_producer_id(
        metadata, producer_id, timeout_ms=terms.timeout_ms, last_epoch=last_epoch, now_ms=terms.now_ms
    )


def _decide_epoch(metadata: TransactionMetadata, terms: InitTerms) -> Decision:
    expected = terms.expected
    if expected is None:
        last_epoch = NO_EPOCH
    elif metadata.producer_epoch in (NO_EPOCH, expected.epoch):
        last_epoch = metadata.producer_epoch
    elif expected.epoch == metadata.last_epoch:
        # The producer repeats a request that succeeded. No other producer came in between: that would have set the
        # last epoch to -1.
        return Next(with_same_epoch(metadata, timeout_ms=terms.timeout_ms, now_ms=terms.now_ms))
    else:
        return _FENCED
    return Next(with_next_epoch(metadata, timeout_ms=terms.timeout_ms, last_epoch=last_epoch, now_ms=terms.now_ms))


def decide_add(
    known: Known,
    producer: ProducerIdAndEpoch,
    partitions: Iterable[TopicPartition],
    now_ms: int,
    *,
    client_version: int = 0,
) -> Decision:
    """Decide on partitions that a producer adds to its transaction, or a partition's leader for it."""
    metadata = known.metadata
    wanted = frozenset(partitions)
    # Its producer may have the id that follows already, which is in force when the markers are written.
    if metadata.raises_epoch and metadata.state in DECIDED:
        return _CONCURRENT
    if metadata.producer_id != producer.producer_id:
        return _OTHER_PRODUCER
    if metadata.producer_epoch != producer.epoch:
        return _FENCED
    if known.pending is not None or metadata.state in DECIDED:
        return _CONCURRENT
    if metadata.state is _S.ONGOING and wanted <= metadata.partitions:
        return _DONE
    return Next(with_partitions(metadata, wanted, now_ms, client_version))


def verify(
    metadata: TransactionMetadata, producer: ProducerIdAndEpoch, partitions: Iterable[TopicPartition]
) -> Mapping[TopicPartition, ErrorCode]:
    """Return the error of each partition that the producer must not write to now (KIP-890)."""
    if metadata.producer_id != producer.producer_id:
        return dict.fromkeys(partitions, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if metadata.producer_epoch != producer.epoch:
        return dict.fromkeys(partitions, ErrorCode.PRODUCER_FENCED)
    if metadata.state in DECIDED:
        return dict.fromkeys(partitions, ErrorCode.CONCURRENT_TRANSACTIONS)
    return {each: ErrorCode.TRANSACTION_ABORTABLE for each in partitions if each not in metadata.partitions}


class EndTerms(NamedTuple):
    """The end of a transaction. `is_from_client`: not the coordinator's own, of a fenced or overdue producer."""

    producer: ProducerIdAndEpoch
    is_commit: bool
    is_from_client: bool
    now_ms: int


def decide_end(known: Known, terms: EndTerms) -> Decision:
    """Decide on the end of a transaction."""
    metadata, epoch = known.metadata, terms.producer.epoch
    if metadata.producer_id != terms.producer.producer_id:
        return _OTHER_PRODUCER
    # The coordinator's own end comes with a raised epoch.
    if epoch < metadata.producer_epoch or (terms.is_from_client and epoch != metadata.producer_epoch):
        return _FENCED
    if known.pending is not None and known.pending is not _S.PREPARE_EPOCH_FENCE:
        return _CONCURRENT
    if metadata.state is _S.ONGOING:
        return Next(decided(metadata, is_commit=terms.is_commit, now_ms=terms.now_ms))
    return _ANSWERS.get((metadata.state, terms.is_commit), _INVALID_STATE)


_ANSWERS: Final[Mapping[tuple[TransactionState, bool], Refused]] = {
    (_S.COMPLETE_COMMIT, True): _DONE,
    (_S.COMPLETE_ABORT, False): _DONE,
    (_S.PREPARE_COMMIT, True): _CONCURRENT,
    (_S.PREPARE_ABORT, False): _CONCURRENT,
}
"""The answers to an end without an ongoing transaction, by state and whether it is a commit. Others are errors."""


def decide_end_with_next_epoch(known: Known, terms: EndTerms, new_producer_id: Callable[[], int]) -> Decision:
    """Decide on the end of a transaction of `transaction.version` 2, with which the producer's epoch is raised.

    `Refused(NONE)`: the end is repeated, and the metadata have the producer id and epoch of its first answer.
    """
    metadata, producer = known.metadata, terms.producer
    # Before all else: the producer may have the id that follows already, which is in force with the last marker.
    if known.pending is not None or metadata.state in DECIDED:
        return _CONCURRENT
    is_repeated = metadata.state is not _S.ONGOING and _is_repeated_end(metadata, producer)
    if is_repeated:
        return _REPEATED_ENDS.get((metadata.state, terms.is_commit), _INVALID_STATE)
    if metadata.producer_id != producer.producer_id:
        return _OTHER_PRODUCER
    if metadata.producer_epoch != producer.epoch:
        return _FENCED
    # A commit needs a transaction. An abort does not: the producer cannot know whether its batches have begun one.
    if metadata.state is not _S.ONGOING and terms.is_commit:
        return _INVALID_STATE
    next_id = new_producer_id() if metadata.is_epoch_exhausted else NO_PRODUCER_ID
    return Next(
        decided_with_next_epoch(metadata, is_commit=terms.is_commit, now_ms=terms.now_ms, next_producer_id=next_id)
    )


def _is_repeated_end(metadata: TransactionMetadata, producer: ProducerIdAndEpoch) -> bool:
    """Return whether a producer that names this id and epoch has lost the answer to its last end."""
    if producer.producer_id == metadata.producer_id:
        # No producer has an epoch above the last usable one: the coordinator fenced the producer with it.
        return producer.epoch + 1 == metadata.producer_epoch <= LAST_USABLE_EPOCH
    is_of_previous = producer == (metadata.previous_producer_id, LAST_USABLE_EPOCH)
    return is_of_previous and metadata.producer_epoch == 0


_REPEATED_ENDS: Final[Mapping[tuple[TransactionState, bool], Refused]] = {
    (_S.EMPTY, True): _FENCED,
    (_S.EMPTY, False): _FENCED,
    (_S.COMPLETE_COMMIT, True): _DONE,
    (_S.COMPLETE_ABORT, False): _DONE,
}
"""The answers to an end with the epoch before, by state and whether it is a commit. Others are errors."""
