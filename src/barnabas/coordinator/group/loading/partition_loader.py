"""The loading of one partition of `__consumer_offsets`: groups are read in small steps and given to their services.

Made by `broker.group_coordination`, called by `CoordinatorLoader` on its thread; `drop` on any thread. Owns no lock: a
group that is not loaded yet belongs to the iterator that `load` returns. Between two steps other threads run, and the
partition may be given up: each step checks that the loading is still wanted.

Kafka: GroupMetadataManager.doLoadGroupsAndOffsets, removeGroupsForPartition.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Final, Protocol

from barnabas.coordinator.group.committed_offsets import CommittedOffsets
from barnabas.coordinator.group.environment import GroupEnvironment, MembershipService
from barnabas.coordinator.group.group import Group
from barnabas.coordinator.group.loading.replay import PartitionReplay
from barnabas.coordinator.group.membership import GroupType, Membership
from barnabas.coordinator.runtime.load_times import LoadTimes
from barnabas.coordinator.runtime.log_reading import read_in_steps
from barnabas.metadata.topic_name import GROUP_METADATA_TOPIC
from barnabas.replica.partition import Partition
from barnabas.runtime.clock import NANOSECONDS_PER_MILLISECOND

logger = logging.getLogger(__name__)

GROUPS_PER_STEP: Final = 20
"""The number of groups that are made, or become visible, in one step."""


class RestoreMemberships(Protocol):
    """A function that makes memberships from the records that are not committed offsets."""

    def __call__(self, records: Mapping[bytes, bytes]) -> Iterator[Mapping[str, Membership]]:
        """Yield memberships by group id, in steps. records: the newest record of each key."""


class PartitionLoader:
    """The loader of single partitions.

    partition_or_error: returns a hosted partition. service_of: returns the service of a type of membership.
    """

    def __init__(
        self,
        environment: GroupEnvironment,
        partition_or_error: Callable[[str, int], Partition],
        restore: RestoreMemberships,
        service_of: Callable[[GroupType], MembershipService],
    ) -> None:
        self._environment = environment
        self._partition_or_error = partition_or_error
        self._restore = restore
        self._service_of = service_of
        self.load_times: deque[LoadTimes] = deque(maxlen=1024)
        """The newest last."""
        self.record_count = 0
        """The records of all partitions that were loaded."""

    def load(self, partition: int, leader_epoch: int) -> Iterator[None]:
        """Load one partition, a step between two results."""
        environment = self._environment
        started_ns = environment.clock.nanoseconds()
        replay = PartitionReplay()
        groups: list[Group] = []
        environment.open_transactions.begin_loading(partition)
        for step in (self._read(partition, leader_epoch, replay), self._make_groups(partition, replay, groups)):
            try:
                yield from step
            except Exception:
                # The groups that could be read are served: consumers go on from older offsets rather than from none.
                logger.exception("Loading groups from %s-%d failed", GROUP_METADATA_TOPIC, partition)
        for first in range(0, len(groups), GROUPS_PER_STEP):
            # Groups become visible to requests here, a few at a time; until `end_loading` requests are still refused.
            if not environment.partitions.is_loading_in(partition, leader_epoch):
                break
            some = groups[first : first + GROUPS_PER_STEP]
            environment.table.add_loaded(some)
            for group in some:
                for producer_id in group.offsets.producers:
                    environment.open_transactions.begin(partition, producer_id, group.group_id)
                self._restore_members(group)
            yield
        # The partition was given up while its groups became visible: `drop` may have missed the last ones.
        if not environment.partitions.end_loading(partition, leader_epoch):
            environment.open_transactions.drop(partition)
            self._drop(groups)
            return
        environment.open_transactions.end_loading(partition)
        ended_ns = environment.clock.nanoseconds()
        self.record_count += replay.record_count
        took_ms = (ended_ns - started_ns) // NANOSECONDS_PER_MILLISECOND
        self.load_times.append(LoadTimes(partition, took_ms, replay.record_count, ended_ns))
        environment.actions.run_all()
        logger.info(
            "Loaded %d groups from %s-%d in %d ms (%d records)",
            len(groups),
            GROUP_METADATA_TOPIC,
            partition,
            took_ms,
            replay.record_count,
        )

    def drop(self, partition: int) -> int:
        """Take the partition's groups out of the table, and let their services answer pending requests."""
        self._environment.open_transactions.drop(partition)
        groups = self._environment.table.take_all(partition)
        for group in groups:
            with group.lock:
                group.is_removed = True
            self._service_of(group.membership.group_type).unloaded(group)
        return len(groups)

    def _restore_members(self, group: Group) -> None:
        """Have the group's members watched. If that fails, the members never expire; other groups are not affected."""
        try:
            self._service_of(group.membership.group_type).restored(group)
        except Exception:
            logger.exception("Restoring the members of group %s failed", group.group_id)

    def _read(self, partition: int, leader_epoch: int, replay: PartitionReplay) -> Iterator[None]:
        """Read the partition's log into `replay`, in steps. Raises CorruptRecord when a read makes no progress."""
        environment = self._environment
        return read_in_steps(
            self._partition_or_error(GROUP_METADATA_TOPIC, partition).log,
            environment.config.load_buffer_bytes,
            lambda: environment.partitions.is_loading_in(partition, leader_epoch),
            replay.replay,
        )

    def _make_groups(self, partition: int, replay: PartitionReplay, groups: list[Group]) -> Iterator[None]:
        """Append the groups that the records make to `groups`."""
        table = self._environment.table
        memberships: dict[str, Membership] = {}
        for some in self._restore(replay.others):
            memberships.update(some)
            yield
        transactional = replay.transactional()
        offsets_by_group = replay.groups
        for group_id in [*offsets_by_group, *(each for each in transactional if each not in offsets_by_group)]:
            name = group_id.decode(errors="replace")  # as Java does
            # Popped, so that the memory of a large partition is handed over and not held twice.
            offsets = CommittedOffsets(offsets_by_group.pop(group_id, None), transactional.get(group_id))
            groups.append(table.new_group(name, partition, offsets, memberships.pop(name, None)))
            if not len(groups) % GROUPS_PER_STEP:
                yield
        for name, membership in memberships.items():
            groups.append(table.new_group(name, partition, CommittedOffsets(), membership))
            if not len(groups) % GROUPS_PER_STEP:
                yield

    def _drop(self, groups: list[Group]) -> None:
        """Drop loaded groups that are not served: the partition was given up, and perhaps loaded anew, meanwhile."""
        for group in groups:
            with group.lock:
                is_ours = not group.is_removed
                self._environment.table.remove(group)
            if is_ours:
                self._service_of(group.membership.group_type).unloaded(group)
