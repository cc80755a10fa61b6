"""The states of a classic group as tables: its transitions, and the answers of each state.

Read by `classic.classic_group` and `classic.requests`; pure. `docs/group-states.md` is drawn from `TRANSITIONS`.
Kafka: GroupState of kafka.coordinator.group.GroupMetadata, with the `currentState match` of GroupCoordinator.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final, NamedTuple

from barnabas.protocol.errors import ErrorCode


class ClassicState(enum.Enum):
    """The state of a group, in Kafka's words.

    - EMPTY: the group has no members. It keeps committed offsets, or was only ever used for those.
    - PREPARING_REBALANCE: every member is asked to join again; those that have joined wait.
    - COMPLETING_REBALANCE: a new generation; its members wait for the leader's assignment.
    - STABLE: every member can have its part of the assignment.
    - DEAD: the group was deleted, or has moved to another broker.
    """

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class ClassicEvent(enum.Enum):
    """An event that moves a group to another state.

    MEMBERS_CHANGED: also a leader that wants a rebalance. NO_MEMBER_JOINED: static members are left, which stay until
    their sessions expire.
    """

    MEMBERS_CHANGED = "a member joins, leaves or changes"
    JOINS_OVER = "all members have joined, or their time is over"
    NO_MEMBER_LEFT = "the joins are over, no member is left"
    NO_MEMBER_JOINED = "the time is over, no member has joined"
    ASSIGNMENT_STORED = "the assignment is stored"
    ASSIGNMENT_LOST = "the assignment could not be stored"
    ENDED = "the group is deleted, or moves to another broker"


class ClassicEffect(enum.Enum):
    """A step of a move into the next state."""

    REJECT_SYNCS = "members that wait for the assignment are told to join again"
    WAIT_FOR_FIRST_MEMBERS = "wait for more members, for the initial delay"
    WAIT_FOR_JOINS = "wait for the members, for the longest rebalance timeout"
    WAIT_ONCE_MORE = "wait again, until a member joins or all sessions expire"
    COMPLETE_JOINS = "go on if all members have joined"
    START_GENERATION = "choose the protocol, answer the joins, wait for the syncs"
    START_EMPTY_GENERATION = "store the group without members"
    HAND_OUT_ASSIGNMENT = "answer the syncs"
    REJECT_ALL = "members that wait are told to find the coordinator again"


class ClassicTransition(NamedTuple):
    """The next state, and the effects of the move in order."""

    state: ClassicState
    effects: tuple[ClassicEffect, ...] = ()


_EMPTY, _PREPARING, _COMPLETING, _STABLE, _DEAD = ClassicState
_END = ClassicTransition(_DEAD, (ClassicEffect.REJECT_ALL,))
_START_OVER = ClassicTransition(_PREPARING, (ClassicEffect.REJECT_SYNCS, ClassicEffect.WAIT_FOR_JOINS))

# A pair that is not in the table is a bug, and not an event to ignore: the group checks its state before it moves. In
# PreparingRebalance a change of the members begins no other wait, so members that come and go cannot prolong the wait.
TRANSITIONS: Final[Mapping[tuple[ClassicState, ClassicEvent], ClassicTransition]] = {
    (_EMPTY, ClassicEvent.MEMBERS_CHANGED): ClassicTransition(_PREPARING, (ClassicEffect.WAIT_FOR_FIRST_MEMBERS,)),
    (_EMPTY, ClassicEvent.ENDED): _END,
    (_PREPARING, ClassicEvent.MEMBERS_CHANGED): ClassicTransition(_PREPARING, (ClassicEffect.COMPLETE_JOINS,)),
    (_PREPARING, ClassicEvent.JOINS_OVER): ClassicTransition(_COMPLETING, (ClassicEffect.START_GENERATION,)),
    (_PREPARING, ClassicEvent.NO_MEMBER_LEFT): ClassicTransition(_EMPTY, (ClassicEffect.START_EMPTY_GENERATION,)),
    (_PREPARING, ClassicEvent.NO_MEMBER_JOINED): ClassicTransition(_PREPARING, (ClassicEffect.WAIT_ONCE_MORE,)),
    (_PREPARING, ClassicEvent.ENDED): _END,
    (_COMPLETING, ClassicEvent.MEMBERS_CHANGED): _START_OVER,
    (_COMPLETING, ClassicEvent.ASSIGNMENT_STORED): ClassicTransition(_STABLE, (ClassicEffect.HAND_OUT_ASSIGNMENT,)),
    (_COMPLETING, ClassicEvent.ASSIGNMENT_LOST): _START_OVER,
    (_COMPLETING, ClassicEvent.ENDED): _END,
    (_STABLE, ClassicEvent.MEMBERS_CHANGED): ClassicTransition(_PREPARING, (ClassicEffect.WAIT_FOR_JOINS,)),
    (_STABLE, ClassicEvent.ENDED): _END,
}


class IllegalClassicTransition(RuntimeError):
    """An event that cannot happen in the group's state: a bug of this broker."""


def classic_transition(state: ClassicState, event: ClassicEvent) -> ClassicTransition:
    """Return the transition of `event` in `state`.

    Raises IllegalClassicTransition when the table has none.
    """
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise IllegalClassicTransition(f"{event.name} in state {state.value}") from None


HEARTBEAT_ANSWERS: Final[Mapping[ClassicState, ErrorCode]] = {
    _EMPTY: ErrorCode.UNKNOWN_MEMBER_ID,
    _PREPARING: ErrorCode.REBALANCE_IN_PROGRESS,
    _COMPLETING: ErrorCode.NONE,  # consumers send heartbeats as soon as they have joined
    _STABLE: ErrorCode.NONE,
    _DEAD: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}
"""The answer to a heartbeat of a member of the current generation."""

SYNC_REFUSALS: Final[Mapping[ClassicState, ErrorCode]] = {
    _EMPTY: ErrorCode.UNKNOWN_MEMBER_ID,
    _PREPARING: ErrorCode.REBALANCE_IN_PROGRESS,
    _COMPLETING: ErrorCode.NONE,  # the SyncGroup waits for the leader's assignment, or brings it
    _STABLE: ErrorCode.NONE,  # answered with the member's part of the assignment
    _DEAD: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}
"""The answer to a SyncGroup of a member of the current generation; NONE: the request is served or waits."""

COMMIT_REFUSALS: Final[Mapping[ClassicState, ErrorCode]] = {
    _EMPTY: ErrorCode.UNKNOWN_MEMBER_ID,
    _PREPARING: ErrorCode.NONE,  # a heartbeat tells the member of the rebalance; until then it may save its progress
    # The member has joined the new generation, and does not know its partitions there yet.
    _COMPLETING: ErrorCode.REBALANCE_IN_PROGRESS,
    _STABLE: ErrorCode.NONE,
    _DEAD: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}
"""The answer to a commit of a member of the current generation."""

DELETION_ERRORS: Final[Mapping[ClassicState, ErrorCode]] = {
    _EMPTY: ErrorCode.NONE,
    _PREPARING: ErrorCode.NON_EMPTY_GROUP,
    _COMPLETING: ErrorCode.NON_EMPTY_GROUP,
    _STABLE: ErrorCode.NON_EMPTY_GROUP,
    _DEAD: ErrorCode.GROUP_ID_NOT_FOUND,
}
"""The error that keeps a group from being deleted, or NONE."""
