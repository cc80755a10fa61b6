"""What administrators ask: the list of transactions, and the description of one.

Called by the request handlers on any thread; reads immutable metadata, so it takes no lock.
Kafka: TransactionCoordinator.handleListTransactions, handleDescribeTransactions, TransactionStateManager.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from barnabas.coordinator.transaction.transaction_environment import TransactionEnvironment
from barnabas.coordinator.transaction.transaction_metadata import TransactionMetadata, TransactionState
from barnabas.protocol.errors import ApiError, ErrorCode

_BY_NAME = {state.shown_name: state for state in TransactionState}


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
