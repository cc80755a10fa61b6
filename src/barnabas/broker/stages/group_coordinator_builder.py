"""The construction of a broker's group coordinator, when it is needed for the first time.

Imported and called once by `replication_stage`, on the thread that needs it: a handler's, or a metrics reader's.
Kafka: BrokerServer.createGroupCoordinator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

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
from barnabas.coordinator.group.group_admin_service import GroupAdminService
from barnabas.coordinator.group.group_config import GroupCoordinatorConfig
from barnabas.coordinator.group.group_coordinator import GroupCoordinator
from barnabas.coordinator.group.group_environment import GroupEnvironment, MembershipService
from barnabas.coordinator.group.group_loading import PartitionLoader
from barnabas.coordinator.group.group_table import GroupTable, OpenTransactions
from barnabas.coordinator.group.metrics import GroupMetrics, RebalanceCounts
from barnabas.coordinator.group.offsets.offset_expiry import OffsetExpiry
from barnabas.coordinator.group.offsets.offset_service import OffsetService
from barnabas.coordinator.group.offsets.transactional import TransactionalOffsetService
from barnabas.coordinator.runtime.coordinator_loader import CoordinatorLoader
from barnabas.coordinator.runtime.coordinator_log import CoordinatorLog
from barnabas.coordinator.runtime.partitions import CoordinatorPartitions
from barnabas.metadata.metadata_cache import MetadataCache
from barnabas.metadata.topic_name import GROUP_METADATA_TOPIC
from barnabas.protocol.uuid import random_java_uuid
from barnabas.purgatory.purgatory import DelayedOperationPurgatory
from barnabas.replica.replica_manager import ReplicaManager
from barnabas.runtime.lazy import Lazy

if TYPE_CHECKING:
    from barnabas.broker.stages.consumer_group_coordination import ConsumerGroups


class GroupPurgatories(NamedTuple):
    """What waits for the members of classic groups: their sessions, and the rebalances of their groups."""

    heartbeats: DelayedOperationPurgatory[DelayedHeartbeat]
    rebalances: DelayedOperationPurgatory[DelayedRebalance]


def build_group_coordinator(
    foundations: Foundations,
    replicas: ReplicaManager,
    metadata: MetadataCache,
    config: GroupCoordinatorConfig,
    partitions: CoordinatorPartitions,
    purgatories: GroupPurgatories,
) -> GroupCoordinator:
    """Build the coordinator."""
    clock = foundations.clock
    environment = _environment(foundations, replicas, metadata, config, partitions)
    rebalances = RebalanceCounts()

    def build_consumer() -> ConsumerGroups:
        from barnabas.broker.stages.consumer_group_coordination import build_consumer_groups

        return build_consumer_groups(environment, classic, rebalances.count_consumer)

    # Each service hands requests over to the other. The classic service gets a function, since the service of consumer
    # groups is built with the first such group: most brokers start without the modules that it needs.
    consumer_groups = Lazy(build_consumer)
    changes = ClassicGroupChanges(environment, purgatories.heartbeats, purgatories.rebalances, rebalances.count_classic)
    classic = ClassicGroupService(environment, changes, lambda: consumer_groups().classic_members, random_java_uuid)

    def service_of(group_type: GroupType) -> MembershipService:
        return classic if group_type is GroupType.CLASSIC else consumer_groups().service

    def removed(group: Group) -> None:
        service_of(group.membership.group_type).unloaded(group)

    loader = PartitionLoader(
        environment,
        replicas.hosted.partition_or_error,
        service_of,
    )
    offsets = OffsetService(environment, removed)
    expiry = OffsetExpiry(environment, removed)
    counts = _counts(offsets, expiry, rebalances)
    return GroupCoordinator(
        partitions=partitions,
        loader=CoordinatorLoader(partitions, loader, freeze_loaded_groups),
        offsets=offsets,
        transactional_offsets=TransactionalOffsetService(environment, offsets),
        expiry=expiry,
        classic=classic,
        consumer=Lazy(lambda: consumer_groups().service),
        admin=GroupAdminService(environment, classic.unloaded),
        metrics=GroupMetrics(environment.table, counts, loader.load_times, clock),
    )


def _environment(
    foundations: Foundations,
    replicas: ReplicaManager,
    metadata: MetadataCache,
    config: GroupCoordinatorConfig,
    partitions: CoordinatorPartitions,
) -> GroupEnvironment:
    clock = foundations.clock
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


def _counts(
    offsets: OffsetService, expiry: OffsetExpiry, rebalances: RebalanceCounts
) -> Mapping[str, Callable[[], int]]:
    return {
        "offset-commit": lambda: offsets.committed_count,
        "offset-expiration": lambda: expiry.expired_count,
        "offset-deletion": lambda: offsets.deleted_count,
        "group-completed-rebalance": lambda: rebalances.classic,
        "consumer-group-rebalance": lambda: rebalances.consumer,
    }
