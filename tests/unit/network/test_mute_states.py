"""The mute table against its meaning: muted while a request is in progress or a throttle lasts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.network.connections.mute_states import (
    AFTER_RESPONSE,
    NOT_MUTED,
    RESPONSE_PENDING,
    TRANSITIONS,
    IllegalMuteTransition,
    MuteEvent,
    MuteState,
    after,
    mute,
    try_unmute,
)


class Model:
    """What the states stand for."""

    def __init__(self) -> None:
        self.muted = self.pending = self.throttled = False

    def allows(self, event: MuteEvent) -> bool:
        return {
            MuteEvent.REQUEST_RECEIVED: self.muted and not self.pending and not self.throttled,
            MuteEvent.RESPONSE_SENT: self.pending,
            MuteEvent.THROTTLE_STARTED: self.pending and not self.throttled,
            MuteEvent.THROTTLE_ENDED: self.throttled,
        }[event]

    def apply(self, event: MuteEvent) -> None:
        if event in (MuteEvent.REQUEST_RECEIVED, MuteEvent.RESPONSE_SENT):
            self.pending = event is MuteEvent.REQUEST_RECEIVED
        else:
            self.throttled = event is MuteEvent.THROTTLE_STARTED

    @property
    def state(self) -> MuteState:
        if not self.muted:
            return MuteState.NOT_MUTED
        name = (
            "MUTED" + ("_AND_THROTTLED" if self.throttled else "") + ("_AND_RESPONSE_PENDING" if self.pending else "")
        )
        return MuteState[name]


@given(st.lists(st.one_of(st.sampled_from(MuteEvent), st.none())))
def test_the_table_is_the_model(events: list[MuteEvent | None]) -> None:
    model, state = Model(), MuteState.NOT_MUTED
    for event in events:
        if event is None:
            state = mute(state)
            model.muted = True
        elif not model.allows(event):
            with pytest.raises(IllegalMuteTransition):
                after(state, event)
        else:
            state = after(state, event)
            model.apply(event)
            if event in (MuteEvent.RESPONSE_SENT, MuteEvent.THROTTLE_ENDED):
                state = try_unmute(state)
                model.muted = model.pending or model.throttled
        assert state is model.state


def test_there_are_six_transitions() -> None:
    assert len(TRANSITIONS) == 6


def test_the_short_cut_of_the_hot_path_is_the_table() -> None:
    for state in MuteState:
        try:
            expected = try_unmute(after(state, MuteEvent.RESPONSE_SENT))
        except IllegalMuteTransition:
            expected = None
        assert AFTER_RESPONSE[state] is expected
    assert AFTER_RESPONSE[MuteState.MUTED_AND_RESPONSE_PENDING] is MuteState.NOT_MUTED


def test_the_literals_of_the_hot_path_are_the_states_that_they_stand_for() -> None:
    assert (NOT_MUTED, RESPONSE_PENDING) == (MuteState.NOT_MUTED, MuteState.MUTED_AND_RESPONSE_PENDING)
    assert after(mute(MuteState.NOT_MUTED), MuteEvent.REQUEST_RECEIVED) == RESPONSE_PENDING
