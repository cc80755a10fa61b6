"""The facade of the replica layer: every partition this broker hosts, by topic and number.

Called by the request handlers (append, fetch, list offsets), by the controller's channel (leader and ISR, stop
replica) and by the scheduler (high watermark checkpoint). Look-ups take no lock: topic and partition maps are
replaced, never changed in place, under `_state_change_lock`, which also serialises the controller's orders.
Lock order: replica-state-change before partition before log; nothing completes a delayed operation under any of them.

Kafka: kafka.server.ReplicaManager.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

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
from barnabas.purgatory.action_queue import ActionQueue
from barnabas.purgatory.purgatory import DelayedOperationPurgatory
from barnabas.purgatory.timer import Timer
from barnabas.replica.append import ReplicaAppender
from barnabas.replica.delayed_fetch import DelayedFetch
from barnabas.replica.delayed_produce import DelayedProduce
from barnabas.replica.delete_records import ReplicaRecordDeleter
from barnabas.replica.epoch_end_offset import EpochEndOffset
from barnabas.replica.high_watermark_checkpoints import HighWatermarkCheckpoints
from barnabas.replica.partition import Partition, PartitionState
from barnabas.replica.read import ReplicaReader
from barnabas.replica.replica_config import ReplicaConfig
from barnabas.runtime.files import Files
from barnabas.runtime.lock_order import LockRank, ranked_lock
from barnabas.runtime.scheduler import Scheduler
from barnabas.storage.errors import InconsistentTopicId
from barnabas.storage.log_manager import LogManager

logger = logging.getLogger(__name__)

LEADER_DURING_DELETE = -2
"""StopReplica's and UpdateMetadata's leader epoch or id for a topic that is being deleted (LeaderAndIsr.scala)."""


class ReplicaManager:
    """Hosts partitions and runs the produce and fetch paths over them.

    metadata: fed by the controller through `update_metadata`; it knows whether the cluster has a partition at all.
    """

    def __init__(
        self,
        config: ReplicaConfig,
        log_manager: LogManager,
        scheduler: Scheduler,
        timer: Timer,
        actions: ActionQueue,
        files: Files,
        metadata: MetadataCache,
    ) -> None:
        self.config = config
        self._log_manager = log_manager
        self._scheduler = scheduler
        self._metadata = metadata
        self._state_change_lock = ranked_lock(LockRank.REPLICA_STATE_CHANGE)
        self._controller_epoch = 0
        self._partitions: Mapping[str, Mapping[int, Partition]] = {}
        self._checkpoints = HighWatermarkCheckpoints(files)
        self.produce_purgatory: DelayedOperationPurgatory[DelayedProduce] = DelayedOperationPurgatory(
            "Produce", timer, purge_interval=config.producer_purgatory_purge_interval_requests
        )
        self.fetch_purgatory: DelayedOperationPurgatory[DelayedFetch] = DelayedOperationPurgatory(
            "Fetch", timer, purge_interval=config.fetch_purgatory_purge_interval_requests
        )
        appender = ReplicaAppender(self.partition_or_error, self.produce_purgatory, self.fetch_purgatory, actions)
        self.append_records = appender.append_records
        """See `ReplicaAppender.append_records`."""
        self.fetch_records = ReplicaReader(self.partition_or_error, self.fetch_purgatory).fetch_records
        """See `ReplicaReader.fetch_records`."""
        self.delete_records = ReplicaRecordDeleter(self.partition_or_error).delete_records
        """See `ReplicaRecordDeleter.delete_records`."""

    def startup(self) -> None:
        """Begin checkpointing high watermarks."""
        interval_ms = self.config.high_watermark_checkpoint_interval_ms
        self._scheduler.schedule(
            "highwatermark-checkpoint", self.checkpoint_high_watermarks, delay_ms=interval_ms, period_ms=interval_ms
        )

    def shutdown(self) -> None:
        """Answer everything that waits and write the high watermarks. The logs are closed by their own manager."""
        self.fetch_purgatory.shutdown()
        self.produce_purgatory.shutdown()
        self.checkpoint_high_watermarks()

    def partition_or_error(self, topic: str, partition: int) -> Partition:
        """The partition if this broker hosts it; else ApiError NOT_LEADER_OR_FOLLOWER or UNKNOWN_TOPIC_OR_PARTITION."""
        try:
            return self._partitions[topic][partition]
        except KeyError:
            if self._metadata.image.partition(TopicPartition(topic, partition)) is not None:
                raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER) from None
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) from None

    def last_offset_for_leader_epoch(
        self, topic: str, partition: int, *, current_leader_epoch: int, leader_epoch: int, from_follower: bool
    ) -> EpochEndOffset:
        """Where an epoch ends in the log of a partition led here, or why this broker cannot say.

        Kafka 3.9 answers followers and consumers alike (`from_follower`): only the leader knows.
        """
        try:
            hosted = self.partition_or_error(topic, partition)
        except ApiError as error:
            return EpochEndOffset(error.code)
        return hosted.last_offset_for_leader_epoch(current_leader_epoch, leader_epoch)

    def partitions(self) -> list[Partition]:
        """Every hosted partition, at this moment."""
        return [partition for of_topic in self._partitions.values() for partition in of_topic.values()]

    def checkpoint_high_watermarks(self) -> None:
        """Write `replication-offset-checkpoint` in every live log directory."""
        self._checkpoints.write(self.partitions(), self._log_manager.live_log_dirs)

    def apply_leader_and_isr(self, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
        """Become leader or follower of the partitions the controller names.

        A request of an earlier controller is refused whole (STALE_CONTROLLER_EPOCH); a partition state with an older
        leader epoch than ours, alone (STALE_CONTROLLER_EPOCH, too, as Kafka does it).
        """
        changed: list[TopicPartition] = []
        opened: dict[TopicPartition, Partition | None] = {}
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
                    self._apply_partition_state(topic_state, state, request.controller_epoch, changed, opened)
                    for state in topic_state.partition_states
                ]
                response.topics.append(
                    LeaderAndIsrResponse.LeaderAndIsrTopicError(topic_id=topic_state.topic_id, partition_errors=errors)
                )
            self._publish(opened)
        self._complete_waiting(changed)
        return response

    def stop_replicas(self, request: StopReplicaRequest) -> StopReplicaResponse:
        """Stop hosting partitions; with `delete_partition` their logs are deleted in the background."""
        stopped: dict[TopicPartition, Partition | None] = {}
        with self._state_change_lock:
            if request.controller_epoch < self._controller_epoch:
                return StopReplicaResponse(error_code=ErrorCode.STALE_CONTROLLER_EPOCH)
            self._controller_epoch = request.controller_epoch
            response = StopReplicaResponse(error_code=ErrorCode.NONE)
            for topic_state in request.topic_states:
                for state in topic_state.partition_states:
                    error = self._stop_replica(topic_state.topic_name, state)
                    if error is ErrorCode.NONE:
                        stopped[TopicPartition(topic_state.topic_name, state.partition_index)] = None
                    response.partition_errors.append(
                        StopReplicaResponse.StopReplicaPartitionError(
                            topic_name=topic_state.topic_name, partition_index=state.partition_index, error_code=error
                        )
                    )
            self._publish(stopped)
        self._complete_waiting(list(stopped))
        return response

    def update_metadata(self, request: UpdateMetadataRequest) -> UpdateMetadataResponse:
        """Let the metadata cache learn what the controller tells, unless it is an earlier controller."""
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
        changed: list[TopicPartition],
        opened: dict[TopicPartition, Partition | None],
    ) -> LeaderAndIsrResponse.LeaderAndIsrPartitionError:
        key = TopicPartition(topic_state.topic_name, state.partition_index)
        error = ErrorCode.NONE
        try:
            hosted = self._hosted_for(key, topic_state.topic_id, state)
            partition = hosted or self._open_partition(key, topic_state.topic_id, is_new=state.is_new)
            if hosted is None:
                opened[key] = partition
            if state.leader == self.config.broker_id:
                partition.make_leader(state, controller_epoch)
            else:
                partition.make_follower(state, controller_epoch)
            changed.append(key)  # a smaller ISR may complete a produce just as a lost leadership does
        except ApiError as refused:
            logger.warning("LeaderAndIsr for %s-%d refused: %s", key.topic, key.partition, refused)
            error = refused.code
        except InconsistentTopicId as refused:
            logger.warning("LeaderAndIsr for %s-%d refused: %s", key.topic, key.partition, refused)
            error = ErrorCode.INCONSISTENT_TOPIC_ID
        return LeaderAndIsrResponse.LeaderAndIsrPartitionError(partition_index=state.partition_index, error_code=error)

    def _hosted_for(self, key: TopicPartition, topic_id: bytes, state: PartitionState) -> Partition | None:
        """The partition if it is here already; ApiError when the order is stale or not for this broker."""
        hosted = self._partitions.get(key.topic, {}).get(key.partition)
        if hosted is None:
            if self.config.broker_id not in state.replicas:
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            return None
        if topic_id not in (ZERO_UUID, hosted.topic_id):
            raise ApiError(ErrorCode.INCONSISTENT_TOPIC_ID)
        if hosted.state is not None and state.leader_epoch < hosted.state.leader_epoch:
            raise ApiError(ErrorCode.STALE_CONTROLLER_EPOCH)
        return hosted

    def _open_partition(self, key: TopicPartition, topic_id: bytes, *, is_new: bool) -> Partition:
        log = self._log_manager.get_or_create_log(
            key, topic_id=topic_id if topic_id != ZERO_UUID else None, is_new=is_new
        )
        if not is_new:
            checkpointed = self._checkpoints.read(log.parent_dir).get(key, 0)
            log.update_high_watermark(min(checkpointed, log.log_end_offset))
        return Partition(key, topic_id, self.config.broker_id, log)

    def _stop_replica(self, topic: str, state: StopReplicaRequest.StopReplicaPartitionState) -> ErrorCode:
        key = TopicPartition(topic, state.partition_index)
        hosted = self._partitions.get(topic, {}).get(state.partition_index)
        if hosted is not None:
            current = hosted.state
            if (
                current is not None
                and state.leader_epoch not in (-1, LEADER_DURING_DELETE)
                and state.leader_epoch < current.leader_epoch
            ):
                return ErrorCode.FENCED_LEADER_EPOCH
            hosted.retire()
        if state.delete_partition and self._log_manager.get_log(key) is not None:
            self._log_manager.async_delete(key)
        return ErrorCode.NONE

    def _publish(self, changes: Mapping[TopicPartition, Partition | None]) -> None:
        """Replace the maps once for all changes of a request (None: gone); under the state change lock."""
        partitions = dict(self._partitions)
        copied: dict[str, dict[int, Partition]] = {}
        for key, partition in changes.items():
            of_topic = copied.get(key.topic)
            if of_topic is None:
                of_topic = copied[key.topic] = dict(partitions.get(key.topic, {}))
            if partition is None:
                of_topic.pop(key.partition, None)
            else:
                of_topic[key.partition] = partition
        for topic, replaced in copied.items():
            if replaced:
                partitions[topic] = replaced
            else:
                partitions.pop(topic, None)
        self._partitions = partitions

    def _complete_waiting(self, keys: Sequence[TopicPartition]) -> None:
        for key in keys:
            self.produce_purgatory.check_and_complete(key)
            self.fetch_purgatory.check_and_complete(key)
