"""Changes of in-sync replicas, from the proposal of a partition to its outcome.

`IsrUpdates` is a part of ReplicaManager. The thread that reads for a follower calls `submit`, the scheduler calls
`shrink_lagging`, and the outcome arrives on the thread of the AlterPartitionManager; none of them holds a lock. `_lock`
guards the counters.

Kafka: Partition.submitAlterPartition, ReplicaManager.maybeShrinkIsr, AlterPartitionListener.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable

from barnabas.metrics.meter import Meter
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.replica.alter_partition_manager import AlterPartitionManager, IsrChange
from barnabas.replica.isr_proposals import finish, propose_shrink
from barnabas.replica.isr_state import IsrPhase
from barnabas.replica.leader_state import LeaderState
from barnabas.replica.partition import Partition
from barnabas.zk.leader_and_isr import LeaderAndIsr

logger = logging.getLogger(__name__)

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


class IsrUpdates:
    """The submission of proposals, and the application of their outcomes.

    wake: retries the delayed operations that wait for a partition.
    """

    def __init__(self, manager: AlterPartitionManager, wake: Callable[[TopicPartition], None]) -> None:
        self._manager = manager
        self._wake = wake
        self._lock = threading.Lock()
        self.shrinks = Meter()
        self.expands = Meter()
        self.failures = Meter()

    def shrink_lagging(self, partitions: Iterable[Partition]) -> None:
        """Ask to remove followers that lag from the in-sync replicas of every partition led here."""
        for partition in partitions:
            proposal = propose_shrink(partition)
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
        self._manager.submit(
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
            moved = finish(partition, proposal, outcome.isr, outcome.partition_epoch)
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
            finish(partition, proposal, None, proposal.partition_epoch)
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
