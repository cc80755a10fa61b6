"""Finds the anomalies in a history of transactions, in the manner of Elle's list-append checker. Pure.

Each partition is a list, and each record's value is unique, so that a value read names the transaction that wrote it.
Kafka's transactions are not isolated from one another: two that write the same partitions at the same time may do that
in a different order in each. So cycles of writes are no anomaly here. What Kafka promises to readers of committed
records is checked:

- ABORTED_READ: a reader got a record of an aborted transaction.
- EARLY_READ: a reader got a record before the commit of its transaction was sent.
- UNKNOWN_VALUE: a reader got a record that no transaction wrote to this partition.
- DUPLICATE: a reader got a record twice, or a list of offsets that does not rise.
- LOST_WRITE: a complete read has not a record of a committed transaction.
- PARTIAL_TRANSACTION: the complete reads have some records of a transaction, and not others.
- DIFFERENT_LISTS: two readers of a partition got lists of which neither is the begin of the other.
- WRONG_ORDER: records of a transaction are not in the order of its appends, or a transaction that began when another
  was confirmed lies before that one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import NamedTuple

from tests.anomalies.history import Append, History, Outcome, Read, Transaction


class Kind(Enum):
    """The kinds of anomalies."""

    ABORTED_READ = "aborted read"
    EARLY_READ = "early read"
    UNKNOWN_VALUE = "unknown value"
    DUPLICATE = "duplicate"
    LOST_WRITE = "lost write"
    PARTIAL_TRANSACTION = "partial transaction"
    DIFFERENT_LISTS = "different lists"
    WRONG_ORDER = "wrong order"


class Anomaly(NamedTuple):
    """An anomaly, and what shows it."""

    kind: Kind
    what: str


def find_anomalies(history: History) -> list[Anomaly]:
    """Return all anomalies of the history. Raises ValueError when a value is appended twice."""
    writers: dict[Append, Transaction] = {}
    for transaction in history.transactions:
        for append in transaction.appends:
            if append in writers:
                raise ValueError(f"{append} is appended by {writers[append].name} and by {transaction.name}")
            writers[append] = transaction
    found: list[Anomaly] = []
    for read in history.reads:
        found += _of_values(read, writers)
        found += _of_order(read, writers)
    found += _of_lists(history)
    found += _of_transactions(history)
    return found


def _of_values(read: Read, writers: Mapping[Append, Transaction]) -> Iterator[Anomaly]:
    place = f"{read.reader} in partition {read.partition}"
    known: set[int] = set()
    last_offset = -1
    for seen in read.seen:
        if seen.value in known or seen.offset <= last_offset:
            yield Anomaly(Kind.DUPLICATE, f"{place}: {seen} behind offset {last_offset}")
        known.add(seen.value)
        last_offset = seen.offset
        writer = writers.get(Append(read.partition, seen.value))
        if writer is None:
            yield Anomaly(Kind.UNKNOWN_VALUE, f"{place}: {seen}")
        elif writer.outcome is Outcome.ABORTED:
            yield Anomaly(Kind.ABORTED_READ, f"{place}: {seen} of {writer.name}")
        elif writer.commit_sent_at is None or seen.at < writer.commit_sent_at:
            yield Anomaly(Kind.EARLY_READ, f"{place}: {seen} of {writer}")


def _of_order(read: Read, writers: Mapping[Append, Transaction]) -> Iterator[Anomaly]:
    place = f"{read.reader} in partition {read.partition}"
    positions = {writer.name: _positions(writer, read.partition) for writer in writers.values()}
    reached: dict[str, int] = {}
    youngest: Transaction | None = None
    for seen in read.seen:
        writer = writers.get(Append(read.partition, seen.value))
        if writer is None:
            continue
        position = positions[writer.name][seen.value]
        if position < reached.get(writer.name, -1):
            yield Anomaly(Kind.WRONG_ORDER, f"{place}: {seen} lies behind later appends of {writer.name}")
        reached[writer.name] = position
        if youngest is not None and writer.ended_at is not None and writer.ended_at < youngest.began_at:
            yield Anomaly(
                Kind.WRONG_ORDER,
                f"{place}: {seen} of {writer.name}, which had ended when {youngest.name} began, lies behind that one",
            )
        if youngest is None or writer.began_at > youngest.began_at:
            youngest = writer


def _positions(transaction: Transaction, partition: int) -> dict[int, int]:
    """Return the place of each value among the transaction's appends to the partition."""
    values = [append.value for append in transaction.appends if append.partition == partition]
    return {value: position for position, value in enumerate(values)}


def _of_lists(history: History) -> Iterator[Anomaly]:
    """Compare each read with the longest one of its partition."""
    longest: dict[int, Read] = {}
    for read in history.reads:
        other = longest.get(read.partition)
        if other is None or len(read.seen) > len(other.seen):
            longest[read.partition] = read
    for read in history.reads:
        whole = longest[read.partition]
        for seen, expected in zip(read.seen, whole.seen, strict=False):
            if (seen.offset, seen.value) != (expected.offset, expected.value):
                readers = f"{read.reader} and {whole.reader} in partition {read.partition}"
                yield Anomaly(Kind.DIFFERENT_LISTS, f"{readers}: {seen} and {expected}")
                break


def _of_transactions(history: History) -> Iterator[Anomaly]:
    """Look for each transaction in the complete reads, reader by reader."""
    for reader in sorted({read.reader for read in history.reads}):
        complete = {read.partition: read for read in history.reads if read.reader == reader and read.is_complete}
        there = {Append(place, seen.value) for place, read in complete.items() for seen in read.seen}
        for transaction in history.transactions:
            looked_for = [append for append in transaction.appends if append.partition in complete]
            missing = [append for append in looked_for if append not in there]
            if not missing:
                continue
            if transaction.outcome is Outcome.COMMITTED:
                yield Anomaly(Kind.LOST_WRITE, f"{reader} misses {missing} of {transaction.name}")
            if len(missing) < len(looked_for):
                yield Anomaly(Kind.PARTIAL_TRANSACTION, f"{reader} misses {missing} of {transaction}")
