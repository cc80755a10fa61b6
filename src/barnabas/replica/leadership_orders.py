"""The controller's orders about partitions and the cluster, and the listeners for changes of leadership.

`LeadershipOrders` is a part of ReplicaManager, called by the inter-broker handlers on handler threads.
`_state_change_lock` serialises the orders. It comes before the locks of fetchers, partitions and logs. Delayed
operations are retried, and listeners called, when the order is done and no lock is held. A partition is copied from no
leader while its role changes: the fetchers have stopped before, and those of its new leader begin afterwards.

Kafka: ReplicaManager.becomeLeaderOrFollower (callback onLeadershipChange), stopReplicas, maybeUpdateMetadataCache.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from barnabas.metadata.metadata_cache import MetadataCache
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.inter_broker import (
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.protocol.uuid import ZERO_UUID
from barnabas.replica.broker_topic_stats import BrokerTopicStats
from barnabas.replica.partitions.high_watermark_checkpoints import HighWatermarkCheckpoints
from barnabas.replica.partitions.hosted_partitions import HostedPartitions
from barnabas.replica.partitions.partition import Partition, PartitionEnvironment, PartitionState
from barnabas.replica.requests.waiting_requests import WaitingRequests
from barnabas.rpc.connection_states import Node
from barnabas.runtime.lazy import Lazy
from barnabas.runtime.lock_order import LockRank, ranked_lock
from barnabas.storage.errors import InconsistentTopicId
from barnabas.storage.log_manager import LogManager

if TYPE_CHECKING:
    from barnabas.replica.fetcher.fetcher_manager import ReplicaFetcherManager
    from barnabas.replica.log_dir_moves import LogDirMoves

logger = logging.getLogger(__name__)

LEADER_DURING_DELETE = -2
"""StopReplica's and UpdateMetadata's leader epoch or id for a topic that is being deleted (LeaderAndIsr.scala)."""


class LeadershipChange(NamedTuple):
    """Whether this broker leads the partition now. leader_epoch None: this broker does not host it any more."""

    topic_partition: TopicPartition
    is_leader: bool
    leader_epoch: int | None


LeadershipListener = Callable[[Sequence[LeadershipChange]], None]


class LeadershipListeners:
    """The listeners for changes of leadership: the coordinators, whose state belongs to partitions of internal topics.

    Added while the broker is put together, called on the thread of an order. Two orders may reach a listener in the
    wrong sequence: the leader epochs say which is newer.
    """

    def __init__(self) -> None:
        self._listeners: tuple[LeadershipListener, ...] = ()

    def add(self, listener: LeadershipListener) -> None:
        """Call `listener` with every change from now on, without locks. The listener must not block."""
        self._listeners = (*self._listeners, listener)

    def notify(self, changes: Sequence[LeadershipChange]) -> None:
        """Call every listener, unless there are no changes."""
        if changes:
            for listener in self._listeners:
                listener(changes)


@dataclass(slots=True)
class _Outcome:
    """What one LeaderAndIsr order has changed: acted on when all its partitions are done."""

    changed: list[TopicPartition] = field(default_factory=list)
    opened: dict[TopicPartition, Partition | None] = field(default_factory=dict)
    led: list[LeadershipChange] = field(default_factory=list)
    following: list[Partition] = field(default_factory=list)


class LeadershipOrders:
    """The execution of orders: lead or follow a partition, stop hosting it, learn of the cluster.

    An order of an older controller epoch is rejected.

    fetchers: copy the partitions that other brokers lead; made for the first order about a partition with replicas on
    other brokers, or without a leader here. moves: take logs into other log directories; made for the first move.
    """

    def __init__(
        self,
        environment: PartitionEnvironment,
        hosted: HostedPartitions,
        log_manager: LogManager,
        checkpoints: HighWatermarkCheckpoints,
        metadata: MetadataCache,
        waiting: WaitingRequests,
        stats: BrokerTopicStats,
        fetchers: Lazy[ReplicaFetcherManager],
        moves: Lazy[LogDirMoves],
    ) -> None:
        self._environment = environment
        self._hosted = hosted
        self._log_manager = log_manager
        self._checkpoints = checkpoints
        self._metadata = metadata
        self._waiting = waiting
        self._stats = stats
        self._fetchers = fetchers
        self._moves = moves
        self._state_change_lock = ranked_lock(LockRank.REPLICA_STATE_CHANGE)
        self._controller_epoch = 0
        self.listeners = LeadershipListeners()

    def apply_leader_and_isr(self, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
        """Become leader or follower of the partitions that the controller names.

        A request of an earlier controller is rejected as a whole with STALE_CONTROLLER_EPOCH. A partition state whose
        leader epoch is not newer than the known one is rejected alone, with the same error, as in Kafka.
        """
        outcome = _Outcome()
        own_id = self._environment.broker_id
        states = (state for topic_state in request.topic_states for state in topic_state.partition_states)
        if self._fetchers.made is None and any(state.leader != own_id or len(state.replicas) > 1 for state in states):
            # Before the lock is taken, since making them imports them.
            self._fetchers()
        with self._state_change_lock:
            if request.controller_epoch < self._controller_epoch:
                logger.warning(
                    "ignoring LeaderAndIsr of controller %d: its epoch %d is older than %d",
                    request.controller_id,
                    request.controller_epoch,
                    self._controller_epoch,
                )
                return LeaderAndIsrResponse(error_code=ErrorCode.STALE_CONTROLLER_EPOCH)
            self._controller_epoch = request.controller_epoch
            response = LeaderAndIsrResponse(error_code=ErrorCode.NONE)
            for topic_state in request.topic_states:
                errors = [
                    self._apply_partition_state(topic_state, state, request.controller_epoch, outcome)
                    for state in topic_state.partition_states
                ]
                response.topics.append(
                    LeaderAndIsrResponse.LeaderAndIsrTopicError(topic_id=topic_state.topic_id, partition_errors=errors)
                )
            # Once for the whole order: each call copies the map of topics.
            self._hosted.publish(outcome.opened)
            if (moves := self._moves.made) is not None:
                for partition in filter(None, outcome.opened.values()):
                    moves.resume(partition)
            if (fetchers := self._fetchers.made) is not None:
                # The order itself names the leaders' addresses.
                nodes = {
                    each.broker_id: Node(each.broker_id, each.host_name, each.port) for each in request.live_leaders
                }
                fetchers.follow_leaders(outcome.following, nodes)
                fetchers.end_idle_threads()
        self._waiting.wake_all(outcome.changed)
        self.listeners.notify(outcome.led)
        return response

    def stop_replicas(self, request: StopReplicaRequest) -> StopReplicaResponse:
        """Stop leading and following partitions.

        Those with `delete_partition` are deleted, their logs in the background. A partition that is stopped and not
        deleted stays in the high watermark checkpoint: the controller stops replicas of a broker that is about to shut
        down, and they are led again after its next start.
        """
        stopped: list[TopicPartition] = []
        deleted: dict[TopicPartition, Partition | None] = {}
        led: list[LeadershipChange] = []
        with self._state_change_lock:
            if request.controller_epoch < self._controller_epoch:
                return StopReplicaResponse(error_code=ErrorCode.STALE_CONTROLLER_EPOCH)
            self._controller_epoch = request.controller_epoch
            response = StopReplicaResponse(error_code=ErrorCode.NONE)
            for topic_state in request.topic_states:
                for state in topic_state.partition_states:
                    error = self._stop_replica(topic_state.topic_name, state)
                    if error is ErrorCode.NONE:
                        stopped.append(key := TopicPartition(topic_state.topic_name, state.partition_index))
                        # -1 and LEADER_DURING_DELETE are no epochs; None has the coordinators drop their state in any
                        # case.
                        epoch = state.leader_epoch if state.leader_epoch >= 0 else None
                        led.append(LeadershipChange(key, False, epoch))
                        if state.delete_partition:
                            deleted[key] = None
                    response.partition_errors.append(
                        StopReplicaResponse.StopReplicaPartitionError(
                            topic_name=topic_state.topic_name, partition_index=state.partition_index, error_code=error
                        )
                    )
            self._hosted.publish(deleted)
            if (fetchers := self._fetchers.made) is not None:
                fetchers.end_idle_threads()
        self._waiting.wake_all(stopped)
        self.listeners.notify(led)
        self._forget_topics(deleted)
        return response

    def alter_log_dirs(self, wanted: Mapping[TopicPartition, str]) -> dict[TopicPartition, ErrorCode]:
        """Move the logs of partitions into the log directories named, as LogDirMoves.alter.

        Not in the middle of an order: a partition that it deletes or opens must not begin to move.
        """
        moves = self._moves()
        with self._state_change_lock:
            return moves.alter(wanted)

    def update_metadata(self, request: UpdateMetadataRequest) -> UpdateMetadataResponse:
        """Update the metadata cache, unless the request comes from an earlier controller."""
        with self._state_change_lock:
            if request.controller_epoch < self._controller_epoch:
                return UpdateMetadataResponse(error_code=ErrorCode.STALE_CONTROLLER_EPOCH)
            self._controller_epoch = request.controller_epoch
        self._metadata.update_metadata(request)
        return UpdateMetadataResponse(error_code=ErrorCode.NONE)

    def _apply_partition_state(
        self,
        topic_state: LeaderAndIsrRequest.LeaderAndIsrTopicState,
        state: PartitionState,
        controller_epoch: int,
        outcome: _Outcome,
    ) -> LeaderAndIsrResponse.LeaderAndIsrPartitionError:
        key = TopicPartition(topic_state.topic_name, state.partition_index)
        error = ErrorCode.NONE
        try:
            hosted = self._hosted_for(key, topic_state.topic_id, state)
            partition = hosted or self._open_partition(key, topic_state.topic_id, is_new=state.is_new)
            if hosted is None:
                outcome.opened[key] = partition
            was_leader = partition.is_leader
            if state.leader == self._environment.broker_id:
                # Before it leads: nothing of an earlier leader may be written behind the start of this epoch.
                self._stop_copying([key])
                partition.make_leader(state, controller_epoch)
            elif partition.make_follower(state, controller_epoch):
                self._stop_copying([key])
                outcome.following.append(partition)
            if partition.is_leader is not was_leader:
                outcome.led.append(LeadershipChange(key, partition.is_leader, state.leader_epoch))
            # Whatever changed: a smaller ISR may complete a produce just as a lost leadership does.
            outcome.changed.append(key)
        except ApiError as refused:
            error = refused.code
            # A stale order is normal: a newly elected controller sends every partition again.
            level = logging.INFO if error is ErrorCode.STALE_CONTROLLER_EPOCH else logging.WARNING
            logger.log(level, "LeaderAndIsr for %s-%d refused: %s", key.topic, key.partition, refused)
            if error is ErrorCode.KAFKA_STORAGE_ERROR and self._log_manager.directories.offline_paths():
                # The log of the partition may be in a directory that has failed.
                self._hosted.offline.add([key])
        except InconsistentTopicId as refused:
            logger.warning("LeaderAndIsr for %s-%d refused: %s", key.topic, key.partition, refused)
            error = ErrorCode.INCONSISTENT_TOPIC_ID
        return LeaderAndIsrResponse.LeaderAndIsrPartitionError(partition_index=state.partition_index, error_code=error)

    def _stop_copying(self, keys: Collection[TopicPartition]) -> None:
        if (fetchers := self._fetchers.made) is not None:
            fetchers.stop(keys)

    def _hosted_for(self, key: TopicPartition, topic_id: bytes, state: PartitionState) -> Partition | None:
        """Return the partition if this broker hosts it already, or None if it has to be opened.

        Raises ApiError: KAFKA_STORAGE_ERROR when the partition is offline, STALE_CONTROLLER_EPOCH when the order is
        stale, INCONSISTENT_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION when this broker is not a replica.
        """
        self._hosted.offline.check(key)
        hosted = self._hosted.get(key)
        if hosted is None:
            if self._environment.broker_id not in state.replicas:
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            return None
        if topic_id not in (ZERO_UUID, hosted.topic_id):
            raise ApiError(ErrorCode.INCONSISTENT_TOPIC_ID)
        if hosted.state is not None and state.leader_epoch <= hosted.state.leader_epoch:
            # Also in the same epoch: there the leader's own state is newer, since the leader changes the ISR.
            raise ApiError(ErrorCode.STALE_CONTROLLER_EPOCH)
        if self._environment.broker_id not in state.replicas:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return hosted

    def _open_partition(self, key: TopicPartition, topic_id: bytes, *, is_new: bool) -> Partition:
        """Open or create the log of a partition. Raises ApiError: KAFKA_STORAGE_ERROR. Raises InconsistentTopicId."""
        log = self._log_manager.get_or_create_log(
            key, topic_id=topic_id if topic_id != ZERO_UUID else None, is_new=is_new
        )
        # A new partition has no checkpoint: an entry of a deleted topic of the same name would be wrong for it.
        if not is_new:
            try:
                checkpointed = self._checkpoints.read(log.parent_dir).get(key, 0)
                # After a crash the log may end below its checkpointed high watermark.
                log.update_high_watermark(min(checkpointed, log.log_end_offset))
            except OSError as error:
                self._log_manager.directories.failed(log.parent_dir, f"finding the high watermark of {key}", error)
                raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{log.parent_dir}: {error}") from error
        return Partition(key, topic_id, self._environment, log)

    def _stop_replica(self, topic: str, state: StopReplicaRequest.StopReplicaPartitionState) -> ErrorCode:
        key = TopicPartition(topic, state.partition_index)
        if key in self._hosted.offline:
            logger.warning("Ignoring StopReplica for %s: it is in an offline log directory", key)
            return ErrorCode.KAFKA_STORAGE_ERROR
        hosted = self._hosted.get(key)
        if hosted is not None:
            current = hosted.state
            if (
                current is not None
                # Neither is an epoch that could be stale: such an order is always obeyed, as in Kafka.
                and state.leader_epoch not in (-1, LEADER_DURING_DELETE)
                and state.leader_epoch < current.leader_epoch
            ):
                return ErrorCode.FENCED_LEADER_EPOCH
            self._stop_copying([key])
            # Before the deletion: `retire` takes the log's lock, after which no append writes to a log that is being
            # renamed.
            hosted.retire()
        if state.delete_partition:
            try:
                self._log_manager.async_delete(key)
            except ApiError as error:
                logger.warning("StopReplica for %s failed: %s", key, error)
                return error.code
        return ErrorCode.NONE

    def handle_log_dir_failure(self, log_dir: str) -> None:
        """Stop serving the partitions of a log directory with a disk error, and answer the requests that wait for them.

        Kafka: ReplicaManager.handleLogDirFailure.
        """
        logger.warning("Stopping serving replicas in dir %s", log_dir)
        with self._state_change_lock:
            failed = [partition for partition in self._hosted if partition.log.parent_dir == log_dir]
            keys = [partition.topic_partition for partition in failed]
            # Before they are unhosted: in between, a client would be answered NOT_LEADER_OR_FOLLOWER, and would look
            # for another leader.
            self._hosted.offline.add(keys)
            self._stop_copying(keys)
            for partition in failed:
                partition.retire()
            self._hosted.publish(dict.fromkeys(keys))
        self._log_manager.fail_log_dir(log_dir)
        self._waiting.wake_all(keys)
        self.listeners.notify([LeadershipChange(key, False, None) for key in keys])
        self._forget_topics(keys)
        logger.warning("Stopped serving replicas in dir %s", log_dir)

    def _forget_topics(self, stopped: Iterable[TopicPartition]) -> None:
        """Drop the metrics of topics whose last partition has left this broker."""
        for topic in {key.topic for key in stopped}:
            if not self._hosted.hosts_topic(topic):
                self._stats.remove_topic(topic)
