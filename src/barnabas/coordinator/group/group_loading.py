"""The loading of one partition of `__consumer_offsets`: groups are read in small steps and given to their services.

Made by `broker.stages.group_coordinator_builder`, called by `CoordinatorLoader` on its thread; `drop` on any thread.
Owns no lock: a group that is not loaded yet belongs to the iterator that `load` returns. Between two steps other
threads run, and the partition may be given up: each step checks that the loading is still wanted. Kafka:
GroupMetadataManager.doLoadGroupsAndOffsets, removeGroupsForPartition.
"""

from __future__ import annotations

import logging
import struct
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.coordinator.group.committed_offsets import CommittedOffsets, TransactionalOffsets
from barnabas.coordinator.group.group import Group, GroupType, Membership
from barnabas.coordinator.group.group_environment import GroupEnvironment, MembershipService
from barnabas.coordinator.group.offsets_topic import OFFSET_KINDS, OffsetCommitValue, is_readable_offset
from barnabas.coordinator.group.restore import restore_memberships
from barnabas.coordinator.runtime.coordinator_loader import LoadTimes, read_in_steps
from barnabas.coordinator.runtime.record import version_of
from barnabas.metadata.topic_name import GROUP_METADATA_TOPIC
from barnabas.protocol.errors import DecodeError
from barnabas.records.end_transaction_marker import EndTransactionMarker
from barnabas.records.errors import CorruptRecord
from barnabas.records.legacy_records import LegacyBatch
from barnabas.records.memory_records import batch_at
from barnabas.records.record_batch import (
    CODEC_MASK,
    CONTROL_MASK,
    HEADER_SIZE,
    LOG_OVERHEAD,
    NO_PRODUCER_ID,
    TRANSACTIONAL_MASK,
    RecordBatch,
    is_whole_batch,
)
from barnabas.replica.partitions.partition import Partition
from barnabas.runtime.clock import NANOSECONDS_PER_MILLISECOND

if TYPE_CHECKING:
    from mypy_extensions import i64

logger: Final = logging.getLogger(__name__)

STEP_RECORDS: Final = 64
"""The records of a step: some 80 microseconds."""
PLAIN_BATCH_RECORDS: Final = 1024
"""The most records of a batch that is taken in as one step: about a millisecond."""
_SPECIAL: Final = CODEC_MASK | CONTROL_MASK | TRANSACTIONAL_MASK
_BRIEF: Final = struct.Struct(">qi4xb4xhi30xi")
"""Base offset, length, magic, attributes, last offset delta and count of a batch's header."""
_PARTITION: Final = struct.Struct(">i")
_LAST_OFFSET_KIND: Final = OFFSET_KINDS[-1]
_LAST_VALUE_VERSION: Final = OffsetCommitValue.max_version

OffsetsByTopic = dict[str, dict[int, bytes]]


# -- records


class _OpenCommit(NamedTuple):
    """An offset committed inside a transaction."""

    position: int
    value: bytes


class PartitionReplay:
    """The newest records of the batches that were taken in, in the order of the log. Pure.

    A replay keeps the newest value of every committed offset, in the bytes of the log, and the newest record of every
    other key. No value is decoded, because a later record may replace it. Offsets of open transactions wait for their
    marker.

    groups: committed offsets by group id (encoded), topic and partition. others: all other records, by key.
    """

    def __init__(self) -> None:
        self.groups: dict[bytes, OffsetsByTopic] = {}
        self.others: dict[bytes, bytes] = {}
        self.record_count = 0
        # One object for each name: a million offsets share the names of a few topics.
        self._topics: dict[bytes, str] = {}
        self._open: dict[int, dict[bytes, dict[tuple[str, int], _OpenCommit | None]]] = {}
        """By producer id and group; None once a plain commit came later."""

    def transactional(self) -> dict[bytes, dict[int, TransactionalOffsets]]:
        """Return the offsets of transactions that are still open, by group and producer id."""
        found: dict[bytes, dict[int, TransactionalOffsets]] = {}
        for producer_id, by_group in self._open.items():
            # A commit that a later plain one replaced has no value, and makes its partition unstable all the same.
            for group, commits in by_group.items():
                found.setdefault(group, {})[producer_id] = {
                    key: (-1, None) if commit is None else (commit.position, commit.value)
                    for key, commit in commits.items()
                }
        return found

    def replay(self, buffer: bytes) -> Iterator[int]:
        """Take in the whole batches at the start of `buffer`, a step between two results.

        Yield the offset behind the last batch that was taken in, -1 before there is one. A batch that cannot be read is
        logged and left out, and costs no other batch. Raises CorruptRecord for a batch of no bytes.
        """
        position = 0
        while True:
            try:
                position, next_offset, is_full_step = self._take_plain_batches(buffer, position)
            except (IndexError, struct.error, UnicodeDecodeError):
                next_offset, is_full_step = -1, False  # one batch cannot be read: take each by itself
            if next_offset >= 0:
                yield next_offset
            if is_full_step:
                continue
            if not is_whole_batch(buffer, position):
                return
            batch = batch_at(buffer, position)
            if batch.end <= position:
                raise CorruptRecord(f"the batch at offset {batch.base_offset} claims no bytes")
            try:
                yield from self._take_batch(batch)
            except (CorruptRecord, DecodeError, UnicodeDecodeError):
                logger.exception("A batch of committed offsets cannot be read (byte %d of the buffer)", position)
            position = batch.end
            yield batch.next_offset

    def _take_plain_batches(self, body: bytes, position: int) -> tuple[int, int, bool]:
        """Take in a step's worth of the usual batches: of plain commits, neither compressed nor in a transaction.

        Stop before the first batch of another kind, or with a number of more than two bytes or a tombstone:
        `_take_batch` reads all of them. Everything is in line, because a million records go through this function.
        Return the position and the offset (-1: none) behind the batches, and whether they were enough for a step.
        """
        # A plain commit replaces earlier ones of open transactions, which `_take_batch` looks after.
        if self._open:
            return position, -1, False
        groups, topics = self.groups, self._topics
        size, next_offset, left = len(body) - HEADER_SIZE, -1, STEP_RECORDS
        while left > 0 and position < size:
            header: tuple[int, int, int, int, int, int] = _BRIEF.unpack_from(body, position)
            base_offset, length, magic, attributes, last_delta, count = header
            end = position + LOG_OVERHEAD + length
            if end > len(body) or magic != 2 or attributes & _SPECIAL or not 0 <= count <= PLAIN_BATCH_RECORDS:
                return position, next_offset, False
            start: i64 = position + HEADER_SIZE
            for _ in range(count):
                number: i64 = body[start]
                start += 1
                if number > 0x7F:
                    number = number & 0x7F | body[start] << 7
                    start += 1
                record_end: i64 = start + (number >> 1)
                start += 1
                while body[start] > 0x7F:  # time stamp
                    start += 1
                start += 1
                while body[start] > 0x7F:  # offset
                    start += 1
                number = body[start + 1]
                start += 2
                if number > 0x7F:
                    number = number & 0x7F | body[start] << 7
                    start += 1
                key_end: i64 = start + (number >> 1)
                number = body[key_end]
                value: i64 = key_end + 1
                if number > 0x7F:
                    number = number & 0x7F | body[value] << 7
                    value += 1
                value_end: i64 = value + (number >> 1)
                # The record's length confirms the numbers: nothing is left of the record but a header count of 0.
                is_plain = value_end + 1 == record_end and body[value_end] == 0 and not number & 1 and not body[start]
                if not is_plain or body[start + 1] > _LAST_OFFSET_KIND or body[value + 1] > _LAST_VALUE_VERSION:
                    return position, next_offset, False
                start += 2
                group_end: i64 = start + 2 + (body[start] << 8 | body[start + 1])
                group, name = body[start + 2 : group_end], body[group_end + 2 : key_end - 4]
                by_topic = groups.get(group)
                if by_topic is None:
                    by_topic = groups[group] = {}
                topic = topics.get(name)
                if topic is None:
                    topic = topics[name] = name.decode()
                by_partition = by_topic.get(topic)
                if by_partition is None:
                    by_partition = by_topic[topic] = {}
                partition: int = _PARTITION.unpack_from(body, key_end - 4)[0]
                by_partition[partition] = body[value:value_end]
                start = record_end
            self.record_count += count
            left -= count
            position = end
            next_offset = base_offset + last_delta + 1
        return position, next_offset, left <= 0

    def _take_batch(self, batch: RecordBatch | LegacyBatch) -> Iterator[int]:
        """Take in a batch of any kind, in steps."""
        producer_id = NO_PRODUCER_ID
        if isinstance(batch, RecordBatch):
            if batch.is_control:
                self._end_transaction(batch)
                return
            if batch.is_transactional:
                producer_id = batch.producer_id
        for number, record in enumerate(batch.records()):
            self._take_record(record.key or b"", record.value, record.offset, producer_id)
            self.record_count += 1
            if number % STEP_RECORDS == STEP_RECORDS - 1:
                yield -1

    def _take_record(self, key: bytes, value: bytes | None, position: int, producer_id: int) -> None:
        """Take in one record of any kind. Raises DecodeError when an offset has an unknown version."""
        kind = version_of(key)
        if kind not in OFFSET_KINDS:
            if value is None:
                self.others.pop(key, None)
            else:
                self.others[key] = value
            return
        group_end = 4 + int.from_bytes(key[2:4], "big")
        group, name = key[4:group_end], key[group_end + 2 : -4]
        topic = self._topics.get(name)
        if topic is None:
            topic = self._topics[name] = name.decode()
        partition = int.from_bytes(key[-4:], "big")
        if value is not None and not is_readable_offset(value):
            raise DecodeError(f"the value of a committed offset has version {version_of(value)}")
        # A tombstone counts at once, also inside a transaction.
        if producer_id != NO_PRODUCER_ID and value is not None:
            commits = self._open.setdefault(producer_id, {}).setdefault(group, {})
            commits[topic, partition] = _OpenCommit(position, value)
            return
        if value is None:
            for by_group in self._open.values():
                by_group.get(group, {}).pop((topic, partition), None)
        else:
            self._supersede(group, topic, partition, position)
        self._put(group, topic, partition, value)

    def _put(self, group: bytes, topic: str, partition: int, value: bytes | None) -> None:
        """Keep a committed offset, or remove it (value None)."""
        if value is not None:
            self.groups.setdefault(group, {}).setdefault(topic, {})[partition] = value
            return
        by_topic = self.groups.get(group, {})
        by_partition = by_topic.get(topic, {})
        if by_partition.pop(partition, None) is not None and not by_partition:
            del by_topic[topic]
            if not by_topic:
                del self.groups[group]

    def _end_transaction(self, batch: RecordBatch) -> None:
        """End a transaction: its offsets count, unless a plain commit came later."""
        marker = EndTransactionMarker.of(batch)
        by_group = self._open.pop(batch.producer_id, {})
        if marker is None or marker.is_abort:
            return
        for group, commits in by_group.items():
            for (topic, partition), commit in commits.items():
                if commit is not None:
                    self._supersede(group, topic, partition, commit.position)
                    self._put(group, topic, partition, commit.value)

    def _supersede(self, group: bytes, topic: str, partition: int, position: int) -> None:
        """Drop the commits of open transactions for the partition that lie before this position."""
        for by_group in self._open.values():
            commits = by_group.get(group, {})
            commit = commits.get((topic, partition))
            if commit is not None and commit.position < position:
                commits[topic, partition] = None


# -- groups

GROUPS_PER_STEP: Final = 20
"""The number of groups that are made, or become visible, in one step."""


class PartitionLoader:
    """The loader of single partitions.

    partition_or_error: returns a hosted partition. service_of: returns the service of a type of membership.
    """

    def __init__(
        self,
        environment: GroupEnvironment,
        partition_or_error: Callable[[str, int], Partition],
        service_of: Callable[[GroupType], MembershipService],
    ) -> None:
        self._environment = environment
        self._partition_or_error = partition_or_error
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
        for some in restore_memberships(replay.others, self._environment.clock):
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
        """Drop loaded groups that are not served: the partition was given up, and perhaps loaded again since."""
        for group in groups:
            with group.lock:
                is_ours = not group.is_removed
                self._environment.table.remove(group)
            if is_ours:
                self._service_of(group.membership.group_type).unloaded(group)
