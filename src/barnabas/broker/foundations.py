"""The first stage of a broker's start: the parts that every later stage uses, which know nothing of Kafka.

Built by BrokerServer on the main thread. The threads that start here run until the broker stops, and are the last to
stop: whatever is closed before may still schedule work. Kafka: the first lines of KafkaServer.startup.
"""

from __future__ import annotations

from typing import NamedTuple

from barnabas.broker.lifecycle import BrokerLifecycle
from barnabas.broker.settings.dynamic_broker_config import DynamicBrokerConfig
from barnabas.broker.settings.own_listeners import OwnListeners
from barnabas.broker.settings.server_config import SchedulerConfig
from barnabas.config.kafka_config import KafkaConfig
from barnabas.metrics.metrics_registry import MetricsRegistry
from barnabas.purgatory.action_queue import ActionQueue
from barnabas.purgatory.timer import ExpirationExecutor, SystemTimer
from barnabas.runtime.clock import SystemClock
from barnabas.runtime.files import OperatingSystemFiles
from barnabas.runtime.scheduler import ThreadScheduler


class Foundations(NamedTuple):
    """The settings, time, disk, threads, metrics and life cycle of a broker."""

    static: KafkaConfig
    """The settings of the file and the command line."""
    dynamic: DynamicBrokerConfig
    """The settings in force: the static ones until the store has been read."""
    listeners: OwnListeners
    metrics: MetricsRegistry
    lifecycle: BrokerLifecycle
    clock: SystemClock
    files: OperatingSystemFiles
    actions: ActionQueue
    timer: SystemTimer
    scheduler: ThreadScheduler


def start_foundations(static: KafkaConfig, metrics: MetricsRegistry, lifecycle: BrokerLifecycle) -> Foundations:
    """Start the threads for expired operations, the timer and the scheduler."""
    clock = SystemClock()
    actions = ActionQueue()
    executor = ExpirationExecutor(actions)
    # Started before the timer, which hands it expired operations, and therefore stopped after the timer.
    executor.start()
    lifecycle.on_stop("expiration executor", executor.shutdown)
    timer = SystemTimer(clock, executor.execute)
    timer.start()
    lifecycle.on_stop("timer", timer.shutdown)
    scheduler = ThreadScheduler(SchedulerConfig.from_kafka_config(static).threads, clock)
    scheduler.start()
    lifecycle.on_stop("scheduler", scheduler.shutdown)
    dynamic = DynamicBrokerConfig(static)
    return Foundations(
        static=static,
        dynamic=dynamic,
        listeners=OwnListeners(lambda: dynamic.current),
        metrics=metrics,
        lifecycle=lifecycle,
        clock=clock,
        files=OperatingSystemFiles(),
        actions=actions,
        timer=timer,
        scheduler=scheduler,
    )
