"""The facade of the group coordinator: what request handlers and the rest of the broker ask of it.

Made by `broker.group_coordination`, which hands in the services; called on every thread. It binds the services' methods
and owns nothing: each service says what guards it. Kafka: GroupCoordinator.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas.coordinator.group.admin import GroupAdminService
from barnabas.coordinator.group.classic.service import ClassicGroupService
from barnabas.coordinator.group.environment import GroupEnvironment
from barnabas.coordinator.group.loading.loader import GroupLoader
from barnabas.coordinator.group.offsets.expiry import OffsetExpiry
from barnabas.coordinator.group.offsets.service import OffsetService
from barnabas.metadata.topic_name import GROUP_METADATA_TOPIC
from barnabas.replica.leadership_changes import LeadershipChange
from barnabas.runtime.made_once import MadeOnce

if TYPE_CHECKING:
    from barnabas.coordinator.group.consumer.service import ConsumerGroupService


class GroupCoordinator:
    """Groups and their offsets, on this broker."""

    def __init__(
        self,
        environment: GroupEnvironment,
        loader: GroupLoader,
        offsets: OffsetService,
        expiry: OffsetExpiry,
        classic: ClassicGroupService,
        consumer: MadeOnce[ConsumerGroupService],
        admin: GroupAdminService,
    ) -> None:
        self.environment = environment
        self.loader = loader
        self.offsets = offsets
        self.expiry = expiry
        self.classic = classic
        """JoinGroup, SyncGroup, Heartbeat, LeaveGroup."""
        self.consumer = consumer
        """ConsumerGroupHeartbeat; made when it is first asked for, for many brokers never have a consumer group."""
        self.admin = admin
        """Groups listed, described, deleted."""
        self.partition_for = environment.partitions.partition_for
        """See `GroupPartitions.partition_for`."""
        self.commit_offsets = offsets.commit_offsets
        """See `OffsetService.commit_offsets`."""
        self.fetch_offsets = offsets.fetch_offsets
        """See `OffsetService.fetch_offsets`."""
        self.delete_offsets = offsets.delete_offsets
        """See `OffsetService.delete_offsets`."""
        self.on_elected = loader.load
        """This broker leads a partition of `__consumer_offsets` in this leader epoch. See `GroupLoader.load`."""
        self.on_resigned = loader.unload
        """It does not any more. See `GroupLoader.unload`."""

    def startup(self) -> None:
        """Answer for the groups whose partitions this broker leads. Until then: COORDINATOR_NOT_AVAILABLE."""
        self.environment.partitions.start()
        self.expiry.start()

    def shutdown(self) -> None:
        """Answer for no group any more."""
        self.environment.partitions.stop()
        self.classic.shutdown()
        self.expiry.stop()
        self.loader.shutdown()

    def leadership_changed(self, changes: Sequence[LeadershipChange]) -> None:
        """Load or give up what of it are partitions of `__consumer_offsets`; for `LeadershipListeners`."""
        for (topic, partition), is_leader, leader_epoch in changes:
            if topic != GROUP_METADATA_TOPIC:
                continue
            if is_leader and leader_epoch is not None:
                self.on_elected(partition, leader_epoch)
            else:
                self.on_resigned(partition, leader_epoch)
