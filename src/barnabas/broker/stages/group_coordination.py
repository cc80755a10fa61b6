"""What a broker has of its group coordinator from the start: the settings, the names of partitions, metrics.

Called by `replication_stage` on the main thread. The rest comes with the first need (`group_coordinator_builder`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from barnabas.broker.foundations import Foundations
from barnabas.coordinator.group.group_config import GroupCoordinatorConfig
from barnabas.coordinator.runtime.late_coordinator import LateCoordinator
from barnabas.coordinator.runtime.partitions import CoordinatorPartitions
from barnabas.metadata.metadata_cache import MetadataCache
from barnabas.metadata.topic_name import GROUP_METADATA_TOPIC
from barnabas.metrics.metrics_registry import Sample
from barnabas.purgatory.purgatory import DelayedOperationPurgatory
from barnabas.replica.replica_manager import ReplicaManager
from barnabas.replica.replica_metrics import register_purgatory

if TYPE_CHECKING:
    from barnabas.coordinator.group.classic.classic_group_changes import DelayedHeartbeat, DelayedRebalance
    from barnabas.coordinator.group.group_coordinator import GroupCoordinator

SESSIONS_BETWEEN_PURGES = 100_000
"""The number of completed watches after which the purgatory looks for others to purge.

A session that ends removes itself from its watch list, so a purge finds almost nothing and costs a look at every
member."""


def late_group_coordinator(
    foundations: Foundations, replicas: ReplicaManager, metadata: MetadataCache
) -> LateCoordinator[GroupCoordinator]:
    """Return the coordinator, which is told of every change of leadership from now on.

    Raises ConfigError: a setting of groups is wrong.
    """
    timer, registry = foundations.timer, foundations.metrics
    config = GroupCoordinatorConfig.from_kafka_config(foundations.dynamic.current)
    partitions = CoordinatorPartitions(GROUP_METADATA_TOPIC, metadata, config.num_partitions)
    heartbeats: DelayedOperationPurgatory[DelayedHeartbeat] = DelayedOperationPurgatory(
        "Heartbeat", timer, purge_interval=SESSIONS_BETWEEN_PURGES
    )
    rebalances: DelayedOperationPurgatory[DelayedRebalance] = DelayedOperationPurgatory("Rebalance", timer)
    register_purgatory(registry, heartbeats)
    register_purgatory(registry, rebalances)

    def build() -> GroupCoordinator:
        from barnabas.broker.stages.group_coordinator_builder import GroupPurgatories, build_group_coordinator

        purgatories = GroupPurgatories(heartbeats, rebalances)
        return build_group_coordinator(foundations, replicas, metadata, config, partitions, purgatories)

    coordinator = LateCoordinator(partitions, build)
    registry.family(_MetricsOfGroups(coordinator))
    # Last: a leadership may change on another thread from here on, and takes everything above to handle.
    replicas.orders.listeners.add(coordinator.leadership_changed)
    return coordinator


class _MetricsOfGroups:
    """The metric family of the group coordinator. A reading builds the coordinator: no metric is missing."""

    def __init__(self, coordinator: LateCoordinator[GroupCoordinator]) -> None:
        self._coordinator = coordinator

    def tick(self, elapsed_seconds: float) -> None:
        """Remember the present counts, for rates."""
        if (built := self._coordinator.built) is not None:
            built.metrics.tick(elapsed_seconds)

    def samples(self) -> Iterable[Sample]:
        """Return the present value of every metric."""
        return self._coordinator().metrics.samples()
