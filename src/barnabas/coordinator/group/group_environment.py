"""The parts that the services of the group coordinator share.

Made once by `broker.stages.group_coordinator_builder`. It does not change, so any thread reads it; each shared part
says which lock guards it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from barnabas.coordinator.group.group import Group
from barnabas.coordinator.group.group_config import GroupCoordinatorConfig
from barnabas.coordinator.group.group_table import GroupTable, OpenTransactions
from barnabas.coordinator.runtime.coordinator_log import CoordinatorLog
from barnabas.coordinator.runtime.partitions import CoordinatorPartitions
from barnabas.metadata.metadata_cache import MetadataCache
from barnabas.purgatory.action_queue import ActionQueue
from barnabas.purgatory.timer import SystemTimer
from barnabas.runtime.clock import Clock
from barnabas.runtime.scheduler import Scheduler


@dataclass(frozen=True, slots=True)
class GroupEnvironment:
    """The shared parts. config: a snapshot. metadata: the cluster as this broker knows it.

    actions: work that waits until no lock is held. The threads of handlers and of the timer run it by themselves; a
    task on a scheduler thread must call `actions.run_all`.
    """

    config: GroupCoordinatorConfig
    clock: Clock
    timer: SystemTimer
    scheduler: Scheduler
    actions: ActionQueue
    metadata: MetadataCache
    partitions: CoordinatorPartitions
    table: GroupTable
    log: CoordinatorLog
    open_transactions: OpenTransactions


class MembershipService(Protocol):
    """The service of one kind of membership, as the loader uses it. Both methods are called without any lock."""

    def restored(self, group: Group) -> None:
        """Begin the timeouts of the members of a group that was loaded and is now served (Kafka: loadGroup)."""

    def unloaded(self, group: Group) -> None:
        """Answer the group's pending requests with NOT_COORDINATOR, and end its timeouts: it is coordinated elsewhere.

        The group is out of the table and marked as removed. Kafka: onGroupUnloaded.
        """
