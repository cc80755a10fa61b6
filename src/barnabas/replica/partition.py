"""One partition on this broker: its leadership, its log, and the rules between them.

Called by ReplicaManager's parts on handler and processor threads, and by the controller's channel when leadership
changes; what followers' fetches change is in `followers` and `isr_proposals`. `_lock` serialises leadership changes.
`state`, what is known of followers and the high watermark change under the log's lock, so that no watermark is computed
from in-sync replicas that have just changed; appends re-check the state under it; reads hold nothing. Lock order:
partition before log. Nothing is completed or submitted in here: methods say what moved, and callers act once they hold
no lock.

Kafka: kafka.cluster.Partition.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.inter_broker import LeaderAndIsrRequest
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.batch_header import BatchHeader
from barnabas.replica.epoch_end_offset import EpochEndOffset
from barnabas.replica.follower_state import Follower
from barnabas.replica.isr_state import committed
from barnabas.replica.leader_state import LeaderState, Reassignment
from barnabas.replica.partition_environment import PartitionEnvironment
from barnabas.runtime.lock_order import LockRank, ranked_lock
from barnabas.storage.fetch_data import FetchIsolation
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.log_append_info import AppendOrigin, LogAppendInfo
from barnabas.storage.log_offset_metadata import LogOffsetMetadata

logger = logging.getLogger(__name__)

PartitionState = LeaderAndIsrRequest.LeaderAndIsrPartitionState

NO_EPOCH: Final = -1
"""A client that knows no leader epoch sends this, and is not fenced."""

HIGH_WATERMARK: Final = -1
"""DeleteRecords: everything below the high watermark."""


class Partition:
    """A replica of a partition, leader or follower.

    log: the local log; set before the first state and never changed while the partition lives. state: replaced under
    the log's lock only, here and in `isr_proposals`.
    """

    __slots__ = ("_lock", "environment", "log", "state", "topic_id", "topic_partition")

    def __init__(
        self, topic_partition: TopicPartition, topic_id: bytes, environment: PartitionEnvironment, log: UnifiedLog
    ) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.log = log
        self.state: LeaderState | None = None
        self.environment = environment
        self._lock = ranked_lock(LockRank.PARTITION)

    @property
    def local_broker_id(self) -> int:
        """This broker."""
        return self.environment.broker_id

    @property
    def is_leader(self) -> bool:
        """Whether this broker leads the partition now."""
        state = self.state
        return state is not None and state.is_leader

    # -- leadership

    def make_leader(self, told: PartitionState, controller_epoch: int) -> None:
        """Become (or stay) leader as the controller says.

        A new epoch starts at the log's end: it is written to the leader epoch cache, which fences what followers
        may have beyond it (KIP-101). An order of an older partition epoch than ours is skipped: the in-sync replicas
        were changed since.
        """
        with self._lock, self.log.lock:
            before = self.state
            if before is not None and told.partition_epoch < before.partition_epoch:
                logger.info("%s: skipped becoming leader in partition epoch %d", self, told.partition_epoch)
                return
            was_leader = before is not None and before.is_leader
            if before is None or not before.is_leader or before.leader_epoch != told.leader_epoch:
                start_offset = self.log.log_end_offset
                self.log.assign_epoch_start_offset(told.leader_epoch, start_offset)
                followers = self._followers(told, before)
                self._reset_followers(followers, start_offset, told.isr, is_new_leader=not was_leader)
            else:
                start_offset = before.start_offset
                followers = self._followers(told, before)
            self.state = self._state_of(told, controller_epoch, start_offset=start_offset, followers=followers)
            self.increment_high_watermark()

    def make_follower(self, told: PartitionState, controller_epoch: int) -> None:
        """Stop leading. Appends that wait for the log lock find the new state."""
        with self._lock, self.log.lock:
            before = self.state
            if before is not None and told.partition_epoch < before.partition_epoch:
                logger.info("%s: skipped becoming follower in partition epoch %d", self, told.partition_epoch)
                return
            self.state = self._state_of(told, controller_epoch, start_offset=-1, followers={})

    def retire(self) -> None:
        """The replica is deleted or its directory failed: nothing is appended from here on."""
        with self._lock, self.log.lock:
            self.state = None

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

    # -- appending

    def append_records_to_leader(
        self,
        records: Any,
        required_acks: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        header: BatchHeader | None = None,
        body: bytes | None = None,
    ) -> LogAppendInfo:
        """Append a produced batch and move the high watermark. header, body: as in `UnifiedLog.append_as_leader`.

        Order (article-facts P3): am I leader -> min ISR -> append -> may the high watermark rise. The log validates
        without its lock; under it, before anything is written, it asks whether this leadership still holds. Raises
        ApiError: NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS, and what validation and storage raise. The caller wakes
        whoever waits once it holds no lock; `leader_hw_increased` of the answer says whether the watermark rose.
        """
        log = self.log
        state = self.state
        if state is None or not state.is_leader:
            raise self._not_leader()
        if required_acks == -1 and state.are_too_few(state.isr, log.config.min_in_sync_replicas):
            raise ApiError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"The size of the current ISR {sorted(state.isr)} is insufficient to satisfy the min.isr "
                f"requirement of {state.effective_min_isr(log.config.min_in_sync_replicas)} for partition {self}",
            )

        def admit() -> bool:
            # Without followers an append commits: the log raises the watermark under the lock it holds.
            now = state if self.state is state else self._check_same_leadership(state)
            return not now.followers

        info = log.append_as_leader(records, state.leader_epoch, origin=origin, admit=admit, header=header, body=body)
        if not info.leader_hw_increased:
            info.leader_hw_increased = self.increment_high_watermark()
        return info

    def is_replicated_up_to(self, required_offset: int) -> ErrorCode | None:
        """Whether an acks=all append is done: NONE or an error when it is, None while it must wait.

        Kafka: Partition.checkEnoughReplicasReachOffset.
        """
        state = self.state
        if state is None or not state.is_leader:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if self.log.high_watermark < required_offset:
            return None
        if state.are_too_few(state.maximal_isr, self.log.config.min_in_sync_replicas):
            return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return ErrorCode.NONE

    # -- reading

    def end_offset_metadata(self, isolation: FetchIsolation) -> LogOffsetMetadata:
        """Up to where a fetch of this isolation may read, with the position in the log."""
        if isolation is FetchIsolation.LOG_END:
            return self.log.local.end
        if isolation is FetchIsolation.TXN_COMMITTED:
            return self.log.bounds.last_stable
        return self.log.bounds.high_watermark

    def diverging_epoch(self, last_fetched_epoch: int, fetch_offset: int) -> tuple[int, int] | None:
        """Where a reader's log parts from this one, as (epoch, end offset); None when it does not.

        The reader says the epoch of its last record. Raises ApiError: OFFSET_OUT_OF_RANGE where nothing is known of
        that epoch or the reader is behind the log's start. Kafka: the first half of Partition.readRecords.
        """
        end = self.log.end_offset_for_epoch(last_fetched_epoch)
        if end is None or end.epoch < 0:
            raise ApiError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"Could not determine the end offset of the last fetched epoch {last_fetched_epoch} from the request",
            )
        epoch, end_offset = end
        start_offset = self.log.log_start_offset
        if fetch_offset < start_offset:
            raise ApiError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"Received request for offset {fetch_offset} for partition {self}, but we only have log segments in "
                f"the range {start_offset} to {self.log.log_end_offset}.",
            )
        if epoch < last_fetched_epoch or end_offset < fetch_offset:
            return epoch, end_offset
        return None

    # -- followers

    def _followers(self, told: PartitionState, before: LeaderState | None) -> Mapping[int, Follower]:
        """The followers as assigned now; those known keep what is known of them."""
        known: Mapping[int, Follower] = {} if before is None else before.followers
        others = [replica for replica in told.replicas if replica != self.local_broker_id]
        return {replica: known.get(replica) or Follower(replica) for replica in others}

    def _reset_followers(
        self, followers: Mapping[int, Follower], end_offset: int, isr: list[int], *, is_new_leader: bool
    ) -> None:
        now_ms = self.environment.clock.milliseconds()
        for replica, follower in followers.items():
            follower.state = follower.state.after_election(
                now_ms, end_offset, is_new_leader=is_new_leader, is_in_sync=replica in isr
            )

    # -- watermarks, deletion

    def increment_high_watermark(self) -> bool:
        """Raise the high watermark to what all in-sync replicas have, and those about to join; True if it moved.

        Kafka: maybeIncrementLeaderHW.
        """
        log = self.log
        with log.lock:
            state = self.state
            if state is None or not state.is_leader:
                return False
            if not state.followers:
                return log.raise_high_watermark_to_end()
            if state.are_too_few(state.isr, log.config.min_in_sync_replicas):
                return False
            environment = self.environment
            end = log.local.end
            now_ms = environment.clock.milliseconds()

            def waits_for(follower: Follower) -> bool:
                return follower.state.is_caught_up(
                    end.message_offset, now_ms, environment.max_lag_ms
                ) and environment.is_alive(follower.broker_id)

            return log.maybe_increment_high_watermark(state.smallest_log_end(end, waits_for)) is not None

    @property
    def low_watermark(self) -> int:
        """The smallest log start offset of this and all live replicas. Kafka: lowWatermarkIfLeader."""
        state = self.state
        lowest = self.log.log_start_offset
        if state is not None:
            for replica, follower in state.followers.items():
                start = follower.state.log_start_offset
                if start < lowest and self.environment.is_alive(replica):
                    lowest = start
        return lowest

    def delete_records_on_leader(self, offset: int) -> int:
        """Raise the log start offset to `offset` (-1: the high watermark); returns the offset that was meant.

        Raises ApiError: NOT_LEADER_OR_FOLLOWER, POLICY_VIOLATION, OFFSET_OUT_OF_RANGE. Kafka: deleteRecordsOnLeader.
        """
        if not self.is_leader:
            raise self._not_leader()
        if not self.log.config.is_deleted_by_age_or_size:
            raise ApiError(
                ErrorCode.POLICY_VIOLATION,
                f"Records of partition {self} can not be deleted due to the configured policy",
            )
        wanted = self.log.high_watermark if offset == HIGH_WATERMARK else offset
        if wanted < 0:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE, f"The offset {wanted} for partition {self} is not valid")
        self.log.maybe_increment_log_start_offset(wanted, "client delete records request")
        return wanted

    # -- gauges

    @property
    def is_under_replicated(self) -> bool:
        """Whether replicas are missing in the ISR."""
        state = self.state
        return state is not None and state.is_leader and state.replication_factor > len(state.isr)

    @property
    def is_under_min_isr(self) -> bool:
        """Whether acks=all is refused."""
        return self._isr_above_minimum() < 0

    @property
    def is_at_min_isr(self) -> bool:
        """Whether acks=all is refused once another replica is lost."""
        return self._isr_above_minimum() == 0

    @property
    def is_reassigning(self) -> bool:
        """Whether the controller is moving replicas."""
        state = self.state
        return state is not None and any(state.reassignment)

    def _isr_above_minimum(self) -> int:
        state = self.state
        if state is None or not state.is_leader:
            return 1
        return len(state.isr) - state.effective_min_isr(self.log.config.min_in_sync_replicas)

    def _check_same_leadership(self, decided_on: LeaderState) -> LeaderState:
        """A changed ISR does not stop an append; a changed leadership does. The state that holds now."""
        state = self.state
        if state is None or not state.is_leader or state.leader_epoch != decided_on.leader_epoch:
            raise self._not_leader()
        return state

    def _state_of(
        self, told: PartitionState, controller_epoch: int, *, start_offset: int, followers: Mapping[int, Follower]
    ) -> LeaderState:
        is_leader = told.leader == self.local_broker_id
        return LeaderState(
            is_leader=is_leader,
            leader_id=told.leader,
            leader_epoch=told.leader_epoch,
            partition_epoch=told.partition_epoch,
            controller_epoch=controller_epoch,
            isr_state=committed(told.isr),
            replicas=tuple(told.replicas),
            start_offset=start_offset,
            followers=followers,
            reassignment=Reassignment(tuple(told.adding_replicas), tuple(told.removing_replicas)),
        )

    def _not_leader(self) -> ApiError:
        return ApiError(
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            f"Leader not local for partition {self} on broker {self.local_broker_id}",
        )

    def __str__(self) -> str:
        return f"{self.topic_partition.topic}-{self.topic_partition.partition}"
