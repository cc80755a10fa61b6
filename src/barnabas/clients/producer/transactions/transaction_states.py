"""The states of a transactional producer, as one table. Pure. Kafka: TransactionManager.State.

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

from enum import Enum


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
