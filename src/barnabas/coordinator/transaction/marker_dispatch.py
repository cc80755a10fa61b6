"""The markers that are to be written for ended transactions: which broker gets which, and what its answer means.

An EndedTransaction is made by TransactionService and by loading. All else is owned by MarkerSender's thread; pure but
for the metadata image, which is passed in; no lock.
Kafka: PendingCompleteTxn, TransactionMarkerChannelManager, TxnMarkerQueue, TransactionMarkerRequestCompletionHandler.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from barnabas.coordinator.transaction.transaction_entry import TransactionEntry
from barnabas.coordinator.transaction.transaction_metadata import TransactionMetadata, TransactionState
from barnabas.metadata.metadata_image import MetadataImage
from barnabas.protocol.errors import ErrorCode, error_of
from barnabas.protocol.messages.inter_broker import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from barnabas.protocol.topic_partition import TopicPartition, by_topic

Marker = WriteTxnMarkersRequest.WritableTxnMarker
MarkerTopic = WriteTxnMarkersRequest.WritableTxnMarkerTopic
_NO_NODE: Final = -1


@dataclass(eq=False, slots=True)
class EndedTransaction:
    """A transaction whose end is decided and stored, and whose markers are being written.

    decided: the metadata that say its end. waiting: the partitions without a marker.
    """

    entry: TransactionEntry
    decided: TransactionMetadata
    waiting: set[TopicPartition] = field(default_factory=set)

    @classmethod
    def of(cls, entry: TransactionEntry) -> EndedTransaction:
        """Return the transaction of an entry whose end is stored. The caller holds the entry's lock."""
        return cls(entry, entry.metadata, set(entry.metadata.partitions))

    @property
    def is_commit(self) -> bool:
        """Whether its records become visible."""
        return self.decided.state is TransactionState.PREPARE_COMMIT

    def is_open(self) -> bool:
        """Return whether this broker still coordinates the transaction, and it is not complete yet."""
        with self.entry.lock:
            return not self.entry.is_removed and self.entry.metadata is self.decided


class _Sent(NamedTuple):
    """A transaction's part of a request: the partitions whose markers it asks for."""

    transaction: EndedTransaction
    partitions: frozenset[TopicPartition]


class MarkerRequest(NamedTuple):
    """A request to one broker, with the transactions that it is for."""

    node_id: int
    message: WriteTxnMarkersRequest
    parts: Sequence[_Sent]


class _MarkerOutcome(enum.Enum):
    """The consequence of a leader's answer.

    - WRITTEN: the partition has its marker, or can never have one.
    - RETRY: the leader is another one, or is not ready.
    - GIVE_UP: another coordinator ends this transaction.
    """

    WRITTEN = "written"
    RETRY = "retry"
    GIVE_UP = "give up"


_OUTCOMES: Final[Mapping[ErrorCode, _MarkerOutcome]] = {
    ErrorCode.NONE: _MarkerOutcome.WRITTEN,
    # The producer cannot have written to a log of this format.
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT: _MarkerOutcome.WRITTEN,
    ErrorCode.UNSUPPORTED_VERSION: _MarkerOutcome.WRITTEN,
    ErrorCode.INVALID_PRODUCER_EPOCH: _MarkerOutcome.GIVE_UP,
    ErrorCode.TRANSACTION_COORDINATOR_FENCED: _MarkerOutcome.GIVE_UP,
}


def _outcome_of(error: ErrorCode) -> _MarkerOutcome:
    """Return the consequence of a leader's answer.

    An error that is not in the table is retried: Kafka ends its sending thread over one, and every later transaction of
    the broker waits for ever.
    """
    return _OUTCOMES.get(error, _MarkerOutcome.RETRY)


class MarkerDispatch:
    """The transactions whose markers are not all written.

    is_current: whether this broker still coordinates the transaction. on_written: called when all partitions have their
    markers. unknown_destinations: the markers whose partition had no live leader at the last look; any thread reads it.
    """

    def __init__(
        self, is_current: Callable[[EndedTransaction], bool], on_written: Callable[[EndedTransaction], None]
    ) -> None:
        self._is_current = is_current
        self._on_written = on_written
        self._transactions: dict[EndedTransaction, None] = {}
        """In the order in which they ended, and so are the markers of a request."""
        self._in_flight: dict[EndedTransaction, set[TopicPartition]] = {}
        self._busy_nodes: set[int] = set()
        self.unknown_destinations = 0

    def __len__(self) -> int:
        """Return the number of transactions."""
        return len(self._transactions)

    def add(self, transaction: EndedTransaction) -> None:
        """Take over a transaction; one without partitions has all its markers."""
        self._transactions[transaction] = None
        self._finish_if_written(transaction)

    def requests(self, image: MetadataImage) -> Iterator[MarkerRequest]:
        """Yield a request for each broker that leads partitions without a marker and has no request in flight.

        A partition that no longer exists needs no marker. One without a leader waits.
        """
        by_node: dict[int, list[_Sent]] = {}
        unknown = 0
        for transaction in list(self._transactions):
            if not self._is_current(transaction):
                self._give_up(transaction)
                continue
            for node_id, partitions in self._by_leader(transaction, image).items():
                if node_id == _NO_NODE:
                    unknown += len(partitions)
                elif node_id not in self._busy_nodes:
                    by_node.setdefault(node_id, []).append(_Sent(transaction, frozenset(partitions)))
            self._finish_if_written(transaction)
        self.unknown_destinations = unknown
        for node_id, parts in by_node.items():
            self._busy_nodes.add(node_id)
            for part in parts:
                self._in_flight.setdefault(part.transaction, set()).update(part.partitions)
            yield MarkerRequest(node_id, WriteTxnMarkersRequest([_marker(part) for part in parts]), parts)

    def _by_leader(self, transaction: EndedTransaction, image: MetadataImage) -> dict[int, list[TopicPartition]]:
        """Return the partitions to be asked for by their leaders; those without a live one under `_NO_NODE`."""
        found: dict[int, list[TopicPartition]] = {}
        in_flight = self._in_flight.get(transaction, ())
        for place in list(transaction.waiting):
            if place in in_flight:
                continue
            partition = image.partition(place)
            if partition is None:
                transaction.waiting.discard(place)
            else:
                leader = partition.leader if partition.leader in image.brokers else _NO_NODE
                found.setdefault(leader, []).append(place)
        return found

    def answered(self, request: MarkerRequest, response: WriteTxnMarkersResponse | None) -> bool:
        """Take in a broker's answer; None when the connection was lost. Returns whether anything has to be retried."""
        self._busy_nodes.discard(request.node_id)
        errors = {} if response is None else _errors_of(response)
        is_retry = False
        for transaction, partitions in request.parts:
            in_flight = self._in_flight.get(transaction)
            if in_flight is not None:
                in_flight -= partitions
                if not in_flight:
                    del self._in_flight[transaction]
            if transaction not in self._transactions:
                continue
            for place in partitions:
                # A leader that leaves a partition out of its answer is asked again.
                error = errors.get((transaction.decided.producer_id, place), ErrorCode.NETWORK_EXCEPTION)
                outcome = _outcome_of(error)
                if outcome is _MarkerOutcome.WRITTEN:
                    transaction.waiting.discard(place)
                elif outcome is _MarkerOutcome.GIVE_UP:
                    self._give_up(transaction)
                    break
                else:
                    is_retry = True
            self._finish_if_written(transaction)
        return is_retry

    def _finish_if_written(self, transaction: EndedTransaction) -> None:
        if transaction in self._transactions and not transaction.waiting:
            del self._transactions[transaction]
            if self._is_current(transaction):
                self._on_written(transaction)

    def _give_up(self, transaction: EndedTransaction) -> None:
        self._transactions.pop(transaction, None)


def _marker(part: _Sent) -> Marker:
    decided = part.transaction.decided
    return Marker(
        producer_id=decided.producer_id,
        producer_epoch=decided.producer_epoch,
        transaction_result=part.transaction.is_commit,
        topics=[MarkerTopic(topic, numbers) for topic, numbers in by_topic(sorted(part.partitions)).items()],
        coordinator_epoch=part.transaction.entry.coordinator_epoch,
    )


def _errors_of(response: WriteTxnMarkersResponse) -> dict[tuple[int, TopicPartition], ErrorCode]:
    """Return the errors by producer id and partition; a code that this release does not know is retried."""
    return {
        (marker.producer_id, TopicPartition(topic.name, partition.partition_index)): error_of(partition.error_code)
        for marker in response.markers
        for topic in marker.topics
        for partition in topic.partitions
    }
