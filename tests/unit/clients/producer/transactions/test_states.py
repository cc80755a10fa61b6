"""The table of the states of a transactional producer."""

from __future__ import annotations

import pytest

from barnabas.clients.producer.transactions.transaction_states import (
    SUCCESSORS,
    TransactionManagerState,
    check_transition,
)

S = TransactionManagerState


def test_every_state_has_a_row() -> None:
    assert set(SUCCESSORS) == set(S)


def test_only_a_fatal_error_is_final() -> None:
    assert [state for state in S if not SUCCESSORS[state]] == [S.FATAL_ERROR]
    assert all(S.FATAL_ERROR in SUCCESSORS[state] for state in S if state is not S.FATAL_ERROR)


def test_a_producer_is_ready_again_after_every_error_but_a_fatal_one() -> None:
    for state in S:
        reached = {state}
        while True:
            further = reached | {successor for each in reached for successor in SUCCESSORS[each]}
            if further == reached:
                break
            reached = further
        assert (S.READY in reached) == (state is not S.FATAL_ERROR), state


@pytest.mark.parametrize(
    ("state", "target"),
    [
        (S.UNINITIALIZED, S.IN_TRANSACTION),
        (S.READY, S.COMMITTING),
        (S.IN_TRANSACTION, S.IN_TRANSACTION),
        (S.ABORTABLE_ERROR, S.COMMITTING),
        (S.ABORTABLE_ERROR, S.READY),
        (S.ABORTING, S.COMMITTING),
        (S.COMMITTING, S.ABORTING),
        (S.FATAL_ERROR, S.INITIALIZING),
    ],
)
def test_what_may_not_follow(state: TransactionManagerState, target: TransactionManagerState) -> None:
    with pytest.raises(RuntimeError, match=f"Cannot go there: the producer is {state.value}"):
        check_transition(state, target, "go there")
