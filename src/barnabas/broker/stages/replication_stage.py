"""The third stage of a broker's start: the replicas over its logs, and the group coordinator over the replicas.

Built by BrokerServer on the main thread. Nothing is led yet: the controller will say what this broker leads. What a
broker has for its peers (fetchers, their connections, changes of in-sync replicas) is imported and made with the first
order about a partition that has replicas on others, on the handler thread of that order.

Kafka: the part of KafkaServer.startup about ReplicaManager and GroupCoordinator; BrokerConfigHandler.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from barnabas.broker.channels.broker_channels import BrokerConnections
from barnabas.broker.foundations import Foundations
from barnabas.broker.stages.broker_metrics import register_broker_metrics, register_identity_metrics
from barnabas.broker.stages.group_coordination import late_group_coordinator
from barnabas.broker.stages.storage_stage import StorageStage
from barnabas.config.broker_settings import BrokerSettings
from barnabas.config.listeners import inter_broker_listener_name_of
from barnabas.coordinator.runtime.late_coordinator import LateCoordinator
from barnabas.metadata.metadata_cache import MetadataCache
from barnabas.metrics.sampled_total import SampleWindow
from barnabas.quota.quota_managers import QuotaConfig
from barnabas.quota.replication_quota import ReplicationQuotas, register_replication_quota_metrics
from barnabas.replica.isr.isr_updates import AlterPartitionManager
from barnabas.replica.replica_config import FetcherConfig, ReplicaConfig
from barnabas.replica.replica_manager import ReplicaManager
from barnabas.replica.requests.waiting_requests import WaitingRequests
from barnabas.runtime.lazy import Lazy
from barnabas.zk.znodes.config_znodes import ConfigEntityType

if TYPE_CHECKING:
    from barnabas.coordinator.group.group_coordinator import GroupCoordinator
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
