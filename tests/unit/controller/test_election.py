"""Leader elections choose as Kafka's PartitionLeaderElectionAlgorithmsTest says, whatever the cluster looks like."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from barnabas.controller.election import (
    controlled_shutdown_leader,
    elect_for_controlled_shutdown,
    elect_for_reassignment,
    elect_offline,
    elect_preferred_replica,
    offline_leader,
    preferred_replica_leader,
    reassign_leader,
)
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.zk.znodes.topic_zk_data import LeaderAndIsr, LeaderRecoveryState, ReplicaAssignment

TP = TopicPartition("orders", 0)
brokers = st.integers(0, 5)
assignments = st.lists(brokers, min_size=1, max_size=5, unique=True)
sets = st.sets(brokers)


def test_offline_prefers_live_in_sync_replicas_in_order_of_assignment() -> None:
    assert offline_leader([2, 4], [2, 4], {4}, allow_unclean=False) == 4
    assert offline_leader([2, 4], [2], {4}, allow_unclean=False) is None
    assert offline_leader([2, 4], [2], {4}, allow_unclean=True) == 4
    assert offline_leader([2, 4], [2], set(), allow_unclean=True) is None


def test_the_other_strategies() -> None:
    assert reassign_leader([2, 4], [2, 4], {4}) == 4
    assert reassign_leader([2, 4], [2], {4}) is None
    assert preferred_replica_leader([2, 4], [2, 4], {2, 4}) == 2
    assert preferred_replica_leader([2, 4], [2, 4], {4}) is None
    assert preferred_replica_leader([2, 4], [4], {2, 4}) is None
    assert preferred_replica_leader([], [], set()) is None
    assert controlled_shutdown_leader([2, 4], [2, 4], {2, 4}, {2}) == 4
    assert controlled_shutdown_leader([2, 4], [2], {2, 4}, {2}) is None


@given(assignments, sets, sets, st.booleans())
def test_offline_leader_is_a_live_replica_and_in_sync_if_any_is(
    assignment: list[int], isr: set[int], live: set[int], allow_unclean: bool
) -> None:
    leader = offline_leader(assignment, isr, live, allow_unclean=allow_unclean)
    clean = [replica for replica in assignment if replica in isr & live]
    if clean:
        assert leader == clean[0]
    elif leader is not None:
        assert allow_unclean
        assert leader in set(assignment) & live


@given(assignments, st.lists(brokers, max_size=4, unique=True), sets, st.booleans())
def test_an_election_raises_the_epoch_and_keeps_the_rest(
    assignment: list[int], isr: list[int], live: set[int], allow_unclean: bool
) -> None:
    current = LeaderAndIsr(-1, 7, tuple(isr), LeaderRecoveryState.RECOVERED, 3)
    result = elect_offline(TP, current, assignment, live.__contains__, allow_unclean=allow_unclean)
    new = result.leader_and_isr
    if new is None:
        return
    assert (new.leader_epoch, new.partition_epoch) == (8, 3)
    assert new.leader in new.isr
    assert new.leader in result.recipients
    assert set(result.recipients) == set(assignment) & live
    unclean = new.leader not in isr
    assert new.leader_recovery_state == int(unclean)
    assert set(new.isr) == ({new.leader} if unclean else set(isr) & live)


def test_reassignment_elects_among_targets_and_tells_them_all() -> None:
    assignment = ReplicaAssignment((1, 2, 3), adding_replicas=(1,), removing_replicas=(3,))
    result = elect_for_reassignment(TP, LeaderAndIsr(3, 0, (3, 2)), assignment, {2, 3}.__contains__)
    assert result.leader_and_isr == LeaderAndIsr(2, 1, (3, 2))
    assert result.recipients == (1, 2)


def test_preferred_replica_tells_all_replicas() -> None:
    result = elect_preferred_replica(TP, LeaderAndIsr(1, 4, (1, 0)), (0, 1), {0, 1}.__contains__)
    assert result.leader_and_isr == LeaderAndIsr(0, 5, (1, 0))
    assert result.recipients == (0, 1)


def test_controlled_shutdown_takes_the_broker_out_of_the_in_sync_replicas() -> None:
    result = elect_for_controlled_shutdown(TP, LeaderAndIsr(0, 4, (0, 1)), (0, 1), {0, 1}.__contains__, {0})
    assert result.leader_and_isr == LeaderAndIsr(1, 5, (1,))
    assert result.recipients == (0, 1)


@given(assignments, st.lists(brokers, min_size=1, max_size=5, unique=True))
def test_reassigning_there_and_back(replicas: list[int], target: list[int]) -> None:
    """Kafka: ControllerContextTest, ReplicaAssignment.reassignTo."""
    original = ReplicaAssignment(tuple(replicas))
    moving = original.reassign_to(target)
    assert set(moving.target_replicas) == set(target)
    assert set(moving.origin_replicas) == set(replicas)
    assert moving.is_being_reassigned == (set(replicas) != set(target))
    assert set(moving.reassign_to(replicas).replicas) == set(replicas)
    assert not moving.reassign_to(moving.origin_replicas).is_being_reassigned
