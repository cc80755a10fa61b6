"""Puts the group coordinator of a broker together.

Called by BrokerServer during start, on the main thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from uuid import uuid4

from barnabas.config.kafka_config import KafkaConfig
from barnabas.coordinator.group.classic_group import ClassicGroup
from barnabas.coordinator.group.classic_group_service import ClassicGroupService
from barnabas.coordinator.group.classic_terms import (
    JoinAnswer,
    JoinTerms,
    LeaveAnswer,
    LeavingMember,
    SyncAnswer,
    SyncTerms,
)
from barnabas.coordinator.group.delayed_heartbeat import DelayedHeartbeat
from barnabas.coordinator.group.delayed_rebalance import DelayedRebalance
from barnabas.coordinator.group.group import Group
from barnabas.coordinator.group.group_admin_service import GroupAdminService
from barnabas.coordinator.group.group_config import GroupConfig
from barnabas.coordinator.group.group_coordinator import GroupCoordinator
from barnabas.coordinator.group.group_environment import GroupEnvironment, MembershipService
from barnabas.coordinator.group.group_loader import GROUPS_PER_STEP, GroupLoader
from barnabas.coordinator.group.group_log import GroupLog
from barnabas.coordinator.group.group_metrics import GroupMetrics, RebalanceCounts
from barnabas.coordinator.group.group_partitions import GroupPartitions
from barnabas.coordinator.group.group_records import GROUP_KIND, GroupMetadataKey, decode_record, version_of
from barnabas.coordinator.group.group_table import GroupTable
from barnabas.coordinator.group.loaded_classic_group import loaded_classic_group
from barnabas.coordinator.group.membership import GroupType, Membership
from barnabas.coordinator.group.offset_expiry import OffsetExpiry
from barnabas.coordinator.group.offset_service import OffsetService
from barnabas.metadata.metadata_cache import MetadataCache
from barnabas.metrics.metrics_registry import MetricsRegistry
from barnabas.protocol.errors import ErrorCode
from barnabas.purgatory.action_queue import ActionQueue
from barnabas.purgatory.purgatory import DelayedOperationPurgatory
from barnabas.purgatory.timer import Timer
from barnabas.replica.replica_manager import ReplicaManager
from barnabas.replica.replica_metrics import register_purgatory
from barnabas.runtime.clock import Clock
from barnabas.runtime.scheduler import Scheduler


class _NobodyWaits:
    """For memberships whose service is not built yet."""

    def restored(self, group: Group) -> None:
        """Nothing to arm."""

    def unloaded(self, group: Group) -> None:
        """Nobody to answer."""


class _NoConsumerGroups:
    """For members of the classic protocol in consumer groups, which are not made yet."""

    def join_group(self, terms: JoinTerms, on_complete: Callable[[JoinAnswer], None]) -> None:
        """There is no such group."""
        on_complete(JoinAnswer(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, terms.member_id))

    def sync_group(self, terms: SyncTerms, on_complete: Callable[[SyncAnswer], None]) -> None:
        """There is no such member."""
        on_complete(SyncAnswer(ErrorCode.UNKNOWN_MEMBER_ID))

    def heartbeat(self, group_id: str, member_id: str, group_instance_id: str | None, generation: int) -> ErrorCode:
        """There is no such member."""
        return ErrorCode.UNKNOWN_MEMBER_ID

    def leave_group(
        self, group_id: str, members: Sequence[LeavingMember], on_complete: Callable[[LeaveAnswer], None]
    ) -> None:
        """There is no such member."""
        on_complete(LeaveAnswer(ErrorCode.UNKNOWN_MEMBER_ID))


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
    classic = ClassicGroupService(
        environment,
        heartbeats,
        delayed_rebalances,
        _NoConsumerGroups(),
        count_rebalance=rebalances.count_classic,
        random_uuid=uuid4,
    )
    services: Mapping[GroupType, MembershipService] = {
        GroupType.CLASSIC: classic,
        GroupType.CONSUMER: _NobodyWaits(),
    }

    def restore(records: Mapping[bytes, bytes]) -> Iterator[Mapping[str, Membership]]:
        some: dict[str, Membership] = {}
        for key, value in records.items():
            if version_of(key) == GROUP_KIND:
                some[decode_record(GroupMetadataKey, key).group] = loaded_classic_group(key, value, clock)
                if len(some) == GROUPS_PER_STEP:
                    yield some
                    some = {}
        yield some

    loader = GroupLoader(environment, replicas.partition_or_error, restore, services)
    offsets, expiry = OffsetService(environment), OffsetExpiry(environment)
    admin = GroupAdminService(environment, classic.removed)
    coordinator = GroupCoordinator(environment, loader, offsets, expiry, classic, admin)
    registry.family(
        GroupMetrics(
            environment.table,
            {
                "offset-commit": lambda: offsets.committed_count,
                "offset-expiration": lambda: expiry.expired_count,
                "offset-deletion": lambda: offsets.deleted_count,
                "group-completed-rebalance": lambda: rebalances.classic,
                "consumer-group-rebalance": lambda: rebalances.consumer,
            },
            loader.load_times,
            clock,
        )
    )
    replicas.leadership_listeners.add(coordinator.leadership_changed)
    return coordinator
