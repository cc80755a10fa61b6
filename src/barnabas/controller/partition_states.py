"""The states of a partition and which may follow which: a table, and the function that reads it.

Used by `partition_state_machine` on the controller's thread; pure.

- NON_EXISTENT: never created, or created and deleted.
- NEW: it has replicas, but no leader and no in-sync replicas yet.
- ONLINE: a leader was elected.
- OFFLINE: its leader died after that.

Kafka: kafka.controller.PartitionState, ZkPartitionStateMachine.doHandleStateChanges.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final, NamedTuple


class PartitionState(enum.Enum):
    """The state of a partition; as an event, the requested state."""

    NON_EXISTENT = "NonExistentPartition"
    NEW = "NewPartition"
    ONLINE = "OnlinePartition"
    OFFLINE = "OfflinePartition"


class PartitionEffect(enum.Enum):
    """The work that has to succeed before a partition is in its next state."""

    INITIALIZE_LEADERSHIP = "lead by the first live replica, write the state, tell the live replicas"
    ELECT_LEADER = "elect by a strategy, write the state, tell the replicas"


class PartitionTransition(NamedTuple):
    """The next state, and the work it needs."""

    state: PartitionState
    effects: tuple[PartitionEffect, ...] = ()


_NON_EXISTENT, _NEW, _ONLINE, _OFFLINE = PartitionState
_INITIALIZE = PartitionTransition(_ONLINE, (PartitionEffect.INITIALIZE_LEADERSHIP,))
_ELECT = PartitionTransition(_ONLINE, (PartitionEffect.ELECT_LEADER,))
_REFUSED = None

# The transition by the current and the requested state; every pair is there.
PARTITION_TRANSITIONS: Final[Mapping[tuple[PartitionState, PartitionState], PartitionTransition | None]] = {
    (_NON_EXISTENT, _NON_EXISTENT): _REFUSED,
    (_NON_EXISTENT, _NEW): PartitionTransition(_NEW),
    (_NON_EXISTENT, _ONLINE): _REFUSED,
    (_NON_EXISTENT, _OFFLINE): _REFUSED,
    (_NEW, _NON_EXISTENT): _REFUSED,
    (_NEW, _NEW): _REFUSED,
    (_NEW, _ONLINE): _INITIALIZE,
    (_NEW, _OFFLINE): PartitionTransition(_OFFLINE),
    (_ONLINE, _NON_EXISTENT): _REFUSED,
    (_ONLINE, _NEW): _REFUSED,
    (_ONLINE, _ONLINE): _ELECT,
    (_ONLINE, _OFFLINE): PartitionTransition(_OFFLINE),
    (_OFFLINE, _NON_EXISTENT): PartitionTransition(_NON_EXISTENT),
    (_OFFLINE, _NEW): _REFUSED,
    (_OFFLINE, _ONLINE): _ELECT,
    (_OFFLINE, _OFFLINE): PartitionTransition(_OFFLINE),
}


def partition_transition(state: PartitionState, target: PartitionState) -> PartitionTransition | None:
    """Return the transition from `state` to `target`, or None if it is not allowed."""
    return PARTITION_TRANSITIONS[state, target]


def valid_previous_partition_states(target: PartitionState) -> list[PartitionState]:
    """Return the states from which `target` may be reached."""
    return [state for state in PartitionState if PARTITION_TRANSITIONS[state, target] is not None]
