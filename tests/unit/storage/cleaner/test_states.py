"""The states of a partition's cleaning: every event in every state, and pauses that add up."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.storage.cleaner.cleaning_states import (
    ABORTED,
    IN_PROGRESS,
    PAUSED_ONCE,
    CleaningEvent,
    CleaningState,
    CleaningStep,
    IllegalCleaningEvent,
    next_state,
)

PAUSED_TWICE = CleaningState(CleaningStep.PAUSED, 2)

LEGAL = {
    (None, CleaningEvent.BEGIN): IN_PROGRESS,
    (None, CleaningEvent.PAUSE): PAUSED_ONCE,
    (IN_PROGRESS, CleaningEvent.PAUSE): ABORTED,
    (IN_PROGRESS, CleaningEvent.DONE): None,
    (ABORTED, CleaningEvent.DONE): PAUSED_ONCE,
    (PAUSED_ONCE, CleaningEvent.PAUSE): PAUSED_TWICE,
    (PAUSED_ONCE, CleaningEvent.RESUME): None,
    (PAUSED_TWICE, CleaningEvent.PAUSE): CleaningState(CleaningStep.PAUSED, 3),
    (PAUSED_TWICE, CleaningEvent.RESUME): PAUSED_ONCE,
}


@pytest.mark.parametrize("state", [None, IN_PROGRESS, ABORTED, PAUSED_ONCE, PAUSED_TWICE])
@pytest.mark.parametrize("event", list(CleaningEvent))
def test_every_event_in_every_state(state: CleaningState | None, event: CleaningEvent) -> None:
    if (state, event) in LEGAL:
        assert next_state(state, event) == LEGAL[state, event]
    else:
        with pytest.raises(IllegalCleaningEvent, match=event.value):
            next_state(state, event)


@given(st.lists(st.sampled_from([CleaningEvent.PAUSE, CleaningEvent.RESUME]), max_size=30))
def test_as_many_resumes_as_pauses_free_a_partition(events: list[CleaningEvent]) -> None:
    state, pauses = None, 0
    for event in events:
        if event is CleaningEvent.RESUME and not pauses:
            continue
        pauses += 1 if event is CleaningEvent.PAUSE else -1
        state = next_state(state, event)
        assert state == (CleaningState(CleaningStep.PAUSED, pauses) if pauses else None)
