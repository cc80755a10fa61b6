"""What producers and readers of committed records saw: the checker's input. Values only."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Outcome(Enum):
    """The end of a transaction, as its producer saw it."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"
    """The commit was sent, and failed: the transaction is whole, or not there."""


class Append(NamedTuple):
    """A record that a transaction wrote. `value` is written once in the whole history."""

    partition: int
    value: int


class Transaction(NamedTuple):
    """A transaction, its appends in their order.

    Times are seconds of one clock: when it began, when its commit was sent (None: never), and when its end was
    confirmed (None: never).
    """

    name: str
    appends: tuple[Append, ...]
    outcome: Outcome
    began_at: float
    commit_sent_at: float | None
    ended_at: float | None


class Seen(NamedTuple):
    """A record that a reader got, and when."""

    offset: int
    value: int
    at: float


class Read(NamedTuple):
    """Everything that a reader got of a partition, from its begin on.

    is_complete: whether the reader has read to the end of the partition after the last transaction has ended.
    """

    reader: str
    partition: int
    seen: tuple[Seen, ...]
    is_complete: bool


class History(NamedTuple):
    """All transactions and all reads of a run."""

    transactions: tuple[Transaction, ...]
    reads: tuple[Read, ...]
