"""Small files that must reach the disk soon, and for which nobody waits: topic ids and leader epochs of logs.

One per LogManager; asked by logs on any thread, perhaps under their locks; written on the scheduler's threads, a few at
a time. `_lock` guards the queue; nothing is taken inside it. Kafka gives the scheduler a task per file: with thousands
of partitions created at once, ten Python threads that do little but wait for the disk take the interpreter from those
who work (a third of the time of a creation went into that).
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable

from barnabas.runtime.scheduler import Scheduler

logger = logging.getLogger(__name__)

AT_ONCE = 3

Write = Callable[[], None]


class BackgroundWrites:
    """A queue that at most `AT_ONCE` threads of the scheduler work off."""

    __slots__ = ("_lock", "_scheduler", "_waiting", "_workers")

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._lock = threading.Lock()
        self._waiting: deque[Write] = deque()
        self._workers = 0

    def later(self, write: Write) -> None:
        """Have `write` called soon. What it raises is logged."""
        with self._lock:
            self._waiting.append(write)
            if self._workers >= AT_ONCE:
                return
            self._workers += 1
        self._scheduler.schedule("log-background-writes", self._work)

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._workers -= 1
                    return
                write = self._waiting.popleft()
            try:
                write()
            except Exception:
                logger.exception("uncaught exception in a background write of a log")
