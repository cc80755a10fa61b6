"""The list of the parts of a broker that follow its settings while it runs.

Called by BrokerServer once, on the main thread, when all parts exist. Kafka: DynamicBrokerConfig.addReconfigurables.
"""

from __future__ import annotations

from collections.abc import Callable

from barnabas.broker.dynamic_listeners import DynamicListeners
from barnabas.broker.dynamic_logs import DynamicLogs
from barnabas.broker.dynamic_network import DynamicNetwork
from barnabas.broker.dynamic_security import DynamicSecurity
from barnabas.broker.front_stage import BuiltStages, FrontStage
from barnabas.broker.settings_follower import SettingsFollower
from barnabas.broker.thread_pools_config import RequestHandlerConfig, SchedulerConfig
from barnabas.config.config_error import ConfigError
from barnabas.config.kafka_config import KafkaConfig
from barnabas.replica.fetcher.fetcher_config import FetcherConfig
from barnabas.storage.cleaner.config import CleanerConfig
from barnabas.storage.log_manager_config import LogManagerConfig


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
    dynamic.add_reconfigurable(DynamicNetwork(sockets, stages.storage.identity.broker_id))
    dynamic.add_reconfigurable(handler_threads)
    dynamic.add_reconfigurable(scheduler_threads, made_from=static)
    fetchers = stages.replication.replicas.fetchers
    dynamic.add_reconfigurable(SettingsFollower(FetcherConfig, lambda fetching: fetchers.resize(fetching.fetchers)))
    dynamic.add_reconfigurable(SettingsFollower(LogManagerConfig, log_manager.reconfigure), made_from=static)
    dynamic.add_reconfigurable(
        DynamicLogs(log_manager, stages.storage.topic_configs, controller.enable_unclean_leader_election)
    )
    # Before the listeners, which are opened with the key stores of the new settings.
    security = DynamicSecurity(front.channels, stages.replication.connections.security)
    dynamic.add_reconfigurable(security)
    dynamic.follow_files(security)
    # After DynamicNetwork, since parts are called in this sequence: a listener that opens must find its own limits.
    dynamic.add_reconfigurable(DynamicListeners(sockets, advertise))
    dynamic.add_reconfigurable(NoMetricReporters())
    if (cleaner := log_manager.cleaner) is not None:
        dynamic.add_reconfigurable(SettingsFollower(CleanerConfig, cleaner.reconfigure, cleaner.validate))


class NoMetricReporters:
    """A part that keeps reporters, which are Java classes, from being added to `metric.reporters`.

    Reporters may be removed. Kafka: DynamicMetricsReporters.
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
