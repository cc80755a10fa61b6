"""Names the parts of a broker that follow its settings while it runs.

Called by BrokerServer once, on the main thread, when all parts exist. Kafka: DynamicBrokerConfig.addReconfigurables.
"""

from __future__ import annotations

from collections.abc import Callable

from barnabas.broker.dynamic_broker_config import DynamicBrokerConfig
from barnabas.broker.dynamic_listeners import DynamicListeners
from barnabas.broker.dynamic_logs import DynamicLogs
from barnabas.broker.dynamic_network import DynamicNetwork
from barnabas.broker.handler_pools import HandlerPools
from barnabas.broker.no_metric_reporters import NoMetricReporters
from barnabas.broker.settings_follower import SettingsFollower
from barnabas.broker.thread_pools_config import RequestHandlerConfig, SchedulerConfig
from barnabas.broker.topic_log_configs import TopicLogConfigs
from barnabas.config.kafka_config import KafkaConfig
from barnabas.controller.controller import Controller
from barnabas.network.socket_server import SocketServer
from barnabas.runtime.scheduler import ThreadScheduler
from barnabas.storage.cleaner.config import CleanerConfig
from barnabas.storage.log_manager import LogManager
from barnabas.storage.log_manager_config import LogManagerConfig


def add_reconfigurable_parts(
    dynamic: DynamicBrokerConfig,
    static: KafkaConfig,
    broker_id: int,
    log_manager: LogManager,
    topic_configs: TopicLogConfigs,
    scheduler: ThreadScheduler,
    sockets: SocketServer,
    handlers: HandlerPools,
    controller: Controller,
    advertise: Callable[[], None],
) -> None:
    """Have every part follow its settings.

    static: what the scheduler and the log manager were made from, before the store could be read. advertise: registers
    the broker anew, with the listeners it has by then.
    """
    handler_threads = SettingsFollower(RequestHandlerConfig, lambda pool: handlers.data_plane.resize(pool.threads))
    scheduler_threads = SettingsFollower(SchedulerConfig, lambda pool: scheduler.resize(pool.threads))
    dynamic.add_reconfigurable(DynamicNetwork(sockets, broker_id))
    dynamic.add_reconfigurable(handler_threads)
    dynamic.add_reconfigurable(scheduler_threads, made_from=static)
    dynamic.add_reconfigurable(SettingsFollower(LogManagerConfig, log_manager.reconfigure), made_from=static)
    dynamic.add_reconfigurable(DynamicLogs(log_manager, topic_configs, controller.enable_unclean_leader_election))
    dynamic.add_reconfigurable(DynamicListeners(sockets, advertise))
    dynamic.add_reconfigurable(NoMetricReporters())
    if (cleaner := log_manager.cleaner) is not None:
        dynamic.add_reconfigurable(SettingsFollower(CleanerConfig, cleaner.reconfigure, cleaner.validate))
