"""Spares a Python worker the garbage collector's walk over everything that it has imported.

Called in the executors' Python workers at the begin of each task, and in the driver's planners at the begin of each
plan, on their one thread; no lock. One object a process.

Spark's daemon collects garbage after every task of a worker (`gc.collect()` in pyspark/daemon.py). With Spark, Arrow,
numpy and pandas loaded, that walk takes 48 ms of CPU: more than ten times what a small task of this source takes,
and just when the driver writes its logs. Modules, classes and functions stay for the life of the process, so they are
moved to where the collector does not look.

The processes that make sources and readers for the driver are workers of such a daemon, too: each `load()` and each
batch query costs one walk more.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable

from pyspark import TaskContext

_TIMES = 2
"""The tasks or plans at whose begin objects are moved: the first has loaded the modules, and left them to the second
whole.

Not every one: what a user's function leaves behind in circles would never be freed.
"""
_DAEMON = "pyspark.daemon"


def runs_in_daemon() -> bool:
    """Return whether this process was forked by Spark's daemon, which collects garbage after each piece of work."""
    return getattr(getattr(sys.modules.get("__main__"), "__spec__", None), "name", None) == _DAEMON


class WorkerHeap:
    """What this process has loaded. `freeze` takes all present objects out of the collector's sight."""

    def __init__(self, freeze: Callable[[], None] = gc.freeze, is_planner: Callable[[], bool] = runs_in_daemon) -> None:
        self._freeze = freeze
        self._is_planner = is_planner
        self._times_left = _TIMES

    def begin_task(self) -> None:
        """Freeze the objects of a worker's first tasks. Does nothing outside of Spark's tasks."""
        if self._times_left and TaskContext.get() is not None:
            self._freeze_once()

    def begin_plan(self) -> None:
        """Freeze the objects of a planner's first plans. Does nothing in other processes, such as the user's own."""
        if self._times_left and self._is_planner():
            self._freeze_once()

    def _freeze_once(self) -> None:
        self._times_left -= 1
        self._freeze()


worker_heap = WorkerHeap()
