"""The `log-dir-failure` thread: handles failed log directories, away from the threads that found the failure.

LogDirectories notifies it on any thread, perhaps while that thread holds locks. It acts on its own thread without
locks: the replica layer stops serving the partitions in the directory, and the controller is notified, so that other
replicas lead. The broker ends when its last log directory or that of the metadata store has failed, or when the
controller cannot be reached within `log.dir.failure.timeout.ms`.

Kafka: LogDirFailureChannel, ReplicaManager.LogDirFailureHandler.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Collection

from barnabas.runtime.clock import NANOSECONDS_PER_MILLISECOND, Clock
from barnabas.zk.store.errors import StoreError

logger = logging.getLogger(__name__)

RETRY_SECONDS = 1.0


class LogDirFailures:
    """The thread and its queue. fail: ends the broker. timeout_ms: how long the controller may be out of reach."""

    def __init__(
        self,
        fail: Callable[[BaseException], None],
        clock: Clock,
        *,
        timeout_ms: int,
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        self._fail = fail
        self._clock = clock
        self._timeout_ms = timeout_ms
        self._retry_seconds = retry_seconds
        self._failed: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def notify(self, log_dir: str) -> None:
        """Queue a failed directory."""
        self._failed.put(log_dir)

    def start(
        self,
        stop_serving: Callable[[str], None],
        live_log_dirs: Callable[[], Collection[str]],
        tell_controller: Callable[[], None],
        needed_dir: str | None,
    ) -> None:
        """Handle failures from now on, the queued ones first.

        stop_serving: takes the directory out of service. needed_dir: the directory that the broker needs to run.
        """
        self._thread = threading.Thread(
            target=self._run,
            args=(stop_serving, live_log_dirs, tell_controller, needed_dir),
            name="log-dir-failure",
            daemon=True,
        )
        self._thread.start()

    def shutdown(self) -> None:
        """Stop the thread."""
        self._stopped.set()
        self._failed.put(None)
        if self._thread is not None:
            self._thread.join()

    def _run(
        self,
        stop_serving: Callable[[str], None],
        live_log_dirs: Callable[[], Collection[str]],
        tell_controller: Callable[[], None],
        needed_dir: str | None,
    ) -> None:
        while (log_dir := self._failed.get()) is not None:
            try:
                stop_serving(log_dir)
                if not live_log_dirs():
                    self._fail(OSError(f"Shutdown broker because all log dirs have failed, {log_dir} last"))
                elif log_dir == needed_dir:
                    self._fail(OSError(f"Shutdown broker because the metadata log dir {log_dir} has failed"))
                else:
                    self._notify_controller(tell_controller)
            except Exception as error:
                logger.exception("Handling the failure of log directory %s failed", log_dir)
                # A failure that was handled by half may leave the directory in service: the broker ends rather than
                # serve it.
                self._fail(error)

    def _notify_controller(self, tell_controller: Callable[[], None]) -> None:
        """Notify the controller, and retry until the store accepts it: else the partitions would have no leader."""
        deadline_ns = self._clock.nanoseconds() + self._timeout_ms * NANOSECONDS_PER_MILLISECOND
        while True:
            try:
                tell_controller()
            except StoreError as error:
                logger.warning("Cannot notify the controller of a failed log directory: %s", error)
                if self._clock.nanoseconds() > deadline_ns:
                    self._fail(error)
                    return
            else:
                return
            if self._stopped.wait(self._retry_seconds):
                return
