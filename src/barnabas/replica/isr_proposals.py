"""Proposals of a leader to change its in-sync replicas: how they are made, and how their outcome is applied.

Functions on a Partition, called by `followers` when a follower may join, and by IsrUpdates on the threads of the
scheduler and of the AlterPartitionManager when followers lag and when an outcome arrives. They replace
`Partition.state` under the log's lock. A proposal is the state with the change pending; the caller submits it when it
holds no lock.

Kafka: Partition.maybeExpandIsr, maybeShrinkIsr, handleAlterPartitionUpdate, handleAlterPartitionError.
"""

from __future__ import annotations

import logging
from collections.abc import Collection

from barnabas.replica.follower_state import UNKNOWN_BROKER_EPOCH, Follower
from barnabas.replica.isr_state import IsrEvent, IsrPhase, next_state
from barnabas.replica.leader_state import LeaderState
from barnabas.replica.partition import Partition
from barnabas.runtime.clock import NEVER_MS

logger = logging.getLogger(__name__)


def propose_expand(partition: Partition, state: LeaderState, follower: Follower) -> LeaderState | None:
    """Return the state with a follower in the ISR, or None if it must not join (yet). The caller holds the log's lock.

    The follower must have everything acknowledged and its broker must be alive. The follower must also have reached the
    start of this leader epoch: a follower elected before that would lose records that an earlier leader acknowledged.
    """
    if state.isr_state.is_pending or follower.broker_id in state.isr:
        return None
    end = follower.state.log_end.message_offset
    if (
        # The high watermark may be behind the start of this epoch, while the new leader does not know its followers
        # yet: both are needed (KAFKA-7128).
        end < partition.log.high_watermark
        or end < state.start_offset
        or not partition.environment.is_alive(follower.broker_id)
    ):
        return None
    return _propose(partition, state, IsrEvent.EXPAND, (follower.broker_id,))


def propose_shrink(partition: Partition) -> LeaderState | None:
    """Return the state that leaves lagging followers out of the ISR, or None when none lags."""
    state = partition.state
    # Once without the lock, since it runs for every partition; nearly always no follower lags.
    if state is None or not state.followers or not _lagging(partition, state):
        return None
    log = partition.log
    with log.lock:
        state = partition.state
        if state is None or not state.is_leader:
            return None
        lagging = _lagging(partition, state)
        if not lagging:
            return None
        logger.info(
            "[Partition %s broker=%d] Shrinking ISR from %s to %s. Leader: (highWatermark: %d, endOffset: %d). Out of "
            "sync replicas (end offset, last caught up): %s.",
            partition,
            partition.local_broker_id,
            sorted(state.isr),
            sorted(state.isr - lagging),
            log.high_watermark,
            log.log_end_offset,
            {
                replica: (follower.state.log_end.message_offset, follower.state_by_now.last_caught_up_ms)
                for replica, follower in state.followers.items()
                if replica in lagging
            },
        )
        return _propose(partition, state, IsrEvent.SHRINK, lagging)


def finish(
    partition: Partition, proposal: LeaderState, isr: tuple[int, ...] | None, partition_epoch: int
) -> bool | None:
    """Apply the outcome of a proposal: the ISR as written, or None when it was certainly not written and never will be.

    Returns whether the high watermark moved; None if the outcome came too late, after leadership or ISR changed.
    """
    with partition.log.lock:
        state = partition.state
        # By identity: an equal proposal of a later leadership is another proposal, with an outcome of its own.
        if state is None or state.isr_state is not proposal.isr_state or partition_epoch < state.partition_epoch:
            return None
        event = IsrEvent.REFUSE if isr is None else IsrEvent.COMMIT
        changed = next_state(state.isr_state, event, isr or ())
        if changed is None:
            return None
        partition.state = state.with_isr(changed, partition_epoch)
        if isr is None and proposal.isr_state.phase is IsrPhase.PENDING_EXPAND:
            _do_not_wait_for(state, proposal.isr_state.changing)
        return partition.increment_high_watermark()


def _do_not_wait_for(state: LeaderState, refused: Collection[int]) -> None:
    """Let the high watermark pass replicas that may not join: a broker that is stopping may never fetch again.

    Their next fetch counts as usual. Kafka waits for them while their brokers are registered.
    """
    for follower in (state.followers[replica] for replica in refused if replica in state.followers):
        follower.state = follower.state._replace(last_caught_up_ms=NEVER_MS)


def _propose(
    partition: Partition, state: LeaderState, event: IsrEvent, replicas: Collection[int]
) -> LeaderState | None:
    changed = next_state(state.isr_state, event, replicas)
    if changed is None:
        return None
    # Under the log's lock: the fetch that made the follower join, or let it stay, is the last one noted.
    epochs = {
        follower.broker_id: follower.state.broker_epoch
        for follower in state.followers.values()
        if follower.state.broker_epoch != UNKNOWN_BROKER_EPOCH
    }
    partition.state = proposal = state.with_isr(changed._replace(broker_epochs=epochs), state.partition_epoch)
    return proposal


def _lagging(partition: Partition, state: LeaderState) -> frozenset[int]:
    environment = partition.environment
    return state.out_of_sync(
        partition.log.log_end_offset, environment.monotonic_ms(), environment.max_lag_ms, environment.broker_id
    )
