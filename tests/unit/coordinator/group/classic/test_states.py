"""The table of a classic group's states says what Kafka's says, and nothing can come back from the dead."""

from __future__ import annotations

import pytest

from barnabas.coordinator.group.classic.states import (
    COMMIT_REFUSALS,
    DELETION_ERRORS,
    HEARTBEAT_ANSWERS,
    SYNC_REFUSALS,
    TRANSITIONS,
    ClassicEffect,
    ClassicEvent,
    ClassicState,
    IllegalClassicTransition,
    classic_transition,
)

# GroupMetadata.scala: validPreviousStates, Dead -> Dead apart, which is no transition here.
PREVIOUS_STATES_IN_KAFKA = {
    ClassicState.PREPARING_REBALANCE: {"Stable", "CompletingRebalance", "Empty"},
    ClassicState.COMPLETING_REBALANCE: {"PreparingRebalance"},
    ClassicState.STABLE: {"CompletingRebalance"},
    ClassicState.DEAD: {"Stable", "PreparingRebalance", "CompletingRebalance", "Empty"},
    ClassicState.EMPTY: {"PreparingRebalance"},
}


@pytest.mark.parametrize("target", ClassicState)
def test_the_states_follow_each_other_as_in_kafka(target: ClassicState) -> None:
    previous = {state.value for (state, _), (to, _) in TRANSITIONS.items() if to is target and state is not target}
    assert previous == PREVIOUS_STATES_IN_KAFKA[target]


def test_every_effect_and_every_event_is_used_and_every_state_answers() -> None:
    assert {effect for _, effects in TRANSITIONS.values() for effect in effects} == set(ClassicEffect)
    assert {event for _, event in TRANSITIONS} == set(ClassicEvent)
    for answers in (HEARTBEAT_ANSWERS, SYNC_REFUSALS, COMMIT_REFUSALS, DELETION_ERRORS):
        assert set(answers) == set(ClassicState)


def test_what_the_table_does_not_have_is_refused() -> None:
    for event in ClassicEvent:
        with pytest.raises(IllegalClassicTransition, match=rf"{event.name} in state Dead"):
            classic_transition(ClassicState.DEAD, event)
    with pytest.raises(IllegalClassicTransition):
        classic_transition(ClassicState.STABLE, ClassicEvent.JOINS_OVER)
