"""The state tables are total, refuse what Kafka refuses, and never dead-end a partition or a replica."""

from __future__ import annotations

from typing import TypeVar

from hypothesis import given
from hypothesis import strategies as st

from barnabas.controller.state_tables import (
    PARTITION_TRANSITIONS,
    REPLICA_TRANSITIONS,
    PartitionEffect,
    PartitionState,
    ReplicaEffect,
    ReplicaState,
    valid_previous_states,
)

_T = TypeVar("_T")

# PartitionState.validPreviousStates and ReplicaState.validPreviousStates of Apache Kafka 3.9
PARTITION_PREVIOUS = {
    PartitionState.NEW: {PartitionState.NON_EXISTENT},
    PartitionState.ONLINE: {PartitionState.NEW, PartitionState.ONLINE, PartitionState.OFFLINE},
    PartitionState.OFFLINE: {PartitionState.NEW, PartitionState.ONLINE, PartitionState.OFFLINE},
    PartitionState.NON_EXISTENT: {PartitionState.OFFLINE},
}
_UP_OR_DOWN = {ReplicaState.NEW, ReplicaState.ONLINE, ReplicaState.OFFLINE, ReplicaState.DELETION_INELIGIBLE}
REPLICA_PREVIOUS = {
    ReplicaState.NEW: {ReplicaState.NON_EXISTENT},
    ReplicaState.ONLINE: _UP_OR_DOWN,
    ReplicaState.OFFLINE: _UP_OR_DOWN,
    ReplicaState.DELETION_STARTED: {ReplicaState.OFFLINE},
    ReplicaState.DELETION_SUCCESSFUL: {ReplicaState.DELETION_STARTED},
    ReplicaState.DELETION_INELIGIBLE: {ReplicaState.OFFLINE, ReplicaState.DELETION_STARTED},
    ReplicaState.NON_EXISTENT: {ReplicaState.DELETION_SUCCESSFUL},
}


def test_partition_table_is_total_and_kafkas() -> None:
    assert set(PARTITION_TRANSITIONS) == {(state, target) for state in PartitionState for target in PartitionState}
    assert {
        target: set(valid_previous_states(PARTITION_TRANSITIONS, target)) for target in PartitionState
    } == PARTITION_PREVIOUS


def test_replica_table_is_total_and_kafkas() -> None:
    assert set(REPLICA_TRANSITIONS) == {(state, target) for state in ReplicaState for target in ReplicaState}
    assert {
        target: set(valid_previous_states(REPLICA_TRANSITIONS, target)) for target in ReplicaState
    } == REPLICA_PREVIOUS


@given(st.lists(st.sampled_from(PartitionState)))
def test_partition_goes_where_it_is_asked_or_stays(targets: list[PartitionState]) -> None:
    state, led = PartitionState.NON_EXISTENT, False
    for target in targets:
        transition = PARTITION_TRANSITIONS[state, target]
        if transition is None:
            continue
        assert transition.state is target
        if PartitionEffect.INITIALIZE_LEADERSHIP in transition.effects:
            assert state is PartitionState.NEW
        led = led or target is PartitionState.ONLINE
        assert (target is PartitionState.ONLINE) == bool(transition.effects)
        state = target
    if state is PartitionState.ONLINE:
        assert led


@given(st.lists(st.sampled_from(ReplicaState)))
def test_replica_data_is_deleted_only_after_it_was_stopped(targets: list[ReplicaState]) -> None:
    state, stopped = ReplicaState.NON_EXISTENT, False
    for target in targets:
        transition = REPLICA_TRANSITIONS[state, target]
        if transition is None:
            continue
        assert transition.state is target
        if ReplicaEffect.STOP_AND_DELETE in transition.effects:
            assert stopped
        if ReplicaEffect.FORGET in transition.effects:
            assert state is ReplicaState.DELETION_SUCCESSFUL
        stopped = ReplicaEffect.STOP_AND_LEAVE_ISR in transition.effects or (stopped and not transition.effects)
        state = target


def test_every_state_can_be_left_for_deletion_and_for_life() -> None:
    """From anywhere a path leads to NON_EXISTENT and, as long as nothing was deleted, back to ONLINE."""
    partition_edges = {(a, b) for (a, b), transition in PARTITION_TRANSITIONS.items() if transition}
    replica_edges = {(a, b) for (a, b), transition in REPLICA_TRANSITIONS.items() if transition}
    for p_state in PartitionState:
        assert {PartitionState.ONLINE, PartitionState.NON_EXISTENT} <= _reachable(p_state, partition_edges)
    for r_state in ReplicaState:
        assert {ReplicaState.ONLINE, ReplicaState.NON_EXISTENT} <= _reachable(r_state, replica_edges)


def _reachable(start: _T, edges: set[tuple[_T, _T]]) -> set[_T]:
    reached = {start}
    while True:
        more = {b for a, b in edges if a in reached} - reached
        if not more:
            return reached
        reached |= more
