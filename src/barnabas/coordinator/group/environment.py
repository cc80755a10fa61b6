"""What the services of the group coordinator share: the parts they all stand on.

Made once by `broker.group_coordination`; never changed, so any thread reads it. Each part says which lock guards it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from barnabas.coordinator.group.group import Group
from barnabas.coordinator.group.group_config import GroupCoordinatorConfig
from barnabas.coordinator.group.log.writer import GroupLog
from barnabas.coordinator.group.partitions import GroupPartitions
from barnabas.coordinator.group.table import GroupTable
from barnabas.metadata.metadata_cache import MetadataCache
from barnabas.purgatory.action_queue import ActionQueue
from barnabas.purgatory.timer import Timer
from barnabas.runtime.clock import Clock
from barnabas.runtime.scheduler import Scheduler


@dataclass(frozen=True, slots=True)
class GroupEnvironment:
    """config: a snapshot. metadata: the cluster as this broker knows it.

    actions: what is put off until no lock is held; handlers' and the timer's threads run it when they are done,
    scheduler threads must (`actions.run_all`).
    """

    config: GroupCoordinatorConfig
    clock: Clock
    timer: Timer
    scheduler: Scheduler
    actions: ActionQueue
    metadata: MetadataCache
    partitions: GroupPartitions
    table: GroupTable
    log: GroupLog


class MembershipService(Protocol):
    """What loading asks of the service of each kind of membership. Both are called without any lock."""

    def restored(self, group: Group) -> None:
        """The group has been loaded, and is about to be served: arm its members' timeouts (Kafka: loadGroup)."""

    def unloaded(self, group: Group) -> None:
        """The group is coordinated elsewhere: answer whoever waits with NOT_COORDINATOR, drop timeouts.

        The group is out of the table and marked as removed. Kafka: onGroupUnloaded.
        """
