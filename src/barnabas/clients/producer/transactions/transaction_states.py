"""The states of a transactional producer, as one table, and what belongs to its current transaction. Pure.

Kafka: TransactionManager.State and other fields of TransactionManager.

    UNINITIALIZED ──init──► INITIALIZING ──► READY ──begin──► IN_TRANSACTION ──commit──► COMMITTING ──► READY
                                 ▲                               │       │abort              │
                                 │ new epoch                 error       ▼                   │ error
                                 └───────────────────────────── │ ──► ABORTING ──► READY     │
                                                                 ▼       ▲abort              │
                                                              ABORTABLE_ERROR ◄──────────────┘

FATAL_ERROR follows every state, and no state follows it. A transaction after whose end the producer needs a higher
epoch goes through INITIALIZING again before it is READY.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from barnabas.protocol.topic_partition import TopicPartition


class TransactionManagerState(Enum):
    """The state of one transactional producer; its value is for messages."""

    UNINITIALIZED = "not initialized"
    INITIALIZING = "being initialized"
    READY = "ready for a transaction"
    IN_TRANSACTION = "in a transaction"
    COMMITTING = "committing"
    ABORTING = "aborting"
    ABORTABLE_ERROR = "in a transaction that has failed"
    FATAL_ERROR = "unusable"


_S = TransactionManagerState

SUCCESSORS: dict[TransactionManagerState, frozenset[TransactionManagerState]] = {
    _S.UNINITIALIZED: frozenset({_S.INITIALIZING, _S.FATAL_ERROR}),
    _S.INITIALIZING: frozenset({_S.READY, _S.FATAL_ERROR}),
    _S.READY: frozenset({_S.IN_TRANSACTION, _S.FATAL_ERROR}),
    _S.IN_TRANSACTION: frozenset({_S.COMMITTING, _S.ABORTING, _S.ABORTABLE_ERROR, _S.FATAL_ERROR}),
    _S.COMMITTING: frozenset({_S.READY, _S.INITIALIZING, _S.ABORTABLE_ERROR, _S.FATAL_ERROR}),
    _S.ABORTING: frozenset({_S.READY, _S.INITIALIZING, _S.FATAL_ERROR}),
    _S.ABORTABLE_ERROR: frozenset({_S.ABORTING, _S.FATAL_ERROR}),
    _S.FATAL_ERROR: frozenset(),
}
"""The states that may follow each state."""


def check_transition(state: TransactionManagerState, target: TransactionManagerState, operation: str) -> None:
    """Check that `target` may follow `state`. Raises RuntimeError that names the operation which wants to go there."""
    if target not in SUCCESSORS[state]:
        raise RuntimeError(f"Cannot {operation}: the producer is {state.value}")


class CurrentTransaction:
    """One transaction, from `begin_transaction` to the answer of EndTxn: its partitions, and what is known of it.

    The lock of `TransactionManager` guards everything but `may_send_to`, which is the sending thread's alone.

    is_version_2: its batches and offsets add their partitions, and its end raises the epoch (KIP-890,
    `transaction.version` 2). Else AddPartitionsToTxn and AddOffsetsToTxn go first, and the epoch stays.
    """

    __slots__ = ("_added", "_known", "_new", "is_started", "is_version_2", "needs_new_epoch")

    def __init__(self, *, is_version_2: bool) -> None:
        self.is_version_2 = is_version_2
        self._known: set[TopicPartition] = set()
        self._new: list[TopicPartition] = []
        self._added: set[TopicPartition] = set()
        self.is_started = False
        """Whether the coordinator knows of the transaction, or may know of it: then it has to be ended."""
        self.needs_new_epoch = False
        """Whether a numbered batch was lost, or the coordinator forgot the producer: raise the epoch at the end."""

    def register(self, topic_partition: TopicPartition) -> None:
        """Note that a batch was begun for the partition."""
        if self.is_version_2:
            # From now on the batch may reach the partition's leader at any time.
            self.is_started = True
        elif topic_partition not in self._known:
            self._known.add(topic_partition)
            self._new.append(topic_partition)

    def take_new(self) -> list[TopicPartition]:
        """Return the registered partitions that AddPartitionsToTxn has to name, and forget them."""
        new, self._new = self._new, []
        return new

    def add(self, partitions: Iterable[TopicPartition]) -> None:
        """Note that the coordinator has put the partitions into the transaction."""
        self._added.update(partitions)
        self.is_started = True

    def may_send_to(self, topic_partition: TopicPartition) -> bool:
        """Return whether batches of the partition may be sent."""
        return self.is_version_2 or topic_partition in self._added
