"""What a Python worker has loaded is frozen at its first tasks, and only there."""

from collections.abc import Iterator

import pytest
from pyspark import TaskContext

from barnabas_spark.worker_heap import WorkerHeap


@pytest.fixture
def in_task() -> Iterator[None]:
    """Makes this thread look like one that runs a task."""
    TaskContext._setTaskContext(TaskContext())
    yield
    TaskContext._taskContext = None


@pytest.mark.usefixtures("in_task")
def test_first_tasks_freeze() -> None:
    freezes: list[bool] = []
    heap = WorkerHeap(lambda: freezes.append(True))
    after_each = []
    for _ in range(5):
        heap.begin_task()
        after_each.append(len(freezes))
    assert after_each == [1, 2, 2, 2, 2]


def test_outside_of_tasks_nothing_is_frozen() -> None:
    freezes: list[bool] = []
    WorkerHeap(lambda: freezes.append(True)).begin_task()
    assert freezes == []
