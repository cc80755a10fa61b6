"""The leadership of a partition and its in-sync replicas, as one immutable value.

A `Partition` replaces its LeaderState by one assignment, under its own lock and its log's. Readers take no lock. A
thread that holds the log's lock (an append, a fetch that moves the high watermark) knows that the state it reads stays
until the lock is released. Kafka keeps the same fields in Partition behind a read-write lock, which Python does not
have. Kafka: kafka.cluster.Partition.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from barnabas.replica.partitions.follower_state import Follower
from barnabas.replica.partitions.isr_state import IsrState

if TYPE_CHECKING:
    from mypy_extensions import i64


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
    followers: dict[int, Follower] = field(default_factory=dict)
    reassignment: Reassignment = NO_REASSIGNMENT

    isr: frozenset[int] = field(init=False)
    """The in-sync replicas the cluster agrees on."""
    maximal_isr: frozenset[int] = field(init=False)
    """Every replica that may be in sync (IsrState.maximal).

    Both sets are fields and no properties, since every produce with acks=all reads them. So are the next two, which
    every follower's fetch reads.
    """
    is_isr_pending: bool = field(init=False)
    """Whether a change of the in-sync replicas was proposed and is not answered."""
    adding: frozenset[int] = field(init=False)
    """The replicas that a reassignment is adding."""

    def __post_init__(self) -> None:
        # Past `frozen`, and only here, before another thread can see the object.
        object.__setattr__(self, "isr", self.isr_state.committed)
        object.__setattr__(self, "maximal_isr", self.isr_state.maximal)
        object.__setattr__(self, "is_isr_pending", self.isr_state.is_pending)
        object.__setattr__(self, "adding", frozenset(self.reassignment.adding))

    @property
    def replication_factor(self) -> int:
        """The number of assigned replicas, without those that a reassignment is adding."""
        return len(set(self.replicas) - self.adding)

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

    def out_of_sync(self, leader_end_offset: i64, now_ms: i64, max_lag_ms: i64, leader_id: int) -> frozenset[int]:
        """Return the in-sync replicas that lag; none while a change is pending. Kafka: getOutOfSyncReplicas."""
        if self.is_isr_pending:
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
