"""Puts the group coordinator of a broker together.

Called by BrokerServer during start, on the main thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from uuid import uuid4

from barnabas.broker.process_tuning import settle_loaded_groups
from barnabas.config.kafka_config import KafkaConfig
from barnabas.coordinator.group.assignors.partition_assignor import PartitionAssignor
from barnabas.coordinator.group.classic.classic_group import ClassicGroup
from barnabas.coordinator.group.classic.classic_group_service import ClassicGroupService
from barnabas.coordinator.group.classic.delayed_heartbeat import DelayedHeartbeat
from barnabas.coordinator.group.classic.delayed_rebalance import DelayedRebalance
from barnabas.coordinator.group.consumer.consumer_group_classic_members import ConsumerGroupClassicMembers
from barnabas.coordinator.group.consumer.consumer_group_service import ConsumerGroupService
from barnabas.coordinator.group.consumer.topic_regex_resolver import TopicRegexResolver
from barnabas.coordinator.group.group import Group
from barnabas.coordinator.group.group_admin_service import GroupAdminService
from barnabas.coordinator.group.group_config import GroupConfig
from barnabas.coordinator.group.group_coordinator import GroupCoordinator
from barnabas.coordinator.group.group_environment import GroupEnvironment, MembershipService
from barnabas.coordinator.group.group_loader import GroupLoader
from barnabas.coordinator.group.group_log import GroupLog
from barnabas.coordinator.group.group_metrics import GroupMetrics, RebalanceCounts
from barnabas.coordinator.group.group_partitions import GroupPartitions
from barnabas.coordinator.group.group_restore import restore_memberships
from barnabas.coordinator.group.group_table import GroupTable
from barnabas.coordinator.group.membership import GroupType
from barnabas.coordinator.group.offset_expiry import OffsetExpiry
from barnabas.coordinator.group.offset_service import OffsetService
from barnabas.metadata.metadata_cache import MetadataCache
from barnabas.metrics.metrics_registry import MetricsRegistry
from barnabas.purgatory.action_queue import ActionQueue
from barnabas.purgatory.purgatory import DelayedOperationPurgatory
from barnabas.purgatory.timer import Timer
from barnabas.replica.replica_manager import ReplicaManager
from barnabas.replica.replica_metrics import register_purgatory
from barnabas.runtime.clock import Clock
from barnabas.runtime.scheduler import Scheduler


def build_group_coordinator(
    config: KafkaConfig,
    clock: Clock,
    timer: Timer,
    scheduler: Scheduler,
    actions: ActionQueue,
    replicas: ReplicaManager,
    metadata: MetadataCache,
    registry: MetricsRegistry,
) -> GroupCoordinator:
    """The coordinator, told of leaderships from now on; its `startup` is for when requests come."""
    group_config = GroupConfig.from_kafka_config(config)
    partitions = GroupPartitions(metadata, group_config.num_partitions)
    environment = GroupEnvironment(
        config=group_config,
        clock=clock,
        timer=timer,
        scheduler=scheduler,
        actions=actions,
        metadata=metadata,
        partitions=partitions,
        table=GroupTable(partitions, lambda group_id: ClassicGroup(group_id, clock)),
        log=GroupLog(replicas, group_config, clock),
    )
    heartbeats = DelayedOperationPurgatory[DelayedHeartbeat]("Heartbeat", timer)
    delayed_rebalances = DelayedOperationPurgatory[DelayedRebalance]("Rebalance", timer)
    register_purgatory(registry, heartbeats)
    register_purgatory(registry, delayed_rebalances)
    rebalances = RebalanceCounts()
    consumer = ConsumerGroupService(
        environment,
        lambda: _assignors(group_config.consumer.assignors),
        TopicRegexResolver(clock, scheduler, lambda: metadata.image),
        _check_regular_expression,
        lambda: classic,
        count_rebalance=rebalances.count_consumer,
    )
    classic = ClassicGroupService(
        environment,
        heartbeats,
        delayed_rebalances,
        ConsumerGroupClassicMembers(environment, consumer, lambda: classic),
        count_rebalance=rebalances.count_classic,
        random_uuid=uuid4,
    )
    services: Mapping[GroupType, MembershipService] = {
        GroupType.CLASSIC: classic,
        GroupType.CONSUMER: consumer,
    }

    loader = GroupLoader(
        environment,
        replicas.partition_or_error,
        lambda records: restore_memberships(records, clock),
        services,
        settle_loaded_groups,
    )

    def removed(group: Group) -> None:
        services[group.membership.group_type].unloaded(group)

    offsets, expiry = OffsetService(environment, removed), OffsetExpiry(environment, removed)
    admin = GroupAdminService(environment, classic.removed)
    coordinator = GroupCoordinator(environment, loader, offsets, expiry, classic, consumer, admin)
    registry.family(_metrics_of(coordinator, rebalances))
    replicas.leadership_listeners.add(coordinator.leadership_changed)
    return coordinator


def _metrics_of(coordinator: GroupCoordinator, rebalances: RebalanceCounts) -> GroupMetrics:
    offsets, expiry = coordinator.offsets, coordinator.expiry
    counts = {
        "offset-commit": lambda: offsets.committed_count,
        "offset-expiration": lambda: expiry.expired_count,
        "offset-deletion": lambda: offsets.deleted_count,
        "group-completed-rebalance": lambda: rebalances.classic,
        "consumer-group-rebalance": lambda: rebalances.consumer,
    }
    environment = coordinator.environment
    return GroupMetrics(environment.table, counts, coordinator.loader.load_times, environment.clock)


@cache
def _assignors(names: tuple[str, ...]) -> Mapping[str, PartitionAssignor]:
    """Those of `group.consumer.assignors`, loaded when the first consumer group needs one."""
    from barnabas.coordinator.group.assignors.built_in import assignors_named  # noqa: PLC0415 - a start does without

    return assignors_named(names)


def _check_regular_expression(regex: str) -> None:
    """Raise INVALID_REGULAR_EXPRESSION unless it is one."""
    from barnabas.coordinator.group.consumer.topic_regex import check_regular_expression  # noqa: PLC0415 - loads google-re2

    check_regular_expression(regex)
