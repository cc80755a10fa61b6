"""Which fault hits a request, and what is counted."""

from __future__ import annotations

import pytest

from barnabas.faults.fault_plan import Delay, Drop, Error, Every, First, Nth, RequestFacts, fault_plan
from barnabas.faults.fault_table import Counts, FaultTable, InstalledFault
from barnabas.protocol.api_keys import ApiKey

PRODUCE = RequestFacts(ApiKey.PRODUCE, "app", lambda: {"orders"})
FETCH = RequestFacts(ApiKey.FETCH, "app", lambda: {"orders"})


@pytest.fixture
def table() -> FaultTable:
    return FaultTable()


def hits(table: FaultTable, request: RequestFacts, times: int) -> list[int]:
    """The fault that hits each of so many requests; 0 for none."""
    return [0 if due is None else due.fault_id for due in (table.due(request) for _ in range(times))]


def test_an_empty_table_hits_nothing(table: FaultTable) -> None:
    assert table.due(PRODUCE) is None
    assert table.take_changes() == {}


def test_only_requests_that_match_are_counted(table: FaultTable) -> None:
    table.install([InstalledFault(1, fault_plan(Drop(), api="Produce", calls=Every(2)))])
    assert hits(table, PRODUCE, 3) + hits(table, FETCH, 3) + hits(table, PRODUCE, 1) == [0, 1, 0, 0, 0, 0, 1]
    assert table.take_changes() == {1: Counts(calls=4, hits=2)}
    assert table.take_changes() == {}


def test_the_first_that_is_due_hits_and_all_count(table: FaultTable) -> None:
    table.install([InstalledFault(1, fault_plan(Drop(), calls=Every(2)))])
    table.install([InstalledFault(2, fault_plan(Error(1), calls=First(3))), InstalledFault(3, fault_plan(Delay(1)))])
    assert hits(table, PRODUCE, 5) == [2, 1, 2, 1, 3]
    assert table.take_changes() == {1: Counts(5, 2), 2: Counts(5, 2), 3: Counts(5, 1)}


def test_what_is_removed_hits_no_more(table: FaultTable) -> None:
    table.install([InstalledFault(each, fault_plan(Drop())) for each in (1, 2, 3)])
    table.remove([1, 3, 99])
    assert hits(table, PRODUCE, 1) == [2]
    table.remove_all()
    assert hits(table, PRODUCE, 1) == [0]


def test_the_last_counts_of_a_removed_fault_are_not_lost(table: FaultTable) -> None:
    table.install([InstalledFault(each, fault_plan(Drop())) for each in (1, 2)])
    hits(table, PRODUCE, 3)
    table.remove([1])
    hits(table, PRODUCE, 1)
    table.remove_all()
    assert table.take_changes() == {1: Counts(3, 3), 2: Counts(4, 1)}


def test_a_fault_that_is_removed_between_match_and_count_hits_nothing(table: FaultTable) -> None:
    def remove_meanwhile() -> list[str]:
        table.remove([1])
        return ["orders"]

    table.install([InstalledFault(1, fault_plan(Drop(), topic="orders")), InstalledFault(2, fault_plan(Drop()))])
    assert hits(table, RequestFacts(ApiKey.PRODUCE, None, remove_meanwhile), 1) == [2]
    assert table.take_changes() == {2: Counts(1, 1)}


def test_counts_go_on_where_the_last_process_ended(table: FaultTable) -> None:
    table.install([InstalledFault(1, fault_plan(Drop(), calls=Nth(5)), Counts(calls=3, hits=0))])
    assert hits(table, PRODUCE, 3) == [0, 1, 0]
    assert table.take_changes() == {1: Counts(6, 1)}


def test_changes_are_told_of_matching_requests_only(table: FaultTable) -> None:
    changes: list[dict[int, Counts]] = []
    table.on_change = lambda: changes.append(table.take_changes())
    table.install([InstalledFault(1, fault_plan(Drop(), api="Produce", calls=Nth(2)))])
    hits(table, FETCH, 2)
    hits(table, PRODUCE, 2)
    assert changes == [{1: Counts(1, 0)}, {1: Counts(2, 1)}]
