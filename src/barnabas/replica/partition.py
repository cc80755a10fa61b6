"""One partition on this broker: its leadership, its log, and the rules between the two.

Called by ReplicaManager on handler and processor threads, and by the controller's channel when leadership changes.
`_lock` serialises leadership changes; appends hold the log's lock only and re-check the state under it; reads hold
nothing. Lock order: partition before log.

Kafka: kafka.cluster.Partition.
"""

from __future__ import annotations

import logging
from typing import Any

from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.inter_broker import LeaderAndIsrRequest
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.replica.epoch_end_offset import EpochEndOffset
from barnabas.replica.leader_state import LeaderState
from barnabas.runtime.lock_order import LockRank, ranked_lock
from barnabas.storage.fetch_data import FetchDataInfo, FetchIsolation
from barnabas.storage.log_append_info import AppendOrigin, LogAppendInfo
from barnabas.storage.log_offset_metadata import LogOffsetMetadata
from barnabas.storage.unified_log import UnifiedLog

logger = logging.getLogger(__name__)

PartitionState = LeaderAndIsrRequest.LeaderAndIsrPartitionState

NO_EPOCH = -1
"""A client that knows no leader epoch sends this, and is not fenced."""

HIGH_WATERMARK = -1
"""DeleteRecords: everything below the high watermark."""


class Partition:
    """A replica of a partition, leader or follower.

    log: the local log; set before the first state and never changed while the partition lives.
    """

    __slots__ = ("_lock", "local_broker_id", "log", "state", "topic_id", "topic_partition")

    def __init__(self, topic_partition: TopicPartition, topic_id: bytes, local_broker_id: int, log: UnifiedLog) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.local_broker_id = local_broker_id
        self.log = log
        self.state: LeaderState | None = None
        self._lock = ranked_lock(LockRank.PARTITION)

    @property
    def is_leader(self) -> bool:
        """Whether this broker leads the partition now."""
        state = self.state
        return state is not None and state.is_leader

    def make_leader(self, told: PartitionState, controller_epoch: int) -> None:
        """Become (or stay) leader as the controller says.

        A new epoch starts at the log's end: it is written to the leader epoch cache, which fences what followers
        may have beyond it (KIP-101).
        """
        with self._lock:
            before = self.state
            is_new = before is None or not before.is_leader or before.leader_epoch != told.leader_epoch
            start_offset = self.log.log_end_offset if is_new or before is None else before.start_offset
            if is_new:
                self.log.assign_epoch_start_offset(told.leader_epoch, start_offset)
            with self.log.lock:
                self.state = self._state_of(told, controller_epoch, is_leader=True, start_offset=start_offset)
            if len(told.isr) == 1:
                self.log.raise_high_watermark_to_end()

    def make_follower(self, told: PartitionState, controller_epoch: int) -> None:
        """Stop leading. Appends that wait for the log lock find the new state."""
        with self._lock, self.log.lock:
            self.state = self._state_of(told, controller_epoch, is_leader=False, start_offset=-1)

    def retire(self) -> None:
        """The replica is deleted or its directory failed: nothing is appended from here on."""
        with self._lock, self.log.lock:
            self.state = None

    def append_records_to_leader(
        self, records: Any, required_acks: int, origin: AppendOrigin = AppendOrigin.CLIENT
    ) -> LogAppendInfo:
        """Append a produced batch and move the high watermark.

        Order (article-facts P3): am I leader -> min ISR -> append -> may the high watermark rise. The log validates
        without its lock; under it, before anything is written, it asks whether this leadership still holds. Raises
        ApiError: NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS, and what validation and storage raise. The caller wakes
        whoever waits once it holds no lock; `leader_hw_increased` of the answer says whether the watermark rose.
        """
        log = self.log
        state = self.state
        if state is None or not state.is_leader:
            raise self._not_leader()
        if required_acks == -1 and len(state.isr) < log.config.min_in_sync_replicas:
            raise ApiError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"The size of the current ISR {sorted(state.isr)} is insufficient to satisfy the min.isr "
                f"requirement of {log.config.min_in_sync_replicas} for partition {self}",
            )

        def still_leads() -> None:
            if self.state is not state:
                self._check_same_leadership(state)

        info = log.append_as_leader(records, state.leader_epoch, origin=origin, guard=still_leads)
        # The watermark is the smallest log end offset in the ISR: ours, while the ISR (as of now) is this broker alone.
        now = self.state
        if now is not None and len(now.isr) == 1:
            info.leader_hw_increased = log.raise_high_watermark_to_end()
        return info

    def read_records(
        self,
        fetch_offset: int,
        max_bytes: int,
        isolation: FetchIsolation,
        *,
        current_leader_epoch: int = NO_EPOCH,
        min_one_message: bool = True,
    ) -> FetchDataInfo:
        """Read from the local log, whole batches from `fetch_offset` on.

        Raises ApiError: NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, OFFSET_OUT_OF_RANGE.
        """
        self.check_leader_epoch(current_leader_epoch)
        return self.log.read(fetch_offset, max_bytes, isolation, min_one_message=min_one_message)

    def check_leader_epoch(self, current_leader_epoch: int, *, leader_only: bool = True) -> LeaderState:
        """Fence a request by the leader epoch its client knows (KIP-320), and by our leadership."""
        state = self.state
        if state is None:
            raise self._not_leader()
        if current_leader_epoch not in (NO_EPOCH, state.leader_epoch):
            code = (
                ErrorCode.FENCED_LEADER_EPOCH
                if current_leader_epoch < state.leader_epoch
                else ErrorCode.UNKNOWN_LEADER_EPOCH
            )
            raise ApiError(code)
        if leader_only and not state.is_leader:
            raise self._not_leader()
        return state

    def last_offset_for_leader_epoch(
        self, current_leader_epoch: int, leader_epoch: int, *, leader_only: bool = True
    ) -> EpochEndOffset:
        """Where the largest epoch not above `leader_epoch` ends; the error in it when this broker may not say."""
        try:
            self.check_leader_epoch(current_leader_epoch, leader_only=leader_only)
        except ApiError as refused:
            return EpochEndOffset(refused.code)
        found = self.log.end_offset_for_epoch(leader_epoch)
        return EpochEndOffset() if found is None else EpochEndOffset(ErrorCode.NONE, *found)

    def end_offset_metadata(self, isolation: FetchIsolation) -> LogOffsetMetadata:
        """Up to where a fetch of this isolation may read, with the position in the log."""
        if isolation is FetchIsolation.LOG_END:
            return self.log.log_end_offset_metadata
        if isolation is FetchIsolation.TXN_COMMITTED:
            return self.log.last_stable_offset_metadata
        return self.log.high_watermark_metadata

    def delete_records_on_leader(self, offset: int) -> int:
        """Raise the log start offset to `offset` (-1: the high watermark); returns the offset that was meant.

        Raises ApiError: NOT_LEADER_OR_FOLLOWER, POLICY_VIOLATION, OFFSET_OUT_OF_RANGE. Kafka: deleteRecordsOnLeader.
        """
        if not self.is_leader:
            raise self._not_leader()
        if "delete" not in self.log.config.cleanup_policy:
            raise ApiError(
                ErrorCode.POLICY_VIOLATION,
                f"Records of partition {self} can not be deleted due to the configured policy",
            )
        wanted = self.log.high_watermark if offset == HIGH_WATERMARK else offset
        if wanted < 0:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE, f"The offset {wanted} for partition {self} is not valid")
        self.log.maybe_increment_log_start_offset(wanted, "client delete records request")
        return wanted

    def is_replicated_up_to(self, required_offset: int) -> ErrorCode | None:
        """Whether an acks=all append is done: NONE or an error when it is, None while it must wait.

        Kafka: Partition.checkEnoughReplicasReachOffset.
        """
        state = self.state
        if state is None or not state.is_leader:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if self.log.high_watermark < required_offset:
            return None
        if len(state.isr) < self.log.config.min_in_sync_replicas:
            return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return ErrorCode.NONE

    def _check_same_leadership(self, decided_on: LeaderState) -> None:
        """A changed ISR does not stop an append; a changed leadership does."""
        state = self.state
        if state is None or not state.is_leader or state.leader_epoch != decided_on.leader_epoch:
            raise self._not_leader()

    def _state_of(
        self, told: PartitionState, controller_epoch: int, *, is_leader: bool, start_offset: int
    ) -> LeaderState:
        return LeaderState(
            is_leader=is_leader,
            leader_id=told.leader,
            leader_epoch=told.leader_epoch,
            partition_epoch=told.partition_epoch,
            controller_epoch=controller_epoch,
            isr=frozenset(told.isr),
            replicas=tuple(told.replicas),
            start_offset=start_offset,
        )

    def _not_leader(self) -> ApiError:
        return ApiError(
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            f"Leader not local for partition {self} on broker {self.local_broker_id}",
        )

    def __str__(self) -> str:
        return f"{self.topic_partition.topic}-{self.topic_partition.partition}"
