"""The third stage of a broker's start: the replicas over its logs, and the group coordinator over the replicas.

Built by BrokerServer on the main thread. Nothing is led yet: the controller will say what this broker leads.

Kafka: the part of KafkaServer.startup about ReplicaManager and GroupCoordinator; BrokerConfigHandler.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from barnabas.broker.channels.broker_channels import BrokerConnections
from barnabas.broker.channels.leader_connections import InterBrokerAddresses, LeaderConnections
from barnabas.broker.foundations import Foundations
from barnabas.broker.stages.broker_metrics import register_broker_metrics, register_identity_metrics
from barnabas.broker.stages.group_coordination import late_group_coordinator
from barnabas.broker.stages.storage_stage import StorageStage
from barnabas.config.dynamic_settings import BrokerSettings
from barnabas.config.listeners import inter_broker_listener_name_of
from barnabas.coordinator.runtime.late_coordinator import LateCoordinator
from barnabas.metadata.metadata_cache import MetadataCache
from barnabas.metrics.sampled_total import SampleWindow
from barnabas.quota.quota_managers import QuotaConfig
from barnabas.quota.replication_quota import ReplicationQuotas, register_replication_quota_metrics
from barnabas.replica.isr.default_alter_partition_manager import AlterPartitionSender, DefaultAlterPartitionManager
from barnabas.replica.isr.isr_updates import AlterPartitionManager
from barnabas.replica.isr.zk_alter_partition_manager import ZkAlterPartitionManager
from barnabas.replica.replica_config import FetcherConfig, ReplicaConfig
from barnabas.replica.replica_manager import ReplicaManager
from barnabas.replica.requests.waiting_requests import WaitingRequests
from barnabas.zk.znodes.config_znodes import ConfigEntityType

if TYPE_CHECKING:
    from barnabas.coordinator.group.group_coordinator import GroupCoordinator


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
    leaders = LeaderConnections(
        connections,
        inter_broker_listener_name_of(kafka_config),
        fetching,
        broker_id,
        lambda: storage.registration.epoch,
    )
    quotas = _replication_quotas(foundations, storage)
    config = ReplicaConfig.from_kafka_config(kafka_config, broker_id=broker_id)
    alter_partitions = _isr_changes(foundations, storage, connections, metadata, config)
    replicas = ReplicaManager(
        config,
        storage.log_manager,
        WaitingRequests(config, foundations.timer, foundations.actions),
        foundations.files,
        metadata,
        foundations.clock,
        alter_partitions,
        fetching,
        leaders.connect,
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
        writer = ZkAlterPartitionManager(storage.zk_client, foundations.scheduler, foundations.clock)
        writer.start()
        return writer
    listener_name = inter_broker_listener_name_of(foundations.dynamic.current)
    # A controller of another release may know other versions.
    addresses = InterBrokerAddresses(connections, metadata, listener_name, discovers_versions=True)
    sender = AlterPartitionSender(config.broker_id, lambda: storage.registration.epoch, config.alter_partition_version)
    manager = DefaultAlterPartitionManager(sender, addresses, lambda: metadata.image.controller_id)
    foundations.lifecycle.on_stop("changes of in-sync replicas", manager.shutdown)
    return manager


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
