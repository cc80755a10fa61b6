"""What a Python worker has loaded is frozen at its first tasks, and only there."""

import os
import socket
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from subprocess import PIPE, Popen

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


def test_first_plans_of_a_planner_freeze_and_no_others() -> None:
    freezes: list[bool] = []
    planner = WorkerHeap(lambda: freezes.append(True), lambda: True)
    after_each = []
    for _ in range(4):
        planner.begin_plan()
        after_each.append(len(freezes))
    assert after_each == [1, 2, 2, 2]
    # This process was not forked by Spark's daemon.
    WorkerHeap(lambda: freezes.append(True)).begin_plan()
    assert len(freezes) == 2


PROBE = """
from barnabas_spark.worker_heap import runs_in_daemon

def main(infile, outfile):
    outfile.write(str(runs_in_daemon()).encode())
"""


def test_a_process_of_sparks_daemon_is_known_by_its_main_module(tmp_path: Path) -> None:
    """The daemon runs as Spark runs it, with a module in the planner's place that tells what it sees."""
    # The daemon imports no other names than Spark's.
    (tmp_path / "pyspark_probe.py").write_text(PROBE)
    path = os.pathsep.join([str(tmp_path), *sys.path])
    environment = {**os.environ, "PYTHONPATH": path, "PYTHON_WORKER_FACTORY_SECRET": "secret"}
    command = [sys.executable, "-m", "pyspark.daemon", "pyspark_probe"]
    with Popen(command, stdin=PIPE, stdout=PIPE, env=environment) as daemon:
        assert daemon.stdin is not None
        assert daemon.stdout is not None
        (port,) = struct.unpack(">i", daemon.stdout.read(4))
        with socket.create_connection(("127.0.0.1", port)) as worker:
            worker.sendall(struct.pack(">i", 6) + b"secret")
            with worker.makefile("rb") as answers:
                # Its process id, and that the secret is right.
                answers.read(4 + 4 + 2)
                assert answers.read(4) == b"True"
        daemon.stdin.close()
