"""The removal of expired offsets, of offsets of deleted topics, and of groups without members and offsets.

The removal runs periodically, and when topics are deleted, in tasks of the scheduler. It takes one group's lock at a
time, and pauses after a slice of groups. The tombstones may be lost: a coordinator that loads an expired offset removes
it again.

An offset that was committed with a time of its own (OffsetCommit v2-4) expires then. Any other offset expires
`offsets.retention.minutes` after its group became empty. If that time is not known, if the group never had a member, or
if no member reads the topic, it expires that long after its commit.
Kafka: GroupMetadataManager.cleanupGroupMetadata, GroupMetadata.removeExpiredOffsets, handleDeletedPartitions.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Sequence

from barnabas.coordinator.group.committed_offsets import PartitionKey
from barnabas.coordinator.group.group import Group
from barnabas.coordinator.group.group_environment import GroupEnvironment
from barnabas.coordinator.group.offsets.offset_service import remove_if_useless, remove_offsets
from barnabas.coordinator.group.offsets_topic import NO_TIMESTAMP, commit_times
from barnabas.metadata.metadata_image import MetadataImage
from barnabas.protocol.errors import DecodeError

logger = logging.getLogger(__name__)

SLICE_NS = 1_000_000
"""The wall time of a slice; the rest of the groups follows after a pause."""
PAUSE_MS = 5
TOMBSTONE_BATCH_BYTES = 256 * 1024
"""The size of a batch of tombstones: small enough for `max.message.bytes` of the topic."""
TOMBSTONE_OVERHEAD_BYTES = 32
"""The most bytes of a tombstone beside the names in its key."""


class OffsetExpiry:
    """The tasks that remove offsets.

    on_removed: called, without locks, with a group that was removed because it had no members and no offsets.
    expired_count: offsets that expired since the start (Kafka: offset-expiration-count).
    """

    def __init__(self, environment: GroupEnvironment, on_removed: Callable[[Group], None]) -> None:
        self._environment = environment
        self._on_removed = on_removed
        self._is_running = False
        self._is_shut_down = False
        self.expired_count = 0

    def start(self) -> None:
        """Look for expired offsets from now on, and follow the cluster's topics."""
        environment = self._environment
        environment.scheduler.schedule(
            "delete-expired-group-metadata",
            self.expire,
            delay_ms=environment.config.retention_check_interval_ms,
            period_ms=environment.config.retention_check_interval_ms,
        )
        environment.metadata.subscribe(self._metadata_changed)

    def stop(self) -> None:
        """Stop: no further slice begins."""
        self._is_shut_down = True

    def expire(self) -> None:
        """Begin to remove expired offsets, in slices. Do nothing if a removal is going on already."""
        if not self._is_running:
            self._is_running = True
            self._run(self._expire_all(), "expire-offsets")

    def forget_topics(self, topics: Collection[str], deleted_ms: int) -> None:
        """Begin to remove the offsets of deleted topics.

        deleted_ms: the wall clock time of the deletion. Later commits are of new topics with the same names.
        """
        self._run(self._forget_topics(frozenset(topics), deleted_ms), "forget-offsets-of-deleted-topics")

    def _metadata_changed(self, old: MetadataImage, new: MetadataImage) -> None:
        if old.topics is not new.topics and old.topics and len(self._environment.table):
            deleted = old.topics.keys() - new.topics.keys()
            if deleted:
                # The time is taken now: a commit that comes before the task runs may be of a new topic with this name.
                deleted_ms = self._environment.clock.milliseconds()
                self._environment.scheduler.schedule("topics-deleted", lambda: self.forget_topics(deleted, deleted_ms))

    # -- slices

    def _run(self, work: Iterator[None], name: str) -> None:
        """Work for a slice, and schedule the rest after a pause."""
        environment = self._environment
        end_ns = environment.clock.nanoseconds() + SLICE_NS
        # Actions run between two groups, without a lock: each group may have appended tombstones.
        for _ in work:
            environment.actions.run_all()
            if self._is_shut_down:
                return
            if environment.clock.nanoseconds() >= end_ns:
                environment.scheduler.schedule(name, lambda: self._run(work, name), delay_ms=PAUSE_MS)
                return
        environment.actions.run_all()

    def _expire_all(self) -> Iterator[None]:
        environment = self._environment
        now_ms = environment.clock.milliseconds()
        count = 0
        try:
            for group in self._groups():
                count += self._remove_from(group, lambda group: self._expired(group, now_ms))
                yield
        finally:
            self._is_running = False
            self.expired_count += count
            if count:
                logger.info("Removed %d expired offsets", count)

    def _forget_topics(self, topics: frozenset[str], deleted_ms: int) -> Iterator[None]:
        count = 0
        for group in self._groups():
            if not topics.isdisjoint(group.offsets.topics):
                count += self._remove_from(group, lambda group: _of_topics(group, topics, deleted_ms))
            yield
        logger.info("Removed %d offsets associated with deleted topics: %s.", count, ", ".join(sorted(topics)))

    def _groups(self) -> list[Group]:
        partitions = self._environment.partitions
        table = self._environment.table
        return [group for partition in partitions.active for group in table.entries(partition)]

    def _remove_from(self, group: Group, choose: Callable[[Group], list[PartitionKey]]) -> int:
        """Remove the offsets that `choose` returns, under the group's lock; return their number."""
        with group.lock:
            if group.is_removed:
                return 0
            removed = self._remove(group, choose(group))
            is_gone = self._environment.table.get(group.group_id) is not group
        if is_gone:
            self._on_removed(group)
        return removed

    def _remove(self, group: Group, keys: list[PartitionKey]) -> int:
        """Remove these offsets, and the group if it has nothing else; return their number. Under the group's lock."""
        removed = 0
        for some in _batches(group.group_id, keys):
            stored = remove_offsets(self._environment, group, some)
            # The log refused the tombstones: the rest stays in memory too, for the next round.
            if stored is None or stored.position < 0:
                return removed
            removed += len(some)
        if not keys and not group.is_removed:
            remove_if_useless(self._environment, group)
        return removed

    def _expired(self, group: Group, now_ms: int) -> list[PartitionKey]:
        membership, offsets = group.membership, group.offsets
        if membership.keeps_all_offsets:
            return []
        retention_ms = self._environment.config.retention_ms
        empty_since_ms = membership.empty_since_ms
        # Asked once for each topic, under the lock: a group may have thousands of partitions of one topic.
        is_read = {topic: membership.is_subscribed_to(topic) for topic in offsets.topics}
        expired = []
        for topic, partition, value in offsets:
            try:
                committed_ms, expires_ms = commit_times(value)
            except DecodeError:
                logger.exception("The offset of %s-%d in group %s cannot be read", topic, partition, group.group_id)
                continue
            if expires_ms != NO_TIMESTAMP:
                is_over = now_ms >= expires_ms
            else:
                since_ms = committed_ms if empty_since_ms is None else empty_since_ms
                is_over = now_ms - since_ms >= retention_ms
            # A waiting commit is newer than this offset; a transactional one makes it unstable, and may replace it.
            if (
                is_over
                and not is_read[topic]
                and not offsets.is_waiting(topic, partition)
                and not offsets.is_unstable(topic, partition)
            ):
                expired.append((topic, partition))
        return expired


def _of_topics(group: Group, topics: frozenset[str], deleted_ms: int) -> list[PartitionKey]:
    return [
        (topic, partition)
        for topic, partition, value in group.offsets
        if topic in topics and _is_committed_by(value, deleted_ms)
    ]


def _is_committed_by(value: bytes, moment_ms: int) -> bool:
    try:
        return commit_times(value)[0] <= moment_ms
    except DecodeError:
        return True  # a value that cannot be read is of no use, whenever it was committed


def _batches(group_id: str, keys: Sequence[PartitionKey]) -> Iterator[list[PartitionKey]]:
    """Yield the keys in parts whose tombstones fit into a batch."""
    each_takes = len(group_id.encode()) + TOMBSTONE_OVERHEAD_BYTES
    batch: list[PartitionKey] = []
    size = 0
    for key in keys:
        batch.append(key)
        size += each_takes + len(key[0])
        if size >= TOMBSTONE_BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
