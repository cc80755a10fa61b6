"""The `expiration-executor` thread: runs the operations that the timer found expired.

Called by `SystemTimer`; any thread may submit. The thread holds no lock while it runs a task. It drains the action
queue after each task, because an expired operation may have moved something that other operations wait for. Kafka has
a thread for each purgatory (`executor-<purgatory>`); here one serves all.

Kafka: SystemTimer.taskExecutor.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable

from barnabas.purgatory.action_queue import ActionQueue

logger = logging.getLogger(__name__)


class ExpirationExecutor:
    """A single worker thread with an unbounded queue (bounded in effect by the number of waiting operations)."""

    def __init__(self, actions: ActionQueue) -> None:
        self._actions = actions
        self._tasks: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="expiration-executor", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def execute(self, task: Callable[[], None]) -> None:
        """Queue `task`; tasks run in the order of submission."""
        self._tasks.put(task)

    def shutdown(self) -> None:
        """Run the queued tasks, then stop."""
        # Queued behind the tasks, each of which holds an answer that a client waits for.
        self._tasks.put(None)
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while (task := self._tasks.get()) is not None:
            try:
                task()
            except Exception:
                logger.exception("an expired operation failed")
            self._actions.run_all()
