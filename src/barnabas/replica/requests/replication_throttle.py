"""The throttle of one direction of replication: the quota, for the replicas that a topic's settings name.

One for the leader's side, asked by ReplicaReader, and one for the follower's, asked by fetcher threads. No state of its
own: the quota has a lock, and a log's settings are replaced by one assignment. Callers do not ask for replicas in sync:
a throttle must not take a replica out of the in-sync replicas. The bytes of such replicas count all the same.

Kafka: ReplicaManager.shouldLeaderThrottle, RemoteLeaderEndPoint.shouldFollowerThrottle.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter

from barnabas.config.log_config import LogConfig, ReplicaPairs
from barnabas.quota.replication_quota import ReplicationQuota
from barnabas.replica.partitions.partition import Partition


class ReplicationThrottle:
    """A quota and its replicas. replicas_of: the field of a topic's settings that names the throttled replicas."""

    def __init__(self, quota: ReplicationQuota, replicas_of: Callable[[LogConfig], ReplicaPairs]) -> None:
        self._quota = quota
        self._replicas_of = replicas_of

    def holds_back(self, partition: Partition) -> bool:
        """Return whether a replica of this broker is throttled, and the quota exceeded."""
        return self._is_throttled(partition) and self._quota.is_exceeded

    def count(self, partition: Partition, size: int) -> None:
        """Count the bytes of a partition, if its replica on this broker is throttled."""
        if self._is_throttled(partition):
            self._quota.record(size)

    def _is_throttled(self, partition: Partition) -> bool:
        return self._replicas_of(partition.log.config).covers(
            partition.topic_partition.partition, partition.environment.broker_id
        )


def leader_throttle(quota: ReplicationQuota) -> ReplicationThrottle:
    """Return the throttle of what leaders of this broker send."""
    return ReplicationThrottle(quota, attrgetter("leader_throttled_replicas"))


def follower_throttle(quota: ReplicationQuota) -> ReplicationThrottle:
    """Return the throttle of what followers of this broker fetch."""
    return ReplicationThrottle(quota, attrgetter("follower_throttled_replicas"))
