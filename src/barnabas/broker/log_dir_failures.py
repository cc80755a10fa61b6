"""The `log-dir-failure` thread: takes a failed log directory out, away from whoever ran into the failure.

Notified by the log manager on any thread, perhaps under its locks; acts on its own thread, which holds none.
A broker without any live log directory ends. Kafka: LogDirFailureChannel and its handler in ReplicaManager.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable

from barnabas.storage.log_manager import LogManager

logger = logging.getLogger(__name__)


class LogDirFailures:
    """fail: ends the broker, told why."""

    def __init__(self, fail: Callable[[BaseException], None]) -> None:
        self._fail = fail
        self._failed: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def notify(self, log_dir: str) -> None:
        """A directory has failed."""
        self._failed.put(log_dir)

    def start(self, log_manager: LogManager) -> None:
        """Handle failures from now on, those noted before first."""
        self._thread = threading.Thread(target=self._run, args=(log_manager,), name="log-dir-failure", daemon=True)
        self._thread.start()

    def shutdown(self) -> None:
        """Stop the thread."""
        self._failed.put(None)
        if self._thread is not None:
            self._thread.join()

    def _run(self, log_manager: LogManager) -> None:
        while (log_dir := self._failed.get()) is not None:
            log_manager.fail_log_dir(log_dir)
            if not log_manager.live_log_dirs:
                self._fail(OSError(f"the last log directory has failed: {log_dir}"))
