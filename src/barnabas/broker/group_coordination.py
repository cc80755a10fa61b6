"""Puts the group coordinator of a broker together.

Called by BrokerServer during start, on the main thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from barnabas.config.kafka_config import KafkaConfig
from barnabas.coordinator.group.classic_group import ClassicGroup
from barnabas.coordinator.group.group import Group
from barnabas.coordinator.group.group_config import GroupConfig
from barnabas.coordinator.group.group_coordinator import GroupCoordinator
from barnabas.coordinator.group.group_environment import GroupEnvironment, MembershipService
from barnabas.coordinator.group.group_loader import GROUPS_PER_STEP, GroupLoader
from barnabas.coordinator.group.group_log import GroupLog
from barnabas.coordinator.group.group_partitions import GroupPartitions
from barnabas.coordinator.group.group_records import GROUP_KIND, GroupMetadataKey, decode_record, version_of
from barnabas.coordinator.group.group_table import GroupTable
from barnabas.coordinator.group.loaded_classic_group import loaded_classic_group
from barnabas.coordinator.group.membership import GroupType, Membership
from barnabas.coordinator.group.offset_expiry import OffsetExpiry
from barnabas.coordinator.group.offset_service import OffsetService
from barnabas.metadata.metadata_cache import MetadataCache
from barnabas.purgatory.action_queue import ActionQueue
from barnabas.purgatory.timer import Timer
from barnabas.replica.replica_manager import ReplicaManager
from barnabas.runtime.clock import Clock
from barnabas.runtime.scheduler import Scheduler


class _NobodyWaits:
    """For memberships whose service is not built yet."""

    def restored(self, group: Group) -> None:
        """Nothing to arm."""

    def unloaded(self, group: Group) -> None:
        """Nobody to answer."""


def build_group_coordinator(
    config: KafkaConfig,
    clock: Clock,
    timer: Timer,
    scheduler: Scheduler,
    actions: ActionQueue,
    replicas: ReplicaManager,
    metadata: MetadataCache,
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
    services: Mapping[GroupType, MembershipService] = {
        GroupType.CLASSIC: _NobodyWaits(),
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
    coordinator = GroupCoordinator(environment, loader, OffsetService(environment), OffsetExpiry(environment))
    replicas.leadership_listeners.add(coordinator.leadership_changed)
    return coordinator
