"""The throttle of one direction of replication: the quota, for the replicas that a topic's settings name.

One for the leader's side, asked by ReplicaReader, and one for the follower's, asked by fetcher threads. No state of its
own: the quota has a lock, and a log's settings are replaced by one assignment. Callers do not ask for replicas in sync:
a throttle must not take a replica out of the in-sync replicas. The bytes of such replicas count all the same.

Kafka: ReplicaManager.shouldLeaderThrottle, RemoteLeaderEndPoint.shouldFollowerThrottle.
"""

from __future__ import annotations

from barnabas.config.log_config import NO_REPLICAS
from barnabas.quota.replication_quota import ReplicationQuota
from barnabas.replica.partitions.partition import Partition


class ReplicationThrottle:
    """A quota and its replicas. is_of_leaders: which field of a topic's settings names the throttled replicas."""

    __slots__ = ("_is_of_leaders", "_quota")

    def __init__(self, quota: ReplicationQuota, *, is_of_leaders: bool) -> None:
        self._quota = quota
        self._is_of_leaders = is_of_leaders

    def holds_back(self, partition: Partition) -> bool:
        """Return whether a replica of this broker is throttled, and the quota exceeded."""
        return self._is_throttled(partition) and self._quota.is_exceeded

    def count(self, partition: Partition, size: int) -> None:
        """Count the bytes of a partition, if its replica on this broker is throttled."""
        if self._is_throttled(partition):
            self._quota.record(size)

    def _is_throttled(self, partition: Partition) -> bool:
        config = partition.log.config
        throttled = config.leader_throttled_replicas if self._is_of_leaders else config.follower_throttled_replicas
        # Most topics name none.
        return throttled is not NO_REPLICAS and throttled.covers(
            partition.topic_partition.partition, partition.environment.broker_id
        )


def leader_throttle(quota: ReplicationQuota) -> ReplicationThrottle:
    """Return the throttle of what leaders of this broker send."""
    return ReplicationThrottle(quota, is_of_leaders=True)


def follower_throttle(quota: ReplicationQuota) -> ReplicationThrottle:
    """Return the throttle of what followers of this broker fetch."""
    return ReplicationThrottle(quota, is_of_leaders=False)
