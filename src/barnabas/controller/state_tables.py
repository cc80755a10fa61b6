"""The states of partitions and of replicas, and which may follow which, as tables.

Read by the two state machines on the controller's thread; pure. `docs/controller-states.md` is drawn from the tables.
Kafka: kafka.controller.PartitionState, ReplicaState, doHandleStateChanges of the two state machines.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final, NamedTuple, TypeVar


class PartitionState(enum.Enum):
    """The state of a partition; as an event, the requested state.

    - NON_EXISTENT: never created, or created and deleted.
    - NEW: it has replicas, but no leader and no in-sync replicas yet.
    - ONLINE: a leader was elected.
    - OFFLINE: its leader died after that.
    """

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


_P = PartitionState
_INITIALIZE = PartitionTransition(_P.ONLINE, (PartitionEffect.INITIALIZE_LEADERSHIP,))
_ELECT = PartitionTransition(_P.ONLINE, (PartitionEffect.ELECT_LEADER,))
_VALID_OF_PARTITIONS: Final[Mapping[tuple[PartitionState, PartitionState], PartitionTransition]] = {
    (_P.NON_EXISTENT, _P.NEW): PartitionTransition(_P.NEW),
    (_P.NEW, _P.ONLINE): _INITIALIZE,
    (_P.NEW, _P.OFFLINE): PartitionTransition(_P.OFFLINE),
    (_P.ONLINE, _P.ONLINE): _ELECT,
    (_P.ONLINE, _P.OFFLINE): PartitionTransition(_P.OFFLINE),
    (_P.OFFLINE, _P.NON_EXISTENT): PartitionTransition(_P.NON_EXISTENT),
    (_P.OFFLINE, _P.ONLINE): _ELECT,
    (_P.OFFLINE, _P.OFFLINE): PartitionTransition(_P.OFFLINE),
}

# The transition by the current and the requested state, None where it is not allowed; every pair is there.
PARTITION_TRANSITIONS: Final[Mapping[tuple[PartitionState, PartitionState], PartitionTransition | None]] = {
    (state, target): _VALID_OF_PARTITIONS.get((state, target)) for state in _P for target in _P
}


class ReplicaState(enum.Enum):
    """The state of a replica; as an event, the requested state.

    - NEW: assigned to a broker; it may only become a follower.
    - ONLINE: started; it may become leader or follower.
    - OFFLINE: its broker, or its log directory, is down.
    - DELETION_STARTED: its log is being deleted.
    - DELETION_SUCCESSFUL: its log is deleted, and it is about to be forgotten.
    - DELETION_INELIGIBLE: the deletion failed and waits.
    - NON_EXISTENT: never assigned, or deleted.
    """

    NEW = "NewReplica"
    ONLINE = "OnlineReplica"
    OFFLINE = "OfflineReplica"
    DELETION_STARTED = "ReplicaDeletionStarted"
    DELETION_SUCCESSFUL = "ReplicaDeletionSuccessful"
    DELETION_INELIGIBLE = "ReplicaDeletionIneligible"
    NON_EXISTENT = "NonExistentReplica"


class ReplicaEffect(enum.Enum):
    """The work on the way to the next state."""

    START_AS_FOLLOWER = "send LeaderAndIsr to it as a new replica, unless it would lead"
    ENSURE_ASSIGNED = "add it to the assignment if it is missing there"
    SEND_LEADER_AND_ISR = "send LeaderAndIsr to it"
    STOP_AND_LEAVE_ISR = "send StopReplica to it, take it out of the in-sync replicas, tell the others"
    STOP_AND_DELETE = "send StopReplica to it, with deletion"
    FORGET = "remove it from the assignment in memory"


class ReplicaTransition(NamedTuple):
    """The next state, and the work it needs."""

    state: ReplicaState
    effects: tuple[ReplicaEffect, ...] = ()


_NEW, _ONLINE, _OFFLINE, _STARTED, _SUCCESSFUL, _INELIGIBLE, _NON_EXISTENT = ReplicaState
_VALID_OF_REPLICAS: Final[Mapping[tuple[ReplicaState, ReplicaState], ReplicaTransition]] = {
    (_NON_EXISTENT, _NEW): ReplicaTransition(_NEW, (ReplicaEffect.START_AS_FOLLOWER,)),
    (_NEW, _ONLINE): ReplicaTransition(_ONLINE, (ReplicaEffect.ENSURE_ASSIGNED,)),
    (_ONLINE, _ONLINE): ReplicaTransition(_ONLINE, (ReplicaEffect.SEND_LEADER_AND_ISR,)),
    (_OFFLINE, _ONLINE): ReplicaTransition(_ONLINE, (ReplicaEffect.SEND_LEADER_AND_ISR,)),
    (_INELIGIBLE, _ONLINE): ReplicaTransition(_ONLINE, (ReplicaEffect.SEND_LEADER_AND_ISR,)),
    (_NEW, _OFFLINE): ReplicaTransition(_OFFLINE, (ReplicaEffect.STOP_AND_LEAVE_ISR,)),
    (_ONLINE, _OFFLINE): ReplicaTransition(_OFFLINE, (ReplicaEffect.STOP_AND_LEAVE_ISR,)),
    (_OFFLINE, _OFFLINE): ReplicaTransition(_OFFLINE, (ReplicaEffect.STOP_AND_LEAVE_ISR,)),
    (_INELIGIBLE, _OFFLINE): ReplicaTransition(_OFFLINE, (ReplicaEffect.STOP_AND_LEAVE_ISR,)),
    (_OFFLINE, _STARTED): ReplicaTransition(_STARTED, (ReplicaEffect.STOP_AND_DELETE,)),
    (_STARTED, _SUCCESSFUL): ReplicaTransition(_SUCCESSFUL),
    (_OFFLINE, _INELIGIBLE): ReplicaTransition(_INELIGIBLE),
    (_STARTED, _INELIGIBLE): ReplicaTransition(_INELIGIBLE),
    (_SUCCESSFUL, _NON_EXISTENT): ReplicaTransition(_NON_EXISTENT, (ReplicaEffect.FORGET,)),
}

# The transition by the current and the requested state, None where it is not allowed; every pair is there.
REPLICA_TRANSITIONS: Final[Mapping[tuple[ReplicaState, ReplicaState], ReplicaTransition | None]] = {
    (state, target): _VALID_OF_REPLICAS.get((state, target)) for state in ReplicaState for target in ReplicaState
}


_S = TypeVar("_S")


def valid_previous_states(transitions: Mapping[tuple[_S, _S], object], target: _S) -> list[_S]:
    """Return the states from which `target` may be reached by one of the two complete tables."""
    return [state for (state, wanted), found in transitions.items() if wanted is target and found is not None]
