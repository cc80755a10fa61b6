"""The checker finds each anomaly that is planted in a history, and none in a right one."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.anomalies.checker import Kind, find_anomalies
from tests.anomalies.history import Append, History, Outcome, Read, Seen, Transaction

COMMITTED = Transaction("c", (Append(0, 1), Append(1, 2), Append(0, 3)), Outcome.COMMITTED, 1, 2, 3)
ABORTED = Transaction("a", (Append(0, 4), Append(1, 5)), Outcome.ABORTED, 1, None, 3)
UNKNOWN = Transaction("u", (Append(0, 6), Append(1, 7)), Outcome.UNKNOWN, 4, 5, None)
LATER = Transaction("l", (Append(0, 8),), Outcome.COMMITTED, 6, 7, 8)
TRANSACTIONS = (COMMITTED, ABORTED, UNKNOWN, LATER)


def read(partition: int, *values: int, reader: str = "r", at: float = 9, is_complete: bool = True) -> Read:
    seen = tuple(Seen(2 * position, value, at) for position, value in enumerate(values))
    return Read(reader, partition, seen, is_complete)


def kinds(*reads: Read) -> set[Kind]:
    return {anomaly.kind for anomaly in find_anomalies(History(TRANSACTIONS, reads))}


@pytest.mark.parametrize(
    "reads",
    [
        (),
        (read(0, 1, 3, 8), read(1, 2)),
        (read(0, 1, 3, 6, 8), read(1, 2, 7)),
        (read(0, 1, 3, 8), read(1, 2), read(0, 1, 3, 8, reader="s"), read(1, 2, reader="s")),
        (read(0, 1, 3, 8), read(0, 1, reader="slow", is_complete=False)),
    ],
)
def test_a_right_history_has_no_anomaly(reads: tuple[Read, ...]) -> None:
    assert kinds(*reads) == set()


@pytest.mark.parametrize(
    ("reads", "found"),
    [
        ((read(0, 1, 3, 4, 8), read(1, 2, 5)), {Kind.ABORTED_READ}),
        ((read(0, 1, 3, 4, 8), read(1, 2)), {Kind.ABORTED_READ, Kind.PARTIAL_TRANSACTION}),
        ((read(0, 1, at=1.5, is_complete=False),), {Kind.EARLY_READ}),
        ((read(0, 1, 3, 8, 2), read(1, 2)), {Kind.UNKNOWN_VALUE}),
        ((read(0, 1, 3, 3, 8),), {Kind.DUPLICATE}),
        ((read(0, 1, 3), read(1, 2)), {Kind.LOST_WRITE}),
        ((read(0, 8), read(1)), {Kind.LOST_WRITE}),
        ((read(0, 1, 3, 8), read(1)), {Kind.LOST_WRITE, Kind.PARTIAL_TRANSACTION}),
        ((read(0, 1, 3, 6, 8), read(1, 2)), {Kind.PARTIAL_TRANSACTION}),
        ((read(0, 1, 3, 8), read(0, 1, 8, reader="s", is_complete=False)), {Kind.DIFFERENT_LISTS}),
        ((read(0, 3, 1, 8),), {Kind.WRONG_ORDER}),
        ((read(0, 8, 1, 3),), {Kind.WRONG_ORDER}),
    ],
)
def test_a_planted_anomaly_is_found(reads: tuple[Read, ...], found: set[Kind]) -> None:
    assert kinds(*reads) == found


def test_an_offset_that_does_not_rise_is_a_duplicate() -> None:
    seen = (Seen(5, 1, 9), Seen(5, 3, 9), Seen(6, 8, 9))
    assert kinds(Read("r", 0, seen, is_complete=True)) == {Kind.DUPLICATE}


def test_a_value_that_is_appended_twice_is_a_mistake_of_the_test() -> None:
    twice = COMMITTED._replace(name="twice")
    with pytest.raises(ValueError, match="by c and by twice"):
        find_anomalies(History((COMMITTED, twice), ()))


def right_history(chance: Random) -> History:
    """Return what a right broker does: transactions overlap, some abort, readers stop anywhere."""
    clock = 0.0
    open_ones: list[tuple[str, float, list[Append]]] = []
    transactions: list[Transaction] = []
    logs: dict[int, list[tuple[int, str]]] = {0: [], 1: [], 2: []}
    for value in range(chance.randrange(5, 60)):
        clock += 1
        if not open_ones or chance.random() < 0.2:
            open_ones.append((f"t{value}", clock, []))
        name, began_at, appends = chance.choice(open_ones)
        appends.append(Append(chance.randrange(3), value))
        logs[appends[-1].partition].append((value, name))
        if chance.random() < 0.3:
            outcome = chance.choice(list(Outcome))
            sent = None if outcome is Outcome.ABORTED else clock + 0.2
            ended = None if outcome is Outcome.UNKNOWN else clock + 0.4
            transactions.append(Transaction(name, tuple(appends), outcome, began_at, sent, ended))
            open_ones.remove((name, began_at, appends))
    transactions += [
        Transaction(name, tuple(appends), Outcome.ABORTED, began_at, None, None)
        for name, began_at, appends in open_ones
    ]
    visible = {one.name for one in transactions if one.outcome is Outcome.COMMITTED}
    visible |= {one.name for one in transactions if one.outcome is Outcome.UNKNOWN and chance.random() < 0.5}
    reads = []
    for partition, log in logs.items():
        whole = tuple(Seen(at, value, clock + 1) for at, (value, name) in enumerate(log) if name in visible)
        reads.append(Read("whole", partition, whole, is_complete=True))
        reads.append(Read("slow", partition, whole[: chance.randrange(len(whole) + 1)], is_complete=False))
    return History(tuple(transactions), tuple(reads))


@given(st.randoms(use_true_random=False))
def test_whatever_a_right_broker_does_is_no_anomaly(chance: Random) -> None:
    assert find_anomalies(right_history(chance)) == []


@given(st.randoms(use_true_random=False))
def test_whatever_is_taken_from_a_reader_or_doubled_is_an_anomaly(chance: Random) -> None:
    history = right_history(chance)
    names = {one.name for one in history.transactions if one.outcome is Outcome.COMMITTED}
    committed = {append for one in history.transactions if one.name in names for append in one.appends}
    choices = [
        (number, at)
        for number, one in enumerate(history.reads)
        if one.is_complete
        for at, seen in enumerate(one.seen)
        if Append(one.partition, seen.value) in committed
    ]
    if not choices:
        return
    number, at = chance.choice(choices)
    harmed = history.reads[number]
    if chance.random() < 0.5:
        seen, kind = harmed.seen[:at] + harmed.seen[at + 1 :], Kind.LOST_WRITE
    else:
        seen, kind = harmed.seen[: at + 1] + harmed.seen[at:], Kind.DUPLICATE
    reads = (*history.reads[:number], harmed._replace(seen=seen), *history.reads[number + 1 :])
    assert kind in {anomaly.kind for anomaly in find_anomalies(history._replace(reads=reads))}
