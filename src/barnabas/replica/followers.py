"""What a follower's fetch tells the leader, and what moves with it.

Functions on a Partition, called by ReplicaReader on handler and processor threads. What is known of followers changes
under the log's lock, with the high watermark that depends on it; callers act on what moved once they hold none.

Kafka: updateFollowerFetchState, followerReplicaOrThrow of kafka.cluster.Partition.
"""

from __future__ import annotations

from typing import NamedTuple

from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.replica.follower_state import Follower, FollowerFetch
from barnabas.replica.isr_proposals import propose_expand
from barnabas.replica.leader_state import LeaderState
from barnabas.replica.partition import NO_EPOCH, Partition


class FollowerProgress(NamedTuple):
    """What a follower's fetch moved. proposal: the state with it in the ISR, to be submitted; None if it does not join.

    The low watermark may have moved where the follower's log start offset did.
    """

    high_watermark_moved: bool = False
    log_start_offset_moved: bool = False
    proposal: LeaderState | None = None


NO_PROGRESS = FollowerProgress()


def follower_or_error(partition: Partition, state: LeaderState, replica_id: int, current_leader_epoch: int) -> Follower:
    """The follower that fetches; ApiError when it is no replica: it, or this broker, has yet to hear of that."""
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
    partition: Partition, follower: Follower, read_under: LeaderState, fetch: FollowerFetch
) -> FollowerProgress:
    """Note where a follower is, by its fetch. The follower may join the ISR, and may move the high watermark.

    read_under: the state the fetch was read under; one of another leader epoch says nothing about this one.
    """
    now_ms = partition.environment.clock.milliseconds()
    with partition.log.lock:
        state = partition.state
        if (
            state is None
            or state.leader_epoch != read_under.leader_epoch
            or state.followers.get(follower.broker_id) is not follower
        ):
            return NO_PROGRESS
        before = follower.state
        follower.state = before.after_fetch(fetch, now_ms)
        proposal = propose_expand(partition, state, follower)
        moved = before.log_end.message_offset != fetch.fetched_from.message_offset
        return FollowerProgress(
            moved and partition.increment_high_watermark(), fetch.log_start_offset != before.log_start_offset, proposal
        )
