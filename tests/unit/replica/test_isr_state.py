"""The state machine of in-sync replicas: one change at a time, and nobody forgotten while it is pending."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from barnabas.replica.partitions.isr_state import IsrEvent, IsrPhase, committed, next_state

replicas = st.frozensets(st.integers(min_value=0, max_value=5))
histories = st.lists(st.tuples(st.sampled_from(IsrEvent), replicas), max_size=30)


@given(replicas, histories)
def test_what_is_acknowledged_is_on_every_replica_that_may_be_in_sync(
    first: frozenset[int], history: list[tuple[IsrEvent, frozenset[int]]]
) -> None:
    state = committed(first)
    for event, named in history:
        after = next_state(state, event, named)
        if after is None:
            continue
        assert after.committed <= after.maximal
        if after.is_pending:
            assert not state.is_pending, "one change at a time"
            assert after.committed == state.committed, "nothing changes before the answer"
            assert after.proposed != after.committed
            assert after.maximal == after.committed | after.proposed
        elif event is IsrEvent.REFUSE:
            assert after.committed == state.committed
        else:
            assert after.committed == named
        state = after


def test_a_replica_being_added_counts_already_and_one_being_removed_still() -> None:
    state = committed({0, 1})
    expanding = next_state(state, IsrEvent.EXPAND, {2})
    assert expanding is not None
    assert expanding.phase is IsrPhase.PENDING_EXPAND
    assert expanding.maximal == expanding.proposed == {0, 1, 2}
    shrinking = next_state(state, IsrEvent.SHRINK, {1})
    assert shrinking is not None
    assert shrinking.phase is IsrPhase.PENDING_SHRINK
    assert (set(shrinking.maximal), set(shrinking.proposed)) == ({0, 1}, {0})
    assert next_state(expanding, IsrEvent.SHRINK, {1}) is None
    assert next_state(state, IsrEvent.COMMIT, {0}) is None


def test_a_change_that_changes_nothing_is_none() -> None:
    state = committed({0, 1})
    assert next_state(state, IsrEvent.EXPAND, {1}) is None
    assert next_state(state, IsrEvent.SHRINK, {7}) is None
