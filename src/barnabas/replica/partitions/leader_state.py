"""The leadership of a partition and its in-sync replicas, as one immutable value.

A `Partition` replaces its LeaderState by one assignment, under its own lock and its log's. Readers take no lock. A
thread that holds the log's lock (an append, a fetch that moves the high watermark) knows that the state it reads stays
until the lock is released. Kafka keeps the same fields in Partition behind a read-write lock, which Python does not
have. Kafka: kafka.cluster.Partition.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from barnabas.replica.partitions.follower_state import Follower
from barnabas.replica.partitions.isr_state import IsrState
from barnabas.storage.log_offset_metadata import LogOffsetMetadata


class Reassignment(NamedTuple):
    """The replicas that the controller is adding to a partition, and those it will remove."""

    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()


NO_REASSIGNMENT = Reassignment()


@dataclass(frozen=True, slots=True)
class LeaderState:
    """The partition's leadership as the controller last told it, with the in-sync replicas as they were changed since.

    start_offset: log end offset when this broker became leader in this epoch; -1 on a follower.
    followers: the other assigned replicas by broker id; none on a follower.
    """

    is_leader: bool
    leader_id: int
    leader_epoch: int
    partition_epoch: int
    controller_epoch: int
    isr_state: IsrState
    replicas: tuple[int, ...]
    start_offset: int = -1
    followers: Mapping[int, Follower] = field(default_factory=dict)
    reassignment: Reassignment = NO_REASSIGNMENT

    isr: frozenset[int] = field(init=False)
    """The in-sync replicas the cluster agrees on."""
    maximal_isr: frozenset[int] = field(init=False)
    """Every replica that may be in sync (IsrState.maximal).

    Both sets are fields and no properties, since every produce with acks=all reads them.
    """

    def __post_init__(self) -> None:
        # Past `frozen`, and only here, before another thread can see the object.
        object.__setattr__(self, "isr", self.isr_state.committed)
        object.__setattr__(self, "maximal_isr", self.isr_state.maximal)

    @property
    def replication_factor(self) -> int:
        """The number of assigned replicas, without those that a reassignment is adding."""
        return len(set(self.replicas) - set(self.reassignment.adding))

    def with_isr(self, isr_state: IsrState, partition_epoch: int) -> LeaderState:
        """Return the same leadership with other in-sync replicas."""
        return replace(self, isr_state=isr_state, partition_epoch=partition_epoch)

    def effective_min_isr(self, min_in_sync_replicas: int) -> int:
        """Return `min.insync.replicas`, or the number of replicas if that is smaller. Kafka: effectiveMinIsr."""
        return min(min_in_sync_replicas, len(self.followers) + 1)

    def are_too_few(self, in_sync: frozenset[int], min_in_sync_replicas: int) -> bool:
        """Return whether these in-sync replicas are too few for acks=all."""
        size = len(in_sync)
        # The first comparison nearly always decides, and saves the call on every produce with acks=all.
        return size < min_in_sync_replicas and size < self.effective_min_isr(min_in_sync_replicas)

    def out_of_sync(self, leader_end_offset: int, now_ms: int, max_lag_ms: int, leader_id: int) -> frozenset[int]:
        """Return the in-sync replicas that lag; none while a change is pending. Kafka: getOutOfSyncReplicas."""
        if self.isr_state.is_pending:
            return frozenset()
        followers = self.followers
        return frozenset(
            replica
            for replica in self.isr
            if replica != leader_id
            and (
                replica not in followers
                or not followers[replica].state_by_now.is_caught_up(leader_end_offset, now_ms, max_lag_ms)
            )
        )

    def smallest_log_end(
        self, leader_end: LogOffsetMetadata, waits_for_outsider: Callable[[Follower], bool]
    ) -> LogOffsetMetadata:
        """Return the smallest log end of all replicas that are or may be in sync: the new high watermark.

        waits_for_outsider: whether to wait also for a follower outside of the ISR that is about to join. Without that
        the high watermark would stay ahead of a follower that catches up, which could then never join. An example:

            replica       log end
            1, leader     30
            2, in sync    25
            3, outside    24, caught up: the high watermark waits for it and is 24
            4, outside    10, lagging: the high watermark does not wait for it

        Kafka: maybeIncrementLeaderHW.
        """
        smallest = leader_end
        maximal = self.maximal_isr
        for replica, follower in self.followers.items():
            log_end = follower.state.log_end
            if log_end.message_offset < smallest.message_offset and (
                replica in maximal or waits_for_outsider(follower)
            ):
                smallest = log_end
        return smallest
