"""The group coordinator of a broker: its services, and how they start and stop together.

Made by `broker.stages.group_coordinator_builder` when it is first needed; started and stopped by LateCoordinator.
Immutable; each service says which lock guards it. Kafka: GroupCoordinator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from barnabas.coordinator.group.classic.classic_group_service import ClassicGroupService
from barnabas.coordinator.group.group_admin_service import GroupAdminService
from barnabas.coordinator.group.metrics import GroupMetrics
from barnabas.coordinator.group.offsets.offset_expiry import OffsetExpiry
from barnabas.coordinator.group.offsets.offset_service import OffsetService
from barnabas.coordinator.group.offsets.transactional import TransactionalOffsetService
from barnabas.coordinator.runtime.coordinator_loader import CoordinatorLoader
from barnabas.coordinator.runtime.partitions import CoordinatorPartitions
from barnabas.runtime.lazy import Lazy

if TYPE_CHECKING:
    from barnabas.coordinator.group.consumer.consumer_group_service import ConsumerGroupService


class GroupCoordinator(NamedTuple):
    """The services for the groups of this broker and their offsets.

    classic: JoinGroup, SyncGroup, Heartbeat, LeaveGroup. consumer: ConsumerGroupHeartbeat; made when first called,
    because many brokers never have a consumer group. admin: the list, the description and the deletion of groups.
    """

    partitions: CoordinatorPartitions
    loader: CoordinatorLoader
    offsets: OffsetService
    transactional_offsets: TransactionalOffsetService
    expiry: OffsetExpiry
    classic: ClassicGroupService
    consumer: Lazy[ConsumerGroupService]
    admin: GroupAdminService
    metrics: GroupMetrics

    def startup(self) -> None:
        """Serve the groups whose partitions this broker leads. Until then clients get COORDINATOR_NOT_AVAILABLE."""
        self.partitions.start()
        self.expiry.start()

    def shutdown(self) -> None:
        """Stop serving groups."""
        # The partitions first: a request that comes now is refused, and joins no group that has been ended.
        self.partitions.stop()
        self.classic.shutdown()
        self.expiry.stop()
        self.loader.shutdown()
