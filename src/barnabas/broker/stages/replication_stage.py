"""The third stage of a broker's start: the replicas over its logs, and the group coordinator over the replicas.

Built by BrokerServer on the main thread. Nothing is led yet: the controller will say what this broker leads. What a
broker has for its peers (fetchers, their connections, changes of in-sync replicas) is imported and made with the first
order about a partition that has replicas on others, on the handler thread of that order. The group coordinator comes
with the first need of it (`group_coordinator_builder`): its settings, which may stop the start, the names of its
partitions and its metrics are there from the beginning.

Kafka: the part of KafkaServer.startup about ReplicaManager and GroupCoordinator; BrokerConfigHandler. Kafka registers
each metric where its owner is made, in one registry for all classes; here a stage registers those of its parts.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas import __version__, build
from barnabas.broker.channels.broker_channels import BrokerConnections
from barnabas.broker.foundations import Foundations
from barnabas.broker.stages.storage_stage import BrokerIdentity, StorageStage
from barnabas.config.dynamic_settings import BrokerSettings
from barnabas.config.listeners import inter_broker_listener_name_of
from barnabas.coordinator.group.group_config import GroupCoordinatorConfig
from barnabas.coordinator.runtime.late_coordinator import LateCoordinator
from barnabas.metadata.metadata_cache import MetadataCache
from barnabas.metadata.topic_name import GROUP_METADATA_TOPIC
from barnabas.metrics.metrics_registry import TICK_INTERVAL_MS, MetricsRegistry, Sample
from barnabas.metrics.rate import SampleWindow
from barnabas.purgatory.purgatory import DelayedOperationPurgatory
from barnabas.quota.quota_managers import QuotaConfig
from barnabas.quota.replication_quota import ReplicationQuotas, register_replication_quota_metrics
from barnabas.replica.isr.isr_updates import AlterPartitionManager
from barnabas.replica.replica_config import FetcherConfig, ReplicaConfig
from barnabas.replica.replica_manager import ReplicaManager
from barnabas.replica.replica_metrics import (
    register_fetcher_metrics,
    register_log_dir_move_metrics,
    register_purgatory,
    register_replica_metrics,
)
from barnabas.replica.requests.waiting_requests import WaitingRequests
from barnabas.runtime.clock import Clock
from barnabas.runtime.lazy import Lazy
from barnabas.runtime.scheduler import Scheduler
from barnabas.storage.log_manager import LogManager
from barnabas.storage.storage_metrics import register_storage_metrics
from barnabas.zk.znodes.config_znodes import ConfigEntityType

if TYPE_CHECKING:
    from barnabas.coordinator.group.classic.classic_group_changes import DelayedHeartbeat, DelayedRebalance
    from barnabas.coordinator.group.group_coordinator import GroupCoordinator
    from barnabas.coordinator.runtime.partitions import CoordinatorPartitions
    from barnabas.replica.fetcher.fetcher_manager import FetcherId
    from barnabas.replica.fetcher.leader_end_point import LeaderEndPoint


class ReplicationStage(NamedTuple):
    """The replicas of this broker, its metadata of the cluster, and the groups it coordinates."""

    metadata: MetadataCache
    connections: BrokerConnections
    """The connections to other brokers and, for the controller, to this one."""
    replicas: ReplicaManager
    groups: LateCoordinator[GroupCoordinator]
    """The group coordinator, notified of leaderships from now on; its `startup` is called when requests come."""


def start_replication(foundations: Foundations, storage: StorageStage) -> ReplicationStage:
    """Start the replicas; failed log directories are handled from now on."""
    lifecycle = foundations.lifecycle
    broker_id = storage.identity.broker_id
    metadata = MetadataCache(broker_id, storage.identity.cluster_id)
    kafka_config = foundations.dynamic.current
    connections = BrokerConnections(
        kafka_config, broker_id, foundations.listeners, foundations.clock, foundations.metrics
    )
    fetching = FetcherConfig.from_kafka_config(kafka_config)

    def connect(fetcher_id: FetcherId) -> LeaderEndPoint:
        from barnabas.broker.channels.leader_connections import LeaderConnections

        listener_name = inter_broker_listener_name_of(kafka_config)
        leaders = LeaderConnections(connections, listener_name, fetching, broker_id, lambda: storage.registration.epoch)
        return leaders.connect(fetcher_id)

    quotas = _replication_quotas(foundations, storage)
    config = ReplicaConfig.from_kafka_config(kafka_config, broker_id=broker_id)
    alter_partitions = Lazy(lambda: _isr_changes(foundations, storage, connections, metadata, config))

    def stop_isr_changes() -> None:
        if alter_partitions.made is not None:
            alter_partitions.made.shutdown()

    lifecycle.on_stop("changes of in-sync replicas", stop_isr_changes)
    replicas = ReplicaManager(
        config,
        storage.log_manager,
        WaitingRequests(config, foundations.timer, foundations.actions),
        foundations.files,
        metadata,
        foundations.clock,
        alter_partitions,
        fetching,
        connect,
        quotas,
    )
    replicas.startup(foundations.scheduler)
    lifecycle.on_stop("replicas", replicas.shutdown)
    groups = late_group_coordinator(foundations, replicas, metadata)
    # Registered after the replicas and so stopped before them: the coordinator appends to their logs.
    lifecycle.on_stop("group coordinator", groups.shutdown)
    register_broker_metrics(
        foundations.metrics, replicas, storage.log_manager, foundations.scheduler, foundations.clock
    )
    register_identity_metrics(
        foundations.metrics, storage.identity, lambda: metadata.image.controller_id, foundations.clock
    )
    # Last, since replicas are needed to handle a failure; those found since the directories were opened are queued.
    storage.log_dir_failures.start(
        replicas.orders.handle_log_dir_failure,
        storage.log_manager.directories.online_paths,
        lambda: storage.zk_client.propagate_log_dir_event(broker_id),
        needed_dir=storage.metadata_dir,
    )
    lifecycle.on_stop("log directory failures", storage.log_dir_failures.shutdown)
    return ReplicationStage(metadata, connections, replicas, groups)


def _isr_changes(
    foundations: Foundations,
    storage: StorageStage,
    connections: BrokerConnections,
    metadata: MetadataCache,
    config: ReplicaConfig,
) -> AlterPartitionManager:
    """Return the way in which leaders here change their in-sync replicas, by `inter.broker.protocol.version`."""
    if config.alter_partition_version is None:
        from barnabas.replica.isr.zk_alter_partition_manager import ZkAlterPartitionManager

        writer = ZkAlterPartitionManager(storage.zk_client, foundations.scheduler, foundations.clock)
        writer.start()
        return writer
    from barnabas.broker.channels.leader_connections import InterBrokerAddresses
    from barnabas.replica.isr.default_alter_partition_manager import AlterPartitionSender, DefaultAlterPartitionManager

    listener_name = inter_broker_listener_name_of(foundations.dynamic.current)
    # A controller of another release may know other versions.
    addresses = InterBrokerAddresses(connections, metadata, listener_name, discovers_versions=True)
    sender = AlterPartitionSender(config.broker_id, lambda: storage.registration.epoch, config.alter_partition_version)
    return DefaultAlterPartitionManager(sender, addresses, lambda: metadata.image.controller_id)


def _replication_quotas(foundations: Foundations, storage: StorageStage) -> ReplicationQuotas:
    """Return the quotas of replication throttles, which follow the settings from now on."""
    windows = QuotaConfig.from_kafka_config(foundations.dynamic.current)
    window = SampleWindow(windows.replication_samples, windows.replication_window_ms)
    moves_window = SampleWindow(windows.alter_log_dirs_samples, windows.alter_log_dirs_window_ms)
    quotas = ReplicationQuotas.of(window, moves_window, foundations.clock)
    throttles = _DynamicThrottles(lambda: foundations.dynamic.settings, quotas)
    # Registered behind the settings themselves, which a change therefore has reached already.
    storage.config_changes.register(ConfigEntityType.BROKER, throttles.changed)
    throttles.apply()
    register_replication_quota_metrics(foundations.metrics, quotas)
    return quotas


class _DynamicThrottles:
    """The link from the rates of replication throttles, which exist as changes of settings only, to their quotas.

    settings: returns those in force, already with a change that is told of. `changed` is called by ConfigChangeListener
    on a scheduler thread. `_lock` makes reading the settings and applying them one step.
    """

    def __init__(self, settings: Callable[[], BrokerSettings], quotas: ReplicationQuotas) -> None:
        self._settings = settings
        self._quotas = quotas
        self._lock = threading.Lock()

    def apply(self) -> None:
        """Limit the quotas as the settings say now."""
        with self._lock:
            settings = self._settings()
            self._quotas.leader.limit(settings.throttle("leader.replication.throttled.rate"))
            self._quotas.follower.limit(settings.throttle("follower.replication.throttled.rate"))
            self._quotas.alter_log_dirs.limit(settings.throttle("replica.alter.log.dirs.io.max.bytes.per.second"))

    def changed(self, entity: str, settings: dict[str, str]) -> None:
        """Do the same, for a change of some broker's settings."""
        self.apply()


LINUX_COUNTERS: Final = "/proc/self/io"
_COUNTED: Final = {"read_bytes": "read-bytes", "write_bytes": "write-bytes"}
_DISKS: Final = {
    "read-bytes": "Bytes this process has had read from disks",
    "write-bytes": "Bytes this process has had written to disks",
}


def linux_io_counters() -> dict[str, int]:
    """Return the `read-bytes` and `write-bytes` of this process; nothing on other systems.

    Kafka: LinuxIoMetricsCollector.
    """
    try:
        with open(LINUX_COUNTERS, encoding="ascii") as counters:
            lines = [line.partition(": ") for line in counters]
    except OSError:
        # Another system, or a container that hides the file.
        return {}
    return {_COUNTED[name]: int(value) for name, _, value in lines if name in _COUNTED}


def register_broker_metrics(
    registry: MetricsRegistry,
    replicas: ReplicaManager,
    log_manager: LogManager,
    scheduler: Scheduler,
    clock: Clock,
) -> None:
    """Register the metrics, and begin to compute rates."""
    register_replica_metrics(registry, replicas, clock)
    register_fetcher_metrics(registry, replicas.fetchers)
    register_log_dir_move_metrics(registry, replicas.moves)
    register_storage_metrics(registry, log_manager)
    for name in linux_io_counters():
        # `partial` binds the name now; a lambda in this loop would read the last one.
        registry.register("kafka.server", "KafkaServer", f"linux-disk-{name}", _DISKS[name], partial(_linux_io, name))
    scheduler.schedule("metrics-tick", lambda: registry.tick(clock.nanoseconds()), period_ms=TICK_INTERVAL_MS)


def register_identity_metrics(
    registry: MetricsRegistry, identity: BrokerIdentity, controller_id: Callable[[], int], clock: Clock
) -> None:
    """Register what this broker is: its cluster, version and start. Kafka: KafkaBroker, AppInfoParser."""
    text = "The cluster's id, in the label `value`"
    registry.register("kafka.server", "KafkaServer", "ClusterId", text, lambda: 1, {"value": identity.cluster_id})
    text = "The broker that is the controller; -1 while there is none"
    registry.register("kafka.server", "MetadataLoader", "CurrentControllerId", text, controller_id)
    bean, tags = ("kafka.server", "app-info"), {"id": str(identity.broker_id)}
    text = "The version, in the label `value`"
    registry.register_attribute(*bean, "version", text, lambda: 1, tags | {"value": __version__})
    text = "The build, in the label `value`: compiled or plain Python, and why"
    registry.register_attribute(*bean, "build", text, lambda: 1, tags | {"value": build()})
    text = "The commit, in the label `value`; unknown for an installed package"
    # Kafka's word for a build that does not know its commit: an installed package knows its version only.
    registry.register_attribute(*bean, "commit-id", text, lambda: 1, tags | {"value": "unknown"})
    started_ms = clock.milliseconds()
    text = "The time of the start, in milliseconds since 1970"
    registry.register_attribute(*bean, "start-time-ms", text, lambda: started_ms, tags)


def _linux_io(name: str) -> float:
    return linux_io_counters().get(name, 0)


SESSIONS_BETWEEN_PURGES = 100_000
"""The number of completed watches after which the purgatory looks for others to purge.

A session that ends removes itself from its watch list, so a purge finds almost nothing and costs a look at every
member."""


def late_group_coordinator(
    foundations: Foundations, replicas: ReplicaManager, metadata: MetadataCache
) -> LateCoordinator[GroupCoordinator]:
    """Return the coordinator, which is told of every change of leadership from now on.

    Raises ConfigError: a setting of groups is wrong.
    """
    timer, registry = foundations.timer, foundations.metrics
    config = GroupCoordinatorConfig.from_kafka_config(foundations.dynamic.current)

    heartbeats: DelayedOperationPurgatory[DelayedHeartbeat] = DelayedOperationPurgatory(
        "Heartbeat", timer, purge_interval=SESSIONS_BETWEEN_PURGES
    )
    rebalances: DelayedOperationPurgatory[DelayedRebalance] = DelayedOperationPurgatory("Rebalance", timer)
    register_purgatory(registry, heartbeats)
    register_purgatory(registry, rebalances)

    def build(partitions: CoordinatorPartitions) -> GroupCoordinator:
        from barnabas.broker.stages.group_coordinator_builder import GroupPurgatories, build_group_coordinator

        purgatories = GroupPurgatories(heartbeats, rebalances)
        return build_group_coordinator(foundations, replicas, metadata, config, partitions, purgatories)

    coordinator = LateCoordinator(GROUP_METADATA_TOPIC, metadata, config.num_partitions, build)
    registry.family(_MetricsOfGroups(coordinator))
    # Last: a leadership may change on another thread from here on, and takes everything above to handle.
    replicas.orders.listeners.add(coordinator.leadership_changed)
    return coordinator


class _MetricsOfGroups:
    """The metric family of the group coordinator. A reading builds the coordinator: no metric is missing."""

    def __init__(self, coordinator: LateCoordinator[GroupCoordinator]) -> None:
        self._coordinator = coordinator

    def tick(self, elapsed_seconds: float) -> None:
        """Remember the present counts, for rates."""
        if (built := self._coordinator.built) is not None:
            built.metrics.tick(elapsed_seconds)

    def samples(self) -> Iterable[Sample]:
        """Return the present value of every metric."""
        return self._coordinator().metrics.samples()
