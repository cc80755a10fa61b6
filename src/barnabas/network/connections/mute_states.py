"""The reasons why a connection is not read: a request is being handled, or the client is throttled, or both. Pure.

Applied by each Connection on its Processor's thread; no lock. Kafka: KafkaChannel.ChannelMuteState, ChannelMuteEvent.

A connection is muted while its request is in progress: that alone keeps its answers in order. Example, a produce above
its quota:

    event               state after it
    REQUEST_RECEIVED    MUTED_AND_RESPONSE_PENDING
    THROTTLE_STARTED    MUTED_AND_THROTTLED_AND_RESPONSE_PENDING    the handler charges the client, then answers
    RESPONSE_SENT       MUTED_AND_THROTTLED                         the answer has left, the next request is not read
    THROTTLE_ENDED      MUTED, and at once NOT_MUTED                nothing else keeps it muted: it is read again
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class MuteState(IntEnum):
    """The state of a connection: read, or muted for one or both reasons."""

    NOT_MUTED = 0
    MUTED = 1
    MUTED_AND_RESPONSE_PENDING = 2
    MUTED_AND_THROTTLED = 3
    MUTED_AND_THROTTLED_AND_RESPONSE_PENDING = 4


NOT_MUTED: Final = 0
RESPONSE_PENDING: Final = 2
"""MuteState.NOT_MUTED and MUTED_AND_RESPONSE_PENDING as literals, which compiled code compares without an object."""


class MuteEvent(IntEnum):
    """The events of a connection. After RESPONSE_SENT and THROTTLE_ENDED the caller tries to unmute it."""

    REQUEST_RECEIVED = 0
    RESPONSE_SENT = 1
    THROTTLE_STARTED = 2
    THROTTLE_ENDED = 3


class IllegalMuteTransition(RuntimeError):
    """The error for an event that a state cannot have: a defect of the broker. The connection closes."""


TRANSITIONS: dict[tuple[MuteState, MuteEvent], MuteState] = {
    (MuteState.MUTED, MuteEvent.REQUEST_RECEIVED): MuteState.MUTED_AND_RESPONSE_PENDING,
    (MuteState.MUTED_AND_RESPONSE_PENDING, MuteEvent.RESPONSE_SENT): MuteState.MUTED,
    (MuteState.MUTED_AND_THROTTLED_AND_RESPONSE_PENDING, MuteEvent.RESPONSE_SENT): MuteState.MUTED_AND_THROTTLED,
    (MuteState.MUTED_AND_RESPONSE_PENDING, MuteEvent.THROTTLE_STARTED): (
        MuteState.MUTED_AND_THROTTLED_AND_RESPONSE_PENDING
    ),
    (MuteState.MUTED_AND_THROTTLED, MuteEvent.THROTTLE_ENDED): MuteState.MUTED,
    (MuteState.MUTED_AND_THROTTLED_AND_RESPONSE_PENDING, MuteEvent.THROTTLE_ENDED): (
        MuteState.MUTED_AND_RESPONSE_PENDING
    ),
}


def mute(state: MuteState) -> MuteState:
    """Return the state after a mute; a connection that is muted already keeps its state."""
    return MuteState.MUTED if state is MuteState.NOT_MUTED else state


def after(state: MuteState, event: MuteEvent) -> MuteState:
    """Return the next state. Raises IllegalMuteTransition for an event that the state cannot have."""
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise IllegalMuteTransition(f"{event.name} in state {state.name}") from None


def try_unmute(state: MuteState) -> MuteState:
    """Return NOT_MUTED if nothing else keeps the connection muted, otherwise the same state."""
    return MuteState.NOT_MUTED if state is MuteState.MUTED else state


def _after_response(state: MuteState) -> MuteState | None:
    following = TRANSITIONS.get((state, MuteEvent.RESPONSE_SENT))
    return None if following is None else try_unmute(following)


AFTER_RESPONSE: Final[tuple[MuteState | None, ...]] = tuple(_after_response(state) for state in MuteState)
"""The state after RESPONSE_SENT and the attempt to unmute, by the state before: one look-up for the hot path. None
marks an illegal event."""
