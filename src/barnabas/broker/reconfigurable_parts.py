"""The parts of a broker that follow its settings while it runs, and their list.

DynamicBrokerConfig has `add_reconfigurable_parts` called once: at the end of a start if the store has changed settings,
else before the first change, on the thread that checks or applies it. Each class here is a link that
DynamicBrokerConfig calls; it holds nothing that changes, so no lock.

Kafka: DynamicBrokerConfig.addReconfigurables; BrokerReconfigurable and its implementations, DynamicLogConfig,
DynamicMetricsReporters, and the reconfigurable parts of SocketServer, DataPlaneAcceptor and ListenerConnectionQuota.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from barnabas.broker.channels.dynamic_security import DynamicSecurity
from barnabas.broker.settings.dynamic_listeners import DynamicListeners
from barnabas.broker.settings.server_config import RequestHandlerConfig, SchedulerConfig
from barnabas.broker.settings.topic_log_configs import TopicLogConfigs
from barnabas.broker.stages.front_stage import BuiltStages, FrontStage
from barnabas.config.config_error import ConfigError
from barnabas.config.dynamic_settings import check_thread_count
from barnabas.config.kafka_config import KafkaConfig
from barnabas.config.listeners import inter_broker_listener_name_of, listeners_of
from barnabas.config.log_config import LogConfig
from barnabas.config.setting import Settings
from barnabas.config.topic_config_keys import TOPIC_CONFIG_KEYS
from barnabas.controller.controller_context import ElectionConfig
from barnabas.network.network_config import ListenerConfig, NetworkConfig
from barnabas.network.socket_server import SocketServer
from barnabas.replica.replica_config import FetcherConfig
from barnabas.storage.cleaner.config import CleanerConfig
from barnabas.storage.log_environment import LogManagerConfig
from barnabas.storage.log_manager import LogManager

S = TypeVar("S", bound=Settings)

# The value of log.local.retention.* that means: as long, or as much, as the whole retention.
_FOLLOW_RETENTION = -2

_LISTENER_LIMITS = ("max.connections", "max.connection.creation.rate")
_NETWORK_THREADS = "num.network.threads"


def _accept(_config: object) -> None:
    """Find nothing wrong with the new settings: their rows and the rules between them have checked all there is."""


class SettingsFollower(Generic[S]):
    """A link that hands new settings to a part of the broker, whichever they are.

    A setting that becomes dynamic in its table reaches the part without another line: which settings concern the part
    follows from the fields that its config class declares.

    kind: the config class whose dynamic settings the part follows. take_over: gives the part its new settings. check:
    raises ConfigError where the part cannot have them.
    """

    def __init__(self, kind: type[S], take_over: Callable[[S], object], check: Callable[[S], None] = _accept) -> None:
        self._kind = kind
        self._take_over = take_over
        self._check = check
        self.settings = kind.dynamic_names()

    def validate(self, current: KafkaConfig, proposed: KafkaConfig) -> None:
        """Check the new settings. Raises ConfigError: the part cannot have them."""
        self._check(self._kind.from_kafka_config(proposed))

    def reconfigure(self, previous: KafkaConfig, current: KafkaConfig) -> None:
        """Hand the new settings to the part."""
        self._take_over(self._kind.from_kafka_config(current))


class DynamicLogs:
    """A part that hands changed log settings of the broker to the logs whose topics do not override them.

    Called on the thread that also hands topics' own changes to the logs, so that the two do not cross.
    allow_unclean_election: called when replicas out of sync may lead by default.
    """

    settings = frozenset(synonym.name for key in TOPIC_CONFIG_KEYS.values() for synonym in key.synonyms)

    def __init__(
        self, log_manager: LogManager, topic_configs: TopicLogConfigs, allow_unclean_election: Callable[[], None]
    ) -> None:
        self._log_manager = log_manager
        self._topic_configs = topic_configs
        self._allow_unclean_election = allow_unclean_election

    def validate(self, current: KafkaConfig, proposed: KafkaConfig) -> None:
        """Check the retention of tiered topics. Raises ConfigError: more stays local than is kept in all."""
        log_config = LogConfig.of(proposed)
        _check_local_retention(proposed, "log.local.retention.ms", "log.retention.ms", log_config.retention_ms)
        _check_local_retention(proposed, "log.local.retention.bytes", "log.retention.bytes", log_config.retention_bytes)

    def reconfigure(self, previous: KafkaConfig, current: KafkaConfig) -> None:
        """Make the LogConfig of every topic with a log anew."""
        for topic in {log.topic_partition.topic for log in self._log_manager.all_logs()}:
            self._log_manager.update_log_config(topic, self._topic_configs.log_config(topic))
        before, now = ElectionConfig.from_kafka_config(previous), ElectionConfig.from_kafka_config(current)
        # Only when it becomes true: partitions without a leader may then get one at once, without another event.
        if now.unclean_leader_election_enable and not before.unclean_leader_election_enable:
            self._allow_unclean_election()


def _check_local_retention(config: KafkaConfig, name: str, whole_name: str, whole: int) -> None:
    """Check that no more of a tiered topic stays local than is kept in all. Raises ConfigError: more would stay."""
    local = config.integer(name)
    if whole < 0 or local == _FOLLOW_RETENTION:
        return
    if local == -1:
        raise ConfigError.invalid(name, local, f"Value must not be -1 as {whole_name} value is set as {whole}.")
    if local > whole:
        raise ConfigError.invalid(name, local, f"Value must not be more than {whole_name} property value: {whole}")


class _DynamicNetwork:
    """A part that hands changed limits of connections and threads to `sockets`, for all listeners and for one.

    broker_id: part of the threads' names.
    """

    settings = NetworkConfig.dynamic_names() | ListenerConfig.dynamic_names()
    """`listeners` is among them: a new one must find the settings of its own."""

    def __init__(self, sockets: SocketServer, broker_id: int) -> None:
        self._sockets = sockets
        self._broker_id = broker_id

    def validate(self, current: KafkaConfig, proposed: KafkaConfig) -> None:
        """Check the limits of every listener. Raises ConfigError: one is not positive, or threads change too much."""
        had = {end_point.listener_name for end_point in listeners_of(current)}
        for end_point in listeners_of(proposed):
            name = end_point.listener_name
            for setting in _LISTENER_LIMITS:
                value = _listener_integer(proposed, name, setting)
                if value <= 0:
                    raise ConfigError(f"Invalid {setting} {value}", setting)
            # A listener that is added has no threads yet, so any number of threads is allowed.
            if name in had:
                check_thread_count(
                    _NETWORK_THREADS,
                    _listener_integer(current, name, _NETWORK_THREADS),
                    _listener_integer(proposed, name, _NETWORK_THREADS),
                )
        # Made for its checks alone: a host name in a limit per address must be one that can be resolved.
        self._network_config(proposed)

    def reconfigure(self, previous: KafkaConfig, current: KafkaConfig) -> None:
        """Hand the new settings to the network."""
        self._sockets.reconfigure(self._network_config(current))

    def _network_config(self, config: KafkaConfig) -> NetworkConfig:
        return NetworkConfig.from_kafka_config(
            config, broker_id=self._broker_id, inter_broker_listener=inter_broker_listener_name_of(config)
        )


def _listener_integer(config: KafkaConfig, listener_name: str, setting: str) -> int:
    return config.of_listener(listener_name).integer(setting)


class NoMetricReporters:
    """A part that keeps reporters, which are Java classes, from being added to `metric.reporters`.

    Reporters may be removed.
    """

    settings = frozenset({"metric.reporters"})

    def validate(self, current: KafkaConfig, proposed: KafkaConfig) -> None:
        """Check that no reporter is added. Raises ConfigError: one is."""
        added = [name for name in proposed.list("metric.reporters") if name not in current.list("metric.reporters")]
        if added:
            raise ConfigError(
                f"metric.reporters: the Java class {added[0]} cannot be loaded; metrics are read at metrics.listen",
                "metric.reporters",
            )

    def reconfigure(self, previous: KafkaConfig, current: KafkaConfig) -> None:
        """Do nothing: there is no reporter to remove."""


def add_reconfigurable_parts(stages: BuiltStages, front: FrontStage, advertise: Callable[[], None]) -> None:
    """Have every part follow its settings.

    The scheduler and the log manager were made from the static settings, before the store could be read. advertise:
    registers the broker anew, with the listeners it has by then.
    """
    foundations, log_manager = stages.foundations, stages.storage.log_manager
    dynamic, static, scheduler = foundations.dynamic, foundations.static, foundations.scheduler
    sockets, handlers, controller = front.sockets, front.handlers, stages.control.controller
    handler_threads = SettingsFollower(RequestHandlerConfig, lambda pool: handlers.data_plane.resize(pool.threads))
    scheduler_threads = SettingsFollower(SchedulerConfig, lambda pool: scheduler.resize(pool.threads))
    dynamic.add_reconfigurable(_DynamicNetwork(sockets, stages.storage.identity.broker_id))
    dynamic.add_reconfigurable(handler_threads)
    dynamic.add_reconfigurable(scheduler_threads, made_from=static)
    fetchers = stages.replication.replicas.fetchers
    dynamic.add_reconfigurable(SettingsFollower(FetcherConfig, lambda fetching: fetchers().resize(fetching.fetchers)))
    dynamic.add_reconfigurable(SettingsFollower(LogManagerConfig, log_manager.reconfigure), made_from=static)
    dynamic.add_reconfigurable(
        DynamicLogs(log_manager, stages.storage.topic_configs, controller.enable_unclean_leader_election)
    )
    # Before the listeners, which are opened with the key stores of the new settings.
    security = DynamicSecurity(front.channels, stages.replication.connections.security)
    dynamic.add_reconfigurable(security)
    dynamic.follow_files(security)
    # After _DynamicNetwork, since parts are called in this sequence: a listener that opens must find its own limits.
    dynamic.add_reconfigurable(DynamicListeners(sockets, advertise))
    dynamic.add_reconfigurable(NoMetricReporters())
    if (cleaner := log_manager.cleaner) is not None:
        dynamic.add_reconfigurable(SettingsFollower(CleanerConfig, cleaner.reconfigure, cleaner.validate))
