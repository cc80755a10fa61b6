"""The life of a broker: its state, its exit status, and the stops of the parts that have started.

Made by BrokerServer. `on_stop` and `stop` run on the main thread, which starts and stops the broker; `fail` is called
by any thread on which something failed that the broker cannot go on without. No lock: the list of stops belongs to the
main thread, and `exit_status` is set before the event that others wait for.

Kafka: KafkaServer.startup, shutdown; org.apache.kafka.metadata.BrokerState.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from enum import IntEnum

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
