"""The group coordinator's metrics by Kafka's names.

Behind the metric family of `broker.stages.replication_stage`: ticked by the scheduler, and read by the reporters of
metrics on any thread without a lock. A reading looks at the groups one by one, each under its lock. `_lock` guards the
rates. The services' counts are plain numbers, which may be a moment old. Kafka: GroupMetadataManager (the gauges of
3.9) and GroupCoordinatorMetrics (all names of 4.3). Where both count groups of the classic protocol, NumGroups counts
every group, as in 3.9.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from barnabas.coordinator.group.classic.states import ClassicState
from barnabas.coordinator.group.group import GroupType
from barnabas.coordinator.group.group_table import GroupTable
from barnabas.coordinator.runtime.coordinator_loader import LoadTimes, recent_loads
from barnabas.metrics.metrics_registry import MBeanName, Sample
from barnabas.metrics.rate import RecentRate
from barnabas.runtime.clock import Clock

COORDINATOR: Final = "kafka.coordinator.group"
MANAGER: Final = "GroupMetadataManager"
SERVER: Final = "kafka.server"
ATTRIBUTES: Final = "group-coordinator-metrics"
CLASSIC_GROUPS: Final = {
    ClassicState.EMPTY: "Classic groups without members",
    ClassicState.PREPARING_REBALANCE: "Classic groups that wait for their members to join again",
    ClassicState.COMPLETING_REBALANCE: "Classic groups that wait for their leader's assignment",
    ClassicState.STABLE: "Classic groups whose members may have their assignment",
    ClassicState.DEAD: "Classic groups that are about to vanish",
}
"""State -> the description of the gauge of groups in it."""
COUNTS: Final = {
    "offset-commit": "Offsets committed",
    "offset-expiration": "Offsets that expired",
    "offset-deletion": "Offsets deleted by request",
    "group-completed-rebalance": "Assignments that leaders of classic groups have made",
    "consumer-group-rebalance": "New epochs of groups of KIP-848",
}
"""Kafka's name of a rate and a count -> its description."""
CONSUMER_GROUP_STATES: Final = ("Empty", "Assigning", "Reconciling", "Stable", "Dead")


class RebalanceCounts:
    """Rebalances since the start. Two threads may lose a count: exact enough for rates."""

    def __init__(self) -> None:
        self.classic = 0
        self.consumer = 0

    def count_classic(self) -> None:
        """Count a classic group that has its leader's assignment."""
        self.classic += 1

    def count_consumer(self) -> None:
        """Count a consumer group that has a new target assignment."""
        self.consumer += 1


class GroupMetrics:
    """The metric family of the group coordinator.

    counts: functions that return a count since the start, by its name in COUNTS.
    load_times: of the partitions that were loaded last.
    """

    def __init__(
        self, table: GroupTable, counts: Mapping[str, Callable[[], int]], load_times: deque[LoadTimes], clock: Clock
    ) -> None:
        self._table = table
        self._counts = counts
        self._load_times = load_times
        self._now_ns = clock.nanoseconds
        self._lock = threading.Lock()
        self._rates = {name: RecentRate(count(), self._now_ns()) for name, count in counts.items()}

    def tick(self, elapsed_seconds: float) -> None:
        """Remember the present counts, for rates."""
        with self._lock:
            for name, rate in self._rates.items():
                rate.tick(self._counts[name](), self._now_ns())

    def samples(self) -> Iterable[Sample]:
        """Return the present value of every metric."""
        return [*self._of_groups(), *self._of_counts(), *self._of_loadings()]

    def _of_groups(self) -> Iterator[Sample]:
        offsets = 0
        states: Counter[tuple[GroupType, str]] = Counter()
        for group in self._table.entries():
            with group.lock:
                offsets += len(group.offsets)
                states[group.membership.group_type, group.membership.state_name] += 1
        yield Sample(MBeanName(COORDINATOR, MANAGER, "NumOffsets"), offsets, "Committed offsets")
        description = "Groups that this broker coordinates"
        yield Sample(MBeanName(COORDINATOR, MANAGER, "NumGroups"), states.total(), description)
        for state, description in CLASSIC_GROUPS.items():
            name = f"NumGroups{state.value}"
            yield Sample(MBeanName(COORDINATOR, MANAGER, name), states[GroupType.CLASSIC, state.value], description)
        for protocol in GroupType:
            count = sum(number for (kind, _), number in states.items() if kind is protocol)
            description = "Groups by protocol: classic, or consumer (KIP-848)"
            yield _attribute("group-count", count, description, ("protocol", protocol.value))
        for state_name in CONSUMER_GROUP_STATES:
            number = states[GroupType.CONSUMER, state_name]
            yield _attribute("consumer-group-count", number, "Groups of KIP-848 by state", ("state", state_name))

    def _of_counts(self) -> Iterator[Sample]:
        with self._lock:
            for name, rate in self._rates.items():
                count = self._counts[name]()
                yield _attribute(f"{name}-rate", rate.per_second(count, self._now_ns()), f"{COUNTS[name]}, a second")
                yield _attribute(f"{name}-count", count, COUNTS[name])._replace(is_counter=True)

    def _of_loadings(self) -> Iterator[Sample]:
        loads = recent_loads(self._load_times, self._now_ns())
        yield _attribute("partition-load-time-max", loads.longest_ms, "Longest of these")
        description = "Mean milliseconds that loading a partition's groups took, over half a minute"
        yield _attribute("partition-load-time-avg", loads.mean_ms, description)


def _attribute(name: str, value: float, description: str, *tags: tuple[str, str]) -> Sample:
    return Sample(MBeanName(SERVER, ATTRIBUTES, name, tags, is_attribute=True), value, description)
