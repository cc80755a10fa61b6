"""Runs tasks of several log directories at once, and several tasks of each: loading at start, closing at shutdown.

Called by LogManager and LogLoading on the thread that starts or stops the broker, which waits for the tasks. `_lock`,
one per directory, guards the order in which tasks are handed out.
Kafka: LogManager.loadLogs and shutdown, which make a pool of threads per directory.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence

Task = Callable[[], None]


def run_per_directory(tasks: Mapping[str, Sequence[Task]], threads_per_dir: int, name: str) -> dict[str, BaseException]:
    """Run all tasks on up to `threads_per_dir` threads per directory, called `<name>-<directory>-<n>`.

    The first exception of a directory's tasks ends them: tasks that were not begun are left out. Return these
    exceptions by directory. Where one thread is enough, the calling thread runs the tasks.
    """
    pools = {directory: _Pool(of_directory) for directory, of_directory in tasks.items() if of_directory}
    workers = [
        (pool, f"{name}-{directory}-{number}")
        for directory, pool in pools.items()
        for number in range(min(threads_per_dir, len(tasks[directory])))
    ]
    if len(workers) == 1:
        workers[0][0].work()
    else:
        threads = [threading.Thread(target=pool.work, name=thread, daemon=True) for pool, thread in workers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return {directory: pool.error for directory, pool in pools.items() if pool.error is not None}


class _Pool:
    """The tasks of one directory."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self.error: BaseException | None = None
        self._lock = threading.Lock()
        self._rest = iter(tasks)

    def work(self) -> None:
        """Run tasks until none is left or one has failed."""
        while (task := self._next()) is not None:
            try:
                task()
            except BaseException as error:  # noqa: BLE001 - handed to the thread that waits for this one
                with self._lock:
                    self.error = self.error or error

    def _next(self) -> Task | None:
        with self._lock:
            return next(self._rest, None) if self.error is None else None
