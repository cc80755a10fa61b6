"""Changes of in-sync replicas, from the proposal of a leader to its outcome.

A proposal is the state of a partition with the change pending. `follower_progress` calls `propose_expand` when a
follower may join, and the thread that reads for this follower then calls `submit` of IsrUpdates, a part of
ReplicaManager. The scheduler calls `shrink_lagging`; the outcome arrives on the thread of the AlterPartitionManager.
None of these threads holds a lock when it submits a proposal or brings an outcome. Proposals and outcomes replace
`Partition.state` under the log's lock. `_lock` guards the counters. Two classes are AlterPartitionManagers:
DefaultAlterPartitionManager asks the controller, ZkAlterPartitionManager writes to the store.

Kafka: Partition.maybeExpandIsr, Partition.submitAlterPartition, ReplicaManager.maybeShrinkIsr, AlterPartitionListener.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple, Protocol

from barnabas.metrics.meter import Meter
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.replica.partitions.follower_state import UNKNOWN_BROKER_EPOCH, Follower
from barnabas.replica.partitions.isr_state import IsrEvent, IsrPhase, next_state
from barnabas.replica.partitions.leader_state import LeaderState
from barnabas.replica.partitions.partition import Partition
from barnabas.runtime.clock import NEVER_MS
from barnabas.zk.znodes.topic_zk_data import LeaderAndIsr

logger = logging.getLogger(__name__)

AlterPartitionCallback = Callable[[LeaderAndIsr | ApiError], None]


class IsrChange(NamedTuple):
    """A change of the in-sync replicas of one partition.

    wanted: the leadership with the new in-sync replicas; its partition epoch is the one it replaces. controller_epoch:
    of the controller that named this leader. broker_epochs: of the in-sync replicas, as they said in their fetches; a
    replica that said none is left out. on_done: see `AlterPartitionManager.submit`.
    """

    partition: TopicPartition
    topic_id: bytes
    wanted: LeaderAndIsr
    controller_epoch: int
    broker_epochs: Mapping[int, int]
    on_done: AlterPartitionCallback


class AlterPartitionManager(Protocol):
    """A way to have the cluster agree on a partition's in-sync replicas."""

    def submit(self, change: IsrChange) -> None:
        """Ask for a change.

        Its `on_done` is called once, on another thread or before this call returns, with the leadership as written or
        with the ApiError that says why it was not written. After INVALID_UPDATE_VERSION the controller, which wrote
        meanwhile, will send its own leadership. A broker that stops forgets the changes that are not answered.
        """

    def shutdown(self) -> None:
        """Ask no more."""


CERTAINLY_NOT_WRITTEN = (ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA)
"""The controller says that our partition epoch is right and that it did not write."""

FINAL = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.INVALID_UPDATE_VERSION,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.NEW_LEADER_ELECTED,
)
"""The controller knows more than this leader and will send it: the change stays pending until then."""


def propose_expand(partition: Partition, state: LeaderState, follower: Follower) -> LeaderState | None:
    """Return the state with a follower in the ISR, or None if it must not join (yet). The caller holds the log's lock.

    The follower must have everything acknowledged and its broker must be alive. The follower must also have reached the
    start of this leader epoch: a follower elected before that would lose records that an earlier leader acknowledged.
    """
    if state.is_isr_pending or follower.broker_id in state.isr:
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


def _propose_shrink(partition: Partition) -> LeaderState | None:
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


def _finish_proposal(
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
        follower.state = follower.state.with_times(follower.state.last_fetch_ms, NEVER_MS)


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


class IsrUpdates:
    """The submission of proposals, and the application of their outcomes.

    manager: returns the way to have the cluster agree. wake: retries the delayed operations that wait for a partition.
    """

    def __init__(self, manager: Callable[[], AlterPartitionManager], wake: Callable[[TopicPartition], None]) -> None:
        self._manager = manager
        self._wake = wake
        self._lock = threading.Lock()
        self.shrinks = Meter()
        self.expands = Meter()
        self.failures = Meter()

    def shrink_lagging(self, partitions: Iterable[Partition]) -> None:
        """Ask to remove followers that lag from the in-sync replicas of every partition led here."""
        for partition in partitions:
            proposal = _propose_shrink(partition)
            if proposal is not None:
                self.submit(partition, proposal)

    def submit(self, partition: Partition, proposal: LeaderState) -> None:
        """Have the cluster agree on the proposal of a partition."""
        proposed = proposal.isr_state.proposed
        wanted = LeaderAndIsr(
            proposal.leader_id,
            proposal.leader_epoch,
            tuple(replica for replica in proposal.replicas if replica in proposed),
            partition_epoch=proposal.partition_epoch,
        )
        self._manager().submit(
            IsrChange(
                partition.topic_partition,
                partition.topic_id,
                wanted,
                proposal.controller_epoch,
                proposal.isr_state.broker_epochs,
                lambda outcome: self._finish(partition, proposal, outcome),
            )
        )

    def _finish(self, partition: Partition, proposal: LeaderState, outcome: LeaderAndIsr | ApiError) -> None:
        if isinstance(outcome, ApiError):
            self._fail(partition, proposal, outcome)
            return
        moved = None
        if outcome.leader_epoch == proposal.leader_epoch:
            moved = _finish_proposal(partition, proposal, outcome.isr, outcome.partition_epoch)
        if moved is None:
            logger.debug("%s: ignoring the outdated ISR %s", partition, outcome)
            self._count(self.failures)
            return
        logger.info("%s: ISR updated to %s and version updated to %d", partition, outcome.isr, outcome.partition_epoch)
        self._count(self.expands if proposal.isr_state.phase is IsrPhase.PENDING_EXPAND else self.shrinks)
        # Not only the watermark decides: a waiting produce is also answered by the number of in-sync replicas.
        self._wake(partition.topic_partition)

    def _fail(self, partition: Partition, proposal: LeaderState, error: ApiError) -> None:
        self._count(self.failures)
        if error.code in CERTAINLY_NOT_WRITTEN:
            _finish_proposal(partition, proposal, None, proposal.partition_epoch)
            logger.info("%s: the controller rejected the change of in-sync replicas: %s", partition, error)
            # The watermark has waited for the replica that was to join.
            self._wake(partition.topic_partition)
        elif error.code in FINAL:
            logger.debug(
                "%s: changing in-sync replicas failed, waiting for the controller's LeaderAndIsr: %s", partition, error
            )
        else:
            # The error leaves open whether the change was written: the same proposal is sent again, unless the
            # controller has replaced the state meanwhile.
            state = partition.state
            if state is not None and state.isr_state is proposal.isr_state:
                logger.warning("%s: changing in-sync replicas failed, retrying: %s", partition, error)
                self.submit(partition, proposal)

    def _count(self, meter: Meter) -> None:
        with self._lock:
            meter.count += 1
