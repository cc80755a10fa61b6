"""The construction of a broker's group coordinator.

Called by BrokerServer during start, on the main thread. Kafka: BrokerServer.createGroupCoordinator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from barnabas.broker.foundations import Foundations
from barnabas.broker.process_tuning import freeze_loaded_groups
from barnabas.coordinator.group.classic.classic_group import ClassicGroup
from barnabas.coordinator.group.classic.classic_group_changes import (
    ClassicGroupChanges,
    DelayedHeartbeat,
    DelayedRebalance,
)
from barnabas.coordinator.group.classic.classic_group_service import ClassicGroupService
from barnabas.coordinator.group.group import Group, GroupType
from barnabas.coordinator.group.group_admin import GroupAdminService
from barnabas.coordinator.group.group_coordinator import GroupCoordinator
from barnabas.coordinator.group.group_environment import GroupCoordinatorConfig, GroupEnvironment, MembershipService
from barnabas.coordinator.group.group_loading import PartitionLoader
from barnabas.coordinator.group.metrics import GroupMetrics, RebalanceCounts
from barnabas.coordinator.group.offsets.offset_expiry import OffsetExpiry
from barnabas.coordinator.group.offsets.offset_service import OffsetService
from barnabas.coordinator.group.offsets.transactional import TransactionalOffsetService
from barnabas.coordinator.group.open_transactions import OpenTransactions
from barnabas.coordinator.group.restore import restore_memberships
from barnabas.coordinator.group.table import GroupTable
from barnabas.coordinator.runtime.loader import CoordinatorLoader
from barnabas.coordinator.runtime.log import CoordinatorLog
from barnabas.coordinator.runtime.partitions import CoordinatorPartitions
from barnabas.metadata.metadata_cache import MetadataCache
from barnabas.metadata.topic_name import GROUP_METADATA_TOPIC
from barnabas.protocol.uuid import random_java_uuid
from barnabas.purgatory.purgatory import DelayedOperationPurgatory
from barnabas.replica.replica_manager import ReplicaManager
from barnabas.replica.replica_metrics import register_purgatory
from barnabas.runtime.lazy import Lazy

if TYPE_CHECKING:
    from barnabas.broker.consumer_group_coordination import ConsumerGroups

SESSIONS_BETWEEN_PURGES = 100_000
"""The number of completed watches after which the purgatory looks for others to purge.

A session that ends removes itself from its watch list, so a purge finds almost nothing and costs a look at every
member."""


def build_group_coordinator(
    foundations: Foundations, replicas: ReplicaManager, metadata: MetadataCache
) -> GroupCoordinator:
    """Build the coordinator, which is told of every change of leadership from now on."""
    clock, timer, registry = foundations.clock, foundations.timer, foundations.metrics
    environment = _environment(foundations, replicas, metadata)
    heartbeats = DelayedOperationPurgatory[DelayedHeartbeat]("Heartbeat", timer, purge_interval=SESSIONS_BETWEEN_PURGES)
    delayed_rebalances = DelayedOperationPurgatory[DelayedRebalance]("Rebalance", timer)
    register_purgatory(registry, heartbeats)
    register_purgatory(registry, delayed_rebalances)
    rebalances = RebalanceCounts()

    def build_consumer() -> ConsumerGroups:
        from barnabas.broker.consumer_group_coordination import build_consumer_groups  # noqa: PLC0415 - a start does without

        return build_consumer_groups(environment, classic, rebalances.count_consumer)

    # Each service hands requests over to the other. The classic service gets a function, since the service of consumer
    # groups is built with the first such group: most brokers start without the modules that it needs.
    consumer_groups = Lazy(build_consumer)
    changes = ClassicGroupChanges(environment, heartbeats, delayed_rebalances, rebalances.count_classic)
    classic = ClassicGroupService(environment, changes, lambda: consumer_groups().classic_members, random_java_uuid)

    def service_of(group_type: GroupType) -> MembershipService:
        return classic if group_type is GroupType.CLASSIC else consumer_groups().service

    def removed(group: Group) -> None:
        service_of(group.membership.group_type).unloaded(group)

    loader = PartitionLoader(
        environment,
        replicas.hosted.partition_or_error,
        lambda records: restore_memberships(records, clock),
        service_of,
    )
    offsets = OffsetService(environment, removed)
    coordinator = GroupCoordinator(
        partitions=environment.partitions,
        loader=CoordinatorLoader(environment.partitions, loader, freeze_loaded_groups),
        offsets=offsets,
        transactional_offsets=TransactionalOffsetService(environment, offsets),
        expiry=OffsetExpiry(environment, removed),
        classic=classic,
        consumer=Lazy(lambda: consumer_groups().service),
        admin=GroupAdminService(environment, classic.removed),
    )
    counts = _counts(coordinator, rebalances)
    registry.family(GroupMetrics(environment.table, counts, loader.load_times, clock))
    # Last: a leadership may change on another thread from here on, and takes everything above to handle.
    replicas.orders.listeners.add(coordinator.loader.leadership_changed)
    return coordinator


def _environment(foundations: Foundations, replicas: ReplicaManager, metadata: MetadataCache) -> GroupEnvironment:
    clock = foundations.clock
    config = GroupCoordinatorConfig.from_kafka_config(foundations.dynamic.current)
    partitions = CoordinatorPartitions(GROUP_METADATA_TOPIC, metadata, config.num_partitions)
    table = GroupTable(partitions, lambda group_id: ClassicGroup(group_id, clock))
    return GroupEnvironment(
        config=config,
        clock=clock,
        timer=foundations.timer,
        scheduler=foundations.scheduler,
        actions=foundations.actions,
        metadata=metadata,
        partitions=partitions,
        table=table,
        log=CoordinatorLog(GROUP_METADATA_TOPIC, replicas.appender, config.append_terms, clock),
        open_transactions=OpenTransactions(table),
    )


def _counts(coordinator: GroupCoordinator, rebalances: RebalanceCounts) -> Mapping[str, Callable[[], int]]:
    offsets, expiry = coordinator.offsets, coordinator.expiry
    return {
        "offset-commit": lambda: offsets.committed_count,
        "offset-expiration": lambda: expiry.expired_count,
        "offset-deletion": lambda: offsets.deleted_count,
        "group-completed-rebalance": lambda: rebalances.classic,
        "consumer-group-rebalance": lambda: rebalances.consumer,
    }
