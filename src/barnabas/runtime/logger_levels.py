"""The levels of the process's loggers, in the words of log4j, as Kafka's admin clients see and set them.

Used by DescribeConfigs and IncrementalAlterConfigs for broker loggers, on any thread; the logging module has its own
lock, and `_lock` guards the callbacks. A level that is set lasts until the process ends. Kafka: Log4jController,
LogLevelConfig.

The names of Kafka's loggers, with which its documentation and its users' tools find faults, stand for ours: a level set
for `kafka.controller` is that of `barnabas.controller`, and is shown under both names.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Final
from weakref import WeakMethod

ROOT_LOGGER: Final = "root"
TRACE: Final = 5
"""Kafka's level below DEBUG, for which Python has no name of its own."""
logging.addLevelName(TRACE, "TRACE")

_LEVELS: Final = {
    "DEBUG": logging.DEBUG,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
    "INFO": logging.INFO,
    "TRACE": TRACE,
    "WARN": logging.WARNING,
}
LEVEL_NAMES: Final = tuple(_LEVELS)
"""All levels, sorted by name."""

_KAFKA_LOGGERS: Final[Mapping[str, tuple[str, ...]]] = {
    "kafka": ("barnabas",),
    "kafka.cluster": ("barnabas.replica",),
    "kafka.cluster.Partition": ("barnabas.replica.partitions.partition",),
    "kafka.controller": ("barnabas.controller",),
    "kafka.controller.ControllerChannelManager": ("barnabas.controller.network_broker_channel",),
    "kafka.controller.KafkaController": ("barnabas.controller",),
    "kafka.controller.RequestSendThread": ("barnabas.controller.network_broker_channel",),
    "kafka.controller.TopicDeletionManager": ("barnabas.controller.topic_deletion_manager",),
    "kafka.controller.ZkPartitionStateMachine": ("barnabas.controller.partition_state_machine",),
    "kafka.controller.ZkReplicaStateMachine": ("barnabas.controller.replica_state_machine",),
    "kafka.coordinator": ("barnabas.coordinator",),
    "kafka.coordinator.group": ("barnabas.coordinator.group",),
    "kafka.coordinator.group.GroupCoordinator": ("barnabas.coordinator.group",),
    "kafka.coordinator.group.GroupMetadataManager": (
        "barnabas.coordinator.group.group_loading",
        "barnabas.coordinator.group.offsets",
    ),
    "kafka.coordinator.transaction": ("barnabas.coordinator.transaction",),
    "kafka.coordinator.transaction.TransactionCoordinator": ("barnabas.coordinator.transaction",),
    "kafka.coordinator.transaction.TransactionMarkerChannelManager": (
        "barnabas.coordinator.transaction.verification_sender",
    ),
    "kafka.coordinator.transaction.TransactionStateManager": (
        "barnabas.coordinator.transaction.transaction_loading",
        "barnabas.coordinator.transaction.transaction_log",
    ),
    "kafka.log": ("barnabas.storage",),
    "kafka.log.LocalLog": ("barnabas.storage.log.local_log",),
    "kafka.log.LogCleaner": ("barnabas.storage.cleaner",),
    "kafka.log.LogCleanerManager": ("barnabas.storage.cleaner",),
    "kafka.log.LogLoader": ("barnabas.storage.log.loader",),
    "kafka.log.LogManager": ("barnabas.storage.log_manager",),
    "kafka.log.UnifiedLog": ("barnabas.storage.log",),
    "kafka.network": ("barnabas.network", "barnabas.transport"),
    "kafka.network.Acceptor": ("barnabas.network.acceptor",),
    "kafka.network.ConnectionQuotas": ("barnabas.network.connections.connection_quotas",),
    "kafka.network.DataPlaneAcceptor": ("barnabas.network.acceptor",),
    "kafka.network.Processor": ("barnabas.network.processor", "barnabas.network.connections.answer_queue"),
    "kafka.network.RequestChannel": (
        "barnabas.network.requests.request_channel",
        "barnabas.network.connections.answer_queue",
    ),
    "kafka.network.SocketServer": ("barnabas.network.socket_server",),
    "kafka.security": ("barnabas.security",),
    "kafka.server": (
        "barnabas.broker",
        "barnabas.api",
        "barnabas.metadata",
        "barnabas.purgatory",
        "barnabas.quota",
        "barnabas.replica",
    ),
    "kafka.server.ClientQuotaManager": ("barnabas.quota",),
    "kafka.server.DelegationTokenManager": ("barnabas.metadata.delegation_token_manager",),
    "kafka.server.DynamicBrokerConfig": ("barnabas.broker.settings.dynamic_broker_config",),
    "kafka.server.KafkaApis": ("barnabas.api",),
    "kafka.server.KafkaRequestHandler": ("barnabas.network.request_handler",),
    "kafka.server.KafkaRequestHandlerPool": ("barnabas.network.request_handler",),
    "kafka.server.KafkaServer": ("barnabas.broker",),
    "kafka.server.MetadataCache": ("barnabas.metadata.metadata_cache",),
    "kafka.server.ReplicaAlterLogDirsThread": ("barnabas.replica.log_dir_moves",),
    "kafka.server.ReplicaFetcherManager": ("barnabas.replica.fetcher",),
    "kafka.server.ReplicaFetcherThread": ("barnabas.replica.fetcher",),
    "kafka.server.ReplicaManager": ("barnabas.replica",),
    "kafka.server.ZkAdminManager": ("barnabas.metadata.topic_admin", "barnabas.metadata.config_admin"),
    "kafka.utils": ("barnabas.runtime",),
    "kafka.zk": ("barnabas.zk",),
    "kafka.zk.KafkaZkClient": ("barnabas.zk.kafka_zk_client",),
    "kafka.zookeeper": ("barnabas.zk.zookeeper.zookeeper_store", "barnabas.zk.kazoo"),
    "kafka.zookeeper.ZooKeeperClient": ("barnabas.zk.zookeeper.zookeeper_store", "barnabas.zk.kazoo"),
    "org.apache.kafka": ("barnabas",),
    "org.apache.kafka.clients": ("barnabas.rpc", "barnabas.clients"),
    "org.apache.kafka.clients.NetworkClient": ("barnabas.rpc.network_client", "barnabas.rpc.peer_connection"),
    "org.apache.kafka.common.metrics": ("barnabas.metrics",),
    "org.apache.kafka.common.network": ("barnabas.transport",),
    "org.apache.kafka.common.network.Selector": (
        "barnabas.transport.selector",
        "barnabas.transport.channel.open_channels",
    ),
    "org.apache.kafka.common.security": ("barnabas.security",),
    "org.apache.kafka.coordinator.group": ("barnabas.coordinator.group",),
    "org.apache.kafka.coordinator.transaction": ("barnabas.coordinator.transaction",),
    "org.apache.kafka.server": ("barnabas.broker", "barnabas.api"),
    "org.apache.kafka.storage": ("barnabas.storage",),
    "org.apache.zookeeper": ("barnabas.zk.kazoo",),
}
"""Kafka's packages and main classes, with the loggers of ours that do their work. `kafka.request.logger`,
`kafka.authorizer.logger` and `state.change.logger` have the same names here."""

_lock = threading.Lock()
_followers: list[WeakMethod[Callable[[], None]]] = []


def when_levels_change(callback: Callable[[], None]) -> None:
    """Call a bound method, while its object lives, after each change of a level: for those who keep what they read."""
    with _lock:
        _followers[:] = [each for each in _followers if each() is not None]
        _followers.append(WeakMethod(callback))


def logger_levels() -> dict[str, str]:
    """Return every logger with the level it logs at: its own, or the nearest ancestor's."""
    loggers = logging.root.manager.loggerDict.copy()
    levels = {ROOT_LOGGER: _level_name(logging.root.level)}
    for name, logger in loggers.items():
        if isinstance(logger, logging.Logger):  # a PlaceHolder stands for a name that has only descendants
            levels[name] = _level_name(logger.getEffectiveLevel())
    for name, ours in _KAFKA_LOGGERS.items():
        levels[name] = _level_name(logging.getLogger(ours[0]).getEffectiveLevel())
    return levels


def logger_exists(name: str) -> bool:
    """Return whether a module logs, or has logged, under this name, or a name of Kafka's stands for such modules."""
    return (
        name == ROOT_LOGGER
        or name in _KAFKA_LOGGERS
        or isinstance(logging.root.manager.loggerDict.get(name), logging.Logger)
    )


def set_logger_level(name: str, level: str | None) -> None:
    """Let a logger, by our name or Kafka's, log from `level` (one of LEVEL_NAMES) on; None: as its ancestors do."""
    number = logging.NOTSET if level is None else _LEVELS[level]
    for each in _KAFKA_LOGGERS.get(name, (name,)):
        logger = logging.root if each == ROOT_LOGGER else logging.getLogger(each)
        logger.setLevel(number)
    with _lock:
        callbacks = [callback for each in _followers if (callback := each()) is not None]
    for callback in callbacks:
        callback()


def _level_name(level: int) -> str:
    """Return the name of the lowest level that is at least this one."""
    return next(
        (name for name, number in sorted(_LEVELS.items(), key=lambda item: item[1]) if number >= level), "FATAL"
    )
