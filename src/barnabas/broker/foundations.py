"""The first stage of a broker's start: its life cycle, and the parts that every later stage uses.

Both are made by BrokerServer on the main thread. The threads that start here run until the broker stops, and are the
last to stop: whatever is closed before may still schedule work. `BrokerLifecycle.on_stop` and `stop` run on the main
thread, which starts and stops the broker; `fail` is called by any thread on which something failed that the broker
cannot go on without. No lock: the list of stops belongs to the main thread, and `exit_status` is set before the event
that others wait for.

Kafka: KafkaServer.startup, shutdown; org.apache.kafka.metadata.BrokerState.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple

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

logger = logging.getLogger(__name__)

FATAL_EXIT_STATUS = 1


class BrokerState(IntEnum):
    """The states from the start to the end, by Kafka's numbers; the gauge BrokerState and /healthz show them."""

    NOT_RUNNING = 0
    STARTING = 1
    RECOVERY = 2
    """Logs are being loaded."""
    RUNNING = 3
    PENDING_CONTROLLED_SHUTDOWN = 6
    SHUTTING_DOWN = 7


class BrokerLifecycle:
    """The life of one broker. `exit_status`: 0 unless `fail` was called.

    Every part of the broker calls `on_stop` as soon as it has started. A start that fails halfway has then registered
    the stops of exactly those parts that run.
    """

    def __init__(self) -> None:
        self.state = BrokerState.NOT_RUNNING
        self.exit_status = 0
        self._stops: list[tuple[str, Callable[[], None]]] = []
        self._ended = threading.Event()

    def on_stop(self, what: str, stop: Callable[[], None]) -> None:
        """Have `stop` called when the broker stops, before the stops registered so far. what: its name in the log."""
        self._stops.append((what, stop))

    def fail(self, error: BaseException) -> None:
        """Report an error that the broker cannot survive: the thread in `await_end` goes on, and stops the broker."""
        logger.critical("The broker stops after a fatal error: %s", error)
        self.state = BrokerState.SHUTTING_DOWN
        self.exit_status = FATAL_EXIT_STATUS
        self._ended.set()

    def await_end(self) -> None:
        """Wait until `stop` has finished or `fail` was called."""
        self._ended.wait()

    def stop(self) -> None:
        """Call the registered stops, the latest first; a second call does nothing.

        An error of one stop is logged, and the others are called all the same.
        """
        self.state = BrokerState.SHUTTING_DOWN
        while self._stops:
            # Removed before the call, so that no stop is called twice.
            what, stop = self._stops.pop()
            try:
                stop()
            except Exception:
                logger.exception("stopping %s failed", what)
        self.state = BrokerState.NOT_RUNNING
        self._ended.set()


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
