"""The second stage of a broker's start: its directories, metadata store, identity, settings and logs.

Built by BrokerServer on the main thread. The order is forced: the directories are locked before anything in them is
opened; the metadata store lies in one of them; the store has the broker's identity and the settings of each topic's
logs, which are needed to load the logs.

Kafka: the part of KafkaServer.startup from initZkClient to logManager.startup; getBrokerIdAndOfflineDirs,
getOrGenerateClusterId, and the checks of meta.properties; LogManager.isStrayReplica.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

from barnabas.broker.foundations import BrokerState, Foundations
from barnabas.broker.settings.dynamic_broker_config import DynamicBrokerConfig, PasswordSecrets
from barnabas.broker.settings.server_config import ServerConfig
from barnabas.broker.settings.topic_log_configs import TopicLogConfigs
from barnabas.broker.stages.log_dir_failures import LogDirFailures
from barnabas.config.config_error import ConfigError
from barnabas.config.kafka_config import KafkaConfig
from barnabas.config.setting import Settings, computed, setting
from barnabas.metadata.broker_registration import BrokerRegistration, get_or_generate_cluster_id
from barnabas.metadata.cluster_features import ClusterFeatures, supported_features
from barnabas.metadata.stored_configs import ConfigChangeListener, ConfigRepository
from barnabas.storage.cleaner.config import CleanerConfig
from barnabas.storage.cleaner.log_cleaner import LogCleaner
from barnabas.storage.cleaner.log_cleaner_manager import CleanerLogs
from barnabas.storage.directories.log_dirs import LogDirectories
from barnabas.storage.errors import InconsistentMetaProperties
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.log_environment import LogManagerConfig
from barnabas.storage.log_manager import LogManager
from barnabas.storage.storage_metrics import register_loading_metrics
from barnabas.zk.kafka_zk_client import KafkaZkClient
from barnabas.zk.store.embedded_store import EmbeddedStore
from barnabas.zk.store.store import Store
from barnabas.zk.store.znode_table import MOVED_FILE
from barnabas.zk.znodes.config_znodes import ConfigEntityType

logger = logging.getLogger(__name__)

EXPIRY_SLACK_MS: Final = 5_000
"""ZooKeeper rounds the end of a session up to its next tick, of two seconds by default."""


class StorageStage(NamedTuple):
    """The store and the logs, opened and loaded, and the identity of this broker."""

    identity: BrokerIdentity
    zk_client: KafkaZkClient
    features: ClusterFeatures
    """Loaded when the controller has set them up."""
    registration: BrokerRegistration
    """The registration of this broker among the live ones: made here, used when the broker joins its cluster."""
    topic_configs: TopicLogConfigs
    config_changes: ConfigChangeListener
    log_manager: LogManager
    log_dir_failures: LogDirFailures
    """The failed directories: queued already, handled from the replication stage on."""
    metadata_dir: str | None
    """The directory of the embedded store, which the broker needs to run; None with ZooKeeper."""


def open_storage(foundations: Foundations, open_files: int) -> StorageStage:
    """Open the directories and the store, load all logs. open_files: how many files of segments may be open at once.

    Raises OSError when no directory can be used or that of the metadata has failed, LogDirectoryLocked or
    StoreLockedError when another broker has them, StoreUnavailableError when ZooKeeper does not answer, ConfigError or
    InconsistentMetaProperties when they are another broker's.
    """
    lifecycle = foundations.lifecycle
    server = ServerConfig.from_kafka_config(foundations.static)
    failures = LogDirFailures(lifecycle.fail, foundations.clock, timeout_ms=server.log_dir_failure_timeout_ms)
    directories = LogDirectories(foundations.static.log_dirs, foundations.files, failures.notify)
    directories.open()
    lifecycle.on_stop("log directories", directories.release)
    metadata_dir = _metadata_dir(server, directories)
    zk_client = KafkaZkClient(_open_store(foundations, metadata_dir, directories), foundations.clock)
    zk_client.make_sure_persistent_paths_exist()
    identity = establish_identity(foundations.static, zk_client, directories)
    repository = ConfigRepository(zk_client)
    _encode_passwords_again(foundations.dynamic, repository, str(identity.broker_id))
    # Before the logs are loaded: the store may have other defaults for them than the file.
    foundations.dynamic.load(
        repository.broker_overrides, identity.broker_id, partial(_check_security_of_start, foundations)
    )
    topic_configs = TopicLogConfigs(repository, lambda: foundations.dynamic.current)
    registration = BrokerRegistration(
        zk_client,
        partial(foundations.listeners.broker_info, identity.broker_id),
        patience_ms=server.zookeeper_session_timeout_ms + EXPIRY_SLACK_MS,
    )
    log_manager = LogManager(
        directories,
        foundations.files,
        foundations.scheduler,
        foundations.clock,
        LogManagerConfig.from_kafka_config(foundations.static, open_files=open_files),
        topic_configs.log_config,
    )
    # Before the loading, so that a start that fails in the middle of it closes the logs that are open. The epoch is
    # read at the stop, since the broker registers later.
    lifecycle.on_stop("logs", lambda: log_manager.shutdown(registration.epoch))
    register_loading_metrics(foundations.metrics, log_manager)
    _load_logs(foundations, zk_client, log_manager, topic_configs)
    directories.keep_room()
    config_changes = ConfigChangeListener(zk_client, foundations.scheduler, foundations.clock)
    config_changes.register(ConfigEntityType.TOPIC, topic_configs.updater(log_manager.update_log_config))
    config_changes.register(ConfigEntityType.BROKER, foundations.dynamic.entity_changed)
    # After the loading: a notice about a topic finds the topic's logs.
    config_changes.start()
    lifecycle.on_stop("settings", config_changes.stop)
    return StorageStage(
        identity=identity,
        zk_client=zk_client,
        features=ClusterFeatures(zk_client, supported_features(server.emulated_release)),
        registration=registration,
        topic_configs=topic_configs,
        config_changes=config_changes,
        log_manager=log_manager,
        log_dir_failures=failures,
        metadata_dir=metadata_dir,
    )


def _check_security_of_start(foundations: Foundations, config: KafkaConfig) -> None:
    """Check the listeners and logins of a start with changed settings. Raises ConfigError: one cannot be used."""
    from barnabas.broker.channels.dynamic_security import check_security_of_start

    check_security_of_start(config, foundations.clock, foundations.scheduler)


def _encode_passwords_again(dynamic: DynamicBrokerConfig, repository: ConfigRepository, broker: str) -> None:
    """Replace stored passwords that `password.encoder.old.secret` has encoded."""
    if not PasswordSecrets.from_kafka_config(dynamic.current).has_old:
        return
    encoded = dynamic.passwords.encoded_again(lambda: repository.broker_overrides(broker))
    if encoded is not None:
        repository.change_broker_config(broker, encoded)


def _metadata_dir(server: ServerConfig, directories: LogDirectories) -> str | None:
    """Return the directory of the embedded store, None with ZooKeeper. Raises OSError when it has failed."""
    path = server.metadata_dir
    if path in directories.offline_paths():
        raise OSError(f"Shutdown broker because the metadata log dir {path} has failed")
    return path


def _open_store(foundations: Foundations, metadata_dir: str | None, directories: LogDirectories) -> Store:
    """Open a session with the embedded store in `metadata_dir`, or with ZooKeeper. Raises ConfigError, StoreError."""
    if metadata_dir is None:
        return _connect_to_zookeeper(foundations)
    mark = os.path.join(metadata_dir, MOVED_FILE)
    if foundations.files.exists(mark):
        from barnabas.broker.metadata_migration import refuse_moved

        refuse_moved(foundations.files, mark)

    def make_room(error: OSError) -> bool:
        return directories.ran_full(metadata_dir, "changing the metadata", error)

    store = EmbeddedStore(metadata_dir, foundations.clock, foundations.lifecycle.fail, make_room)
    store.start()
    foundations.lifecycle.on_stop("metadata store", store.close)
    return store.new_session()


def _connect_to_zookeeper(foundations: Foundations) -> Store:
    try:
        # Here, since a broker that stands alone needs no kazoo.
        from barnabas.zk.zookeeper.zookeeper_config import ZookeeperConfig
        from barnabas.zk.zookeeper.zookeeper_metrics import ZookeeperMetrics
        from barnabas.zk.zookeeper.zookeeper_store import ZookeeperStore
    except ImportError as error:
        raise ConfigError(
            f"zookeeper.connect needs the extra zookeeper: pip install barnabas[zookeeper] ({error})",
            "zookeeper.connect",
        ) from error
    metrics = ZookeeperMetrics(foundations.clock.nanoseconds)
    foundations.metrics.family(metrics)
    store = ZookeeperStore(ZookeeperConfig.from_kafka_config(foundations.static), metrics)
    # Before the start, whose failure may leave kazoo's threads behind.
    foundations.lifecycle.on_stop("metadata store", store.close)
    store.start()
    from barnabas.broker.metadata_migration import check_still_in_zookeeper

    check_still_in_zookeeper(store)
    return store


def _load_logs(
    foundations: Foundations, zk_client: KafkaZkClient, log_manager: LogManager, topic_configs: TopicLogConfigs
) -> None:
    def new_cleaner(log_dirs: Sequence[str], logs: CleanerLogs) -> LogCleaner:
        config = CleanerConfig.from_kafka_config(foundations.dynamic.current)
        return LogCleaner(config, log_dirs, logs, foundations.files, foundations.clock)

    is_cleaning = CleanerConfig.from_kafka_config(foundations.static).is_enabled
    topic_configs.begin_loading()
    # Made before the loading: the topic ids are read once, and not by each loading thread.
    is_stray = _stray_check(zk_client)
    foundations.lifecycle.state = BrokerState.RECOVERY
    log_manager.startup(is_stray, make_cleaner=new_cleaner if is_cleaning else None)
    topic_configs.end_loading()


def _stray_check(zk_client: KafkaZkClient) -> Callable[[UnifiedLog], bool]:
    """Return a function that tells whether a log is of an earlier topic of the same name.

    Such a log could never be served, and would keep the log of the new topic out. A log whose topic the store does not
    know stays where it is, with a warning: the store may be incomplete, for example when the log directories come from
    another broker and have not been adopted yet. The function is called on the threads that load logs; the topic ids
    are read before, so no lock. Only Kafka's KRaft brokers check this; its ZooKeeper brokers reject such a log for
    ever.
    """
    known = zk_client.topics.assignments(zk_client.topics.all_topics())
    topic_ids = {found.topic: found.topic_id for found in known}

    def is_stray(log: UnifiedLog) -> bool:
        topic = log.topic_partition.topic
        if topic not in topic_ids:
            logger.warning("The log in %s belongs to a topic that does not exist; it stays where it is", log.directory)
            return False
        expected = topic_ids[topic]
        # Topics of Kafka before 2.8 have no id, and neither have their logs.
        return expected is not None and log.topic_id is not None and log.topic_id != expected

    return is_stray


GENERATE = -1


class IdentityConfig(Settings):
    """The settings from which a broker gets its id."""

    broker_id: int = computed(lambda config: config.integer("broker.id"), "broker.id", "node.id")
    is_id_generated: bool = setting("broker.id.generation.enable")
    largest_given_id: int = setting("reserved.broker.max.id")


class BrokerIdentity(NamedTuple):
    """The ids of a broker and of its cluster."""

    broker_id: int
    cluster_id: str


def establish_identity(config: KafkaConfig, zk_client: KafkaZkClient, directories: LogDirectories) -> BrokerIdentity:
    """Determine the ids of this broker and its cluster, and write them into every log directory.

    `broker.id` decides; -1 takes the id in the directories, or generates one if that is enabled. Raises ConfigError:
    the directories name several brokers, or no id may be generated. Raises InconsistentMetaProperties: a directory
    belongs to another broker or cluster.
    """
    found = [properties for properties in directories.meta_properties().values() if properties is not None]
    remembered = {properties.broker_id for properties in found if properties.broker_id is not None} - {GENERATE}
    identity = IdentityConfig.from_kafka_config(config)
    broker_id = identity.broker_id
    if broker_id == GENERATE:
        if len(remembered) > 1:
            raise ConfigError(
                f"The log directories belong to several brokers: {sorted(remembered)}; name those of one broker",
                "log.dirs",
            )
        if remembered:
            broker_id = remembered.pop()
        elif identity.is_id_generated:
            # Above `reserved.broker.max.id`, so that a generated id never equals one that an operator chose.
            broker_id = zk_client.generate_broker_id() + identity.largest_given_id
        else:
            raise ConfigError("broker.id is -1, and broker.id.generation.enable is false: set one of them", "broker.id")
    # Before an id is generated: beside an empty store, the logs of another cluster would be taken for this cluster's.
    if zk_client.cluster_id() is None:
        for path, properties in directories.meta_properties().items():
            if properties is not None and properties.cluster_id is not None:
                raise InconsistentMetaProperties(
                    f"{path} belongs to cluster {properties.cluster_id}, but the metadata store is empty. If an"
                    " Apache Kafka wrote it, take it over with `barnabas log adopt`."
                )
    cluster_id = get_or_generate_cluster_id(zk_client)
    directories.check_and_write_meta_properties(cluster_id, broker_id)
    return BrokerIdentity(broker_id, cluster_id)
