"""Reads the groups of partitions of `__consumer_offsets` that this broker has begun to lead, and gives up others.

One partition at a time, on a thread of its own that ends when nothing is left to load. It works in slices, and pauses
between them while there is other work (`loading.pace`): a broker that starts with very many offsets serves everything
else meanwhile, and the groups of what is being loaded answer COORDINATOR_LOAD_IN_PROGRESS. No lock is held during a
slice. `_lock` guards the queue and the flag that says whether the thread runs; what is being loaded belongs to it.

Kafka: GroupMetadataManager.scheduleLoadGroupAndOffsets, doLoadGroupsAndOffsets, removeGroupsForPartition.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple, Protocol

from barnabas.coordinator.group.committed_offsets import CommittedOffsets
from barnabas.coordinator.group.environment import GroupEnvironment, MembershipService
from barnabas.coordinator.group.group import Group
from barnabas.coordinator.group.loading.pace import SLICE_NS, LoadingPace
from barnabas.coordinator.group.loading.replay import PartitionReplay
from barnabas.coordinator.group.membership import GroupType, Membership
from barnabas.metadata.topic_name import GROUP_METADATA_TOPIC
from barnabas.records.errors import CorruptRecord
from barnabas.records.file_records import FileRecords
from barnabas.replica.partition import Partition
from barnabas.runtime.clock import NANOSECONDS_PER_MILLISECOND
from barnabas.storage.fetch_data import FetchIsolation

logger = logging.getLogger(__name__)

READ_BYTES: Final = 512 * 1024
"""Read at a time at most: more would make slices longer. (`offsets.load.buffer.size` may say less.)"""
GROUPS_PER_STEP: Final = 20
NANOSECONDS_PER_SECOND: Final = 1_000_000_000


class RestoreMemberships(Protocol):
    """Makes memberships of the records that are not committed offsets."""

    def __call__(self, records: Mapping[bytes, bytes]) -> Iterator[Mapping[str, Membership]]:
        """records: the newest of each key. Yields, in steps, memberships by group id."""


class LoadTimes(NamedTuple):
    """What one loading took (Kafka: partition-load-time). ended_ns: monotonic time."""

    partition: int
    milliseconds: int
    record_count: int
    ended_ns: int


def _start_thread(run: Callable[[], None]) -> None:
    threading.Thread(target=run, name="group-loader", daemon=True).start()


def _readings() -> tuple[int, int, int]:
    return time.perf_counter_ns(), time.thread_time_ns(), time.process_time_ns()


class GroupLoader:
    """partition_or_error: a hosted partition. restore: see RestoreMemberships. service_of: by the type of membership.

    on_loaded: told the number of records when nothing is left to load. start: runs the loading on a thread. readings:
    see LoadingPace.
    """

    def __init__(
        self,
        environment: GroupEnvironment,
        partition_or_error: Callable[[str, int], Partition],
        restore: RestoreMemberships,
        service_of: Callable[[GroupType], MembershipService],
        on_loaded: Callable[[int], None] = lambda _: None,
        start: Callable[[Callable[[], None]], None] = _start_thread,
        readings: Callable[[], tuple[int, int, int]] = _readings,
    ) -> None:
        self._environment = environment
        self._partition_or_error = partition_or_error
        self._restore = restore
        self._service_of = service_of
        self._on_loaded = on_loaded
        self._start = start
        self._readings = readings
        self._lock = threading.Lock()
        self._queue: deque[tuple[int, int]] = deque()
        self._is_running = False
        self._stopped = threading.Event()
        self._work: Iterator[None] = iter(())
        self._record_count = 0
        self.load_times: deque[LoadTimes] = deque(maxlen=1024)
        """The newest last."""

    def load(self, partition: int, leader_epoch: int) -> None:
        """Begin to load the partition's groups, unless a newer order was told. Any thread."""
        if not self._environment.partitions.begin_loading(partition, leader_epoch):
            logger.info("Not loading groups of partition %d: epoch %d is not the newest", partition, leader_epoch)
            return
        self._drop_groups(partition)  # of an earlier leadership, if nobody has said that it ended
        with self._lock:
            self._queue.append((partition, leader_epoch))
            if self._is_running or self._stopped.is_set():
                return
            self._is_running = True
        self._start(self._run)

    def unload(self, partition: int, leader_epoch: int | None) -> None:
        """Give the partition's groups up, unless a newer order was told. Any thread; it holds no lock."""
        if self._environment.partitions.resign(partition, leader_epoch):
            count = self._drop_groups(partition)
            logger.info("Unloaded %d groups of %s-%d", count, GROUP_METADATA_TOPIC, partition)

    def _drop_groups(self, partition: int) -> int:
        """Take the partition's groups out of the table, and let their services answer whoever waits."""
        groups = self._environment.table.take_all(partition)
        for group in groups:
            with group.lock:
                group.is_removed = True
            self._service_of(group.membership.group_type).unloaded(group)
        return len(groups)

    def shutdown(self) -> None:
        """Load nothing any more."""
        with self._lock:
            self._stopped.set()
            self._queue.clear()

    # -- slices

    def _run(self) -> None:
        """Load, in slices, until nothing is left."""
        readings = self._readings
        pace = LoadingPace(readings())
        self._record_count = 0
        while not self._stopped.is_set():
            started_ns = readings()[1]
            while readings()[1] - started_ns < SLICE_NS:
                try:
                    next(self._work)
                except StopIteration:
                    if not self._next_partition():
                        self._on_loaded(self._record_count)
                        return
            pause_ns = pace.pause_ns(*readings())
            if pause_ns and self._stopped.wait(pause_ns / NANOSECONDS_PER_SECOND):
                return

    def _next_partition(self) -> bool:
        with self._lock:
            if not self._queue or self._stopped.is_set():
                self._is_running = False
                self._work = iter(())
                return False
            partition, leader_epoch = self._queue.popleft()
        self._work = self._load(partition, leader_epoch)
        return True

    def _load(self, partition: int, leader_epoch: int) -> Iterator[None]:
        """Load one partition, in steps."""
        environment = self._environment
        started_ns = environment.clock.nanoseconds()
        replay = PartitionReplay()
        groups: list[Group] = []
        for step in (self._read(partition, leader_epoch, replay), self._make_groups(partition, replay, groups)):
            try:
                yield from step
            except Exception:
                # What could be read is served: consumers go on from older offsets rather than from none.
                logger.exception("Loading groups from %s-%d failed", GROUP_METADATA_TOPIC, partition)
        for first in range(0, len(groups), GROUPS_PER_STEP):
            if not environment.partitions.is_loading_in(partition, leader_epoch):
                break
            some = groups[first : first + GROUPS_PER_STEP]
            environment.table.add_loaded(some)
            for group in some:
                self._take_over(group)
            yield
        if not environment.partitions.end_loading(partition, leader_epoch):
            self._drop(groups)
            return
        ended_ns = environment.clock.nanoseconds()
        self._record_count += replay.record_count
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

    def _take_over(self, group: Group) -> None:
        """Should that fail, the group's members are not watched; all other groups are as good as before."""
        try:
            self._service_of(group.membership.group_type).restored(group)
        except Exception:
            logger.exception("Taking over the members of group %s failed", group.group_id)

    def _read(self, partition: int, leader_epoch: int, replay: PartitionReplay) -> Iterator[None]:
        log = self._partition_or_error(GROUP_METADATA_TOPIC, partition).log
        size = min(READ_BYTES, self._environment.config.load_buffer_bytes)
        offset, end = log.log_start_offset, log.log_end_offset
        while offset < end and self._environment.partitions.is_loading_in(partition, leader_epoch):
            data = log.read(offset, size, FetchIsolation.LOG_END)
            records = data.records
            try:
                buffer = records.read() if isinstance(records, FileRecords) else records
            finally:
                data.release()
            if not buffer:
                return
            yield
            before = offset
            for reached in replay.replay(buffer):
                if reached >= 0:
                    offset = reached
                yield
            if offset <= before:
                raise CorruptRecord(f"nothing that can be read at offset {offset}")

    def _make_groups(self, partition: int, replay: PartitionReplay, groups: list[Group]) -> Iterator[None]:
        """Make groups of everything that was read."""
        table = self._environment.table
        memberships: dict[str, Membership] = {}
        for some in self._restore(replay.others):
            memberships.update(some)
            yield
        transactional = replay.transactional()
        offsets_by_group = replay.groups
        for group_id in [*offsets_by_group, *(each for each in transactional if each not in offsets_by_group)]:
            name = group_id.decode(errors="replace")  # as Java does
            offsets = CommittedOffsets(offsets_by_group.pop(group_id, None), transactional.get(group_id))
            groups.append(table.new_group(name, partition, offsets, memberships.pop(name, None)))
            if not len(groups) % GROUPS_PER_STEP:
                yield
        for name, membership in memberships.items():
            groups.append(table.new_group(name, partition, CommittedOffsets(), membership))
            if not len(groups) % GROUPS_PER_STEP:
                yield

    def _drop(self, groups: list[Group]) -> None:
        """The partition was given up, perhaps loaded anew, meanwhile: none of these is served."""
        for group in groups:
            with group.lock:
                is_ours = not group.is_removed
                self._environment.table.remove(group)
            if is_ours:
                self._service_of(group.membership.group_type).unloaded(group)
