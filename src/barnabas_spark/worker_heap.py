"""Spares a Python worker the garbage collector's walk over everything that it has imported.

Called in the executors' Python workers at the begin of each task, on the task's thread; no lock. One object a process.

Spark's daemon collects garbage after every task of a worker (`gc.collect()` in pyspark/daemon.py). With Spark, Arrow,
numpy and pandas loaded, that walk takes 48 ms of CPU: more than ten times what a small task of this source takes,
and just when the driver writes its logs. Modules, classes and functions stay for the life of the process, so they are
moved to where the collector does not look.
"""

from __future__ import annotations

import gc
from collections.abc import Callable

from pyspark import TaskContext

_TASKS = 2
"""The tasks at whose begin objects are moved: the first has loaded the modules, and left them to the second whole.

Not every task: what a user's function leaves behind in circles would never be freed.
"""


class WorkerHeap:
    """What this process has loaded. `freeze` takes all present objects out of the collector's sight."""

    def __init__(self, freeze: Callable[[], None] = gc.freeze) -> None:
        self._freeze = freeze
        self._tasks_left = _TASKS

    def begin_task(self) -> None:
        """Freeze the objects of a worker's first tasks. Does nothing outside of Spark's tasks."""
        if self._tasks_left and TaskContext.get() is not None:
            self._tasks_left -= 1
            self._freeze()


worker_heap = WorkerHeap()
