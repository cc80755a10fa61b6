"""Replicas are placed as by Kafka's AdminUtils; the expected assignments are those of its tests."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.metadata.replica_placement import (
    AdminOperationFailed,
    assign_replicas_to_brokers,
    rack_alternated_brokers,
)
from barnabas.protocol.errors import ApiError, ErrorCode

CHANCE = random.Random(0)


def without_racks(count: int) -> list[tuple[int, str | None]]:
    return [(broker, None) for broker in range(count)]


def test_the_assignment_of_kafkas_own_test() -> None:
    """AdminRackAwareTest / AdminUtilsTest.testManualReplicaAssignment: 10 partitions, 3 replicas, 5 brokers."""
    expected = {
        0: [0, 1, 2], 1: [1, 2, 3], 2: [2, 3, 4], 3: [3, 4, 0], 4: [4, 0, 1],
        5: [0, 2, 3], 6: [1, 3, 4], 7: [2, 4, 0], 8: [3, 0, 1], 9: [4, 1, 2],
    }  # fmt: skip
    assert assign_replicas_to_brokers(without_racks(5), 10, 3, CHANCE, fixed_start_index=0) == expected


def test_the_assignment_over_racks_of_kafkas_own_test() -> None:
    """AdminRackAwareTest.testAssignmentWithRackAware and getRackAlternatedBrokerListAndAssignReplicasToBrokers."""
    racks = {0: "rack1", 1: "rack3", 2: "rack3", 3: "rack2", 4: "rack2", 5: "rack1"}
    order = rack_alternated_brokers(racks)
    assert order == [0, 3, 1, 5, 4, 2]
    assert rack_alternated_brokers({**racks, 6: "rack1"} | {0: "rack1"})[-1] == 6
    brokers: list[tuple[int, str | None]] = list(racks.items())
    assignment = assign_replicas_to_brokers(brokers, 7, 3, CHANCE, fixed_start_index=0, start_partition_id=0)
    assert assignment == {
        0: [0, 3, 1], 1: [3, 1, 5], 2: [1, 5, 4], 3: [5, 4, 2], 4: [4, 2, 0], 5: [2, 0, 3], 6: [0, 4, 2],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("brokers", "partitions", "replication_factor", "code", "text"),
    [
        (3, 0, 1, ErrorCode.INVALID_PARTITIONS, "Number of partitions must be larger than 0."),
        (3, -2, 1, ErrorCode.INVALID_PARTITIONS, "Number of partitions must be larger than 0."),
        (3, 1, 0, ErrorCode.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0."),
        (3, 1, 4, ErrorCode.INVALID_REPLICATION_FACTOR, "Replication factor: 4 larger than available brokers: 3."),
    ],
)
def test_what_can_not_be_placed(
    brokers: int, partitions: int, replication_factor: int, code: ErrorCode, text: str
) -> None:
    with pytest.raises(ApiError) as raised:
        assign_replicas_to_brokers(without_racks(brokers), partitions, replication_factor, CHANCE)
    assert (raised.value.code, raised.value.message) == (code, text)


def test_racks_of_some_brokers_only() -> None:
    with pytest.raises(AdminOperationFailed, match="Not all brokers have rack information"):
        assign_replicas_to_brokers([(0, "a"), (1, None)], 1, 1, CHANCE)


@given(st.integers(1, 9), st.integers(1, 30), st.integers(1, 9), st.integers(), st.integers(1, 4))
def test_replicas_differ_and_spread(
    brokers: int, partitions: int, replication_factor: int, seed: int, rack_count: int
) -> None:
    replication_factor = min(replication_factor, brokers)
    racks: list[tuple[int, str | None]] = [(broker, f"rack{broker % rack_count}") for broker in range(brokers)]
    for cluster in (without_racks(brokers), racks):
        placed = assign_replicas_to_brokers(cluster, partitions, replication_factor, random.Random(seed))
        _check_spread(placed, brokers, partitions, replication_factor)
    names = dict(racks)
    placed = assign_replicas_to_brokers(racks, partitions, replication_factor, random.Random(seed))
    for replicas in placed.values():
        used = {names[replica] for replica in replicas}
        assert len(used) == min(replication_factor, len(set(names.values())))


def _check_spread(placed: dict[int, list[int]], brokers: int, partitions: int, replication_factor: int) -> None:
    assert sorted(placed) == list(range(partitions))
    assert all(len(set(replicas)) == replication_factor for replicas in placed.values())
    leaders = Counter(replicas[0] for replicas in placed.values())
    assert max(leaders.values()) - min(leaders.get(broker, 0) for broker in range(brokers)) <= 1


def test_new_partitions_go_on_where_the_old_ones_ended() -> None:
    all_at_once = assign_replicas_to_brokers(without_racks(4), 9, 2, CHANCE, fixed_start_index=0)
    later = assign_replicas_to_brokers(without_racks(4), 3, 2, CHANCE, fixed_start_index=0, start_partition_id=6)
    assert set(later) == {6, 7, 8}
    assert [replicas[0] for replicas in later.values()] == [all_at_once[index][0] for index in (6, 7, 8)]
