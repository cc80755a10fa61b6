"""Writes small files in the background that no caller waits for: topic ids and leader epochs of logs.

One per LogManager; called by logs on any thread, perhaps under their locks; the files are written on the scheduler's
threads, a few at a time. `_lock` guards the queue; no other lock is taken inside it.

Kafka gives the scheduler one task per file. Here, with thousands of partitions created at once, ten Python threads that
mostly wait for the disk would take the interpreter from the threads that work: a third of the time of a creation went
into that.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable

from barnabas.runtime.scheduler import Scheduler

logger = logging.getLogger(__name__)

MAX_WORKERS = 3
"""Threads that write at the same time, at most."""

Write = Callable[[], None]


class BackgroundWrites:
    """A queue of writes, emptied by at most `MAX_WORKERS` threads of the scheduler."""

    __slots__ = ("_lock", "_scheduler", "_waiting", "_workers")

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._lock = threading.Lock()
        self._waiting: deque[Write] = deque()
        self._workers = 0

    def later(self, write: Write) -> None:
        """Have `write` called soon. An error that it raises is logged."""
        with self._lock:
            self._waiting.append(write)
            if self._workers >= MAX_WORKERS:
                return
            self._workers += 1
        self._scheduler.schedule("log-background-writes", self._work)

    def _work(self) -> None:
        """Call the waiting writes, in order, until there are none."""
        while True:
            # Emptiness and the count of workers change under one lock: `later` cannot leave a write behind that the
            # last worker has not seen.
            with self._lock:
                if not self._waiting:
                    self._workers -= 1
                    return
                write = self._waiting.popleft()
            # Without the lock: a write waits for the disk, and takes the lock of its log.
            try:
                write()
            except Exception:
                logger.exception("uncaught exception in a background write of a log")
