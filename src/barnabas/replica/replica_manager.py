"""The replica layer put together: every partition this broker hosts, and the parts that work on them.

Made by `broker`. A caller takes the part it uses (decision 0021): produce handlers `appender`, fetch handlers `reader`,
inter-broker handlers `orders`. The scheduler calls `checkpoint_high_watermarks` and `shrink_isrs`. ReplicaManager owns
no lock; each part names its own.

Lock order: replica-state-change before partition before log. Nothing completes a delayed operation under any of them:
completing one sends an answer, and may try other operations, which take locks of other partitions.

Kafka: kafka.server.ReplicaManager.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container
from typing import TYPE_CHECKING

from barnabas.metadata.metadata_cache import MetadataCache
from barnabas.protocol.errors import ApiError
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.quota.replication_quota import ReplicationQuotas
from barnabas.replica.broker_topic_stats import BrokerTopicStats
from barnabas.replica.isr.isr_updates import AlterPartitionManager, IsrUpdates
from barnabas.replica.leadership_orders import LeadershipOrders
from barnabas.replica.partitions.high_watermark_checkpoints import HighWatermarkCheckpoints
from barnabas.replica.partitions.hosted_partitions import HostedPartitions
from barnabas.replica.partitions.partition import EpochEndOffset, Partition, PartitionEnvironment
from barnabas.replica.replica_config import FetcherConfig, ReplicaConfig
from barnabas.replica.requests.replica_appender import ReplicaAppender
from barnabas.replica.requests.replica_reader import ReplicaReader
from barnabas.replica.requests.replication_throttle import follower_throttle, leader_throttle
from barnabas.replica.requests.waiting_requests import WaitingRequests
from barnabas.runtime.clock import Clock
from barnabas.runtime.files import Files
from barnabas.runtime.lazy import Lazy
from barnabas.runtime.scheduler import Scheduler
from barnabas.storage.log_manager import LogManager

if TYPE_CHECKING:
    from barnabas.replica.fetcher.fetcher_manager import FetcherId, ReplicaFetcherManager
    from barnabas.replica.fetcher.leader_end_point import LeaderEndPoint
    from barnabas.replica.log_dir_descriptions import LogDirDescription
    from barnabas.replica.log_dir_moves import LogDirMoves


class ReplicaManager:
    """The parts of the replica layer, and their life cycle.

    hosted: the partitions of this broker. appender, reader: the paths of produces and fetches over them. orders: the
    controller's orders. waiting: the requests that wait for a partition. isr_updates: followers that join and leave the
    in-sync replicas. fetchers: the threads that copy partitions which other brokers lead. moves: logs on their way into
    other log directories. Both are imported and made by the orders that need them. topic_stats: the counters of each
    topic.

    Arguments: `metadata` is fed by the controller through `orders.update_metadata`; it knows whether the cluster has a
    partition at all, and which brokers are alive. `alter_partitions` has the cluster agree on changed in-sync replicas.
    `connect` makes the connection of a fetcher to its leader. `quotas` throttle replication.
    """

    def __init__(
        self,
        config: ReplicaConfig,
        log_manager: LogManager,
        waiting: WaitingRequests,
        files: Files,
        metadata: MetadataCache,
        clock: Clock,
        alter_partitions: Lazy[AlterPartitionManager],
        fetching: FetcherConfig,
        connect: Callable[[FetcherId], LeaderEndPoint],
        quotas: ReplicationQuotas,
    ) -> None:
        self.config = config
        self._log_manager = log_manager
        self.slow_topics: Container[str] = log_manager.slow_topics
        """The topics whose appends may take long for their settings; their logs' validators know more."""
        self._files = files
        self._checkpoints = HighWatermarkCheckpoints(files, log_manager.directories.failed)
        self.waiting = waiting
        self.hosted = hosted = HostedPartitions(metadata)
        self.topic_stats = stats = BrokerTopicStats(hosted.hosts_topic)
        self.isr_updates = IsrUpdates(alter_partitions, waiting.wake)
        environment = PartitionEnvironment(
            config.broker_id,
            clock,
            config.replica_lag_time_max_ms,
            lambda broker_id: broker_id in metadata.image.brokers,
        )

        def new_fetchers() -> ReplicaFetcherManager:
            from barnabas.replica.fetcher.fetcher_manager import new_fetcher_manager
            from barnabas.replica.fetcher.follower_logs import FollowerLogs

            # With them what changes in-sync replicas: a follower's fetch, on a network thread, must not build it.
            alter_partitions()
            logs = FollowerLogs(hosted, log_manager, waiting, stats.topic, follower_throttle(quotas.follower))
            return new_fetcher_manager(connect, logs, fetching, clock)

        def new_moves() -> LogDirMoves:
            from barnabas.replica.log_dir_moves import LogDirMoves

            threads = config.alter_log_dirs_threads or len(log_manager.directories.paths)
            return LogDirMoves(hosted, log_manager, quotas.alter_log_dirs, threads, self.checkpoint_high_watermarks)

        self.fetchers = Lazy(new_fetchers)
        self.moves = Lazy(new_moves)
        if log_manager.futures.all():
            # An earlier run has begun moves, which go on when their partitions are opened.
            self.moves()
        self.orders = LeadershipOrders(
            environment, hosted, log_manager, self._checkpoints, metadata, waiting, stats, self.fetchers, self.moves
        )
        self.appender = ReplicaAppender(hosted, waiting, stats)
        throttle = leader_throttle(quotas.leader)
        self.reader: ReplicaReader
        if config.replica_selector_class is None:
            self.reader = ReplicaReader(hosted, waiting, self.isr_updates, stats, throttle)
        else:
            from barnabas.replica.requests.closest_replica_reader import ClosestReplicaReader, replica_selector

            selector = replica_selector(config.replica_selector_class, config.broker_id, lambda: metadata.image)
            self.reader = ClosestReplicaReader(hosted, waiting, self.isr_updates, stats, throttle, selector)

    def startup(self, scheduler: Scheduler) -> None:
        """Begin checkpointing high watermarks and looking for followers that lag."""
        interval_ms = self.config.high_watermark_checkpoint_interval_ms
        scheduler.schedule(
            "highwatermark-checkpoint", self.checkpoint_high_watermarks, delay_ms=interval_ms, period_ms=interval_ms
        )
        # Looking every half of the permitted lag finds a follower lagging after one and a half times the lag.
        lag_ms = self.config.replica_lag_time_max_ms
        scheduler.schedule("isr-expiration", self.shrink_isrs, period_ms=max(1, lag_ms // 2))

    def shutdown(self) -> None:
        """Copy no more, answer every waiting request, write the high watermarks. LogManager closes the logs."""
        if (fetchers := self.fetchers.made) is not None:
            fetchers.shutdown()
        if (moves := self.moves.made) is not None:
            moves.shutdown()
        self.waiting.shutdown()
        self.checkpoint_high_watermarks()

    def last_offset_for_leader_epoch(
        self, topic: str, partition: int, *, current_leader_epoch: int, leader_epoch: int, from_follower: bool
    ) -> EpochEndOffset:
        """Return where an epoch ends in the log of a partition led here, or the error why this broker cannot say.

        Followers and consumers get the same answer (`from_follower`), as in Kafka 3.9: only the leader knows.
        """
        try:
            hosted = self.hosted.partition_or_error(topic, partition)
        except ApiError as error:
            return EpochEndOffset(error.code)
        return hosted.last_offset_for_leader_epoch(current_leader_epoch, leader_epoch)

    def partitions(self) -> list[Partition]:
        """Return every partition hosted at this moment."""
        return list(self.hosted)

    @property
    def offline_partition_count(self) -> int:
        """The number of partitions of this broker whose log directory has failed."""
        return len(self.hosted.offline)

    def describe_log_dirs(self, partitions: Collection[TopicPartition] | None) -> list[LogDirDescription]:
        """Describe every log directory, with the sizes of its replicas that are among `partitions` (None: all)."""
        from barnabas.replica.log_dir_descriptions import describe_log_dirs

        return describe_log_dirs(self._log_manager, self._files, partitions)

    def checkpoint_high_watermarks(self) -> None:
        """Write `replication-offset-checkpoint` in every live log directory."""
        self._checkpoints.write(self.partitions(), self._log_manager.directories.online_paths())

    def shrink_isrs(self) -> None:
        """Have followers that lag leave the in-sync replicas."""
        self.isr_updates.shrink_lagging(self.hosted)
