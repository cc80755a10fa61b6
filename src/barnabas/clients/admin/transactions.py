"""Describes, lists, fences and ends transactions (KIP-664).

Part of `Admin`. Kafka: DescribeTransactionsHandler, ListTransactionsHandler, FenceProducersHandler,
AbortTransactionHandler.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from barnabas.clients.admin.admin_calls import AdminCalls, AdminPart
from barnabas.clients.admin.group_coordinators import TRANSACTION, CoordinatedIds
from barnabas.clients.errors import raise_error
from barnabas.clients.values import PreparedTransaction
from barnabas.protocol.messages.inter_broker import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from barnabas.protocol.messages.transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.rpc.connection_states import Node

_FENCING_TIMEOUT_MS = 1
"""The timeout of transactions that the fencing producer never begins."""
_FENCING_VERSIONS = (0, 4)
_MARKER_VERSIONS = (0, 1)
_END_VERSIONS = (0, 3)
_END_VERSIONS_2 = (5, 5)
"""Those of transaction.version 2: the coordinator raises the epoch, so that late batches are not in the next one."""


class TransactionListing(NamedTuple):
    """One transactional id in a list. `state`: Kafka's name, such as Ongoing or CompleteCommit."""

    transactional_id: str
    producer_id: int
    state: str
    coordinator_id: int


class TransactionDescription(NamedTuple):
    """One transactional id. `start_time_ms` is None, and `partitions` empty, while no transaction is open."""

    transactional_id: str
    coordinator: Node
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_time_ms: int | None
    partitions: tuple[TopicPartition, ...]


class OpenTransaction(NamedTuple):
    """A transaction of one producer in one partition, as `describe_producers` shows it."""

    topic_partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int


class FencedProducer(NamedTuple):
    """The id and the epoch that a transactional id has after its producers were fenced."""

    producer_id: int
    epoch: int


class AdminTransactions(AdminPart):
    """The methods of `Admin` about transactions."""

    def list_transactions(
        self,
        *,
        states: Collection[str] = (),
        producer_ids: Collection[int] = (),
        longer_than_ms: int | None = None,
    ) -> list[TransactionListing]:
        """Return all transactional ids, or those of these states and producers and open for longer, sorted.

        Raises ApiError; UnsupportedVersion when a broker before Kafka 3.8 is asked for a duration.
        """
        request = ListTransactionsRequest(state_filters=list(states), producer_id_filters=list(producer_ids))
        versions = (0, 1)
        if longer_than_ms is not None:
            # A broker that does not know the duration would list all transactions.
            request.duration_filter, versions = longer_than_ms, (1, 1)
        answers = self._calls.ask_all_coordinators(
            request, ListTransactionsResponse, lambda answer: answer.error_code, versions
        )
        found = []
        for broker_id, answer in answers.items():
            raise_error(answer.error_code, None, f"Broker: {broker_id}")
            found += [
                TransactionListing(each.transactional_id, each.producer_id, each.transaction_state, broker_id)
                for each in answer.transaction_states
            ]
        return sorted(found)

    def describe_transactions(self, transactional_ids: Collection[str]) -> dict[str, TransactionDescription]:
        """Return the state and the partitions of transactional ids. Raises ApiError for one that does not exist."""

        def request_for(ids: Iterable[str]) -> DescribeTransactionsRequest:
            return DescribeTransactionsRequest(transactional_ids=list(ids))

        def results_in(
            answer: DescribeTransactionsResponse,
        ) -> Iterator[tuple[str, int, DescribeTransactionsResponse.TransactionState]]:
            for each in answer.transaction_states:
                yield each.transactional_id, each.error_code, each

        found = self._calls.ask_coordinators(CoordinatedIds(transactional_ids, TRANSACTION), request_for, results_in)
        for name, (_, each) in found.items():
            raise_error(each.error_code, None, f"Transactional id: {name}")
        return {name: _description(node, each) for name, (node, each) in found.items()}

    def fence_producers(self, transactional_ids: Collection[str]) -> dict[str, FencedProducer]:
        """Make the producers of these transactional ids fail, and abort their open transactions.

        Raises ApiError; ids before the one that fails have been fenced.
        """
        return {name: _fence(self._calls, name) for name in dict.fromkeys(transactional_ids)}

    def end_transaction(self, prepared: PreparedTransaction, *, commit: bool) -> None:
        """Commit, or abort, a transaction that `Producer.prepare_transaction` has returned.

        May be repeated, with the same decision. Raises ApiError: INVALID_PRODUCER_EPOCH, PRODUCER_FENCED or
        INVALID_TXN_STATE when the transaction was aborted, by its timeout or by another producer of the same
        `transactional_id`. ClientTimeout: the transaction may have been ended.
        """
        name = prepared.transactional_id

        def request_for(_ids: Iterable[str]) -> EndTxnRequest:
            return EndTxnRequest(name, prepared.producer_id, prepared.producer_epoch, commit)

        def results_in(answer: EndTxnResponse) -> Iterator[tuple[str, int, int]]:
            yield name, answer.error_code, answer.error_code

        wanted = CoordinatedIds([name], TRANSACTION)
        versions = _END_VERSIONS_2 if prepared.is_version_2 else _END_VERSIONS
        _, error_code = self._calls.ask_coordinators(wanted, request_for, results_in, versions)[name]
        raise_error(error_code, None, f"Transactional id: {name}")

    def abort_transaction(self, transaction: OpenTransaction) -> None:
        """End a hanging transaction in one partition, as `describe_producers` shows it, by an abort marker.

        Only for transactions that no coordinator knows. Raises ApiError.
        """
        topic, partition = transaction.topic_partition

        def request_for(_partitions: Iterable[TopicPartition]) -> WriteTxnMarkersRequest:
            marker = WriteTxnMarkersRequest.WritableTxnMarker(
                producer_id=transaction.producer_id,
                producer_epoch=transaction.producer_epoch,
                transaction_result=False,
                topics=[WriteTxnMarkersRequest.WritableTxnMarkerTopic(topic, [partition])],
                # -1 where no coordinator has ever ended a transaction of the producer there.
                coordinator_epoch=max(transaction.coordinator_epoch, 0),
            )
            return WriteTxnMarkersRequest(markers=[marker])

        def results_in(answer: WriteTxnMarkersResponse) -> Iterator[tuple[TopicPartition, int, None]]:
            for marker in answer.markers:
                for found in marker.topics:
                    for each in found.partitions:
                        yield TopicPartition(found.name, each.partition_index), each.error_code, None

        self._calls.ask_leaders([transaction.topic_partition], request_for, results_in, _MARKER_VERSIONS)


def _description(node: Node, each: DescribeTransactionsResponse.TransactionState) -> TransactionDescription:
    return TransactionDescription(
        each.transactional_id,
        node,
        each.transaction_state,
        each.producer_id,
        each.producer_epoch,
        each.transaction_timeout_ms,
        each.transaction_start_time_ms if each.transaction_start_time_ms >= 0 else None,
        tuple(sorted(TopicPartition(data.topic, index) for data in each.topics for index in data.partitions)),
    )


def _fence(calls: AdminCalls, transactional_id: str) -> FencedProducer:
    def request_for(_ids: Iterable[str]) -> InitProducerIdRequest:
        return InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=_FENCING_TIMEOUT_MS)

    def results_in(answer: InitProducerIdResponse) -> Iterator[tuple[str, int, InitProducerIdResponse]]:
        yield transactional_id, answer.error_code, answer

    # One request for each id: the answer does not name it.
    wanted = CoordinatedIds([transactional_id], TRANSACTION)
    found = calls.ask_coordinators(wanted, request_for, results_in, _FENCING_VERSIONS)
    _, answer = found[transactional_id]
    raise_error(answer.error_code, None, f"Transactional id: {transactional_id}")
    return FencedProducer(answer.producer_id, answer.producer_epoch)
