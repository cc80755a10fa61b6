"""The facade of the replica layer: every partition this broker hosts, and what can be done with them.

Called by the request handlers (append, fetch, list offsets, delete records), by the controller's channel and the
inter-broker handlers (leader and ISR, stop replica, metadata) and by the scheduler (high watermark checkpoint, lagging
followers). It builds its parts, and owns no lock itself; see each part for its own.
Lock order: replica-state-change before partition before log; nothing completes a delayed operation under any of them.

Kafka: kafka.server.ReplicaManager.
"""

from __future__ import annotations

from collections.abc import Collection

from barnabas.metadata.metadata_cache import MetadataCache
from barnabas.protocol.errors import ApiError
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.purgatory.action_queue import ActionQueue
from barnabas.purgatory.timer import Timer
from barnabas.replica.alter_partition_manager import AlterPartitionManager
from barnabas.replica.append import ReplicaAppender
from barnabas.replica.broker_topic_stats import BrokerTopicStats
from barnabas.replica.delete_records import ReplicaRecordDeleter
from barnabas.replica.epoch_end_offset import EpochEndOffset
from barnabas.replica.high_watermark_checkpoints import HighWatermarkCheckpoints
from barnabas.replica.hosted_partitions import HostedPartitions
from barnabas.replica.isr_updates import IsrUpdates
from barnabas.replica.leadership_orders import LeadershipOrders
from barnabas.replica.log_dir_descriptions import LogDirDescription, describe_log_dirs
from barnabas.replica.partition import Partition
from barnabas.replica.partition_environment import PartitionEnvironment
from barnabas.replica.read import ReplicaReader
from barnabas.replica.replica_config import ReplicaConfig
from barnabas.replica.waiting_requests import WaitingRequests
from barnabas.runtime.clock import Clock
from barnabas.runtime.files import Files
from barnabas.runtime.scheduler import Scheduler
from barnabas.storage.log_manager import LogManager


class ReplicaManager:
    """Hosts partitions and runs the produce and fetch paths over them.

    metadata: fed by the controller through `update_metadata`; it knows whether the cluster has a partition at all, and
    which brokers are alive. alter_partitions: has the cluster agree on changed in-sync replicas.
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
        clock: Clock,
        alter_partitions: AlterPartitionManager,
    ) -> None:
        self.config = config
        self._log_manager = log_manager
        self._scheduler = scheduler
        self._files = files
        self._checkpoints = HighWatermarkCheckpoints(files, log_manager.directory_failed)
        self.hosted = HostedPartitions(metadata)
        self.topic_stats = BrokerTopicStats(self.hosted.hosts_topic)
        self.partition_or_error = self.hosted.partition_or_error
        """See `HostedPartitions.partition_or_error`."""
        self.waiting = waiting = WaitingRequests(config, timer, actions)
        self.isr_updates = IsrUpdates(alter_partitions, waiting.wake)
        environment = PartitionEnvironment(
            config.broker_id,
            clock,
            config.replica_lag_time_max_ms,
            lambda broker_id: broker_id in metadata.image.brokers,
        )
        orders = LeadershipOrders(
            environment, self.hosted, log_manager, self._checkpoints, metadata, waiting, self.topic_stats
        )
        self.apply_leader_and_isr = orders.apply_leader_and_isr
        """See `LeadershipOrders.apply_leader_and_isr`."""
        self.stop_replicas = orders.stop_replicas
        """See `LeadershipOrders.stop_replicas`."""
        self.update_metadata = orders.update_metadata
        """See `LeadershipOrders.update_metadata`."""
        self.leadership_listeners = orders.listeners
        """Those told which partitions this broker leads, and which not any more."""
        self.handle_log_dir_failure = orders.handle_log_dir_failure
        """See `LeadershipOrders.handle_log_dir_failure`."""
        appender = ReplicaAppender(self.partition_or_error, waiting, self.topic_stats)
        self.append_records = appender.append_records
        """See `ReplicaAppender.append_records`."""
        self.append_locally = appender.append_locally
        """See `ReplicaAppender.append_locally`."""
        self.when_replicated = appender.when_replicated
        """See `ReplicaAppender.when_replicated`."""
        self.fetch_records = ReplicaReader(
            self.partition_or_error, waiting, self.isr_updates, self.topic_stats
        ).fetch_records
        """See `ReplicaReader.fetch_records`."""
        self.delete_records = ReplicaRecordDeleter(self.partition_or_error, waiting).delete_records
        """See `ReplicaRecordDeleter.delete_records`."""

    def startup(self) -> None:
        """Begin checkpointing high watermarks and looking for followers that lag."""
        interval_ms = self.config.high_watermark_checkpoint_interval_ms
        self._scheduler.schedule(
            "highwatermark-checkpoint", self.checkpoint_high_watermarks, delay_ms=interval_ms, period_ms=interval_ms
        )
        # A follower is found lagging at the latest after one and a half times the permitted lag.
        lag_ms = self.config.replica_lag_time_max_ms
        self._scheduler.schedule("isr-expiration", self.shrink_isrs, period_ms=max(1, lag_ms // 2))

    def shutdown(self) -> None:
        """Answer everything that waits and write the high watermarks. The logs are closed by their own manager."""
        self.waiting.shutdown()
        self.checkpoint_high_watermarks()

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
        return list(self.hosted)

    @property
    def offline_partition_count(self) -> int:
        """Partitions of this broker whose log directory has failed."""
        return len(self.hosted.offline)

    def describe_log_dirs(self, partitions: Collection[TopicPartition] | None) -> list[LogDirDescription]:
        """Every log directory, with the sizes of those replicas that are among `partitions` (None: all)."""
        return describe_log_dirs(self._log_manager, self._files, partitions)

    def checkpoint_high_watermarks(self) -> None:
        """Write `replication-offset-checkpoint` in every live log directory."""
        self._checkpoints.write(self.partitions(), self._log_manager.live_log_dirs)

    def shrink_isrs(self) -> None:
        """Have followers that lag leave the in-sync replicas."""
        self.isr_updates.shrink_lagging(self.hosted)
