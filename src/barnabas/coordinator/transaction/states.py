"""The states of a transactional id as a table.

Read by `transitions`, `decisions`, `loading` and the admin service; pure. `docs/transaction-states.md` is drawn from
`PREVIOUS_STATES`. Kafka: kafka.coordinator.transaction.TransactionState.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final


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
