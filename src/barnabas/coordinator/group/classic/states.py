"""The states of a classic group, what moves it from one to another, and what each state answers: tables.

Read by `classic.group`; pure. `docs/group-states.md` is drawn from `TRANSITIONS`.
Kafka: GroupState of kafka.coordinator.group.GroupMetadata, with the `currentState match` of GroupCoordinator.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final, NamedTuple

from barnabas.protocol.errors import ErrorCode


class ClassicState(enum.Enum):
    """Where a group stands, in Kafka's words.

    - EMPTY: nobody is in it; it keeps the committed offsets, or was only ever used for those.
    - PREPARING_REBALANCE: every member is asked to join again; who has, waits.
    - COMPLETING_REBALANCE: a new generation; its members wait for the leader's assignment.
    - STABLE: every member may have its part of the assignment.
    - DEAD: it was deleted, or is another broker's now.
    """

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class ClassicEvent(enum.Enum):
    """What moves a group. A change is also a leader that wants a rebalance; NOBODY_JOINED: static members are left,
    which stay until their sessions are over."""

    MEMBERS_CHANGED = "members come, go or change"
    JOINS_OVER = "all have joined, or their time is over"
    NOBODY_LEFT = "joins are over, nobody is left"
    NOBODY_JOINED = "time is over, nobody has joined"
    ASSIGNMENT_STORED = "assignment stored"
    ASSIGNMENT_LOST = "assignment not stored"
    ENDED = "deleted, or coordinated elsewhere"


class ClassicEffect(enum.Enum):
    """What the move into the next state takes, in order."""

    REFUSE_SYNCS = "members that wait for the assignment are told to join again"
    WAIT_FOR_FIRST_MEMBERS = "wait for more members, for the initial delay"
    WAIT_FOR_JOINS = "wait for the members, for the longest rebalance timeout"
    WAIT_ONCE_MORE = "wait again, until they join or their sessions run out"
    COMPLETE_JOINS = "go on if all have joined"
    START_GENERATION = "choose the protocol, answer the joins, wait for the syncs"
    START_EMPTY_GENERATION = "store that nobody is in it"
    HAND_OUT_ASSIGNMENT = "answer the syncs"
    REFUSE_EVERYBODY = "whoever waits has to find the coordinator again"


class ClassicTransition(NamedTuple):
    """The next state, and what it takes."""

    state: ClassicState
    effects: tuple[ClassicEffect, ...] = ()


_EMPTY, _PREPARING, _COMPLETING, _STABLE, _DEAD = ClassicState
_END = ClassicTransition(_DEAD, (ClassicEffect.REFUSE_EVERYBODY,))
_START_OVER = ClassicTransition(_PREPARING, (ClassicEffect.REFUSE_SYNCS, ClassicEffect.WAIT_FOR_JOINS))

TRANSITIONS: Final[Mapping[tuple[ClassicState, ClassicEvent], ClassicTransition]] = {
    (_EMPTY, ClassicEvent.MEMBERS_CHANGED): ClassicTransition(_PREPARING, (ClassicEffect.WAIT_FOR_FIRST_MEMBERS,)),
    (_EMPTY, ClassicEvent.ENDED): _END,
    (_PREPARING, ClassicEvent.MEMBERS_CHANGED): ClassicTransition(_PREPARING, (ClassicEffect.COMPLETE_JOINS,)),
    (_PREPARING, ClassicEvent.JOINS_OVER): ClassicTransition(_COMPLETING, (ClassicEffect.START_GENERATION,)),
    (_PREPARING, ClassicEvent.NOBODY_LEFT): ClassicTransition(_EMPTY, (ClassicEffect.START_EMPTY_GENERATION,)),
    (_PREPARING, ClassicEvent.NOBODY_JOINED): ClassicTransition(_PREPARING, (ClassicEffect.WAIT_ONCE_MORE,)),
    (_PREPARING, ClassicEvent.ENDED): _END,
    (_COMPLETING, ClassicEvent.MEMBERS_CHANGED): _START_OVER,
    (_COMPLETING, ClassicEvent.ASSIGNMENT_STORED): ClassicTransition(_STABLE, (ClassicEffect.HAND_OUT_ASSIGNMENT,)),
    (_COMPLETING, ClassicEvent.ASSIGNMENT_LOST): _START_OVER,
    (_COMPLETING, ClassicEvent.ENDED): _END,
    (_STABLE, ClassicEvent.MEMBERS_CHANGED): ClassicTransition(_PREPARING, (ClassicEffect.WAIT_FOR_JOINS,)),
    (_STABLE, ClassicEvent.ENDED): _END,
}


class IllegalClassicTransition(RuntimeError):
    """An event in a state that cannot have it: a bug of ours."""


def classic_transition(state: ClassicState, event: ClassicEvent) -> ClassicTransition:
    """What `event` means in `state`. Raises IllegalClassicTransition where the table has nothing."""
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise IllegalClassicTransition(f"{event.name} in state {state.value}") from None


HEARTBEAT_ANSWERS: Final[Mapping[ClassicState, ErrorCode]] = {
    _EMPTY: ErrorCode.UNKNOWN_MEMBER_ID,
    _PREPARING: ErrorCode.REBALANCE_IN_PROGRESS,
    _COMPLETING: ErrorCode.NONE,  # consumers begin with heartbeats once they have joined
    _STABLE: ErrorCode.NONE,
    _DEAD: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}
"""To a member of the current generation."""

SYNC_REFUSALS: Final[Mapping[ClassicState, ErrorCode]] = {
    _EMPTY: ErrorCode.UNKNOWN_MEMBER_ID,
    _PREPARING: ErrorCode.REBALANCE_IN_PROGRESS,
    _COMPLETING: ErrorCode.NONE,  # waits for the leader's assignment, or brings it
    _STABLE: ErrorCode.NONE,  # gets its part of the assignment
    _DEAD: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}
"""To a member of the current generation."""

COMMIT_REFUSALS: Final[Mapping[ClassicState, ErrorCode]] = {
    _EMPTY: ErrorCode.UNKNOWN_MEMBER_ID,
    _PREPARING: ErrorCode.NONE,  # the heartbeat tells it of the rebalance; until then it may save what it has done
    _COMPLETING: ErrorCode.REBALANCE_IN_PROGRESS,
    _STABLE: ErrorCode.NONE,
    _DEAD: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}
"""To a member of the current generation."""

DELETION_ERRORS: Final[Mapping[ClassicState, ErrorCode]] = {
    _EMPTY: ErrorCode.NONE,
    _PREPARING: ErrorCode.NON_EMPTY_GROUP,
    _COMPLETING: ErrorCode.NON_EMPTY_GROUP,
    _STABLE: ErrorCode.NON_EMPTY_GROUP,
    _DEAD: ErrorCode.GROUP_ID_NOT_FOUND,
}
