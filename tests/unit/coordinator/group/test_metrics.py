"""Kafka's names, and what they say of the groups there are."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace
from typing import Any

from barnabas.coordinator.group.classic.classic_group import ClassicGroup
from barnabas.coordinator.group.classic.states import ClassicState
from barnabas.coordinator.group.committed_offsets import CommittedOffsets
from barnabas.coordinator.group.consumer.consumer_group import ConsumerGroup
from barnabas.coordinator.group.group import Group
from barnabas.coordinator.group.metrics import GroupMetrics, RebalanceCounts
from barnabas.coordinator.runtime.coordinator_loader import LoadTimes
from barnabas.metrics.metrics_registry import MetricsRegistry
from tests.support.mock_clock import MockClock

MANAGER = "kafka.coordinator.group:type=GroupMetadataManager,name="
ATTRIBUTES = "kafka.server:type=group-coordinator-metrics"


def test_groups_and_counts() -> None:
    clock = MockClock()
    stable = ClassicGroup("stable", clock)
    stable.state = ClassicState.STABLE
    offsets = CommittedOffsets({"t": {0: b"", 1: b""}})
    groups = [
        Group("empty", 0, ClassicGroup("empty", clock), offsets),
        Group("stable", 0, stable, CommittedOffsets()),
        Group("new", 0, ConsumerGroup("new"), CommittedOffsets()),
    ]
    table: Any = SimpleNamespace(entries=lambda: groups)
    rebalances = RebalanceCounts()
    load_times = deque([LoadTimes(0, 10, 1, clock.nanoseconds()), LoadTimes(1, 30, 1, clock.nanoseconds())])
    counts = {"group-completed-rebalance": lambda: rebalances.classic}
    family = GroupMetrics(table, counts, load_times, clock)
    registry = MetricsRegistry()
    registry.family(family)

    def now() -> dict[str, float]:
        return {sample.name.mbean: sample.value for sample in registry.collect()}

    for _ in range(20):
        rebalances.count_classic()
    clock.advance(10_000)
    shown = now()
    assert {name.removeprefix(MANAGER): value for name, value in shown.items() if name.startswith(MANAGER)} == {
        "NumOffsets": 2,
        "NumGroups": 3,
        "NumGroupsEmpty": 1,
        "NumGroupsPreparingRebalance": 0,
        "NumGroupsCompletingRebalance": 0,
        "NumGroupsStable": 1,
        "NumGroupsDead": 0,
    }
    assert {name.removeprefix(ATTRIBUTES): value for name, value in shown.items() if name.startswith(ATTRIBUTES)} == {
        ",protocol=classic/group-count": 2,
        ",protocol=consumer/group-count": 1,
        ",state=Empty/consumer-group-count": 1,
        ",state=Assigning/consumer-group-count": 0,
        ",state=Reconciling/consumer-group-count": 0,
        ",state=Stable/consumer-group-count": 0,
        ",state=Dead/consumer-group-count": 0,
        "/group-completed-rebalance-rate": 2.0,
        "/group-completed-rebalance-count": 20,
        "/partition-load-time-max": 30,
        "/partition-load-time-avg": 20,
    }
    for _ in range(10):
        clock.advance(5000)
        family.tick(5.0)
    shown = now()
    assert shown[f"{ATTRIBUTES}/group-completed-rebalance-rate"] == 0
    assert shown[f"{ATTRIBUTES}/partition-load-time-max"] == 0, "that was long ago"
