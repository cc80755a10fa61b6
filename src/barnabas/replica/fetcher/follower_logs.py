"""The logs that fetchers write to: append as follower, cut, begin anew, and what follows from each.

Called by fetcher threads while they hold their own lock, so that a partition which the controller gives another role is
not written to afterwards; `wake` is called without any lock. Kafka: ReplicaFetcherThread.processPartitionData,
truncate, truncateFullyAndStartAt.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.fetch import PartitionData
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.replica.broker_topic_stats import TopicStats
from barnabas.replica.fetcher.partition_fetch_state import FollowerLogPosition, truncation_offset
from barnabas.replica.partitions.hosted_partitions import HostedPartitions
from barnabas.replica.partitions.partition import Partition
from barnabas.replica.requests.replication_throttle import ReplicationThrottle
from barnabas.replica.requests.waiting_requests import WaitingRequests
from barnabas.storage.log.leader_epochs import EpochEntry
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.log_manager import LogManager

logger = logging.getLogger(__name__)


def log_position(log: UnifiedLog) -> FollowerLogPosition:
    """Return where a log is now."""
    bounds = log.bounds
    return FollowerLogPosition(
        bounds.start,
        bounds.high_watermark.message_offset,
        log.local.end.message_offset,
        log.leader_epochs.latest_epoch,
    )


class FollowerLogs:
    """The hosted partitions, as their fetchers change them.

    stats: the calling thread's counters of a topic. throttle: of what this broker fetches.
    """

    def __init__(
        self,
        hosted: HostedPartitions,
        log_manager: LogManager,
        waiting: WaitingRequests,
        stats: Callable[[str], TopicStats],
        throttle: ReplicationThrottle,
    ) -> None:
        self._hosted = hosted
        self._log_manager = log_manager
        self._waiting = waiting
        self._stats = stats
        self._throttle = throttle

    def position(self, key: TopicPartition) -> FollowerLogPosition:
        """Return where the log is now. Raises ApiError: this broker does not host the partition (any more)."""
        return log_position(self._log(key))

    def start_offset(self, key: TopicPartition) -> int:
        """Return where the log begins. Raises ApiError: as `position`."""
        return self._partition(key).log.bounds.start

    def holds_back(self, key: TopicPartition) -> bool:
        """Return whether a replica out of sync is to wait, because the throttle's rate is exceeded."""
        partition = self._hosted.get(key)
        return partition is not None and self._throttle.holds_back(partition)

    def append(self, key: TopicPartition, fetch_offset: int, data: PartitionData) -> FollowerLogPosition:
        """Append a leader's answer to the request from `fetch_offset`, and take over its watermarks.

        Returns where the log is then. Raises ApiError: CORRUPT_MESSAGE, KAFKA_STORAGE_ERROR, and the errors of
        `position`. Raises ValueError: the log has moved since it was asked for.
        """
        partition = self._partition(key)
        log = partition.log
        if log.local.end.message_offset != fetch_offset:
            raise ValueError(f"{key} ends at {log.log_end_offset}, and its leader was asked for {fetch_offset}")
        records = data.records
        if records is not None and (size := len(records)):
            log.append_as_follower(records)
            stats = self._stats(key.topic)
            stats.replication_bytes_in += size
            self._throttle.count(partition, size)
            if partition.is_adding(partition.environment.broker_id):
                stats.reassignment_bytes_in += size
        # Never back: a new leader learns its high watermark from its followers, and says a smaller one until then.
        if data.high_watermark > log.bounds.high_watermark.message_offset:
            log.update_high_watermark(data.high_watermark)
        if data.log_start_offset > log.bounds.start:
            # Bounded, since the answer's two offsets are read one after the other at the leader.
            start = min(data.log_start_offset, log.high_watermark)
            log.maybe_increment_log_start_offset(start, "leader offset increment")
        return log_position(log)

    def truncate_to_high_watermark(self, key: TopicPartition) -> FollowerLogPosition:
        """Cut off what nobody has confirmed. Raises ApiError: KAFKA_STORAGE_ERROR, the errors of `position`."""
        self._log_manager.truncate_to(key, self._log(key).high_watermark)
        return self.position(key)

    def truncate_to_leader(self, key: TopicPartition, diverging: EpochEntry) -> FollowerLogPosition:
        """Cut the log where the leader's parts from it. Raises ApiError: as `truncate_to_high_watermark`.

        diverging: the leader's epoch, and where it ends.
        """
        log = self._log(key)
        offset = truncation_offset(diverging, log.end_offset_for_epoch(diverging.epoch), log.log_end_offset)
        self._truncate(key, log, offset)
        return self.position(key)

    def truncate_to_end(self, key: TopicPartition, leader_end_offset: int) -> FollowerLogPosition:
        """Cut the log at the end of the leader's. Raises ApiError: as `truncate_to_high_watermark`."""
        self._truncate(key, self._log(key), leader_end_offset)
        return self.position(key)

    def start_at(self, key: TopicPartition, leader_start_offset: int) -> FollowerLogPosition:
        """Drop the whole log, which ends before the leader's starts, and begin anew there. Raises ApiError."""
        self._log_manager.truncate_fully_and_start_at(key, leader_start_offset)
        return self.position(key)

    def wake(self, keys: Iterable[TopicPartition]) -> None:
        """Retry the requests that wait for these partitions: consumers may fetch from followers (KIP-392)."""
        for key in keys:
            self._waiting.wake(key)
        self._waiting.run_queued()

    def _truncate(self, key: TopicPartition, log: UnifiedLog, offset: int) -> None:
        if offset < log.high_watermark:
            logger.warning("Truncating %s to offset %d below high watermark %d", key, offset, log.high_watermark)
        # Through the manager, which keeps the cleaner away meanwhile.
        self._log_manager.truncate_to(key, offset)

    def _log(self, key: TopicPartition) -> UnifiedLog:
        return self._partition(key).log

    def _partition(self, key: TopicPartition) -> Partition:
        partition = self._hosted.get(key)
        if partition is None:
            self._hosted.offline.check(key)
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return partition
