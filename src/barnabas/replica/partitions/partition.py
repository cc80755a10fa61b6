"""One partition on this broker: its leadership, its log, and the rules between them.

Called by the parts of ReplicaManager on handler and processor threads. What fetches of followers change is in
`replica.isr`. `_lock` serialises leadership changes. `state`, the states of followers and the high
watermark change under the log's lock, so that no watermark is computed from in-sync replicas that have just changed.
Appends check the state again under the log's lock; reads hold no lock. Lock order: partition before log. No delayed
operation is completed and no proposal submitted in here: methods return what moved, and callers act when they hold no
lock.

An append and a change of leadership, side by side:

    handler thread                          controller's order
    state A: leader in epoch 5
    validate the batch, no lock
                                            make_follower: log's lock, state B, epoch 6
    log's lock: state is not A any more,
    and not leader: NOT_LEADER_OR_FOLLOWER,
    before a byte is written

Kafka: kafka.cluster.Partition, OffsetForLeaderEpochResponseData.EpochEndOffset.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.inter_broker import LeaderAndIsrRequest
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.record_batch import BatchHeader
from barnabas.replica.partitions.follower_state import Follower
from barnabas.replica.partitions.isr_state import committed
from barnabas.replica.partitions.leader_state import LeaderState, Reassignment
from barnabas.runtime.clock import NANOSECONDS_PER_MILLISECOND, Clock
from barnabas.runtime.lock_order import LockRank, ranked_lock
from barnabas.storage.fetch_data import FetchIsolation
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.log_append_info import AppendGate, AppendOrigin, LogAppendInfo
from barnabas.storage.log_offset_metadata import LogOffsetMetadata
from barnabas.storage.producers.entry import Verification

if TYPE_CHECKING:
    from mypy_extensions import i64

logger = logging.getLogger(__name__)

PartitionState = LeaderAndIsrRequest.LeaderAndIsrPartitionState

NO_EPOCH: Final = -1
"""The leader epoch in a request of a client that knows none. Such a request is not fenced."""

HIGH_WATERMARK: Final = -1
"""The offset in DeleteRecords that means: everything below the high watermark."""

_NONE: Final = ErrorCode.NONE
_NOT_LEADER: Final = ErrorCode.NOT_LEADER_OR_FOLLOWER
_CLIENT: Final = AppendOrigin.CLIENT
_LOG_END: Final = FetchIsolation.LOG_END
_UNDEFINED_EPOCH: Final = -1
_UNDEFINED_EPOCH_OFFSET: Final = -1


class EpochEndOffset(NamedTuple):
    """The answer to OffsetForLeaderEpoch: the largest epoch not above the requested one, and the offset behind it.

    -1 and -1 when the log knows neither.
    """

    error: ErrorCode = ErrorCode.NONE
    leader_epoch: int = _UNDEFINED_EPOCH
    end_offset: int = _UNDEFINED_EPOCH_OFFSET


class PartitionEnvironment:
    """The values that all partitions of a broker share: its id, its time, and its rules for followers.

    Made by ReplicaManager. max_lag_ms: `replica.lag.time.max.ms`. is_alive: whether the metadata says that a broker is
    alive.
    """

    __slots__ = ("_nanoseconds", "broker_id", "is_alive", "max_lag_ms")

    def __init__(self, broker_id: int, clock: Clock, max_lag_ms: i64, is_alive: Callable[[int], bool]) -> None:
        self.broker_id = broker_id
        self.max_lag_ms: i64 = max_lag_ms
        self.is_alive = is_alive
        self._nanoseconds = clock.nanoseconds

    def monotonic_ms(self) -> i64:
        """Return the time for measuring how far followers are behind, which no step of the machine's clock moves."""
        return self._nanoseconds() // NANOSECONDS_PER_MILLISECOND


class Partition(AppendGate):
    """A replica of a partition, leader or follower; the gate of what it appends to its log.

    log: the local log; set before the first state and never changed while the partition lives. state: replaced under
    the log's lock only, here and in `isr_updates`.
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
        """The id of this broker."""
        return self.environment.broker_id

    @property
    def is_leader(self) -> bool:
        """Whether this broker leads the partition now."""
        state = self.state
        return state is not None and state.is_leader

    # -- leadership

    def make_leader(self, order: PartitionState, controller_epoch: int) -> None:
        """Become (or stay) leader as the controller says.

        A new epoch starts at the end of the log. It is written to the leader epoch cache, by which followers find out
        what they have to truncate (KIP-101). An order with an older partition epoch than the known one is skipped: the
        in-sync replicas were changed since.
        """
        with self._lock, self.log.lock:
            before = self.state
            if before is not None and order.partition_epoch < before.partition_epoch:
                logger.info("%s: skipped becoming leader in partition epoch %d", self, order.partition_epoch)
                return
            was_leader = before is not None and before.is_leader
            if before is None or not before.is_leader or before.leader_epoch != order.leader_epoch:
                start_offset = self.log.log_end_offset
                self.log.assign_epoch(order.leader_epoch, start_offset)
                followers = self._followers(order, before)
                self._reset_followers(followers, start_offset, order.isr, is_new_leader=not was_leader)
            else:
                # The same epoch with another ISR or assignment: the start and the known positions of followers stay
                # valid.
                start_offset = before.start_offset
                followers = self._followers(order, before)
            self.state = self._state_of(order, controller_epoch, start_offset=start_offset, followers=followers)
            # The watermark may have waited for a replica that has just left the ISR.
            self.increment_high_watermark()

    def make_follower(self, order: PartitionState, controller_epoch: int) -> bool:
        """Stop leading. Appends that wait for the log's lock will find the new state and be rejected.

        Returns False for an order with an older partition epoch than the known one, which is skipped.
        """
        with self._lock, self.log.lock:
            before = self.state
            if before is not None and order.partition_epoch < before.partition_epoch:
                logger.info("%s: skipped becoming follower in partition epoch %d", self, order.partition_epoch)
                return False
            self.state = self._state_of(order, controller_epoch, start_offset=-1, followers={})
            return True

    def retire(self) -> None:
        """Reject appends from here on: the replica is deleted, or its directory has failed."""
        with self._lock, self.log.lock:
            self.state = None

    def check_leader_epoch(self, current_leader_epoch: int, *, leader_only: bool = True) -> LeaderState:
        """Return the state, if the request's leader epoch is the current one (KIP-320) and this broker leads.

        Raises ApiError: FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH when the client knows an older or a newer epoch,
        NOT_LEADER_OR_FOLLOWER when this broker does not lead, or, unless `leader_only`, does not follow either.
        """
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
        """Return where the largest epoch not above `leader_epoch` ends, or the error why this broker cannot say."""
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
        origin: AppendOrigin = _CLIENT,
        header: BatchHeader | None = None,
        body: bytes | None = None,
    ) -> LogAppendInfo:
        """Append a produced batch and move the high watermark. header, body: as in `UnifiedLog.append_as_leader`.

        The order (docs/kafka-facts.md, order at the partition) is: check leadership, check the minimum ISR, append,
        raise the high watermark if possible. The log validates without its lock. Under the lock, before a byte is
        written, it asks `admits`, which checks that this leadership still holds. `leader_hw_increased` of the result
        says whether the watermark rose; the caller retries delayed operations when it holds no lock.

        Raises ApiError: NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS, and the errors of validation and storage.
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

        info = log.append_as_leader(records, state.leader_epoch, origin=origin, admit=self, header=header, body=body)
        # In-sync followers lack what was just appended, so the watermark waits for their fetches.
        if not info.leader_hw_increased and len(state.maximal_isr) == 1:
            info.leader_hw_increased = self.increment_high_watermark()
        return info

    def admits(self, leader_epoch: int) -> bool:
        """Return whether a batch is committed once it is in the log: this broker is the only replica.

        A changed ISR does not stop an append, a changed leadership does.
        Raises ApiError: NOT_LEADER_OR_FOLLOWER when this broker does not lead in this epoch any more.
        """
        state = self.state
        if state is None or not state.is_leader or state.leader_epoch != leader_epoch:
            raise self._not_leader()
        return not state.followers

    def begin_verification(
        self, producer_id: int, producer_epoch: int, base_sequence: int, *, is_required: bool = False
    ) -> Verification | None:
        """Return the verification that a transactional batch needs before its append; None when it needs none.

        is_required: also where verification is switched off. Raises ApiError: NOT_LEADER_OR_FOLLOWER.
        """
        if not self.is_leader:
            raise self._not_leader()
        return self.log.producers.begin_verification(
            producer_id, producer_epoch, base_sequence, is_required=is_required
        )

    def is_replicated_up_to(self, required_offset: i64) -> ErrorCode | None:
        """Return NONE or an error when an append with acks=all is decided, or None while it must wait.

        Kafka: Partition.checkEnoughReplicasReachOffset.
        """
        state = self.state
        if state is None or not state.is_leader:
            return _NOT_LEADER
        if self.log.bounds.high_watermark.message_offset < required_offset:
            return None
        # The maximal ISR, as in Kafka: the watermark has waited for replicas that are joining too, so they have the
        # records.
        if state.are_too_few(state.maximal_isr, self.log.config.min_in_sync_replicas):
            return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return _NONE

    # -- reading

    def end_offset_metadata(self, isolation: FetchIsolation) -> LogOffsetMetadata:
        """Return up to where a fetch of this isolation may read; its place in the log may be unknown (`end_place`)."""
        return self.log.local.end if isolation is _LOG_END else self.log.bounds.limit(isolation)

    def end_place(self, isolation: FetchIsolation) -> LogOffsetMetadata:
        """Return the same with its place. Raises ApiError: KAFKA_STORAGE_ERROR, CORRUPT_MESSAGE."""
        return self.log.local.end if isolation is _LOG_END else self.log.placed_bounds().limit(isolation)

    def diverging_epoch(self, last_fetched_epoch: int, fetch_offset: i64) -> tuple[int, int] | None:
        """Return where a reader's log diverges from this one, as (epoch, end offset), or None when it does not.

        The reader says the epoch of its last record. Raises ApiError: OFFSET_OUT_OF_RANGE when this log does not know
        that epoch, or the reader is behind the start of the log. Kafka: the first half of Partition.readRecords.
        """
        log = self.log
        if (
            last_fetched_epoch == log.leader_epochs.latest_epoch
            and log.bounds.start <= fetch_offset <= log.local.end.message_offset
        ):
            # What the rest would find, for every reader that is up to date.
            return None
        end = log.end_offset_for_epoch(last_fetched_epoch)
        if end is None or end.epoch < 0:
            raise ApiError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"Could not determine the end offset of the last fetched epoch {last_fetched_epoch} from the request",
            )
        epoch, end_offset = end
        start_offset = log.log_start_offset
        if fetch_offset < start_offset:
            raise ApiError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"Received request for offset {fetch_offset} for partition {self}, but we only have log segments in "
                f"the range {start_offset} to {log.log_end_offset}.",
            )
        # The reader has an epoch that this log lacks, or more records of an epoch than this log: both have to be
        # truncated.
        if epoch < last_fetched_epoch or end_offset < fetch_offset:
            return epoch, end_offset
        return None

    # -- followers

    def is_adding(self, replica_id: int) -> bool:
        """Return whether a reassignment is adding this replica. Kafka: isAddingReplica."""
        state = self.state
        return state is not None and replica_id in state.adding

    def _followers(self, order: PartitionState, before: LeaderState | None) -> dict[int, Follower]:
        """Return the followers of the new assignment. A follower that was known keeps its state."""
        known: dict[int, Follower] = {} if before is None else before.followers
        others = [replica for replica in order.replicas if replica != self.local_broker_id]
        return {replica: known.get(replica) or Follower(replica) for replica in others}

    def _reset_followers(
        self, followers: dict[int, Follower], end_offset: int, isr: list[int], *, is_new_leader: bool
    ) -> None:
        now_ms = self.environment.monotonic_ms()
        for replica, follower in followers.items():
            follower.state = follower.state_by_now.after_election(
                now_ms, end_offset, is_new_leader=is_new_leader, is_in_sync=replica in isr
            )

    # -- watermarks, deletion

    def increment_high_watermark(self) -> bool:
        """Raise the high watermark to what all in-sync replicas have, and return whether it moved.

        Followers about to join the ISR count too. Kafka: maybeIncrementLeaderHW.
        """
        with self.log.lock:
            state = self.state
            if state is None or not state.is_leader:
                return False
            if not state.followers:
                return self.log.raise_high_watermark_to_end()
            return self.follow_in_sync_replicas(state, self.environment.monotonic_ms())

    def follow_in_sync_replicas(self, state: LeaderState, now_ms: i64) -> bool:
        """Do the same where there are followers. state: the leadership of now. The caller holds the log's lock."""
        log = self.log
        # KIP-966 (KAFKA-15583): below `min.insync.replicas` the watermark stands still, since a record that too few
        # replicas hold must not become visible.
        if state.are_too_few(state.isr, log.config.min_in_sync_replicas):
            return False
        return log.maybe_increment_high_watermark(self._smallest_log_end(state, now_ms)) is not None

    def _smallest_log_end(self, state: LeaderState, now_ms: i64) -> LogOffsetMetadata:
        """Return the smallest log end of all replicas that are or may be in sync: the new high watermark.

        It waits also for a follower outside of the ISR that is about to join: it has everything, or had lately, and is
        alive. Without that the high watermark would stay ahead of a follower that catches up, which could then never
        join. An example:

            replica       log end
            1, leader     30
            2, in sync    25
            3, outside    24, caught up: the high watermark waits for it and is 24
            4, outside    10, lagging: the high watermark does not wait for it

        Kafka: maybeIncrementLeaderHW.
        """
        smallest = leader_end = self.log.local.end
        maximal = state.maximal_isr
        environment = self.environment
        for replica, follower in state.followers.items():
            log_end = follower.state.log_end
            if log_end.message_offset < smallest.message_offset and (
                replica in maximal
                or (
                    follower.state_by_now.is_caught_up(leader_end.message_offset, now_ms, environment.max_lag_ms)
                    and environment.is_alive(replica)
                )
            ):
                smallest = log_end
        return smallest

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
        """Raise the log start offset to `offset` (-1: the high watermark), and return that offset.

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
        """Whether the ISR has fewer replicas than the assignment."""
        state = self.state
        return state is not None and state.is_leader and state.replication_factor > len(state.isr)

    @property
    def is_under_min_isr(self) -> bool:
        """Whether acks=all is rejected."""
        return self._isr_above_minimum() < 0

    @property
    def is_at_min_isr(self) -> bool:
        """Whether acks=all will be rejected when the ISR loses one more replica."""
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

    def _state_of(
        self, order: PartitionState, controller_epoch: int, *, start_offset: int, followers: dict[int, Follower]
    ) -> LeaderState:
        is_leader = order.leader == self.local_broker_id
        return LeaderState(
            is_leader=is_leader,
            leader_id=order.leader,
            leader_epoch=order.leader_epoch,
            partition_epoch=order.partition_epoch,
            controller_epoch=controller_epoch,
            isr_state=committed(order.isr),
            replicas=tuple(order.replicas),
            start_offset=start_offset,
            followers=followers,
            reassignment=Reassignment(tuple(order.adding_replicas), tuple(order.removing_replicas)),
        )

    def _not_leader(self) -> ApiError:
        return ApiError(
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            f"Leader not local for partition {self} on broker {self.local_broker_id}",
        )

    def __str__(self) -> str:
        return f"{self.topic_partition.topic}-{self.topic_partition.partition}"
