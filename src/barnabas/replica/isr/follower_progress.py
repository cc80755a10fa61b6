"""The leader's reaction to the fetch of a follower: its progress, the in-sync replicas, the high watermark.

Functions on a Partition, called by ReplicaReader on handler and processor threads. The states of followers change under
the log's lock, together with the high watermark that depends on them. Callers act on a FollowerProgress when they hold
no lock.

Kafka: Partition.updateFollowerFetchState, followerReplicaOrThrow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.replica.isr.isr_updates import propose_expand
from barnabas.replica.partitions.follower_state import Follower, FollowerState
from barnabas.replica.partitions.leader_state import LeaderState
from barnabas.replica.partitions.partition import NO_EPOCH, Partition
from barnabas.storage.log_offset_metadata import LogOffsetMetadata

if TYPE_CHECKING:
    from mypy_extensions import i64


class FollowerProgress:
    """The effects of a follower's fetch.

    log_start_offset_moved: that of the follower, and perhaps the low watermark of the partition with it.
    proposal: the state with the follower in the ISR, to be submitted; None if the follower does not join.
    state: the follower's state since this fetch; None if the fetch did not count.
    """

    __slots__ = ("high_watermark_moved", "log_start_offset_moved", "proposal", "state")

    def __init__(
        self,
        high_watermark_moved: bool = False,
        log_start_offset_moved: bool = False,
        proposal: LeaderState | None = None,
        state: FollowerState | None = None,
    ) -> None:
        self.high_watermark_moved = high_watermark_moved
        self.log_start_offset_moved = log_start_offset_moved
        self.proposal = proposal
        self.state = state


NO_PROGRESS: Final = FollowerProgress()


def follower_or_error(partition: Partition, state: LeaderState, replica_id: int, current_leader_epoch: int) -> Follower:
    """Return the follower that fetches.

    Raises ApiError: NOT_LEADER_OR_FOLLOWER or UNKNOWN_LEADER_EPOCH when the sender is not a replica of the partition.
    The sender or this broker has then missed a change of the assignment.
    """
    follower = state.followers.get(replica_id)
    if follower is None:
        code = ErrorCode.NOT_LEADER_OR_FOLLOWER if current_leader_epoch == NO_EPOCH else ErrorCode.UNKNOWN_LEADER_EPOCH
        raise ApiError(
            code,
            f"Replica {replica_id} is not recognized as a valid replica of {partition} in leader epoch "
            f"{state.leader_epoch} with partition epoch {state.partition_epoch}",
        )
    return follower


def update_follower(
    partition: Partition,
    follower: Follower,
    read_under: LeaderState,
    fetched_from: LogOffsetMetadata,
    log_start_offset: i64,
    leader_end_offset: i64,
    broker_epoch: i64,
) -> FollowerProgress:
    """Note where a follower is, by its fetch. The follower may join the ISR, and may move the high watermark.

    read_under: the state the fetch was read under; one of another leader epoch says nothing about this one. The other
    facts are those of `FollowerState.after_fetch`.
    """
    now_ms = partition.environment.monotonic_ms()
    with partition.log.lock:
        state = partition.state
        if (
            state is None
            or state.leader_epoch != read_under.leader_epoch
            # The assignment may have changed during the read: then this object is no longer part of the partition.
            or state.followers.get(follower.broker_id) is not follower
        ):
            return NO_PROGRESS
        before = follower.state_by_now
        after = before.after_fetch(fetched_from, log_start_offset, leader_end_offset, broker_epoch, now_ms)
        follower.state = after
        proposal = None
        if follower.broker_id not in state.isr:
            # Before the watermark: a follower about to join belongs to the maximal ISR, for which the watermark waits.
            proposal = propose_expand(partition, state, follower)
            state = proposal or state
        # The idle polls of followers do not move them, and skip the computation of the high watermark.
        moved = before.log_end.message_offset != fetched_from.message_offset
        return FollowerProgress(
            moved and state.is_leader and partition.follow_in_sync_replicas(state, now_ms),
            log_start_offset != before.log_start_offset,
            proposal,
            after,
        )
